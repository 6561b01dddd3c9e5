//go:build broker

package load_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

// All kinds of queue are measured, no message is lost, and nothing stays.
func TestScenarios(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		client := apiOf(t, at)
		before := census(t, client)
		scenarios := []bench.Scenario{
			quick("ClassicFlatOut", func(s *bench.Scenario) { s.Load = bench.Load{Mode: bench.ClosedLoop} }),
			quick("QuorumAtARate", func(s *bench.Scenario) { s.Queues.Type = bench.QuorumQueue }),
			quick("StreamAtARate", func(s *bench.Scenario) { s.Queues.Type = bench.StreamQueue }),
			quick("BatchesByTheLibrary", func(s *bench.Scenario) {
				s.Consumers.Library, s.Consumers.Batch = bench.WarrenLibrary, &bench.Batch{Size: 50, Wait: bench.Duration(20 * time.Millisecond)}
				s.Consumers.Latency = bench.Duration(5 * time.Millisecond)
			}),
			quick("Recovery", func(s *bench.Scenario) {
				s.Load = bench.Load{Mode: bench.ClosedLoop}
				s.Backlog = &bench.Backlog{Messages: 5000, FreshRate: 100}
			}),
		}
		if at.Version == versions[0] {
			scenarios = append(scenarios, quick("MirroredAtARate", func(s *bench.Scenario) { s.Queues.Type = bench.MirroredQueue }))
		}
		b, err := benchmark(at, scenarios...)
		if err != nil {
			t.Fatal(err)
		}
		results, err := b.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != len(scenarios) {
			t.Fatalf("%d results, want %d", len(results), len(scenarios))
		}
		for _, r := range results {
			run := r.Runs[0]
			for _, q := range run.Queues {
				if q.Published == 0 || q.Confirmed != q.Published || q.Consumed != q.Published || q.Lost+q.Duplicated+q.Reordered+q.Foreign != 0 {
					t.Errorf("%s: %+v", r.Scenario.Name, q)
				}
			}
			if run.Latency.EndToEnd.Count() == 0 || len(run.Broker) == 0 {
				t.Errorf("%s: %d latencies, %d samples", r.Scenario.Name, run.Latency.EndToEnd.Count(), len(run.Broker))
			}
			t.Logf("%s: %.0f %s, valid %v %v, %s", r.Scenario.Name, run.Figures.Throughput, run.Figures.ThroughputUnit,
				run.Validity.Valid, run.Validity.Reasons, run.Verdict.Bottleneck)
		}
		if after := census(t, client); after != before {
			t.Errorf("there is\n%s\nwant\n%s", after, before)
		}
	})
}

// A broker that stands still is in the corrected latency of what was due, and not in the uncorrected.
func TestAStoppedBrokerIsInTheLatency(t *testing.T) {
	at := realBroker(t, versions[1])
	b, err := benchmark(at, quick("Stopped", func(s *bench.Scenario) {
		s.Load.Rate = 1000
		s.Publishers.ConfirmWindow = 25
		s.Duration = bench.Duration(5 * time.Second)
	}))
	if err != nil {
		t.Fatal(err)
	}
	b.Sources = nil // they would wait too
	stopped := false
	resumed := make(chan error, 1)
	b.OnProgress = func(_ bench.Scenario, _ int, p load.Progress) {
		if p.Phase != bench.PhaseSteady || stopped {
			return
		}
		stopped = true
		go func() {
			if err := at.Pause(); err != nil {
				resumed <- err
				return
			}
			time.Sleep(2 * time.Second)
			resumed <- at.Resume()
		}()
	}
	results, err := b.Do(t.Context())
	if failed := <-resumed; err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	f := results[0].Runs[0].Figures
	if *f.Latency.P90Seconds < 0.5 || *f.Uncorrected.P90Seconds > *f.Latency.P90Seconds/3 {
		t.Errorf("P90 is %.3f s corrected and %.3f s uncorrected", *f.Latency.P90Seconds, *f.Uncorrected.P90Seconds)
	}
	g := results[0].Runs[0].Generator
	t.Logf("P90 %.3f s, P99 %.3f s corrected; P90 %.3f s, P99 %.3f s uncorrected; %d of %d sends late through the generator", *f.Latency.P90Seconds,
		*f.Latency.P99Seconds, *f.Uncorrected.P90Seconds, *f.Uncorrected.P99Seconds, g.LateSends, g.IntendedSends)
}
