package load

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/internal/bench"
)

// meeting lets workers of one process meet.
type meeting struct {
	mu      sync.Mutex
	changed sync.Cond
	there   map[Step]int
}

func (m *meeting) meet(n int) func(context.Context, Step) error {
	return func(_ context.Context, step Step) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.there[step]++
		m.changed.Broadcast()
		for m.there[step] < n {
			m.changed.Wait()
		}
		return nil
	}
}

// Two workers share publishers, consumers and rate; together they have an account without a gap.
func TestWorkersShareTheLoad(t *testing.T) {
	for name, change := range map[string]func(*bench.Scenario){
		"rate": func(s *bench.Scenario) { s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 1000} },
		"backlog": func(s *bench.Scenario) {
			s.Backlog = &bench.Backlog{Messages: 10001}
			s.Duration = bench.Duration(20 * time.Second)
		},
		"storm": func(s *bench.Scenario) {
			s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 100}
			s.Storm = &bench.Storm{Connections: 51}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clienttest.Start(t)
			s := scenario(func(s *bench.Scenario) {
				s.Publishers.Count, s.Consumers.Count, s.Queues.Count = 5, 3, 3
				change(s)
			})
			const workers = 2
			m := &meeting{there: map[Step]int{}}
			m.changed.L = &m.mu
			parts, lefts := make([]bench.Part, workers), make([]map[string]int64, workers)
			var all sync.WaitGroup
			for i := range workers {
				all.Go(func() {
					plan := Plan{
						Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1, Worker: i, Workers: workers,
						Meet: m.meet(workers), Keep: true, Idle: 300 * time.Millisecond,
					}
					var err error
					if parts[i], lefts[i], err = plan.DoPart(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			run, err := bench.MergeParts(parts, lefts[0])
			if err != nil {
				t.Fatal(err)
			}
			got := sumOf(run.Queues)
			if got.published == 0 || got.consumed != got.published || got.confirmed != got.published || got.lost+got.duplicated+got.foreign != 0 {
				t.Errorf("got %+v", got)
			}
			if s.Backlog != nil && (got.published != 10001 || run.Drain == nil || run.Drain.Left != 0 || run.Drain.Messages != 10001) {
				t.Errorf("got %+v and %+v", got, run.Drain)
			}
			if s.Storm != nil && (run.Storm == nil || run.Storm.Opened != 51) {
				t.Errorf("got %+v", run.Storm)
			}
		})
	}
}

// The worker that deletes the queues waits until the others have asked what is left in them.
func TestQueuesStayUntilAllHaveCounted(t *testing.T) {
	b := clienttest.Start(t)
	s := scenario(func(s *bench.Scenario) { s.Publishers.Count, s.Consumers.Count, s.Queues.Count = 2, 2, 2 })
	m := &meeting{there: map[Step]int{}}
	m.changed.L = &m.mu
	all := m.meet(2)
	waits := make(chan struct{}) // the first worker waits for the second, or has ended
	release := sync.OnceFunc(func() { close(waits) })
	var both sync.WaitGroup
	first := func(ctx context.Context, step Step) error {
		if step == StepCounted {
			release()
		}
		return all(ctx, step)
	}
	second := func(ctx context.Context, step Step) error {
		err := all(ctx, step)
		if step == StepEnded {
			<-waits
		}
		return err
	}
	for i, meet := range []func(context.Context, Step) error{first, second} {
		both.Go(func() {
			plan := Plan{
				Scenario: s, Endpoint: endpoint(t, b), Prefix: "test", Mark: 7, Number: 1, Worker: i, Workers: 2, Meet: meet, Keep: i > 0, Idle: 300 * time.Millisecond,
			}
			part, left, err := plan.DoPart(t.Context())
			if i == 0 {
				release()
			}
			if err != nil || len(left) != 2 || len(part.Run.Events) > 0 {
				t.Errorf("worker %d: left %v, events %v, %v", i, left, part.Run.Events, err)
			}
		})
	}
	both.Wait()
}
