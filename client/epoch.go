package warren

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/ring"
)

var errCancelled = errors.New("the broker cancelled the consumer: its queue was deleted, or has a new leader, or messages were not " +
	"acknowledged in time")

// calm is how long one suspect does not make the intake careful again after there was only one.
const calm = time.Minute

// ending is how an epoch comes to its end.
type ending uint8

const (
	goesOn    ending = iota
	finishes         // what was received is handled
	givesBack        // what was received and is not being handled is given back
)

// epoch is the life of one channel on which a queue is consumed. One goroutine receives and makes loads, workers handle them, a
// third tells the broker. When the channel is lost all of their results are void: tags begin anew on the next one.
type epoch struct {
	in        *intake
	ch        *link.Channel
	committer *committer
	prefetch  int
	careful   bool
	ctx       context.Context // of handlers
	cancel    context.CancelFunc

	// The receiving goroutine alone touches these.
	tag        string
	deliveries <-chan amqp.Delivery
	cancels    chan string
	stop       <-chan struct{}
	pending    []*unit
	chunk      []unit // where the next go
	messages   int    // in pending
	alone      int    // of pending, those that are handled alone
	ticket     chan struct{}
	ending     ending
	next       ending    // what is to come
	subscribes time.Time // when, after the broker cancelled
	armed      time.Time

	wake      chan struct{} // loads have finished
	idle      chan struct{} // everything that was begun has been told
	hurry     chan struct{} // closed when nothing is to be held any longer
	closed    chan struct{} // closed when the committer may end
	committed chan struct{} // closed when it has
	unacked   atomic.Int64
	buffered  atomic.Int64

	mu       sync.Mutex
	ledger   *ring.Ring[*load]
	finished []*load
	owed     int // AMQP messages whose fate is known and not told
	over     bool
}

func newEpoch(in *intake, ch *link.Channel, prefetch int, careful bool) *epoch {
	e := &epoch{
		in: in, ch: ch, prefetch: prefetch, careful: careful, stop: in.ctx.Done(),
		wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), hurry: make(chan struct{}), closed: make(chan struct{}),
		committed: make(chan struct{}), cancels: ch.NotifyCancel(make(chan string, 16)),
		// Twice: after a cancel by the broker both what it gave before and what it gives now.
		ledger: ring.New[*load](2*prefetch + 1),
	}
	e.ctx, e.cancel = context.WithCancel(in.c.soft)
	e.committer = &committer{e: e, every: max(prefetch/16, 1)}
	return e
}

// serve consumes until the channel is lost, with its error, or the epoch has come to its end, with nil.
func (e *epoch) serve() error {
	go e.commit()
	defer func() {
		e.cancel()
		e.withdraw()
		close(e.closed)
		<-e.committed
		_ = e.end(givesBack) // no retry is held any longer
	}()
	if err := e.subscribe(); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		done, err := e.advance(time.Now())
		if done || err != nil {
			return err
		}
		e.arm(timer)
		select {
		case d, ok := <-e.deliveries:
			if ok {
				e.receive(&d)
			} else {
				e.unsubscribed()
			}
		case <-e.ticket:
			e.dispatch()
		case <-timer.C:
			e.armed = time.Time{}
		case <-e.idle:
		case <-e.in.changed:
		case <-e.stop:
			e.stop, e.next = nil, givesBack
		case <-e.ch.Lost():
			return e.ch.Err()
		}
	}
}

// subscribe asks for messages. Prefetch holds for what is subscribed after it.
func (e *epoch) subscribe() error {
	err := e.in.c.rpc(e.ch, func() error {
		if err := e.ch.Qos(e.prefetch, 0, false); err != nil {
			return err
		}
		e.tag = "warren-" + newID()
		deliveries, err := e.ch.Consume(e.in.c.queue, e.tag, false, false, false, false, e.in.c.cfg.args)
		e.deliveries = deliveries
		return err
	})
	if err != nil {
		e.deliveries = nil
		return err
	}
	e.in.subscribed(e)
	return nil
}

