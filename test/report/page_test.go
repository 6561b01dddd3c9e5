//go:build browser

package report_test

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
	"github.com/warren-mq/warren/internal/bench/report"
)

// layout finds what a reader could not read.
//
//go:embed layout.js
var layout string

var screenshots = flag.Bool("screenshots", false, "write what the browser shows to out/report")

const root = "../.."

// screens are those of readers.
var screens = []screen{
	{name: "phone-light", width: 390, height: 844, mobile: true},
	{name: "phone-dark", width: 390, height: 844, mobile: true, dark: true},
	{name: "desktop-light", width: 1440, height: 900},
	{name: "desktop-dark", width: 1440, height: 900, dark: true},
}

// pages are what is looked at, by name: the golden page, which TestPage holds to what the program writes, and a hard one.
func pages(t *testing.T) map[string]string {
	t.Helper()
	example, err := filepath.Abs(filepath.Join(root, "internal/bench/report/testdata/page.html"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := report.Page(hard(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hard.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"example": example, "hard": file}
}

// hard is what is difficult to lay out: five nodes with long names, texts without a space, many queues, large numbers, waits
// from microseconds to minutes, and a run without samples of the broker.
func hard(t *testing.T) report.Input {
	t.Helper()
	s, err := bench.Builtin("ManyQueues")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("nospaceatall", 12)
	s.Name, s.Description = "Custom"+strings.Repeat("Name", 10), "A description that "+long
	r := benchtest.Result(s, 2, func(int) benchtest.Load { l := benchtest.Healthy(123456); l.CPU, l.Throttled = 3.9, 0.2; return l })
	r.Fingerprint.Image = "registry.example.com/team/" + long + "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	r.Fingerprint.Nodes = 5
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Queues = nil
		for q := range 40 {
			run.Queues = append(run.Queues, bench.QueueAccount{Queue: fmt.Sprintf("warren-bench-%s-%d", long[:32], q), Published: 12345678901, Consumed: 12345678901, Lost: int64(q % 2)})
		}
		var all []bench.Sample
		for node := range 5 {
			for _, one := range run.Broker {
				one.Node = fmt.Sprintf("rabbit@a-long-cluster-name-%d.a-long-cluster-name-nodes.a-long-namespace", node)
				one.AtSeconds += float64(node) / 50
				memory := *one.MemoryUsedBytes * float64(node+1)
				one.MemoryUsedBytes, one.ContainerMemoryBytes = &memory, &memory
				all = append(all, one)
			}
		}
		run.Broker = all
		run.Seconds[30].Latency.RecordN(90*time.Second, 50000)
		run.Latency.EndToEnd.RecordN(90*time.Second, 50000)
		run.Latency.EndToEnd.RecordN(3*time.Microsecond, 50000)
		run.Events = append(run.Events, bench.Event{AtSeconds: 30, Kind: bench.EventLost, Message: long})
		bench.Finish(run, s)
		run.Validity.Notes = append(run.Validity.Notes, bench.Reason{Code: "Long", Message: "a note of " + long})
	}
	r.Summary = bench.Summarize(r.Runs)
	blind := benchtest.Result(s, 1, func(int) benchtest.Load { l := benchtest.Healthy(0.5); l.NoBroker = true; return l })
	blind.Scenario.Name = "Blind"
	return report.Input{
		Title: "A-title-" + long, Results: []bench.Result{r, blind}, Last: map[string]bench.Summary{s.Name: r.Summary},
		Comparisons: map[string]bench.Comparison{s.Name: bench.Compare([]bench.Result{r}, r, bench.Gate{})},
	}
}

func TestPageInABrowser(t *testing.T) {
	b := start(t)
	for name, file := range pages(t) {
		for _, s := range screens {
			t.Run(name+"-"+s.name, func(t *testing.T) { look(t, b, name, file, s) })
		}
	}
}

func look(t *testing.T, b *browser, name, file string, s screen) {
	tb := b.open(t, "file://"+file, s)
	var opened int
	tb.evaluate(`(() => { const all = document.querySelectorAll('details'); all.forEach(d => d.open = true); return all.length })()`, &opened)
	if opened == 0 {
		t.Error("the page has no scenarios")
	}
	var charts int
	tb.evaluate(`document.querySelectorAll('figure > svg').length`, &charts)
	if charts < 4 {
		t.Errorf("the page has %d charts", charts)
	}
	picture := tb.picture()
	if *screenshots {
		dir := filepath.Join(root, "out", "report")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+s.name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	notBlank(t, picture, s)
	var faults []string
	tb.evaluate(layout, &faults)
	for _, fault := range faults {
		t.Error(fault)
	}
	for _, fault := range tb.complaints() {
		t.Error(fault)
	}
}

// notBlank sees that something is drawn, on a background of the reader's choice.
func notBlank(t *testing.T, picture []byte, s screen) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	bounds := img.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 3 {
		for x := bounds.Min.X; x < bounds.Max.X; x += 3 {
			counts[rgba(img, x, y)]++
		}
	}
	if len(counts) < 30 {
		t.Errorf("the picture has %d colours: nothing is drawn", len(counts))
	}
	back := rgba(img, 1, 1)
	if light := int(back.R)+int(back.G)+int(back.B) > 3*128; light == s.dark {
		t.Errorf("the background is %v on a screen that is dark: %v", back, s.dark)
	}
}

func rgba(img image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
}

// What the layout is held to is found where it is: a page with every fault has them told.
func TestFaultsAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.html")
	page := `<!doctype html><meta name="viewport" content="width=device-width"><title>bad</title><style>body { background: #fff; color: #eee }</style>
<body><div style="width: 2000px">too wide and too pale</div><p style="overflow: hidden; width: 20px; white-space: nowrap">cut off</p>
<figure><svg viewBox="0 0 400 200" width="200"><text x="390" y="20">out of the chart</text><text x="10" y="50">one</text><text x="12" y="52">other</text></svg></figure>
<img src="https://warren.invalid/x.png"><script>console.error("wrong"); nobody.knows()</script></body>`
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	tb := start(t).open(t, "file://"+file, screens[0])
	var faults []string
	tb.evaluate(layout, &faults)
	said := strings.Join(append(faults, tb.complaints()...), "\n")
	for _, want := range []string{"wider than the screen", "contrast", "cut off", "outside its chart", "overlap", "too small", "the page asked for https://warren.invalid/x.png", "consoleAPICalled", "exceptionThrown"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing is said of %q in\n%s", want, said)
		}
	}
}
