package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/internal/bench"
)

// consumer is one channel that consumes one queue. Without a handling time it works on the goroutine that reads the
// connection; with one, or with batches, it has a goroutine of its own and the prefetch bounds what waits for it.
type consumer struct {
	*shared
	id       int
	queue    int
	wire     *wire
	channel  uint16
	rec      *recorder
	settings bench.Consumers
	// counted: its messages are in the account. Of several readers of a stream, which all get all, one is.
	counted bool

	mu      sync.Mutex // of what follows: the timer of AckWait is another goroutine
	last    uint64     // the newest tag that was handled and is not acknowledged
	pending int        // tags that are handled and not acknowledged
	timer   *time.Timer

	began int64 // of the burst that is being handled; 0 between bursts

	own    bool // has a goroutine of its own
	inbox  []item
	filled chan struct{}
	failed atomic.Pointer[error]
}

// item waits for the consumer's own goroutine.
type item struct {
	tag uint64
	at  int64 // when it came
}

func (c *consumer) prepare() {
	c.own = c.settings.Latency > 0 || c.settings.Batch != nil
	c.filled = make(chan struct{}, 1)
	c.timer = time.AfterFunc(time.Hour, c.ackRest)
	c.timer.Stop()
}

// delivered implements receiver.
func (c *consumer) delivered(tag uint64, redelivered bool, body []byte) {
	now := c.clock.now()
	if c.began == 0 {
		c.began = now
	}
	c.measure(now, redelivered, body)
	if c.own {
		c.mu.Lock()
		c.inbox = append(c.inbox, item{tag: tag, at: now})
		c.mu.Unlock()
		return
	}
	c.handled(tag)
}

// measure enters a message in the account and its latency in the histograms.
func (c *consumer) measure(now int64, redelivered bool, body []byte) {
	s, known := readStamp(body, c.run)
	first := c.account(s, redelivered, len(body))
	r := c.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	r.second.Consumed++
	r.second.ConsumedBytes += int64(len(body))
	if !known || !first {
		return
	}
	took := time.Duration(now - s.intended)
	inside := c.span.holds(s.intended)
	if !c.drain || inside {
		r.coarse.Record(took)
	}
	if c.drain {
		if inside && r.fresh != nil {
			r.fresh.Record(took)
		}
		inside = c.span.holds(now)
	}
	if inside {
		r.endToEnd.Record(took)
		r.uncorrected.Record(time.Duration(now - s.sent))
	}
}

// account enters a message and tells whether it is one of this run that came for the first time.
func (c *consumer) account(s stamp, redelivered bool, bytes int) bool {
	if !c.counted {
		return true
	}
	receipt := c.book.received(c.queue, c.id, s, redelivered)
	if receipt != bench.Fresh && receipt != bench.OutOfOrder {
		return false
	}
	c.taken.Add(1)
	c.waiting.Add(-int64(bytes))
	if c.drain && s.intended < c.span.from.Load() {
		c.old.Add(1)
	}
	return true
}

// handled acknowledges as the scenario says.
func (c *consumer) handled(tag uint64) {
	every := c.settings.AckEvery
	if every == 0 {
		c.rec.add(func(s *bench.Second) { s.Acknowledged++ })
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.pending = tag, c.pending+1
	if c.pending >= every {
		c.ackLocked()
	} else if c.pending == 1 {
		c.timer.Reset(c.settings.AckWait.Std())
	}
}

// ackLocked acknowledges what is pending. It goes out with the next flush.
func (c *consumer) ackLocked() {
	n := c.pending
	if n == 0 {
		return
	}
	c.pending = 0
	if err := c.wire.ack(c.channel, c.last, n > 1); err != nil {
		c.failed.Store(&err)
	}
	c.rec.add(func(s *bench.Second) { s.Acknowledged += int64(n) })
}

// ackRest acknowledges what has waited for company too long.
func (c *consumer) ackRest() {
	c.mu.Lock()
	c.ackLocked()
	c.mu.Unlock()
	if err := c.wire.flush(); err != nil {
		c.failed.Store(&err)
	}
}

// quiet implements receiver.
func (c *consumer) quiet() {
	if c.began == 0 {
		return
	}
	took := c.clock.now() - c.began
	c.began = 0
	if c.own {
		select {
		case c.filled <- struct{}{}:
		default:
		}
		return
	}
	c.rec.add(func(s *bench.Second) { s.HandleSeconds += since(took) })
	if err := c.wire.flush(); err != nil {
		c.failed.Store(&err)
	}
}

func (c *consumer) confirmed(uint64, bool, bool) {}
func (c *consumer) returned([]byte)              {}

// work handles messages on a goroutine of its own, until the context ends.
func (c *consumer) work(ctx context.Context) {
	defer c.timer.Stop()
	if !c.own || c.wire == nil { // the client library's has its own
		<-ctx.Done()
		return
	}
	for {
		batch, ok := c.collect(ctx)
		if !ok {
			return
		}
		began := c.clock.now()
		if !pause(ctx, c.settings.Latency.Std()) {
			return
		}
		took := c.clock.now() - began
		c.rec.add(func(s *bench.Second) { s.HandleSeconds += since(took) })
		if c.settings.Batch == nil {
			c.handled(batch[0].tag)
		} else {
			c.mu.Lock()
			c.last, c.pending = batch[len(batch)-1].tag, len(batch)
			c.ackLocked()
			c.mu.Unlock()
		}
		if err := c.wire.flush(); err != nil {
			c.failed.Store(&err)
			return
		}
	}
}

// collect takes one message, or a batch: what is there when it is full or its first message has waited long enough.
func (c *consumer) collect(ctx context.Context) ([]item, bool) {
	size, wait := 1, time.Duration(0)
	if b := c.settings.Batch; b != nil {
		size, wait = b.Size, b.Wait.Std()
	}
	var late <-chan time.Time
	for {
		c.mu.Lock()
		n := len(c.inbox)
		overdue := n > 0 && c.clock.now()-c.inbox[0].at >= int64(wait)
		if n >= size || overdue {
			n = min(n, size)
			batch := c.inbox[:n:n]
			c.inbox = c.inbox[n:]
			c.mu.Unlock()
			return batch, true
		}
		if n > 0 && late == nil {
			late = time.After(wait - time.Duration(c.clock.now()-c.inbox[0].at))
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, false
		case <-c.filled:
		case <-late:
			late = nil
		}
	}
}

// pause is false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