// unsubscribed follows the end of deliveries: the epoch has ended it, or the broker, or the channel is being lost.
func (e *epoch) unsubscribed() {
	e.deliveries = nil
	if e.ending != goesOn {
		return
	}
	select {
	case _, ok := <-e.cancels:
		if ok {
			e.in.c.failed(e.in, errCancelled)
			e.subscribes = time.Now().Add(50*time.Millisecond + rand.N(450*time.Millisecond)) //nolint:gosec // jitter is no secret
		}
	case <-e.ch.Lost():
	}
}

// advance does what is due. It is done when the epoch has come to its end.
func (e *epoch) advance(now time.Time) (done bool, err error) {
	if e.next == goesOn && e.in.retuned() {
		e.next = finishes
	}
	if e.next > e.ending {
		if err := e.end(e.next); err != nil {
			return true, err
		}
	}
	if e.overdue(now) {
		e.subscribes = time.Time{}
		if err := e.subscribe(); err != nil {
			return true, err
		}
	}
	if e.ending != givesBack {
		e.age(now)
		e.wish(now)
	}
	if e.ending == goesOn || e.deliveries != nil || !e.quiet() {
		return false, nil
	}
	if len(e.pending) > 0 {
		if e.ending == givesBack {
			e.giveBack(len(e.pending))
		}
		return false, nil
	}
	return true, nil
}

// overdue tells whether to subscribe anew after the broker cancelled: a while later, and with room for all it may then give.
func (e *epoch) overdue(now time.Time) bool {
	return e.ending == goesOn && !e.subscribes.IsZero() && !now.Before(e.subscribes) && e.unacked.Load() <= int64(e.prefetch)
}

// end begins the end: nothing more is asked for, and nothing is held any longer.
func (e *epoch) end(how ending) error {
	first := e.ending == goesOn
	e.ending = max(e.ending, how)
	e.next = e.ending
	if how == givesBack {
		e.withdraw()
	}
	if !first {
		return nil
	}
	close(e.hurry)
	if e.deliveries == nil || e.lost() {
		return nil
	}
	return e.in.c.rpc(e.ch, func() error { return e.ch.Cancel(e.tag, false) })
}

// receive takes in what is there.
func (e *epoch) receive(d *amqp.Delivery) {
	var ok bool
	for range e.in.c.cfg.size {
		e.add(d)
		select {
		case *d, ok = <-e.deliveries: // deliveries are large: they are copied no more than once
			if !ok {
				e.unsubscribed()
				return
			}
		default:
			return
		}
	}
	e.add(d)
}

func (e *epoch) add(d *amqp.Delivery) {
	cfg, now := &e.in.c.cfg, time.Now()
	here := e.in.c.tries.of(d)
	if len(e.chunk) == cap(e.chunk) {
		e.chunk = make([]unit, 0, min(cfg.size, maxChunk))
	}
	e.chunk = e.chunk[:len(e.chunk)+1]
	p := &e.chunk[len(e.chunk)-1]
	p.d, p.at, p.attempts, p.messages = *d, now, attempts(d, here), 1
	if isPack(d) {
		p.messages = int(min(max(number(d.Headers[envelope.HeaderCount]), 1), int64(cfg.size)))
	}
	suspect := p.attempts >= cfg.quarantine
	p.alone = suspect || p.attempts >= cfg.maxAttempts
	e.pending = append(e.pending, p)
	e.messages += p.messages
	if p.alone {
		e.alone++
	}
	e.unacked.Add(1)
	e.buffered.Add(1)
	switch {
	case e.careful && !suspect:
		// The suspects are behind us.
		e.in.careful, e.in.calmUntil = false, now.Add(calm)
		e.next = max(e.next, finishes)
	case !e.careful && suspect && p.attempts-here >= cfg.quarantine && e.ending == goesOn && now.After(e.in.calmUntil):
		// It was not this process that failed with it: it, or a neighbour, may have taken another one down.
		e.in.careful = true
		e.next = givesBack
	}
}

