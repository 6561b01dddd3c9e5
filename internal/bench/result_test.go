package bench_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
)

func TestQuantilesAreRefusedWithFewSamples(t *testing.T) {
	for n, want := range map[int64][]string{
		0: {"P50", "P90", "P99", "P99.9"}, 19: {"P50", "P90", "P99", "P99.9"}, 20: {"P90", "P99", "P99.9"}, 100: {"P99", "P99.9"},
		999: {"P99", "P99.9"}, 1000: {"P99.9"}, 9999: {"P99.9"}, 10000: nil,
	} {
		h := bench.NewHistogram()
		h.RecordN(time.Millisecond, n)
		q := h.Quantiles()
		if !slices.Equal(q.Insufficient, want) || q.Samples != n || (q.P50Seconds == nil) != (n < 20) || (q.MaxSeconds == nil) != (n == 0) {
			t.Errorf("%d samples: %+v", n, q)
		}
	}
	if (*bench.Histogram)(nil).Quantiles() != nil {
		t.Error("what was not measured has quantiles")
	}
	if bench.MinSamples(0.999) != 10_000 || bench.MinSamplesToCompare(0.999) != 1_000_000 {
		t.Error("the rule is another")
	}
}

// Quantiles are within the error of the histogram of what sorting would give, whatever was recorded, and so they are after
// merging and after a file.
func TestQuantilesAreThoseOfTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, 10_000_000), 1000, 1500).Draw(t, "µs")
		one, two := bench.NewHistogram(), bench.NewHistogram()
		for i, v := range values {
			[]*bench.Histogram{one, two}[i%2].Record(time.Duration(v) * time.Microsecond)
		}
		one.Merge(two)
		text, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var h bench.Histogram
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatal(err)
		}
		slices.Sort(values)
		q := h.Quantiles()
		for at, got := range map[float64]*float64{0.5: q.P50Seconds, 0.9: q.P90Seconds, 0.99: q.P99Seconds, 1: q.MaxSeconds} {
			want := float64(values[max(int(math.Round(at*float64(len(values))))-1, 0)]) / 1e6
			if *got < want*0.999-1e-6 || *got > want*1.001+1e-6 {
				t.Fatalf("quantile %v is %v, want %v", at, *got, want)
			}
		}
	})
}

func TestHistogramClampsAndClones(t *testing.T) {
	h := bench.NewCoarseHistogram()
	h.Record(-time.Second)
	h.Record(48 * time.Hour)
	if max := *h.Quantiles().MaxSeconds; h.Count() != 2 || max < 3600 || max > 3700 {
		t.Error(h.Count(), max)
	}
	c := h.Clone()
	c.Record(time.Second)
	if h.Count() != 2 || c.Count() != 3 {
		t.Error("the clone shares its counts")
	}
}

func FuzzHistogram(f *testing.F) {
	h := bench.NewHistogram()
	h.Record(time.Second)
	text, _ := json.Marshal(h)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var h bench.Histogram
		if json.Unmarshal(text, &h) == nil {
			h.Record(time.Second)
			h.Quantiles()
		}
	})
}

func TestHDRLogIsReadByItsLibrary(t *testing.T) {
	r := benchtest.Result(builtin(t, "SmallConfirmed"), 2, func(int) benchtest.Load { return benchtest.Healthy(1000) })
	text, err := bench.WriteHDRLog(r)
	if err != nil {
		t.Fatal(err)
	}
	reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(text))
	var histograms int
	var count int64
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		histograms++
		count += h.TotalCount()
	}
	var want int64
	for _, run := range r.Runs {
		for _, s := range run.Seconds {
			want += s.Latency.Count()
		}
	}
	if histograms != 2*70 || count != want {
		t.Errorf("%d histograms with %d values, want 140 with %d", histograms, count, want)
	}
}

func number(v float64) *float64 { return &v }

