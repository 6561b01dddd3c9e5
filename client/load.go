package warren

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
)

var (
	errNoReturn = errors.New("the handler ended its goroutine")
	errTooSlow  = errors.New("the handler did not return in time")
)

// parcel is an AMQP message that waits to be handled.
type parcel struct {
	d        amqp.Delivery
	at       time.Time
	attempts int
	messages int  // in it, as it says itself
	alone    bool // not to be handled with others
}

// unit is an AMQP message that is being handled.
type unit struct {
	parcel
	inner   []*Delivery // itself, or what was packed in it
	packed  []Message   // what was packed in it, as it was published
	split   bool        // each of inner is to come by itself
	started bool        // the handler got it
	fate    fate
}

// load is what one worker handles: AMQP messages with tags that follow one another, and one place in the order of
// acknowledgements.
type load struct {
	e      *epoch
	number uint64
	units  []*unit
}

// original is message number k of inner as it was published, not decompressed: what is dead-lettered or repeated.
func (u *unit) original(k int) Message {
	if u.packed != nil {
		return u.packed[k]
	}
	return message(&u.d)
}

func (l *load) last() uint64 { return l.units[len(l.units)-1].d.DeliveryTag }

// returned tells whether all of it is given back.
func (l *load) returned() bool {
	return !slices.ContainsFunc(l.units, func(u *unit) bool { return u.fate != fateReturn })
}

func (l *load) settle() {
	for i := range l.units {
		l.units[i].fate = fateSettled
	}
}

// outcome of one message.
type outcome struct {
	verdict verdict
	reason  error
}

// work handles a load and sees to it that each of its messages gets its fate.
func (l *load) work(ticket chan struct{}) {
	j := &job{e: l.e, load: l, messages: make([]*Delivery, 0, len(l.units))}
	// One piece of memory for all that came by itself: whoever keeps a delivery keeps its batch anyway.
	whole, inner := make([]Delivery, len(l.units)), make([]*Delivery, len(l.units))
	for i, u := range l.units {
		inner[i] = &whole[i]
		u.inner = inner[i : i+1 : i+1]
		l.open(u)
		for _, d := range u.inner {
			if d.verdict == undecided {
				d.handed, u.started = true, true
				j.messages = append(j.messages, d)
			}
		}
	}
	j.out = make([]outcome, len(j.messages))
	j.watch()
	defer j.end(errNoReturn, retried) // also when the handler ends its goroutine
	j.run(ticket)
}

// open makes deliveries of an AMQP message. What cannot be opened, or was delivered too often, is dead before it is handled.
func (l *load) open(u *unit) {
	c := l.e.in.c
	whole := u.inner[0]
	whole.Message, whole.Cluster = message(&u.d).private(), l.e.in.cluster.Name
	whole.Redelivered, whole.Attempts = u.d.Redelivered, u.attempts
	if u.attempts >= c.cfg.maxAttempts {
		whole.verdict, whole.reason = deadLettered, fmt.Errorf("%w: %d times", ErrTooManyAttempts, u.attempts)
		return
	}
	if !isPack(&u.d) {
		c.decompress(whole)
		return
	}
	body, err := envelope.Decompress(whole.ContentEncoding, whole.Body, c.cfg.maxUnpacked)
	var inner []envelope.Message
	if err == nil {
		inner, err = envelope.Unpack(body, envelope.Limits{MaxBytes: c.cfg.maxUnpacked})
	}
	if err != nil {
		whole.verdict, whole.reason = deadLettered, fmt.Errorf("pack: %w", err)
		return
	}
	u.inner, u.packed = make([]*Delivery, len(inner)), make([]Message, len(inner))
	deliveries := make([]Delivery, len(inner))
	for i := range inner {
		u.packed[i] = unpacked(&whole.Message, &inner[i])
		d := &deliveries[i]
		d.Message, d.Cluster, d.Redelivered = u.packed[i].private(), whole.Cluster, whole.Redelivered
		d.Attempts = u.attempts + int(max(number(d.Headers[headerAttempts]), 0))
		u.inner[i] = d
		c.decompress(d)
		if u.attempts >= c.cfg.quarantine && len(inner) > 1 && d.verdict == undecided {
			// Which of them it is that fails, or takes the process down, shows only when each comes by itself.
			u.split, d.verdict = true, givenBack
		}
	}
}

