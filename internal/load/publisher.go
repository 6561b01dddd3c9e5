package load

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
)

// shared is what the workers of one run have in common.
type shared struct {
	clock clock
	span  *span
	run   uint32 // the mark of this run in bodies
	rec   *recorders
	book  *book
	drain bool // a backlog goes away in the span: its age is a latency too

	sent     atomic.Int64 // messages handed to sockets
	taken    atomic.Int64 // messages consumed, each once
	old      atomic.Int64 // of these, messages of a backlog
	waiting  atomic.Int64 // bytes of bodies that were sent and not consumed
	mostDisk int64        // bytes that may wait; 0 for no bound

	opened, closed, refused atomic.Int64 // connections, since the last tick
}

// publisher is one channel that publishes to one queue.
type publisher struct {
	*shared
	id       int
	queue    int
	wire     *wire
	amqp     *amqp.Channel // for methods that are not hot
	rec      *recorder
	messages []*message // by size, in turn
	bodies   []int64    // their sizes in bytes
	window   int        // 0: without confirms
	confirms bool

	// The publisher writes a slot before it counts it in next; the connection's reader settles it before it counts it in low.
	slots []slot
	next  atomic.Uint64 // the last tag that was used
	low   atomic.Uint64 // all tags up to it are settled
	open  atomic.Int64  // tags that wait for a confirm
	wake  chan struct{}
	stale bool // the reader has made room since the last quiet

	waited  int64 // when the last wait for room ended
	pushed  int64 // when the last write of its own ended
	inRoom  int64 // ns of all waits for room
	held    int64 // ns of inRoom and of the wire's writes at the last send
	lag     int64 // ns by which the schedule is behind through the broker
	excused bool  // what is not sent in time is the broker's doing
	starve  func()

	gathered int64 // since when messages wait for others to be sent with; 0 when none does
}

// mostHeld is how long a message waits at most for others that are due at once, in ns.
const mostHeld = int64(time.Millisecond)

// slot is a message that waits for its confirm.
type slot struct {
	intended, sent int64
	settled        bool // these are the reader's
	returned       bool
}

// prepare makes the ring. Out of order confirms leave holes, so it is larger than the window.
func (p *publisher) prepare() {
	p.confirms = p.window > 0
	p.wake = make(chan struct{}, 1)
	if p.confirms {
		p.slots = make([]slot, 1<<bits.Len(uint(max(2*p.window, 16))))
	}
}

// full tells whether the next message has to wait for a confirm.
func (p *publisher) full() bool {
	return p.confirms && (p.open.Load() >= int64(p.window) || p.next.Load()-p.low.Load() >= uint64(len(p.slots)))
}

// publish sends until the context ends, or count messages when it is not negative. With a schedule, which began at start, it
// sends on time; without one as fast as the window and the socket allow.
func (p *publisher) publish(ctx context.Context, schedule *bench.Schedule, start int64, least time.Duration, count int64) error {
	done := ctx.Done()
	var pacer bench.Pacer
	if schedule != nil {
		pacer = bench.NewPacer(*schedule)
	}
	for k := int64(0); count < 0 || k < count; k++ {
		if ctx.Err() != nil {
			p.giveUp(schedule, start, k)
			break
		}
		if p.mostDisk > 0 && p.waiting.Load() > p.mostDisk {
			return errors.Join(fmt.Errorf("%w: %d bytes wait in the queues", errCapped, p.waiting.Load()), p.push())
		}
		if p.starve != nil {
			p.starve()
		}
		intended := p.clock.now()
		ready := intended
		if schedule != nil {
			send := pacer.Next(time.Duration(intended - start))
			intended = start + int64(send.Intended)
			if intended >= p.span.to.Load() {
				break // all sends of the span are made, also those that are late
			}
			at := start + int64(send.At)
			ready = p.readyFor(intended, at)
			if err := p.waitUntil(done, at, least); err != nil {
				return err
			}
		}
		if err := p.one(done, intended, ready, schedule != nil); err != nil {
			return err
		}
	}
	return p.push()
}

// waitUntil a send is due; what was gathered goes out before.
func (p *publisher) waitUntil(done <-chan struct{}, at int64, least time.Duration) error {
	if at <= p.clock.now() {
		return nil
	}
	if err := p.push(); err != nil {
		return err
	}
	p.clock.sleepUntil(done, at, least)
	return nil
}

// giveUp counts the sends of the span that were never made. They are late through the generator unless it waited for the
// broker.
func (p *publisher) giveUp(schedule *bench.Schedule, start, made int64) {
	if schedule == nil {
		return
	}
	until := schedule.Due(time.Duration(min(p.span.to.Load(), p.clock.now()) - start))
	unmade := until - max(made, schedule.Due(time.Duration(p.span.from.Load()-start)))
	if unmade <= 0 {
		return
	}
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	p.rec.intended += unmade
	if !p.excused {
		p.rec.late += unmade
	}
}

