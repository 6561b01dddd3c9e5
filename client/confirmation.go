package warren

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Confirmation tells the outcome of one message that was accepted, exactly once.
type Confirmation struct {
	p          *Publisher
	m          Message
	lane       *lane
	seq        uint64 // order in the lane
	size       int64  // charged bytes
	body       int    // bytes of the body
	frame      int    // bytes of the frame with the properties, at most
	born       time.Time
	generation *generation
	finished   []func(error) // of the hooks
	sends      int           // only the shard's goroutine touches it

	mu      sync.Mutex
	taken   bool // being sent, or sent
	settled bool
	err     error
	done    chan struct{}
}

// ID of the message, as consumers see it.
func (c *Confirmation) ID() string { return c.m.ID }

// Done is closed when the outcome is known.
func (c *Confirmation) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.settled {
			close(c.done)
		}
	}
	return c.done
}

// Err is the outcome: nil for confirmed. It is only to be called after Done was closed.
func (c *Confirmation) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Wait for the outcome as long as ctx allows; then the error is that of ctx with ErrUnknown, and the message goes on.
func (c *Confirmation) Wait(ctx context.Context) error {
	select {
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// publish waits like Wait, but takes the message back when ctx ends before it was sent.
func (c *Confirmation) publish(ctx context.Context) error {
	select {
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
	}
	err := fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	if !c.settle(err, true) {
		return c.Wait(ctx)
	}
	c.report(err)
	c.lane.takenBack(c)
	return err
}

// over tells whether the outcome is known.
func (c *Confirmation) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// take claims the message for sending. It is false when the message was taken back: its outcome is known then.
func (c *Confirmation) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	return !c.settled
}

// release takes the claim back: the message was not sent, or may be sent again.
func (c *Confirmation) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = c.sends > 0
}

// settle makes the outcome known; only the first call does, and is true. With unsent it only does so for a message that was
// not taken.
func (c *Confirmation) settle(err error, unsent bool) bool {
	c.mu.Lock()
	if c.settled || (unsent && c.taken) {
		c.mu.Unlock()
		return false
	}
	c.settled, c.err = true, err
	c.p.refund(c.size) // who knows the outcome may publish as much again
	if c.done != nil {
		close(c.done)
	}
	c.mu.Unlock()
	// A Confirmation that is kept must not keep the message. Nobody reads these of one that was not taken.
	c.m.Body, c.m.Headers = nil, nil
	c.generation.leave()
	c.finish(err)
	return true
}

// fail settles a message that no confirm of the broker decided on.
func (c *Confirmation) fail(err error) {
	if c.settle(err, false) {
		c.report(err)
	}
}

// report tells the hooks an outcome that the broker did not.
func (c *Confirmation) report(err error) {
	e := PublishEvent{Messages: 1, Bytes: int64(c.body), Waited: time.Since(c.born), Err: err}
	if c.lane != nil {
		e.Cluster = c.lane.place()
	}
	if c.sent() {
		e.Sent = 1
	}
	c.p.r.hook(func(h *Hooks) {
		if h.Published != nil {
			h.Published(e)
		}
	})
}

// sent tells whether the message may have left.
func (c *Confirmation) sent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// start calls the hooks; what they return is called by finish.
func (c *Confirmation) start(ctx context.Context) {
	c.p.r.hook(func(h *Hooks) {
		if h.StartPublish == nil {
			return
		}
		next, done := h.StartPublish(ctx, &c.m)
		ctx = next
		if done != nil {
			c.finished = append(c.finished, done)
		}
	})
}

func (c *Confirmation) finish(err error) {
	for _, f := range c.finished {
		f(err)
	}
	c.finished = nil
}