func (c *Consumer) decompress(d *Delivery) {
	if c.cfg.keepEncoding ||
		!strings.EqualFold(d.ContentEncoding, envelope.Gzip.String()) && !strings.EqualFold(d.ContentEncoding, envelope.Zstd.String()) {
		return
	}
	body, err := envelope.Decompress(d.ContentEncoding, d.Body, c.cfg.maxUnpacked)
	if err != nil {
		d.verdict, d.reason = deadLettered, fmt.Errorf("body: %w", err)
		return
	}
	d.Body, d.ContentEncoding = body, ""
}

// job is the run of a handler over the messages of a load, in batches.
type job struct {
	e        *epoch
	load     *load
	messages []*Delivery
	timer    *time.Timer // ends the wait for the handler
	closes   func() bool // takes back the end with the consumer
	ended    atomic.Bool

	mu   sync.Mutex
	over bool // what comes is too late
	out  []outcome
}

// run calls the handler. It frees the worker when that has returned, however long it takes.
func (j *job) run(ticket chan struct{}) {
	defer j.e.in.c.gate.leave(ticket)
	ctx, cancel := context.WithTimeout(j.e.ctx, j.e.in.c.cfg.handlerTimeout)
	defer cancel()
	for from := 0; from < len(j.messages); from += j.e.in.c.cfg.size {
		to := min(from+j.e.in.c.cfg.size, len(j.messages))
		if from > 0 && ctx.Err() != nil {
			return // of a large pack only some fitted into the time
		}
		j.batch(ctx, from, to)
	}
}

// watch ends the job without its handler when that takes too long, or the consumer waits for it no longer.
func (j *job) watch() {
	c := j.e.in.c
	j.mu.Lock()
	defer j.mu.Unlock()
	j.timer = time.AfterFunc(c.cfg.handlerTimeout+c.cfg.grace(), func() {
		j.end(fmt.Errorf("%w: HandlerTimeout is %s", errTooSlow, c.cfg.handlerTimeout), retried)
	})
	j.closes = context.AfterFunc(c.abandoned, func() { j.end(errors.New("the consumer was closed"), givenBack) })
}

// end hands the load in, once: by the worker when the handler has returned, or earlier by what watches it.
func (j *job) end(err error, v verdict) {
	if !j.ended.CompareAndSwap(false, true) {
		return
	}
	defer j.e.in.c.wg.Done()
	j.mu.Lock()
	j.timer.Stop()
	j.closes()
	j.mu.Unlock()
	j.abandon(err, v)
	j.load.conclude(j.out)
	j.e.finish(j.load)
}

// abandon decides on all messages that the handler has no result for. What it says later does not count.
func (j *job) abandon(err error, v verdict) {
	j.mu.Lock()
	j.over = true
	var rest []outcome
	for i, o := range j.out {
		if o.verdict == undecided {
			j.out[i] = j.e.in.c.judge(outcome{v, err}, j.messages[i].Attempts, nil)
			rest = append(rest, j.out[i])
		}
	}
	j.mu.Unlock()
	if len(rest) > 0 {
		took := j.e.in.c.cfg.handlerTimeout
		j.e.in.c.handled(j.e.in, rest, HandleEvent{Err: err, Took: took, Latency: took})
	}
}

// result of one call of the handler.
type result struct {
	err           error
	stack         []byte // of a panic
	took, latency time.Duration
}

