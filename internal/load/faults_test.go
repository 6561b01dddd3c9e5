package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/internal/bench"
)

// while a run goes on, do something at a time of its own choice: it gets the phases as they begin.
func during(t *testing.T, plan Plan, change func(bench.PhaseName)) (bench.Run, error) {
	t.Helper()
	seen := map[bench.PhaseName]bool{}
	plan.Progress = func(p Progress) {
		if !seen[p.Phase] {
			seen[p.Phase] = true
			change(p.Phase)
		}
	}
	return plan.Do(t.Context())
}

// Coordinated omission: a pause of the broker is in the corrected latency of all messages that were due meanwhile, and in the
// uncorrected latency only of those that were under way.
func TestAPauseIsInTheLatency(t *testing.T) {
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) {
		s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 1000}
		s.Duration = bench.Duration(4 * time.Second)
		s.Publishers.ConfirmWindow = 20
	})
	plan := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}
	resumed := make(chan struct{})
	result, err := during(t, plan, func(phase bench.PhaseName) {
		if phase == bench.PhaseSteady {
			b.Pause()
			time.AfterFunc(time.Second, func() { b.Resume(); close(resumed) })
		}
	})
	<-resumed
	if err != nil {
		t.Fatal(err)
	}
	corrected, uncorrected := result.Latency.EndToEnd.Quantiles(), result.Latency.Uncorrected.Quantiles()
	// A second of four is 25 % of the sends, 40 of 4000 were under way.
	if *corrected.P90Seconds < 0.3 || *uncorrected.P90Seconds > *corrected.P90Seconds/3 {
		t.Errorf("P90 %f s corrected, %f s uncorrected", *corrected.P90Seconds, *uncorrected.P90Seconds)
	}
	if got := sumOf(result.Queues); got.lost+got.duplicated+got.reordered != 0 || got.consumed != got.published {
		t.Errorf("got %+v", got)
	}
	// The broker's pause is not the generator's error.
	bench.Finish(&result, s)
	if ratio := float64(result.Generator.LateSends) / float64(result.Generator.IntendedSends); ratio > 0.2 {
		t.Errorf("%.0f %% of the sends are counted as late through the generator", 100*ratio)
	}
	t.Logf("corrected P99 %.3f s, uncorrected P99 %.3f s, %d of %d late", *corrected.P99Seconds, *uncorrected.P99Seconds,
		result.Generator.LateSends, result.Generator.IntendedSends)
}

// A generator that is kept from running says so.
func TestAStarvedGeneratorIsTheLimit(t *testing.T) {
	t.Parallel()
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) {
		s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 1000}
		s.Duration = bench.Duration(4 * time.Second)
	})
	plan := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}
	plan.starve = func() { time.Sleep(20 * time.Millisecond) }
	result, err := plan.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bench.Finish(&result, s)
	if result.Verdict.Bottleneck != bench.GeneratorBound {
		t.Errorf("the verdict is %s: %s; %d of %d late", result.Verdict.Bottleneck, result.Verdict.Summary,
			result.Generator.LateSends, result.Generator.IntendedSends)
	}
}

func TestABacklogIsDrained(t *testing.T) {
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) {
		s.Backlog = &bench.Backlog{Messages: 20001, FreshRate: 500}
		s.Consumers.Latency = bench.Duration(50 * time.Microsecond)
		s.Duration = bench.Duration(20 * time.Second)
	})
	result := do(t, b, s)
	d := result.Drain
	if d == nil || d.Messages != 20001 || d.Left != 0 || d.EmptySeconds == nil || d.PerSecond <= 0 {
		t.Fatalf("got %+v", d)
	}
	if got := sumOf(result.Queues); got.lost != 0 || got.consumed != got.published || got.published <= 20001 {
		t.Errorf("got %+v", got)
	}
	if result.Latency.Fresh.Count() == 0 || result.Latency.Fresh.Count() >= result.Latency.EndToEnd.Count() {
		t.Errorf("%d fresh of %d", result.Latency.Fresh.Count(), result.Latency.EndToEnd.Count())
	}
	var names []bench.PhaseName
	for _, p := range result.Phases {
		names = append(names, p.Name)
	}
	if len(names) != 3 || names[0] != bench.PhaseFill || names[1] != bench.PhaseSteady || names[2] != bench.PhaseFlush {
		t.Errorf("phases %v", names)
	}
}

func TestAStormIsCounted(t *testing.T) {
	b := clienttest.Start(t)
	for _, jitter := range []time.Duration{0, 200 * time.Millisecond} {
		s := scenario(func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 100}
			s.Storm = &bench.Storm{Connections: 100, Jitter: bench.Duration(jitter)}
		})
		result := do(t, b, s)
		if st := result.Storm; st == nil || st.Attempted != 100 || st.Opened != 100 || len(st.Failed) != 0 || st.OpenSeconds < jitter.Seconds()*0.9 {
			t.Errorf("got %+v", st)
		}
		if n := result.Latency.Connect.Count(); n != 100 {
			t.Errorf("%d connects were measured", n)
		}
		b.WaitFor(t, "the end of connections", func() bool { return len(b.Connections()) == 0 })
	}
}

func TestWithoutConsumersMessagesAreLeft(t *testing.T) {
	b := clienttest.Start(t)
	result := do(t, b, scenario(func(s *bench.Scenario) {
		s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 1000}
		s.Consumers.Count = 0
	}))
	for _, q := range result.Queues {
		if q.Left == nil || *q.Left != q.Confirmed || q.Lost != 0 || q.Confirmed == 0 {
			t.Errorf("got %+v", q)
		}
	}
}

func TestTheDiskCapStopsTheLoad(t *testing.T) {
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) { s.Consumers.Count, s.Caps.Disk = 0, 1<<20 })
	result, err := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}.Do(t.Context())
	if !errors.Is(err, errCapped) {
		t.Fatalf("got %v", err)
	}
	var left int64
	for _, q := range result.Queues {
		left += *q.Left
	}
	if bytes := left * 256; bytes < 1<<20 || bytes > 3<<19 {
		t.Errorf("%d bytes were left", bytes)
	}
}

// A connection that is lost ends the run, which says so.
func TestALostConnectionEndsTheRun(t *testing.T) {
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) { s.Duration = bench.Duration(30 * time.Second) })
	plan := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}
	result, err := during(t, plan, func(phase bench.PhaseName) {
		if phase == bench.PhaseSteady {
			b.DropConnections("test publisher 0")
		}
	})
	if err == nil || len(result.Events) == 0 || result.Events[0].Kind != bench.EventLost {
		t.Errorf("got %v, events %v", err, result.Events)
	}
	if _, there := b.Queue("test-0"); there {
		t.Error("a queue was left behind")
	}
}

// A broker that stops reading does not hold the generator.
func TestABlockedBrokerDoesNotHoldTheGenerator(t *testing.T) {
	t.Parallel()
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) {
		s.Publishers.ConfirmWindow = 0
		s.Duration = bench.Duration(2 * time.Second)
		s.Consumers.Count = 0
	})
	plan := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	result, err := during(t, plan, func(phase bench.PhaseName) {
		if phase == bench.PhaseSteady {
			b.Block("")
		}
	})
	if ctx.Err() != nil {
		t.Fatal("it hung")
	}
	blocked := 0.0
	for _, second := range result.Seconds {
		blocked += second.BlockedSeconds
	}
	if blocked < 1 || len(result.Events) == 0 || result.Events[0].Kind != bench.EventBlocked {
		t.Errorf("blocked for %f s, events %v, error %v", blocked, result.Events, err)
	}
	b.Unblock()
}
