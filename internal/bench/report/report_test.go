package report

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
	"github.com/warren-mq/warren/internal/golden"
)

func builtin(t testing.TB, name string) bench.Scenario {
	t.Helper()
	s, err := bench.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// example has a regression, a rate that is reached, a storm, and a scenario of which no run counts.
func example(t testing.TB) Input {
	confirmed := func(scale float64) bench.Result {
		return benchtest.Result(builtin(t, "SmallConfirmed"), 3, func(n int) benchtest.Load {
			l := benchtest.Healthy(scale * (60000 + 500*float64(n)))
			l.CPU, l.RunQueue, l.Ready, l.Throttled = 3.7, 9, 4000, 0.08
			return l
		})
	}
	steady := benchtest.Result(builtin(t, "SteadyRate"), 3, func(n int) benchtest.Load {
		l := benchtest.Healthy(1000 + float64(n))
		l.Intended = l.Published
		return l
	})
	stormy := builtin(t, "ConnectionStorm")
	storm := benchtest.Result(stormy, 1, func(int) benchtest.Load { l := benchtest.Healthy(100); l.Intended = 100; return l })
	storm.Runs[0].Latency.Connect = bench.NewHistogram()
	for i := range 5000 {
		storm.Runs[0].Latency.Connect.Record(time.Duration(i) * time.Millisecond)
	}
	storm.Runs[0].Storm = &bench.StormFigures{Attempted: 5000, Opened: 4990, OpenSeconds: 6}
	storm.Runs[0].Seconds[11].Opened = 4990
	bench.Finish(&storm.Runs[0], stormy)
	storm.Summary = bench.Summarize(storm.Runs)
	blocked := benchtest.Result(builtin(t, "Backlog"), 1, func(int) benchtest.Load {
		l := benchtest.Healthy(30)
		l.MemoryAlarm, l.Blocked = 1, 0.4
		return l
	})
	now := confirmed(0.9)
	return Input{
		Title: "runtime-baseline", Written: benchtest.Started, Results: []bench.Result{now, steady, storm, blocked},
		Comparisons: map[string]bench.Comparison{
			"SmallConfirmed": bench.Compare([]bench.Result{confirmed(1)}, now, bench.Gate{}),
			"SteadyRate":     bench.Compare([]bench.Result{steady}, steady, bench.Gate{}),
			"Backlog":        bench.Compare(nil, blocked, bench.Gate{}),
		},
		Last: map[string]bench.Summary{"SmallConfirmed": confirmed(1).Summary, "SteadyRate": steady.Summary},
	}
}

func TestPage(t *testing.T) {
	got, err := Page(example(t))
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/page.html", got)
	again, err := Page(example(t))
	if err != nil || !bytes.Equal(got, again) {
		t.Error("the same input gives another page")
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	got, err := Page(example(t))
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?i)https?://|src=|@import|url\(|<link|<script|<iframe|javascript:`).Find(got); found != nil {
		t.Errorf("the page has %q", found)
	}
	for _, want := range []string{"prefers-color-scheme: dark", `name="viewport"`, "max-width: 44rem"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!", "&lt;nil", "0x"} {
		if bytes.Contains(got, []byte(bad)) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, tag := range []string{"table", "section", "details", "figure", "svg", "tr", "td", "ul", "dl", "div"} {
		opened, closed := bytes.Count(got, []byte("<"+tag+">"))+bytes.Count(got, []byte("<"+tag+" ")), bytes.Count(got, []byte("</"+tag+">"))
		if opened != closed {
			t.Errorf("%d of %s are opened and %d closed", opened, tag, closed)
		}
	}
}

func TestPageEscapes(t *testing.T) {
	in := example(t)
	evil := `"><script>alert(1)</script>`
	in.Title, in.Results[0].Scenario.Description, in.Results[0].Fingerprint.Image = evil, evil, evil
	in.Results[0].Runs[0].Queues[0].Queue = evil
	for i := range in.Results[0].Runs[1].Broker {
		in.Results[0].Runs[1].Broker[i].Node = evil
	}
	got, err := Page(in)
	if err != nil || bytes.Contains(got, []byte("<script")) {
		t.Errorf("%v: text became markup", err)
	}
}

func TestPageOfLittle(t *testing.T) {
	compact := example(t).Results[0].Compact()
	for name, in := range map[string]Input{
		"nothing":   {},
		"no runs":   {Results: []bench.Result{{Scenario: builtin(t, "Quorum")}}},
		"empty run": {Results: []bench.Result{{Scenario: builtin(t, "Quorum"), Runs: []bench.Run{{}}}}},
		"compact":   {Results: []bench.Result{compact}},
	} {
		got, err := Page(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if bytes.Contains(got, []byte("<figure")) || bytes.Contains(got, []byte("NaN")) {
			t.Errorf("%s: there is nothing to draw", name)
		}
		if name == "compact" && !bytes.Contains(got, []byte("54.9k"+space+"msg/s")) {
			t.Error("the figures are gone")
		}
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		three(0): "0", three(0.0123): "0.0123", three(1): "1", three(12.34): "12.3", three(1234): "1234", three(-2.5): "-2.5",
		scaled(999): "999", scaled(999.9): "1k", scaled(61234): "61.2k", scaled(1.5e6): "1.5M", scaled(2e9): "2G",
		rate(61234, "messages/s"): "61.2k msg/s", latency(0): "0 ms", latency(0.0081): "8.1 ms", latency(1.25): "1.25 s", latency(0.00005): "50 µs",
		latency(0.9999): "1 s", sizeText(1 << 20): "1 MiB", sizeText(100): "100 B",
		percent(0.855): "85.5 %", percent(0.00704): "0.7 %", percent(1.234): "123 %", change(0.0211): "+2.1 %", change(-0.1): "−10.0 %", change(0.0001): "±0 %",
		evidence(0.9, "ratio"): "90 %", evidence(1, ""): "1", evidence(50000, "messages"): "50k messages",
	} {
		if got = strings.ReplaceAll(got, space, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func parse(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRoundSteps(t *testing.T) {
	for _, highest := range []float64{0, 1e-7, 0.3, 1, 4.999, 5, 7, 10, 99, 61234, 1e12} {
		steps := roundSteps(highest)
		if n := len(steps); n < 3 || n > 7 || steps[n-1] < highest*(1-1e-9) || steps[n-2] >= max(highest, 1e-12) && highest > 0 {
			t.Errorf("%v: %v", highest, steps)
		}
	}
}

func TestThinKeepsPeaksAndMeans(t *testing.T) {
	var points []point
	for i := range 10000 {
		y := 1.0
		if i == 7777 {
			y = 100
		}
		points = append(points, point{float64(i), y})
	}
	peaks, means := line{points: points, peaks: true}, line{points: points}
	peaks.thin()
	means.thin()
	highest, sum := 0.0, 0.0
	for i := range peaks.points {
		highest, sum = max(highest, peaks.points[i].y), sum+means.points[i].y
	}
	if len(peaks.points) != mostPoints || highest != 100 || math.Abs(sum/mostPoints-1.0099) > 0.001 {
		t.Error(len(peaks.points), highest, sum/mostPoints)
	}
}

// What a chart draws lies within it.
func TestChartsStayInside(t *testing.T) {
	in := example(t)
	number := regexp.MustCompile(`-?[0-9.]+`)
	for i := range in.Results {
		for _, c := range charts(&in.Results[i].Runs[0]) {
			for _, l := range c.Lines {
				for j, text := range number.FindAllString(l.Path, -1) {
					v, most := parse(t, text), width
					if j%2 == 1 {
						most = height - underneath
					}
					if v < 0 || v > most {
						t.Errorf("%s: %s at %v", c.Title, l.Name, v)
					}
				}
			}
			if !strings.HasPrefix(c.Label, c.Title+": ") {
				t.Error(c.Label)
			}
		}
	}
}

// Two sources that count the same otherwise make no zigzag, and what is in the queues is so of all nodes together.
func TestLinesOfSeveralSourcesAndNodes(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	var r bench.Run
	for at := 0.0; at < 10; at += 2 {
		for n, node := range []string{"rabbit@a-0.nodes.ns", "rabbit@a-1.nodes.ns"} {
			r.Broker = append(r.Broker, bench.Sample{AtSeconds: at + float64(n)/100, Node: node, MemoryUsedBytes: value(100)})
			r.Broker = append(r.Broker, bench.Sample{AtSeconds: at + 0.3, Node: node, MemoryUsedBytes: value(900), MessagesReady: value(7)})
		}
	}
	r.Broker = r.Broker[:len(r.Broker)-1] // the last round broke off
	for _, l := range gauge(&r, "", func(s *bench.Sample) *float64 { return s.MemoryUsedBytes }) {
		if len(l.points) != 5 || !strings.HasPrefix(l.name, "rabbit@a-") || strings.Contains(l.name, ".") {
			t.Errorf("%s: %v", l.name, l.points)
		}
		for _, p := range l.points {
			if p.y != 100 {
				t.Errorf("%s: %v", l.name, p)
			}
		}
	}
	ready := total(&r, "ready", func(s *bench.Sample) *float64 { return s.MessagesReady })
	if len(ready) != 1 || len(ready[0].points) != 5 || ready[0].points[0].y != 14 {
		t.Errorf("%+v", ready)
	}
	if none := total(&r, "none", func(s *bench.Sample) *float64 { return s.Queues }); none != nil {
		t.Errorf("what nobody said is a line: %+v", none)
	}
}

// Where values are far apart small ones can be told from one another; 0 and less lie on the bottom.
func TestLogarithmicAxis(t *testing.T) {
	c := chart{y: latency, x: atSeconds, wide: true, lines: []line{{name: "l", points: []point{{0, 0}, {1, 0.002}, {2, 0.004}, {3, 9}}}}}
	a := c.axis(9)
	if !a.logarithmic || len(a.steps) != 5 || a.share(0) != 0 || math.Abs(a.share(10)-1) > 1e-9 || a.share(0.004)-a.share(0.002) < 0.05 {
		t.Errorf("%+v", a)
	}
	if view := c.draw(); view == nil || !strings.Contains(view.YUnit, "logarithmic") {
		t.Errorf("%+v", view)
	}
	c.wide = false
	if a := c.axis(9); a.logarithmic || a.share(0) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestWordsOf(t *testing.T) {
	for name, want := range map[string]string{
		"ConnectionStormJittered": "Connection Storm Jittered", "ConfirmWindow5000": "Confirm Window5000", "HATwo": "HATwo", "Mine": "Mine", "": "",
	} {
		if got := strings.Join(wordsOf(name), " "); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