// Several workers make the run that one would have made.
func TestMergeParts(t *testing.T) {
	part := func(worker uint32) bench.Part {
		h := bench.NewCoarseHistogram()
		h.RecordN(time.Duration(worker+1)*time.Millisecond, 5)
		l := bench.NewLedger("q", 1, true)
		for n := range uint64(10) {
			l.Sent(worker, n)
			l.Acked(worker, n)
		}
		for n := range uint64(9) { // the other worker's messages
			l.Received(worker, 1, 1-worker, n, false)
		}
		return bench.Part{
			Run: bench.Run{
				Number: 2, Started: benchtest.Started.Add(time.Duration(worker) * time.Second),
				Phases: []bench.Phase{
					{Name: bench.PhaseWarmUp, EndSeconds: 10 + float64(worker)},
					{Name: bench.PhaseSteady, StartSeconds: 10 + float64(worker), EndSeconds: 20 + float64(worker)},
				},
				Seconds: []bench.Second{{AtSeconds: 11 + int(worker), Published: 7, WriteWaitSeconds: 0.5, Latency: h}, {AtSeconds: 13, Consumed: 5, Latency: h.Clone()}},
				Latency: bench.Histograms{EndToEnd: h.Clone()},
				Generator: bench.GeneratorFigures{Workers: 1, IntendedSends: 10, LateSends: int64(worker), CPUCores: number(1),
					CPULimitCores: number(2), BusiestRatio: number(0.5 + float64(worker)/4)},
				Storm:  &bench.StormFigures{Attempted: 3, Opened: 2, Failed: map[string]int64{"refused": 1}, OpenSeconds: 1 + float64(worker)},
				Events: []bench.Event{{AtSeconds: 5 - float64(worker), Kind: bench.EventLost}},
			},
			Ledgers: []*bench.Ledger{l},
		}
	}
	run, err := bench.MergeParts([]bench.Part{part(0), part(1)}, map[string]int64{"q": 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := []bench.Phase{{Name: bench.PhaseWarmUp, EndSeconds: 10}, {Name: bench.PhaseSteady, StartSeconds: 11, EndSeconds: 20}}; !reflect.DeepEqual(run.Phases, want) {
		t.Errorf("phases %+v", run.Phases)
	}
	var got []int64
	for _, s := range run.Seconds {
		got = append(got, int64(s.AtSeconds), s.Published, s.Consumed, s.Latency.Count())
	}
	if want := []int64{11, 7, 0, 5, 12, 7, 0, 5, 13, 0, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("seconds %v, want %v", got, want)
	}
	if run.Latency.EndToEnd.Count() != 10 {
		t.Error("latency", run.Latency.EndToEnd.Count())
	}
	g := run.Generator
	if g.Workers != 2 || g.IntendedSends != 20 || g.LateSends != 1 || *g.CPUCores != 2 || *g.CPULimitCores != 4 || *g.BusiestRatio != 0.75 || g.MemoryBytes != nil {
		t.Errorf("generator %+v", g)
	}
	if want := (&bench.StormFigures{Attempted: 6, Opened: 4, Failed: map[string]int64{"refused": 2}, OpenSeconds: 2}); !reflect.DeepEqual(run.Storm, want) {
		t.Errorf("storm %+v", run.Storm)
	}
	one := int64(1)
	// Two were not consumed, and one of them is left.
	if want := []bench.QueueAccount{{Queue: "q", Published: 20, Confirmed: 20, Consumed: 18, Left: &one, Lost: 1}}; !reflect.DeepEqual(run.Queues, want) {
		t.Errorf("queues %+v", run.Queues)
	}
	if run.Events[0].AtSeconds != 4 {
		t.Errorf("events %+v", run.Events)
	}

	late, other := part(1), part(1)
	late.Run.Started = late.Run.Started.Add(time.Minute)
	other.Run.Number = 3
	for _, parts := range [][]bench.Part{nil, {part(0), late}, {part(0), other}, {{Ledgers: []*bench.Ledger{nil}}}} {
		if _, err := bench.MergeParts(parts, nil); err == nil {
			t.Errorf("%d parts merged", len(parts))
		}
	}
}

func TestMergedDrain(t *testing.T) {
	drained := func(empty *float64) bench.Part {
		return bench.Part{Run: bench.Run{Drain: &bench.DrainFigures{Messages: 10, Left: 1, PerSecond: 3, EmptySeconds: empty}}}
	}
	run, err := bench.MergeParts([]bench.Part{{}, drained(number(4)), drained(number(6))}, nil)
	if err != nil || run.Drain.Messages != 20 || run.Drain.PerSecond != 6 || *run.Drain.EmptySeconds != 6 {
		t.Errorf("%+v %v", run.Drain, err)
	}
	if run, _ = bench.MergeParts([]bench.Part{drained(number(4)), drained(nil)}, nil); run.Drain.EmptySeconds != nil {
		t.Error("one of the queues is not empty")
	}
}

func series(n int, f func(int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func TestCheckSteady(t *testing.T) {
	for name, test := range map[string]struct {
		rates  []float64
		reason string
	}{
		"flat":       {series(10, func(int) float64 { return 100 }), ""},
		"wobbles":    {series(20, func(i int) float64 { return 100 + 20*math.Sin(float64(i)*2) }), ""},
		"few":        {series(4, func(int) float64 { return 100 }), "4 seconds are too few to tell"},
		"nothing":    {series(10, func(int) float64 { return 0 }), "nothing happened"},
		"climbs":     {series(10, func(i int) float64 { return 100 + 3*float64(i) }), "the rate changes by +26 % over 10 s"},
		"falls":      {series(10, func(i int) float64 { return 100 - 2*float64(i) }), "the rate changes by -22 % over 10 s"},
		"creeps":     {series(10, func(i int) float64 { return 100 + float64(i)/2 }), ""},
		"jumps":      {series(10, func(i int) float64 { return 100 + 80*float64(i%2) }), "the rate varies by ±30 %"},
		"one hiccup": {series(10, func(i int) float64 { return 100 - 60*float64(i/9) }), ""},
	} {
		if s := bench.CheckSteady(test.rates); s.Reason != test.reason || s.Steady != (test.reason == "") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestWarmUpDone(t *testing.T) {
	ramp := func(i int) float64 { return min(100+20*float64(i), 400) } // steady from 15 s on
	asked := bench.Duration(10 * time.Second)
	for n := range 40 {
		done, s := bench.WarmUpDone(series(n, ramp), asked)
		if want := n >= 26; done != want {
			t.Errorf("after %d s: %v (%+v)", n, done, s)
		}
	}
	climb := func(i int) float64 { return math.Pow(1.2, float64(i)) }
	if done, _ := bench.WarmUpDone(series(29, climb), asked); done {
		t.Error("a rate that climbs is steady")
	}
	if done, s := bench.WarmUpDone(series(30, climb), asked); !done || s.Steady {
		t.Error("the warm-up never ends")
	}
	for warmUp, n := range map[time.Duration]int{0: 0, 2 * time.Second: 2} {
		if done, _ := bench.WarmUpDone(series(n, climb), bench.Duration(warmUp)); !done {
			t.Errorf("a warm-up of %v does not end", warmUp)
		}
	}
}

func codes(reasons []bench.Reason) []string {
	var out []string
	for _, r := range reasons {
		if r.Message == "" {
			out = append(out, "(no message)")
		}
		out = append(out, r.Code)
	}
	return out
}

func TestValidity(t *testing.T) {
	for _, test := range []struct {
		name, scenario string
		load           func(*benchtest.Load)
		run            func(*bench.Run)
		reasons, notes []string
	}{
		{"good", "SmallConfirmed", nil, nil, nil, nil},
		{"short", "SmallConfirmed", func(l *benchtest.Load) { l.Seconds = 2 }, nil, []string{"TooShort"}, nil},
		{"others publish", "SmallConfirmed", func(l *benchtest.Load) { l.Received = 1.2 * l.Published }, nil, []string{"ForeignTraffic"}, nil},
		{"alarm", "SmallConfirmed", func(l *benchtest.Load) { l.DiskAlarm = 1 }, nil, []string{"Alarm"}, nil},
		{"no samples", "SmallConfirmed", func(l *benchtest.Load) { l.NoBroker = true }, nil, nil, []string{"NoSamples"}},
		{"piles up", "SmallConfirmed", func(l *benchtest.Load) { l.Consumed = l.Published / 2 }, nil, nil, []string{"Growing"}},
		{"busy generator", "SteadyRate", func(l *benchtest.Load) { l.Intended, l.Late, l.GeneratorCPU = l.Published, 0.02, 0.9 }, nil, nil, []string{"GeneratorLate", "GeneratorBusy"}},
		{"few samples", "SmallConfirmed", func(l *benchtest.Load) { l.Published, l.Consumed = 20, 20 }, nil, nil, []string{"InsufficientSamples"}},
		{"account", "SmallConfirmed", nil, func(r *bench.Run) {
			r.Queues = []bench.QueueAccount{{Foreign: 1, Duplicated: 2}, {Lost: 1, Redelivered: 1, Reordered: 1}}
		}, []string{"Foreign", "Lost", "Duplicated"}, []string{"Redelivered", "Reordered"}},
		{"events while measuring", "SmallConfirmed", nil, func(r *bench.Run) {
			r.Events = []bench.Event{{AtSeconds: 20, Kind: bench.EventLost}, {AtSeconds: 21, Kind: bench.EventLost}, {AtSeconds: 30, Kind: bench.EventBlocked},
				{AtSeconds: 31, Kind: bench.EventUnblocked}, {AtSeconds: 80, Kind: bench.EventStopped}, {AtSeconds: 70, Kind: bench.EventCapped}}
		}, []string{"Reconnected", "Blocked", "Stopped"}, []string{"Capped"}},
		{"events in the warm-up", "SmallConfirmed", nil, func(r *bench.Run) {
			r.Events = []bench.Event{{AtSeconds: 2, Kind: bench.EventLost}, {AtSeconds: 3, Kind: bench.EventBlocked}}
		}, nil, nil},
		{"not steady", "SmallConfirmed", nil, func(r *bench.Run) {
			for i := range r.Seconds {
				r.Seconds[i].Consumed = int64(100 * (1 + i))
				r.Seconds[i].Published = r.Seconds[i].Consumed
			}
			r.Broker = r.Broker[:0]
		}, nil, []string{"NoSamples", "NotSteady"}},
		{"others connect", "SmallConfirmed", nil, func(r *bench.Run) { r.Broker[20].ConnectionsOpenedTotal = number(17); r.Broker = r.Broker[:21] }, nil, []string{"Churn"}},
		{"left over", "ConsumeOnly", nil, func(r *bench.Run) { r.Drain = &bench.DrainFigures{Left: 5} }, nil, []string{"NotEmpty"}},
	} {
		s := builtin(t, test.scenario)
		load := benchtest.Healthy(20000)
		if test.load != nil {
			test.load(&load)
		}
		r := benchtest.Run(s, 1, load)
		if test.run != nil {
			test.run(&r)
			bench.Finish(&r, s)
		}
		v := r.Validity
		if !slices.Equal(codes(v.Reasons), test.reasons) || !slices.Equal(codes(v.Notes), test.notes) || v.Valid != (test.reasons == nil) {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}

func TestFigures(t *testing.T) {
	s := builtin(t, "SmallConfirmed")
	f := benchtest.Run(s, 1, benchtest.Healthy(10000)).Figures
	near := func(name string, got *float64, want, within float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > within {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("seconds", &f.SteadySeconds, 60, 0)
	near("throughput", &f.Throughput, 10000, 50)
	near("bytes", &f.ConsumedBytesPerSecond, 2560000, 15000)
	near("CPU", f.BrokerCPUCores, 1.5, 1e-9)
	near("CPU ratio", f.BrokerCPURatio, 0.375, 1e-9)
	near("broker CPU", f.BrokerCPUSecondsPerMillion, 150, 1)
	near("generator CPU", f.GeneratorCPUPerMillion, 120, 1)
	near("P50", f.Latency.P50Seconds, 0.002, 0.0002)
	near("P99", f.Latency.P99Seconds, 0.008, 0.001)
	near("confirm", f.Confirm.P50Seconds, 0.0015, 0.0002)
	if f.LatencyOf != "end to end" || f.ThroughputUnit != "messages/s" || f.PacingErrorRatio != nil {
		t.Errorf("%+v", f)
	}

	load := benchtest.Healthy(1000)
	load.Intended, load.Late = 1000, 0.005
	f = benchtest.Run(builtin(t, "SteadyRate"), 1, load).Figures
	near("pacing error", f.PacingErrorRatio, 0.005, 1e-9)

	for scenario, want := range map[string][2]string{
		"PublishOnly": {"messages/s", "confirm"}, "ConsumeOnly": {"messages/s", ""}, "ConnectionStorm": {"connections/s", "connect"},
		"BacklogRecovery": {"messages/s", "fresh messages, end to end"},
	} {
		s := builtin(t, scenario)
		r := benchtest.Run(s, 1, benchtest.Healthy(10000))
		h := bench.NewHistogram()
		h.RecordN(time.Second, 50)
		r.Latency.Fresh, r.Latency.Connect = h, h
		r.Storm = &bench.StormFigures{Opened: 500, OpenSeconds: 4}
		bench.Finish(&r, s)
		if r.Figures.ThroughputUnit != want[0] || r.Figures.LatencyOf != want[1] {
			t.Errorf("%s: %q of %q", scenario, r.Figures.ThroughputUnit, r.Figures.LatencyOf)
		}
		if s.Storm != nil && r.Figures.Throughput != 125 {
			t.Errorf("%v connections/s", r.Figures.Throughput)
		}
	}
}

// A node that was restarted counts from zero: what it did since then counts.
func TestCountersThatBeginAnew(t *testing.T) {
	s := builtin(t, "SmallConfirmed")
	r := benchtest.Run(s, 1, benchtest.Healthy(10000))
	var offset float64
	for i := range r.Broker {
		if r.Broker[i].AtSeconds == 40 {
			offset = 38 * 1.5
		}
		r.Broker[i].CPUSecondsTotal = number(*r.Broker[i].CPUSecondsTotal - offset)
	}
	bench.Finish(&r, s)
	if got := *r.Figures.BrokerCPUCores; math.Abs(got-1.5) > 0.001 {
		t.Errorf("%v cores, want 1.5", got)
	}
}

func TestSummarize(t *testing.T) {
	r := benchtest.Result(builtin(t, "SmallConfirmed"), 4, func(n int) benchtest.Load {
		l := benchtest.Healthy(10000 + 1000*float64(n))
		if n == 2 {
			l.CPU = 3.9
		}
		if n == 3 {
			l.MemoryAlarm = 1 // not valid
		}
		return l
	})
	s := r.Summary
	near := func(got, want float64) bool { return math.Abs(got-want) < 30 }
	if s.ValidRuns != 3 || s.Throughput.Runs != 3 || !near(s.Throughput.Median, 12000) || !near(s.Throughput.MAD, 1000) ||
		!near(s.Throughput.Min, 11000) || !near(s.Throughput.Max, 14000) {
		t.Errorf("%+v", s.Throughput)
	}
	if s.Bottleneck != bench.UnknownBound || s.P999Seconds == nil || s.LatencySamples < 600000 {
		t.Errorf("%+v", s)
	}
	if empty := bench.Summarize(nil); empty.ValidRuns != 0 || empty.Throughput != nil {
		t.Errorf("%+v", empty)
	}
}

func TestResultFile(t *testing.T) {
	r := benchtest.Result(builtin(t, "Quorum"), 2, func(int) benchtest.Load { return benchtest.Healthy(1000) })
	text, err := bench.EncodeResult(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bench.DecodeResult(text)
	if err != nil {
		t.Fatal(err)
	}
	text2, err := bench.EncodeResult(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, text2) {
		t.Error("the file does not read back")
	}
	if bytes.Contains(text, []byte("raftWrittenBytesTotal")) {
		t.Error("what nobody said is in the file")
	}
	for file, want := range map[string]string{
		`[]`: "not the result", `{}`: "no schemaVersion", `{"schemaVersion":2}`: "schemaVersion 2", `{"schemaVersion":1}`: "names no scenario",
		`{"schemaVersion":1,"scenario":{"name":"A","duration":5}}`: "duration",
	} {
		if _, err := bench.DecodeResult([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	compact, err := bench.EncodeResult(r.Compact())
	if err != nil || len(compact) > 8000 || r.Runs[0].Seconds == nil {
		t.Errorf("%d bytes, %v", len(compact), err)
	}
}

func FuzzDecodeResult(f *testing.F) {
	r := benchtest.Result(builtin(f, "Quorum"), 1, func(int) benchtest.Load { l := benchtest.Healthy(1000); l.Seconds = 3; return l })
	text, err := bench.EncodeResult(r.Compact())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := bench.DecodeResult(text)
		if err != nil {
			return
		}
		// What was read can be compared and written.
		bench.Compare([]bench.Result{r}, r, bench.Gate{})
		for i := range r.Runs {
			bench.Finish(&r.Runs[i], r.Scenario)
		}
		if _, err := bench.EncodeResult(r); err != nil {
			t.Error(err)
		}
	})
}
