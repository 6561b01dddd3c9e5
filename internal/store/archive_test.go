package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
	"github.com/warren-mq/warren/internal/bench/job"
)

func scenario(t *testing.T) bench.Scenario {
	t.Helper()
	s, err := bench.Builtin("SmallConfirmed")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func archive(root string, number, limit int) Archive {
	return Archive{Root: root, Store: job.Store{Benchmark: "baseline", Folder: folderOf(number), Limit: limit}}
}

func folderOf(number int) string { return fmt.Sprintf("202701%02d-040000-0123abcd", number) }

// put the parts of all pods of three runs.
func put(t *testing.T, a Archive, s bench.Scenario, pods int, rate float64) {
	t.Helper()
	for number := 1; number <= 3; number++ {
		for pod := range pods {
			load := benchtest.Healthy(rate / float64(pods))
			load.Seconds = 5
			run := benchtest.Run(s, number, load)
			run.Queues, run.Figures, run.Validity, run.Verdict = nil, bench.Figures{}, bench.Validity{}, bench.Verdict{}
			if pod > 0 {
				run.Broker = nil
			}
			packed, err := job.EncodeWhole(job.Part{Of: pods, Part: bench.Part{Run: run}})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.PutPart(0, job.PartKey(number, pod), packed); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A run is kept as other programs read it, with the parts of all pods, beside the run before.
func TestArchiveKeepsARun(t *testing.T) {
	root, s := t.TempDir(), scenario(t)
	for number := 1; number <= 2; number++ {
		a := archive(root, number, 10)
		put(t, a, s, 2, 10000*float64(number))
		folder, err := a.Keep([]bench.Scenario{s}, "a run", time.Time{})
		if err != nil || folder != "baseline/"+folderOf(number) {
			t.Fatalf("%q, error %v", folder, err)
		}
	}
	dir := filepath.Join(root, "baseline", folderOf(2))
	if got := list(t, dir); !slices.Equal(got, []string{"SmallConfirmed.hlog", "SmallConfirmed.json", "report.html"}) {
		t.Errorf("the folder has %q", got)
	}
	if got := list(t, filepath.Join(root, "baseline")); !slices.Equal(got, []string{folderOf(1), folderOf(2)}) {
		t.Errorf("beside it are %q", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "SmallConfirmed.json"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := bench.DecodeResult(text)
	if err != nil || len(result.Runs) != 3 || result.Runs[0].Generator.Workers != 2 || len(result.Runs[0].Seconds) != 15 || result.Runs[0].Seconds[12].Latency.Count() == 0 {
		t.Fatalf("%d runs, error %v", len(result.Runs), err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("×\u00a02.00")) {
		t.Errorf("the report has no ratio to the run before, error %v", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "SmallConfirmed.hlog"))
	if err != nil {
		t.Fatal(err)
	}
	reader, intervals, values := hdrhistogram.NewHistogramLogReader(bytes.NewReader(log)), 0, int64(0)
	for h, err := reader.NextIntervalHistogram(); h != nil || err != nil; h, err = reader.NextIntervalHistogram() {
		if err != nil {
			t.Fatal(err)
		}
		intervals, values = intervals+1, values+h.TotalCount()
	}
	var want int64
	for _, run := range result.Runs {
		for _, second := range run.Seconds {
			want += second.Latency.Count()
		}
	}
	if intervals != 3*15 || values != want || want == 0 {
		t.Errorf("the log has %d intervals with %d values, want 45 with %d", intervals, values, want)
	}
}

// Only so many runs stay, and nothing goes that is not a run's.
func TestArchiveIsBounded(t *testing.T) {
	root, s := t.TempDir(), scenario(t)
	home := filepath.Join(root, "baseline")
	foreign := []string{"notes", "2027", folderOf(1) + "-copy", ".hidden"}
	for _, name := range append(foreign, ".parts-"+folderOf(9), ".draft-"+folderOf(9)) {
		if err := os.MkdirAll(filepath.Join(home, name, "inside"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other := archive(root, 1, 1)
	other.Store.Benchmark = "other"
	for _, a := range []Archive{other, archive(root, 1, 2), archive(root, 2, 2), archive(root, 4, 2), archive(root, 3, 2)} {
		put(t, a, s, 1, 1000)
		if _, err := a.Keep([]bench.Scenario{s}, "a run", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	want := append([]string{folderOf(3), folderOf(4)}, foreign...)
	slices.Sort(want)
	if got := list(t, home); !slices.Equal(got, want) {
		t.Errorf("kept are %q, want %q", got, want)
	}
	if got := list(t, filepath.Join(root, "other")); len(got) != 1 {
		t.Errorf("another Benchmark's are %q", got)
	}
}

// What cannot be kept whole is not there at all, and the reason is told.
func TestArchiveIsWholeOrNotThere(t *testing.T) {
	s := scenario(t)
	nothing := archive(t.TempDir(), 1, 10)
	if folder, err := nothing.Keep([]bench.Scenario{s}, "", time.Time{}); folder != "" || err != nil {
		t.Errorf("of nothing: %q, error %v", folder, err)
	}
	blocked := archive(t.TempDir(), 1, 10)
	put(t, blocked, s, 1, 1000)
	if err := os.WriteFile(filepath.Join(blocked.home(), folderOf(1)), nil, 0o644); err != nil { // somebody's file of that name
		t.Fatal(err)
	}
	if folder, err := blocked.Keep([]bench.Scenario{s}, "", time.Time{}); folder != "" || err == nil {
		t.Errorf("in place of a file: %q, error %v", folder, err)
	}
	file := archive(filepath.Join(t.TempDir(), "file"), 1, 10)
	if err := os.WriteFile(file.Root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := file.PutPart(0, "run", nil); err == nil {
		t.Error("a part is kept where there is no folder")
	}
	outside := archive(t.TempDir(), 1, 10)
	outside.Store.Folder = "../../elsewhere"
	if _, err := outside.Keep(nil, "", time.Time{}); err == nil || !strings.Contains(err.Error(), "not the name") {
		t.Errorf("error %v", err)
	}
	partial := archive(t.TempDir(), 1, 10)
	put(t, partial, s, 2, 1000)
	if err := os.Remove(filepath.Join(partial.parts(), "0", job.PartKey(2, 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := partial.Keep([]bench.Scenario{s}, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(partial.home(), folderOf(1), "SmallConfirmed.json"))
	if err != nil {
		t.Fatal(err)
	}
	if result, err := bench.DecodeResult(text); err != nil || len(result.Runs) != 2 {
		t.Errorf("%d runs of which all parts are there, error %v", len(result.Runs), err)
	}
}