// readyFor is from when on a delay is the generator's own, for a send that was due at intended and may go at at. A schedule that
// is behind is the broker's doing for as long as the broker has held the publisher since it was in time, by a full window
// or a write that blocked, also one of another publisher of the connection; the rest is the generator's. Sends that are
// overdue go one after the other on purpose, so the broker's part is never more than what is left to catch up.
func (p *publisher) readyFor(intended, at int64) int64 {
	held := p.inRoom + p.wire.held.Load()
	recently := held - p.held
	p.held = held
	behind := at - intended
	if behind <= 0 {
		p.lag, p.excused = 0, false
		return intended
	}
	p.lag = min(behind, p.lag+recently)
	p.excused = behind-p.lag <= int64(bench.LateAfter)
	return intended + p.lag
}

// one sends a message that is due.
func (p *publisher) one(done <-chan struct{}, intended, ready int64, paced bool) error {
	if p.full() {
		began := p.clock.now()
		if err := p.push(); err != nil {
			return err
		}
		if !p.waitForRoom(done) {
			p.excused = true
			return nil
		}
		p.waited = p.clock.now()
		p.inRoom += p.waited - p.pushed
		p.rec.add(func(s *bench.Second) { s.WindowWaitSeconds += since(p.waited - began) })
		ready = max(ready, p.waited)
	}
	tag := p.next.Load() + 1
	which := int((tag - 1) % uint64(len(p.messages)))
	now := p.clock.now()
	if p.confirms {
		p.slots[tag&uint64(len(p.slots)-1)] = slot{intended: intended, sent: now}
		p.open.Add(1)
	}
	p.book.published(p.queue, p.id, tag)
	p.next.Store(tag)
	p.shared.sent.Add(1)
	p.waiting.Add(p.bodies[which])
	p.record(intended, ready, now, p.bodies[which], paced)
	if p.gathered == 0 {
		p.gathered = now
	}
	size, err := p.wire.gather(p.messages[which], &stamp{
		run: p.run, publisher: uint16(p.id), queue: uint16(p.queue), sequence: tag, intended: intended, sent: now,
	})
	if err != nil {
		return err
	}
	if size >= flushAt || now-p.gathered > mostHeld {
		return p.push()
	}
	return nil
}

func (p *publisher) record(intended, ready, now, bytes int64, paced bool) {
	r := p.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	r.second.Published++
	r.second.PublishedBytes += bytes
	if !paced {
		return
	}
	if p.span.holds(intended) {
		late := time.Duration(now - max(ready, p.pushed))
		r.pacing.Record(late)
		r.intended++
		if late > bench.LateAfter {
			r.late++
		}
	}
}

// push sends what was gathered; it waits while the broker does not read.
func (p *publisher) push() error {
	began := p.clock.now()
	p.gathered = 0
	ended, err := p.wire.push(p.clock, began)
	p.pushed = ended
	p.rec.add(func(s *bench.Second) { s.WriteWaitSeconds += since(ended - began) })
	return err
}

// waitForRoom is false when the context ends first.
func (p *publisher) waitForRoom(done <-chan struct{}) bool {
	for p.full() {
		select {
		case <-p.wake:
		case <-done:
			return false
		}
	}
	return true
}

// confirmed implements receiver.
func (p *publisher) confirmed(tag uint64, multiple, ack bool) {
	if !p.confirms || tag > p.next.Load() {
		return // not a tag that was used
	}
	now := p.clock.now()
	low := p.low.Load()
	r := p.rec
	r.mu.Lock()
	first := tag
	if multiple {
		first = low + 1
	}
	for t := first; t <= tag; t++ {
		p.settle(r, t, now, ack)
	}
	r.mu.Unlock()
	for low < p.next.Load() && p.slots[(low+1)&uint64(len(p.slots)-1)].settled {
		low++
	}
	p.low.Store(low)
	p.stale = true
}

// settle is called with the recorder's lock held.
func (p *publisher) settle(r *recorder, tag uint64, now int64, ack bool) {
	s := &p.slots[tag&uint64(len(p.slots)-1)]
	if s.settled || tag <= p.low.Load() {
		return
	}
	s.settled = true
	p.open.Add(-1)
	switch {
	case !ack:
		r.second.Nacked++
		return
	case s.returned: // reached no queue, which the broker confirms
		return
	}
	r.second.Confirmed++
	p.book.confirmed(p.queue, p.id, tag)
	if r.endToEnd == nil {
		r.coarse.Record(time.Duration(now - s.intended))
	}
	if p.span.holds(s.intended) {
		r.confirm.Record(time.Duration(now - s.intended))
		r.confirmUncorrected.Record(time.Duration(now - s.sent))
	}
}

// returned implements receiver: the message reached no queue. It comes before the confirm.
func (p *publisher) returned(body []byte) {
	p.waiting.Add(-int64(len(body)))
	if s, ok := readStamp(body, p.run); ok && p.confirms && s.sequence > p.low.Load() && s.sequence <= p.next.Load() {
		p.slots[s.sequence&uint64(len(p.slots)-1)].returned = true
	}
	p.rec.add(func(s *bench.Second) { s.Returned++ })
}

// delivered implements receiver; publishers consume nothing.
func (p *publisher) delivered(uint64, bool, []byte) {}

// quiet implements receiver.
func (p *publisher) quiet() {
	if p.stale {
		p.stale = false
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// add changes the counts of the current second.
func (r *recorder) add(change func(*bench.Second)) {
	r.mu.Lock()
	change(&r.second)
	r.mu.Unlock()
}
