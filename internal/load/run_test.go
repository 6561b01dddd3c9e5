package load

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/internal/bench"
)

// scenario is a short one, to be changed by tests.
func scenario(change func(*bench.Scenario)) bench.Scenario {
	s := bench.Defaults()
	s.Name = "Test"
	s.Publishers.Count, s.Consumers.Count, s.Queues.Count = 2, 2, 2
	s.WarmUp, s.Duration, s.CoolDown, s.Runs = bench.Duration(200*time.Millisecond), bench.Duration(time.Second), 0, 1
	if change != nil {
		change(&s)
	}
	return s
}

func endpoint(t *testing.T, b *clienttest.Broker) Endpoint {
	t.Helper()
	e, err := ParseEndpoint(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// do makes a run against an in-memory broker.
func do(t *testing.T, b *clienttest.Broker, s bench.Scenario) bench.Run {
	t.Helper()
	result, err := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1}.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

type sums struct{ published, confirmed, consumed, lost, duplicated, redelivered, reordered, foreign int64 }

func sumOf(queues []bench.QueueAccount) (s sums) {
	for _, q := range queues {
		s.published += q.Published
		s.confirmed += q.Confirmed
		s.consumed += q.Consumed
		s.lost += q.Lost
		s.duplicated += q.Duplicated
		s.redelivered += q.Redelivered
		s.reordered += q.Reordered
		s.foreign += q.Foreign
	}
	return s
}

func TestRunsOfManyKinds(t *testing.T) {
	for name, change := range map[string]func(*bench.Scenario){
		"as fast as it goes": nil,
		"without confirms":   func(s *bench.Scenario) { s.Publishers.ConfirmWindow = 0 },
		"one by one":         func(s *bench.Scenario) { s.Publishers.ConfirmWindow = 1 },
		"at a rate": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 2000}
		},
		"large":              func(s *bench.Scenario) { s.Message.Sizes = []bench.Size{300 << 10, 32} },
		"acks together":      func(s *bench.Scenario) { s.Consumers.AckEvery = 50 },
		"automatic acks":     func(s *bench.Scenario) { s.Consumers.AckEvery = 0 },
		"shared connections": func(s *bench.Scenario) { s.Publishers.Connections, s.Consumers.Connections = 1, 1 },
		"quorum":             func(s *bench.Scenario) { s.Queues.Type = bench.QuorumQueue },
		"slow handler": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 200}
			s.Consumers.Latency = bench.Duration(time.Millisecond)
		},
		"batches": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 2000}
			s.Consumers.Batch = &bench.Batch{Size: 50, Wait: bench.Duration(20 * time.Millisecond)}
		},
		"batches by the client library": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 2000}
			s.Consumers.Library, s.Consumers.Batch = bench.WarrenLibrary, &bench.Batch{Size: 50, Wait: bench.Duration(20 * time.Millisecond)}
			s.Consumers.Latency = bench.Duration(2 * time.Millisecond)
		},
		"a backlog by the client library": func(s *bench.Scenario) {
			s.Backlog = &bench.Backlog{Messages: 5000, FreshRate: 200}
			s.Consumers.Library, s.Consumers.Batch = bench.WarrenLibrary, &bench.Batch{Size: 100, Wait: bench.Duration(20 * time.Millisecond)}
			s.Duration = bench.Duration(20 * time.Second)
		},
		"many publishers": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 1000}
			s.Publishers.Count, s.Publishers.Connections = 100, 10
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clienttest.Start(t)
			s := scenario(change)
			result := do(t, b, s)
			if d := result.Drain; s.Backlog != nil && (d == nil || d.Left != 0 || d.EmptySeconds == nil) {
				t.Errorf("the backlog is not gone: %+v", d)
			}
			got := sumOf(result.Queues)
			if got.published == 0 || got.consumed != got.published || got.lost+got.duplicated+got.redelivered+got.reordered+got.foreign != 0 {
				t.Errorf("got %+v", got)
			}
			if s.Publishers.ConfirmWindow > 0 && got.confirmed != got.published {
				t.Errorf("%d of %d are confirmed", got.confirmed, got.published)
			}
			if n := result.Latency.EndToEnd.Count(); n == 0 {
				t.Error("no latencies")
			}
			if _, there := b.Queue("test-0"); there {
				t.Error("a queue was left behind")
			}
			if left := len(b.Connections()); left != 0 {
				b.WaitFor(t, "the end of connections", func() bool { return len(b.Connections()) == 0 })
			}
			t.Logf("%+v, %d in the span", got, result.Latency.EndToEnd.Count())
		})
	}
}
