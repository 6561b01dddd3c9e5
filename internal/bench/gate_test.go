package bench_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
)

// at is a result of three runs around a rate, with a spread of 1 % between them.
func at(t *testing.T, scenario string, rate float64, change func(*benchtest.Load)) bench.Result {
	t.Helper()
	return benchtest.Result(builtin(t, scenario), 3, func(n int) benchtest.Load {
		l := benchtest.Healthy(rate * (1 + 0.01*float64(n-2)))
		if change != nil {
			change(&l)
		}
		return l
	})
}

func scale(d time.Duration, times float64) time.Duration { return time.Duration(float64(d) * times) }

func outcomes(c bench.Comparison) map[string]bench.Outcome {
	out := map[string]bench.Outcome{}
	for _, d := range c.Figures {
		out[d.Figure] = d.Outcome
	}
	return out
}

func TestCompareThroughput(t *testing.T) {
	history := []bench.Result{at(t, "SmallConfirmed", 10000, nil), at(t, "SmallConfirmed", 10100, nil), at(t, "SmallConfirmed", 9900, nil)}
	wide := []bench.Result{at(t, "SmallConfirmed", 10000, nil), at(t, "SmallConfirmed", 11000, nil), at(t, "SmallConfirmed", 9000, nil)}
	for _, test := range []struct {
		name    string
		history []bench.Result
		rate    float64
		gate    bench.Gate
		want    bench.Outcome // of throughput
		all     bench.Outcome
	}{
		{"the same", history, 10000, bench.Gate{}, bench.Same, bench.Passed},
		{"within the threshold", history, 9600, bench.Gate{}, bench.Same, bench.Passed},
		{"below it", history, 9300, bench.Gate{}, bench.Worse, bench.Regressed},
		{"below it, with a wider one", history, 9300, bench.Gate{MaxRegression: 0.1}, bench.Same, bench.Passed},
		{"above it", history, 10700, bench.Gate{}, bench.Better, bench.Passed},
		{"below it, within three MAD of a history that varies", wide, 8000, bench.Gate{}, bench.Same, bench.Passed},
		{"below three MAD", wide, 6500, bench.Gate{}, bench.Worse, bench.Regressed},
		{"one earlier result", history[:1], 9300, bench.Gate{}, bench.Worse, bench.Regressed},
		{"the first", nil, 9300, bench.Gate{}, "", bench.NoHistory},
	} {
		c := bench.Compare(test.history, at(t, "SmallConfirmed", test.rate, nil), test.gate)
		got := outcomes(c)
		if got["throughput"] != test.want || c.Outcome != test.all || c.Reason == "" {
			t.Errorf("%s: %s, %+v", test.name, c.Outcome, c)
		}
		if len(test.history) > 0 && (got["p50"] != bench.NotCompared || got["p99"] != bench.NotCompared) {
			t.Errorf("%s: latency of a closed loop was compared: %v", test.name, got)
		}
	}
}

func TestCompareOverlappingRuns(t *testing.T) {
	// The median is 8 % lower, and one of the runs is as fast as ever.
	now := benchtest.Result(builtin(t, "SmallConfirmed"), 3, func(n int) benchtest.Load {
		return benchtest.Healthy(map[int]float64{1: 9200, 2: 9100, 3: 10000}[n])
	})
	c := bench.Compare([]bench.Result{at(t, "SmallConfirmed", 10000, nil)}, now, bench.Gate{})
	if d := c.Figures[0]; d.Outcome != bench.Same || !strings.Contains(d.Reason, "overlap") {
		t.Errorf("%+v", d)
	}
}

// With many earlier runs one that was slow by chance does not hide a regression: the range is that of the quartiles.
func TestCompareOutliersOfTheHistory(t *testing.T) {
	history := []bench.Result{at(t, "SmallConfirmed", 10000, nil), at(t, "SmallConfirmed", 10050, nil), at(t, "SmallConfirmed", 9950, nil)}
	odd := benchtest.Result(builtin(t, "SmallConfirmed"), 3, func(n int) benchtest.Load {
		return benchtest.Healthy(map[int]float64{1: 10000, 2: 10010, 3: 9000}[n])
	})
	c := bench.Compare(append(history, odd), at(t, "SmallConfirmed", 9100, nil), bench.Gate{})
	if c.Outcome != bench.Regressed || c.Figures[0].Before.Min < 9500 {
		t.Errorf("%+v", c)
	}
}

func TestCompareLatency(t *testing.T) {
	latency := func(times float64) func(*benchtest.Load) {
		return func(l *benchtest.Load) {
			l.Intended = l.Published
			l.Latency = scale(l.Latency, times*l.Published/20000) // the runs differ a little
		}
	}
	old := at(t, "SteadyRate", 20000, latency(1))
	for times, want := range map[float64]bench.Outcome{1: bench.Same, 1.3: bench.Worse, 0.7: bench.Better} {
		got := outcomes(bench.Compare([]bench.Result{old}, at(t, "SteadyRate", 20000, latency(times)), bench.Gate{}))
		if got["p50"] != want || got["p99"] != want || got["p99.9"] != want {
			t.Errorf("latency × %v: %v, want %s", times, got, want)
		}
	}
	// With 3 × 60 × 1,000 samples P99 is compared and P99.9 is not.
	old, now := at(t, "SteadyRate", 1000, latency(20)), at(t, "SteadyRate", 1000, latency(40))
	got := outcomes(bench.Compare([]bench.Result{old}, now, bench.Gate{}))
	if got["p99"] != bench.Worse || got["p99.9"] != bench.NotCompared {
		t.Errorf("%v", got)
	}
}

