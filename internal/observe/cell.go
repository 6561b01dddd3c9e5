package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

// cell is one answer of a broker that many passes share. Whoever asks says how old it may be; one asks the broker at a time,
// and the others wait for its answer.
type cell[T any] struct {
	mu     sync.Mutex
	value  T
	begun  time.Time // when the value was asked for; zero for none
	flight chan struct{}
	// err is how the last attempt ended; until retry it is everybody's answer.
	err   error
	retry time.Time
	slow  int // attempts in a row that the broker could not answer in time
}

const (
	// failurePause is how long a failure is everybody's answer.
	failurePause = 3 * time.Second
	// mostSlower is how many polls may pass between two attempts on a broker that cannot keep up.
	mostSlower = 8
)

// get answers a value asked for at notOlderThan or later that is enough, asking by read when there is none.
func (c *cell[T]) get(ctx context.Context, s *Snapshots, notOlderThan time.Time, enough func(T) bool, read func(context.Context) (T, error)) (T, time.Time, error) {
	var none T
	for {
		c.mu.Lock()
		switch {
		case !c.begun.IsZero() && !c.begun.Before(notOlderThan) && enough(c.value):
			defer c.mu.Unlock()
			return c.value, c.begun, nil
		case c.flight != nil:
			flight := c.flight
			c.mu.Unlock()
			select {
			case <-flight:
			case <-ctx.Done():
				return none, time.Time{}, ctx.Err()
			}
		case c.err != nil && s.now().Before(c.retry):
			defer c.mu.Unlock()
			return none, time.Time{}, c.err
		default: // what was just asked for is what was asked for: a clock that stands still must not make it too old
			value, begun, err := c.ask(ctx, s, read)
			return value, begun, err
		}
	}
}

// ask is called with the lock held and gives it back.
func (c *cell[T]) ask(ctx context.Context, s *Snapshots, read func(context.Context) (T, error)) (T, time.Time, error) {
	flight := make(chan struct{})
	c.flight = flight
	begun := s.now()
	c.mu.Unlock()
	value, err := read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(flight)
	c.flight, c.err = nil, err
	switch {
	case err == nil:
		c.value, c.begun, c.slow = value, begun, 0
		return value, begun, nil
	case tooSlow(err): // asking as often would make it worse
		c.slow++
		c.retry = s.now().Add(s.poll * time.Duration(min(1<<min(c.slow, 10), mostSlower)))
	default:
		c.slow = 0
		c.retry = s.now().Add(min(s.poll, failurePause))
	}
	return value, time.Time{}, err
}

// tooSlow tells whether the broker, or a proxy before it, did not answer in time.
func tooSlow(err error) bool {
	var failure *broker.Error
	return errors.As(err, &failure) && failure.TooSlow
}

// asked is when the value was last asked for.
func (c *cell[T]) asked() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.retry
	}
	return c.begun
}
