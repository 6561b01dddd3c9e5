package warren

import (
	"sync"
	"time"

	"github.com/warren-mq/warren/client/internal/link"
)

// ackWithin is how long an acknowledgement waits for others to go with it.
const ackWithin = 5 * time.Millisecond

// fate is what the broker is told of one of its messages.
type fate uint8

const (
	fateAck     fate = iota
	fateRetry        // reject to the queue: it counts as an attempt
	fateReject       // reject to the dead-letter exchange
	fateReturn       // nack to the queue: it does not count
	fateSettled      // was told already
)

// finish hands in a load whose every message has its fate. After the channel was lost it is dropped and counted.
func (e *epoch) finish(l *load) {
	e.mu.Lock()
	over := e.over
	if !over {
		e.finished = append(e.finished, l)
		e.owed += len(l.units)
	}
	e.mu.Unlock()
	if over {
		e.dropped(l)
		return
	}
	// The worker tells it itself: on a busy machine another goroutine would come to it late, and with it the next messages.
	if wait := e.committer.work(); wait < time.Hour {
		notify(e.wake)
	}
}

// dropped counts the results of a load that came too late.
func (e *epoch) dropped(l *load) {
	for i := range l.units {
		if u := l.units[i]; u.started && u.fate != fateAck {
			e.in.c.tries.add(&u.d)
		}
	}
	e.in.c.stale(len(l.units))
}

// committer tells the broker what became of the messages of one channel; nobody else does. Tags of prefix acks only grow: a
// second ack of the same tag, or one of a tag that was settled by itself, would make the broker close the channel.
type committer struct {
	e *epoch

	mu      sync.Mutex // of all below; it is taken before the epoch's
	tag     uint64     // last message that may be acknowledged with all before it
	count   int        // how many of them are not settled; 0 for none
	since   time.Time  // that there are some
	every   int        // acknowledge at once when so many wait
	failure error      // nothing more can be told
}

// commit runs until the channel is lost or the epoch has ended.
func (e *epoch) commit() {
	defer close(e.committed)
	defer e.lose()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for wait := time.Hour; wait >= 0; wait = e.committer.work() {
		timer.Reset(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-e.ch.Lost():
			return
		case <-e.closed:
			return
		}
	}
	e.lose()
	select {
	case <-e.ch.Lost():
	case <-e.closed:
	case <-time.After(time.Second):
		e.ch.Drop() // nothing more can be told on it
	}
}

// lose ends the epoch for results that are still to come, and counts those that could not be told.
func (e *epoch) lose() {
	e.committer.fail(link.ErrClosed)
	e.mu.Lock()
	e.over = true
	left := e.finished
	e.finished = nil
	owed := e.owed
	for _, l := range left {
		owed -= len(l.units)
	}
	e.owed = 0
	e.mu.Unlock()
	for _, l := range left {
		e.dropped(l)
	}
	if owed > 0 {
		e.in.c.stale(owed)
	}
}

// fail ends the telling.
func (c *committer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}

// work tells what has become known, and returns how long the rest may wait; less than 0 when nothing more can be told.
func (c *committer) work() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return -1
	}
	e := c.e
	e.mu.Lock()
	batch := e.finished
	e.finished = nil
	e.mu.Unlock()
	for _, l := range batch {
		c.single(l)
		e.mu.Lock()
		e.ledger.Done(l.number)
		e.mu.Unlock()
		c.advance()
	}
	if c.failure != nil {
		return -1
	}
	e.mu.Lock()
	idle := e.ledger.Len() == 0
	e.mu.Unlock()
	if c.count > 0 {
		if left := ackWithin - time.Since(c.since); !idle && c.count < c.every && left > 0 {
			return left
		}
		c.flush()
	}
	if idle {
		notify(e.idle)
	}
	if c.failure != nil {
		return -1
	}
	return time.Hour
}

// single settles by itself what an acknowledgement of others must not cover, before one can.
func (c *committer) single(l *load) {
	e := c.e
	e.mu.Lock()
	_, first, _ := e.ledger.First()
	e.mu.Unlock()
	head := first == l.number
	if head && l.returned() {
		// All before it was acknowledged, all after it was not handled yet: one frame does.
		c.flush()
		c.told(len(l.units), e.ch.Nack(l.last(), true, true))
		l.settle()
		return
	}
	for i := range l.units {
		u := l.units[i]
		switch {
		case u.fate == fateRetry:
			e.in.c.tries.add(&u.d)
			c.told(1, e.ch.Reject(u.d.DeliveryTag, true))
		case u.fate == fateReject:
			c.told(1, e.ch.Reject(u.d.DeliveryTag, false))
		case u.fate == fateReturn:
			c.told(1, e.ch.Nack(u.d.DeliveryTag, false, true))
		case u.fate == fateAck && e.in.c.cfg.ack == ackEach && !head:
			e.in.c.tries.forget(&u.d)
			c.told(1, e.ch.Ack(u.d.DeliveryTag, false))
		default:
			continue
		}
		u.fate = fateSettled
	}
}

// told counts what was written; an error means that it was not.
func (c *committer) told(n int, err error) {
	if err != nil {
		c.failure = err
		return
	}
	c.e.mu.Lock()
	c.e.owed -= n
	c.e.mu.Unlock()
	c.e.unacked.Add(-int64(n))
}

// advance takes over what may be acknowledged: all loads up to the first that has not ended.
func (c *committer) advance() {
	e := c.e
	for {
		e.mu.Lock()
		l, ok := e.ledger.Pop()
		e.mu.Unlock()
		if !ok {
			return
		}
		for i := range l.units {
			u := l.units[i]
			if u.fate != fateAck {
				continue
			}
			e.in.c.tries.forget(&u.d)
			if c.count == 0 {
				c.since = time.Now()
			}
			c.count++
			c.tag = u.d.DeliveryTag
		}
	}
}

func (c *committer) flush() {
	if c.count == 0 || c.failure != nil {
		return
	}
	c.told(c.count, c.e.ch.Ack(c.tag, true))
	c.count = 0
}