// ripe tells whether a load is to be handled.
func (e *epoch) ripe(now time.Time) bool {
	if len(e.pending) == 0 {
		return false
	}
	return e.messages >= e.in.c.cfg.size || e.alone > 0 || e.ending != goesOn || !now.Before(e.pending[0].at.Add(e.in.c.cfg.wait))
}

// wish asks for a worker when there is work for one.
func (e *epoch) wish(now time.Time) {
	switch ripe := e.ripe(now); {
	case ripe && e.ticket == nil:
		e.ticket = e.in.c.gate.ask()
	case !ripe && e.ticket != nil:
		e.withdraw()
	}
}

func (e *epoch) withdraw() {
	if e.ticket != nil {
		e.in.c.gate.leave(e.ticket)
		e.ticket = nil
	}
}

// dispatch gives a worker its load.
func (e *epoch) dispatch() {
	n, messages := 1, e.pending[0].messages
	for !e.pending[0].alone && n < len(e.pending) && !e.pending[n].alone && messages+e.pending[n].messages <= e.in.c.cfg.size {
		messages += e.pending[n].messages
		n++
	}
	l := e.take(n)
	if !e.place(l) {
		e.ch.Drop()
		return
	}
	ticket := e.ticket
	e.ticket = nil
	e.in.c.wg.Add(1)
	go l.work(ticket)
}

// maxChunk is how many messages are put into one piece of memory: what is kept of one of them keeps all.
const maxChunk = 100

// take the first n of pending.
func (e *epoch) take(n int) *load {
	l := &load{e: e, units: slices.Clone(e.pending[:n])}
	for _, p := range l.units {
		e.messages -= p.messages
		if p.alone {
			e.alone--
		}
	}
	clear(e.pending[:n])
	if e.pending = e.pending[n:]; len(e.pending) == 0 {
		e.pending = nil
	}
	e.buffered.Add(-int64(n))
	return l
}

// giveBack returns the first n of pending to the queue.
func (e *epoch) giveBack(n int) {
	l := e.take(n)
	for i := range l.units {
		l.units[i].fate = fateReturn
	}
	if !e.place(l) {
		e.ch.Drop()
		return
	}
	e.finish(l)
}

// age gives back what has waited for a worker for so long that it might not be settled before the broker takes it back.
func (e *epoch) age(now time.Time) {
	n := 0
	for n < len(e.pending) && now.Sub(e.pending[n].at) >= e.in.c.cfg.patience() {
		n++
	}
	if n > 0 {
		e.giveBack(n)
	}
}

// arm sets the timer to the next thing that is due.
func (e *epoch) arm(timer *time.Timer) {
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(e.pending) > 0 && e.ending != givesBack {
		sooner(e.pending[0].at.Add(e.in.c.cfg.patience()))
		if e.ticket == nil {
			sooner(e.pending[0].at.Add(e.in.c.cfg.wait))
		}
	}
	if !e.subscribes.IsZero() && e.unacked.Load() <= int64(e.prefetch) {
		sooner(e.subscribes)
	}
	if at.Equal(e.armed) {
		return
	}
	e.armed = at
	if at.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(at))
}

func (e *epoch) lost() bool {
	select {
	case <-e.ch.Lost():
		return true
	default:
		return false
	}
}

// pause holds what is to be tried again.
func (e *epoch) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.hurry:
	case <-e.ch.Lost():
	}
}

// place gives a load its place in the order of acknowledgements. It is false when the broker gave more than it was asked for.
func (e *epoch) place(l *load) (ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.number, ok = e.ledger.Push(l)
	return ok
}

// quiet tells whether everything that was begun has been told.
func (e *epoch) quiet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Len() == 0 && e.owed == 0
}