// batch handles some of the messages; after a panic those without a verdict again, one by one.
func (j *job) batch(ctx context.Context, from, to int) {
	c := j.e.in.c
	messages := j.messages[from:to]
	r := j.call(ctx, messages)
	out := make([]outcome, len(messages))
	var second []int
	for i, d := range messages {
		switch {
		case r.stack == nil || d.verdict != undecided:
			out[i] = c.judge(d.outcome(), d.Attempts, r.err)
		case len(messages) == 1:
			out[i] = outcome{deadLettered, r.err}
		default:
			second = append(second, i)
		}
	}
	if len(second) > 0 {
		j.single(messages, second, out)
	}
	event := HandleEvent{Err: r.err, Took: r.took, Latency: r.latency}
	if r.stack != nil {
		event.Err = fmt.Errorf("%w\n%s", r.err, r.stack)
	}
	j.mu.Lock()
	over := j.over
	if !over {
		copy(j.out[from:to], out)
	}
	j.mu.Unlock()
	if !over {
		c.handled(j.e.in, out, event)
	}
}

// single finds the message that makes the handler panic: it does so alone.
func (j *job) single(messages []*Delivery, which []int, out []outcome) {
	c := j.e.in.c
	j.timer.Reset(c.cfg.handlerTimeout + c.cfg.grace()) // in a time of its own
	ctx, cancel := context.WithTimeout(j.e.ctx, c.cfg.handlerTimeout)
	defer cancel()
	for _, i := range which {
		d := messages[i].fresh()
		if err := ctx.Err(); err != nil {
			out[i] = c.judge(outcome{}, d.Attempts, err)
			continue
		}
		r := j.call(ctx, []*Delivery{d})
		if out[i] = c.judge(d.outcome(), d.Attempts, r.err); r.stack != nil && d.verdict == undecided {
			out[i] = outcome{deadLettered, r.err}
		}
	}
}

// call the handler with a batch, and take back from it the right to decide.
func (j *job) call(ctx context.Context, messages []*Delivery) (r result) {
	c := j.e.in.c
	b := newBatch(c.queue, j.e.in.cluster.Name, slices.Clone(messages))
	var finished []func(error)
	c.r.hook(func(h *Hooks) {
		if h.StartBatch == nil {
			return
		}
		next, done := h.StartBatch(ctx, b)
		ctx = next
		if done != nil {
			finished = append(finished, done)
		}
	})
	began := time.Now()
	r.err = errNoReturn
	defer func() {
		if p := recover(); p != nil {
			r.err, r.stack = fmt.Errorf("panic: %v", p), debug.Stack()
		}
		r.took = time.Since(began)
		if r.latency = b.end(); r.latency == 0 {
			r.latency = r.took
		}
		for _, f := range finished {
			f(r.err)
		}
	}()
	r.err = c.h(ctx, b)
	return r
}

// judge is what becomes of a message that the handler decided on as o says, or not at all, when it has returned err.
func (c *Consumer) judge(o outcome, attempts int, err error) outcome {
	if o.verdict == undecided {
		switch {
		case err == nil:
			o.verdict = acked
		case c.soft.Err() != nil && errors.Is(err, context.Canceled):
			o.verdict = givenBack // it was the consumer that ended, not the message that failed
		default:
			o = outcome{retried, err}
		}
	}
	if o.verdict == retried && attempts+1 >= c.cfg.maxAttempts {
		if o.reason == nil {
			o.reason = errors.New("it was to be tried again")
		}
		o = outcome{deadLettered, fmt.Errorf("%w: %d times; the last: %w", ErrTooManyAttempts, attempts+1, o.reason)}
	}
	return o
}

// handled tells the hooks, and back-pressure, of a batch.
func (c *Consumer) handled(in *intake, out []outcome, e HandleEvent) {
	e.Queue, e.Cluster = c.queue, in.cluster.Name
	for _, o := range out {
		switch o.verdict {
		case acked:
			e.Acked++
		case retried:
			e.Retried++
		case deadLettered:
			e.DeadLettered++
		case givenBack:
			e.GivenBack++
		}
	}
	c.observe(e.Latency)
	c.r.hook(func(h *Hooks) {
		if h.Handled != nil {
			h.Handled(e)
		}
	})
}
