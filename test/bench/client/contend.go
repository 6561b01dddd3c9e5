package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/client"
)

// model is something downstream that many at once slow down, as a database whose transactions update the same rows. With k
// statements on their way, a statement that begins takes
//
//	Base × (1 + Wait×(k−1) + Conflict×k×(k−1)) × (1 ± Jitter)
//
// which is Gunther's universal scalability law: Wait is the share of the work that goes one after another (a lock of a row),
// Conflict what each pair that meets costs (lock tables searched, deadlocks looked for, pages and caches passed on). So
// k/(1 + Wait×(k−1) + Conflict×k×(k−1)) statements end in each Base: it grows up to k = √((1−Wait)/Conflict), then it falls.
type model struct {
	Base     time.Duration `json:"base"`
	Wait     float64       `json:"wait"`
	Conflict float64       `json:"conflict"`
	Jitter   float64       `json:"jitter"`
}

// rowLocks bears ten at once best: √(0.95/0.0095).
var rowLocks = model{Base: 10 * time.Millisecond, Wait: 0.05, Conflict: 0.0095, Jitter: 0.2}

// takes is how long a statement takes that begins as the k-th; chance is from 0 to 1.
func (m model) takes(k int, chance float64) time.Duration {
	n := float64(k)
	return time.Duration(float64(m.Base) * (1 + m.Wait*(n-1) + m.Conflict*n*(n-1)) * (1 + m.Jitter*(2*chance-1)))
}

// best is the number of statements at once with the highest throughput.
func (m model) best() int {
	best, most := 1, 0.0
	for k := 1; k <= 1000; k++ {
		if rate := float64(k) / float64(m.takes(k, 0.5)); rate > most {
			best, most = k, rate
		}
	}
	return best
}

// downstream runs statements as the model says, and remembers how long they took.
type downstream struct {
	model   model
	running atomic.Int64

	mu        sync.Mutex
	measuring bool
	took      []float64
	messages  int
}

func (d *downstream) execute(ctx context.Context, messages int) {
	began := time.Now()
	wait := time.NewTimer(d.model.takes(int(d.running.Add(1)), rand.Float64())) //nolint:gosec // jitter is no secret
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	d.running.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.measuring && ctx.Err() == nil {
		d.took = append(d.took, time.Since(began).Seconds())
		d.messages += messages
	}
}

func (d *downstream) measure(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.measuring = on
}

// consumeContended handles each batch with one statement, for a while before it is measured and a while in which it is.
func consumeContended(j job) (outcome, error) {
	var o outcome
	var limit atomic.Int64
	limit.Store(int64(j.Workers))
	router, err := newRouter(j.URI, warren.Hooks{Limit: func(_ string, running int) { limit.Store(int64(running)) }})
	if err != nil {
		return o, err
	}
	bound, cancel := context.WithTimeout(context.Background(), j.Settle+j.For+time.Minute)
	defer cancel()
	defer router.Close(bound)
	ctx, stop := context.WithCancel(bound)
	defer stop()
	down := &downstream{model: j.Service}
	options := []warren.ConsumeOption{warren.BatchSize(j.Batch), warren.Workers(j.Workers)}
	if j.Target > 0 {
		options = append(options, warren.TargetLatency(j.Target))
	}
	ended := make(chan error, 1)
	go func() {
		ended <- router.Consume(ctx, j.Queue, func(ctx context.Context, b *warren.Batch) error {
			down.execute(ctx, b.Len())
			return nil
		}, options...)
	}()
	select {
	case err := <-ended:
		return o, errors.Join(errors.New("the consumer ended"), err)
	case <-time.After(j.Settle):
	}
	m, err := startMeter()
	if err != nil {
		return o, err
	}
	down.measure(true)
	time.Sleep(j.For)
	down.measure(false)
	if err := m.stop(&o); err != nil {
		return o, err
	}
	o.Limit = int(limit.Load())
	stop()
	if err := <-ended; err != nil {
		return o, err
	}
	down.mu.Lock()
	defer down.mu.Unlock()
	o.Messages, o.Sent, o.P95 = down.messages, down.messages, percentile(down.took, 95)
	return o, nil
}

func (m model) String() string {
	return fmt.Sprintf("with k statements at once each takes %s × (1 + %g(k−1) + %gk(k−1)) ± %.0f %%, best at k = %d", m.Base, m.Wait,
		m.Conflict, 100*m.Jitter, m.best())
}