func TestCompareOnlyTheSame(t *testing.T) {
	now := at(t, "SmallConfirmed", 9000, nil)
	old := at(t, "SmallConfirmed", 10000, nil)
	change := func(f func(*bench.Result)) bench.Result {
		r := old
		f(&r)
		return r
	}
	for _, test := range []struct {
		name   string
		old    bench.Result
		reason string
		across bench.Outcome
	}{
		{"kernel", change(func(r *bench.Result) { r.Fingerprint.Kernel = "5.10" }), "kernel: 5.10 → 6.12.1", bench.Regressed},
		{"version", change(func(r *bench.Result) { r.Fingerprint.BrokerVersion, r.Fingerprint.Image = "3.10.8", "" }),
			"brokerVersion: 3.10.8 → 4.3.6, image: unknown → rabbitmq:4.3.6", bench.Regressed},
		{"scenario", change(func(r *bench.Result) { r.Scenario.Publishers.Count = 9; r.Scenario.WarmUp = 0 }), "publishers, warmUp", bench.NotComparable},
		{"generator", change(func(r *bench.Result) { r.Summary.Bottleneck = bench.GeneratorBound }), "the generator was the limit", bench.NotComparable},
	} {
		c := bench.Compare([]bench.Result{test.old}, now, bench.Gate{})
		if c.Outcome != bench.NotComparable || !strings.Contains(c.Reason, test.reason) {
			t.Errorf("%s: %s: %s", test.name, c.Outcome, c.Reason)
		}
		across := bench.Compare([]bench.Result{test.old}, now, bench.Gate{Across: true})
		if across.Outcome != test.across || test.across == bench.Regressed && strings.Join(across.Differences, ", ") != test.reason {
			t.Errorf("%s, across: %s: %v", test.name, across.Outcome, across.Differences)
		}
	}
	// What does not change the load does not matter.
	if c := bench.Compare([]bench.Result{change(func(r *bench.Result) { r.Scenario.Runs, r.Scenario.Description = 9, "" })}, now, bench.Gate{}); c.Outcome != bench.Regressed {
		t.Errorf("%+v", c)
	}
	other := at(t, "Quorum", 10000, nil)
	if c := bench.Compare([]bench.Result{other}, now, bench.Gate{}); c.Outcome != bench.NotComparable || !strings.Contains(c.Reason, "scenario Quorum") {
		t.Errorf("%+v", c)
	}
	if c := bench.Compare([]bench.Result{other, old}, now, bench.Gate{}); c.Outcome != bench.Regressed {
		t.Errorf("%+v", c)
	}
	if c := bench.Compare(nil, now, bench.Gate{}); c.Outcome != bench.NoHistory || !strings.Contains(c.Reason, "first result") {
		t.Errorf("%+v", c)
	}
	invalid := at(t, "SmallConfirmed", 9000, func(l *benchtest.Load) { l.MemoryAlarm = 1 })
	if c := bench.Compare([]bench.Result{old}, invalid, bench.Gate{}); c.Outcome != bench.Invalid || !strings.Contains(c.Reason, "memory alarm") {
		t.Errorf("%+v", c)
	}
	if c := bench.Compare([]bench.Result{invalid}, now, bench.Gate{}); c.Outcome != bench.NoHistory || !strings.Contains(c.Reason, "no earlier result of the scenario has a valid run") {
		t.Errorf("%+v", c)
	}
	if c := bench.Compare([]bench.Result{invalid, old}, now, bench.Gate{}); c.Outcome != bench.Regressed || c.Results != 1 {
		t.Errorf("%+v", c)
	}
}

func TestExitCodes(t *testing.T) {
	for outcome, want := range map[bench.Outcome]int{
		bench.Passed: 0, bench.NoHistory: 0, bench.Same: 0, bench.Better: 0, bench.Regressed: 1, bench.NotComparable: 3, bench.Invalid: 4,
	} {
		if got := outcome.ExitCode(); got != want {
			t.Errorf("%s: %d", outcome, got)
		}
	}
	list := func(outcomes ...bench.Outcome) []bench.Comparison {
		var out []bench.Comparison
		for _, o := range outcomes {
			out = append(out, bench.Comparison{Outcome: o})
		}
		return out
	}
	for _, test := range []struct {
		of   []bench.Comparison
		want bench.Outcome
	}{
		{nil, bench.Passed},
		{list(bench.NoHistory, bench.Passed), bench.NoHistory},
		{list(bench.NotComparable, bench.Regressed, bench.Invalid), bench.Regressed},
		{list(bench.NotComparable, bench.Invalid), bench.Invalid},
	} {
		if got := bench.WorstOutcome(test.of); got != test.want {
			t.Errorf("%v: %s", test.of, got)
		}
	}
}
