package link

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter bounds how fast connections are dialled: a rate for all hosts together, and one dial at a time for each host, so
// that many connections that were lost together do not come back together.
type Limiter struct {
	rate  *rate.Limiter
	mu    sync.Mutex
	hosts map[string]chan struct{}
}

// NewLimiter allows perSecond dials a second, and burst at once.
func NewLimiter(perSecond float64, burst int) *Limiter {
	return &Limiter{rate: rate.NewLimiter(rate.Limit(perSecond), burst), hosts: map[string]chan struct{}{}}
}

// Process is the limiter of the whole process: 10 dials a second, 10 at once.
var Process = NewLimiter(10, 10)

// acquire waits for leave to dial the host. release must be called when the dial has ended.
func (l *Limiter) acquire(ctx context.Context, host string) (release func(), err error) {
	l.mu.Lock()
	turn := l.hosts[host]
	if turn == nil {
		turn = make(chan struct{}, 1)
		l.hosts[host] = turn
	}
	l.mu.Unlock()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := l.rate.Wait(ctx); err != nil {
		<-turn
		return nil, err
	}
	return func() { <-turn }, nil
}

// backoff is the wait before try number attempt (from 0): full jitter below a ceiling that doubles from low to high.
func backoff(attempt int, low, high time.Duration, chance func(int64) int64) time.Duration {
	ceiling := high
	if attempt < 32 && low<<attempt < high && low<<attempt > 0 {
		ceiling = low << attempt
	}
	if ceiling <= 0 {
		return 0
	}
	return time.Duration(chance(int64(ceiling)))
}

func chance(n int64) int64 { return rand.Int64N(n) } //nolint:gosec // jitter is no secret
