package load

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/internal/bench"
)

// What is lost, doubled, swapped or foreign on the way is counted, and nothing else is.
func TestTheAccountIsTrue(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		b := clienttest.Start(t)
		m := meddle(t, b.Addr(), seed, 0.01)
		s := scenario(func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 2000}
			s.Consumers.AckEvery = 0
		})
		e := endpoint(t, b)
		e.Hosts = []string{m.listener.Addr().String()}
		foreign := int64(0)
		plan := Plan{Scenario: s, Endpoint: e, Prefix: "test", Mark: 7, Number: 1, Idle: 300 * time.Millisecond}
		plan.Progress = func(Progress) {
			if foreign == 0 && b.Publish("test-1", clienttest.Message{Body: []byte("somebody else's")}) == nil {
				foreign++
			}
		}
		result, err := plan.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := sumOf(result.Queues)
		m.mu.Lock()
		// The stranger's message goes through the meddler too, so one of each may be its.
		if got.lost != m.lost || got.duplicated != m.doubled || got.reordered != m.swapped || got.foreign != foreign {
			t.Errorf("seed %d: got %+v, want lost %d, duplicated %d, reordered %d, foreign %d", seed, got, m.lost, m.doubled, m.swapped, foreign)
		}
		if m.lost == 0 || m.doubled == 0 || m.swapped == 0 || foreign != 1 {
			t.Error("the plan did nothing")
		}
		m.mu.Unlock()
	}
}

// Messages that the broker refuses are neither lost nor confirmed.
func TestNacksAndReturns(t *testing.T) {
	b := clienttest.Start(t)
	refused := int64(0)
	b.PlanConfirms(func(p clienttest.Published) clienttest.Verdict {
		if p.Tag%100 == 0 {
			refused++
			return clienttest.Nack
		}
		return clienttest.Ack
	})
	s := scenario(func(s *bench.Scenario) { s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 2000} })
	plan := Plan{Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1, Idle: 300 * time.Millisecond}
	result, err := plan.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.PlanConfirms(nil)
	got := sumOf(result.Queues)
	if got.published-got.confirmed != refused || got.published-got.consumed != refused || got.lost != 0 || refused == 0 {
		t.Errorf("got %+v with %d refused", got, refused)
	}
	nacked := int64(0)
	for _, second := range result.Seconds {
		nacked += second.Nacked
	}
	if nacked != refused {
		t.Errorf("%d nacks are counted, want %d", nacked, refused)
	}
}
