package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/client/envelope"
)

// Variants of publishers. All publish persistent messages by the default exchange, mandatory unless the queue does not exist,
// and count a message when its confirm has come.
const (
	rawSingle    = "raw-single"    // amqp091-go, waits for the confirm of each message
	rawPipelined = "raw-pipelined" // amqp091-go, one goroutine and channel, so many unconfirmed at most
	autoAsync    = "auto-async"    // AutoBatch, PublishAsync from one goroutine
	autoCallers  = "auto-callers"  // AutoBatch, Publish from several goroutines
)

// publishers by variant: each connects and returns what publishes until a time and then waits for the last confirm.
var publishers = map[string]func(job) (sender, error){
	rawSingle:    func(j job) (sender, error) { return newRawSender(j, 1) },
	rawPipelined: func(j job) (sender, error) { return newRawSender(j, j.Window) },
	autoAsync:    newAutoSender,
	autoCallers:  newAutoSender,
}

type sender interface {
	// send returns the confirmed messages, and how many the broker had for them.
	send(until time.Time) (messages, sent int, err error)
	Close() error
}

// distinctBodies is how many different bodies are sent in turn.
const distinctBodies = 64

// warmUp is how long a publisher publishes before it is measured.
const warmUp = 200 * time.Millisecond

func publish(j job, connect func(job) (sender, error)) (outcome, error) {
	s, err := connect(j)
	if err != nil {
		return outcome{}, err
	}
	defer s.Close()
	if _, _, err := s.send(time.Now().Add(warmUp)); err != nil {
		return outcome{}, fmt.Errorf("warming up: %w", err)
	}
	var o outcome
	o.Ratio = ratioOf(j)
	m, err := startMeter()
	if err != nil {
		return o, err
	}
	if o.Messages, o.Sent, err = s.send(time.Now().Add(j.For)); err != nil {
		return o, err
	}
	return o, m.stop(&o)
}

// ratioOf is how much smaller a codec makes the bodies.
func ratioOf(j job) float64 {
	codec := codecs[j.Codec]
	if codec == envelope.None {
		return 1
	}
	plain, packed := 0, 0
	for _, b := range bodies(j.Body, j.Size, distinctBodies) {
		compressed, _ := envelope.Compress(codec, b)
		plain, packed = plain+len(b), packed+len(compressed)
	}
	return float64(plain) / float64(packed)
}

var codecs = map[string]warren.Codec{"": envelope.None, "gzip": warren.Gzip, "zstd": warren.Zstd}

// rawSender is what a program writes that uses amqp091-go alone.
type rawSender struct {
	conn   *amqp.Connection
	ch     *amqp.Channel
	j      job
	bodies [][]byte
	open   []*amqp.DeferredConfirmation // a ring of those unconfirmed
	gone   chan amqp.Return
}

func newRawSender(j job, window int) (sender, error) {
	conn, err := amqp.Dial(j.URI)
	if err != nil {
		return nil, err
	}
	s := &rawSender{conn: conn, j: j, bodies: bodies(j.Body, j.Size, distinctBodies), open: make([]*amqp.DeferredConfirmation, window)}
	if s.ch, err = conn.Channel(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.gone = s.ch.NotifyReturn(make(chan amqp.Return, 1))
	return s, s.ch.Confirm(false)
}

func (s *rawSender) send(until time.Time) (messages, sent int, err error) {
	ctx := context.Background()
	n := 0
	for ; time.Now().Before(until); n++ {
		at := n % len(s.open)
		if n >= len(s.open) {
			if err := s.settle(at); err != nil {
				return 0, 0, err
			}
		}
		s.open[at], err = s.ch.PublishWithDeferredConfirmWithContext(ctx, "", s.j.Queue, !s.j.Unroutable, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: s.bodies[n%len(s.bodies)],
		})
		if err != nil {
			return 0, 0, err
		}
		if len(s.open) == 1 {
			if err := s.settle(0); err != nil {
				return 0, 0, err
			}
		}
	}
	for at, open := range s.open {
		if open != nil {
			if err := s.settle(at); err != nil {
				return 0, 0, err
			}
		}
	}
	return n, n, nil
}

func (s *rawSender) settle(at int) error {
	if open := s.open[at]; open != nil && !open.Wait() {
		return errors.New("the broker refused a message")
	}
	s.open[at] = nil
	select {
	case r := <-s.gone:
		return fmt.Errorf("a message came back: %s", r.ReplyText)
	default:
		return nil
	}
}

func (s *rawSender) Close() error { return s.conn.Close() }

// autoSender publishes with this project's library.
type autoSender struct {
	router    *warren.Router
	publisher *warren.Publisher
	j         job
	bodies    [][]byte

	messages, sent atomic.Int64
	failed         atomic.Pointer[error]
}

func newRouter(uri string, hooks warren.Hooks) (*warren.Router, error) {
	return warren.FromEnv(warren.Environ([]string{"RMQ_BENCH_URI=" + uri}), warren.Name("bench-client"), warren.WithHooks(hooks))
}

// autoBuffer is what PublishAsync may be ahead of the confirms, in bytes: a quarter of the default, or most of what is measured
// would be how long a slow queue takes for the last 32 MiB.
const autoBuffer = 8 << 20

func newAutoSender(j job) (sender, error) {
	s := &autoSender{j: j, bodies: bodies(j.Body, j.Size, distinctBodies)}
	var err error
	s.router, err = newRouter(j.URI, warren.Hooks{Published: func(e warren.PublishEvent) {
		if e.Err != nil {
			s.failed.Store(&e.Err)
			return
		}
		s.messages.Add(int64(e.Messages))
		s.sent.Add(int64(e.Sent))
	}})
	if err != nil {
		return nil, err
	}
	options := []warren.PublisherOption{
		warren.AutoBatch(), warren.ConfirmWindow(j.Window), warren.BufferBytes(autoBuffer), warren.ConnectNow(j.Queue),
	}
	if j.Pack {
		options = append(options, warren.Pack(j.Queue))
	}
	if j.Unroutable {
		options = append(options, warren.AllowUnroutable())
	}
	if codec := codecs[j.Codec]; codec != envelope.None {
		options = append(options, warren.Compress(codec, 1<<10))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s.publisher, err = s.router.Publisher(ctx, options...); err != nil {
		return nil, errors.Join(err, s.router.Close(ctx))
	}
	return s, nil
}

func (s *autoSender) send(until time.Time) (messages, sent int, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(time.Minute))
	defer cancel()
	before, sentBefore := s.messages.Load(), s.sent.Load()
	var accepted int64
	if s.j.Variant == autoCallers {
		accepted, err = s.callers(ctx, until)
	} else {
		accepted, err = s.async(ctx, until)
	}
	if err == nil {
		err = s.publisher.Flush(ctx)
	}
	if failure := s.failed.Load(); failure != nil {
		err = errors.Join(err, *failure)
	}
	if err != nil {
		return 0, 0, err
	}
	confirmed := s.messages.Load() - before
	if confirmed != accepted {
		return 0, 0, fmt.Errorf("%d messages were accepted and %d confirmed", accepted, confirmed)
	}
	return int(confirmed), int(s.sent.Load() - sentBefore), nil
}

func (s *autoSender) async(ctx context.Context, until time.Time) (n int64, err error) {
	for ; time.Now().Before(until); n++ {
		if _, err := s.publisher.PublishAsync(ctx, warren.Message{Queue: s.j.Queue, Body: s.bodies[n%int64(len(s.bodies))]}); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *autoSender) callers(ctx context.Context, until time.Time) (int64, error) {
	var total atomic.Int64
	errs := make([]error, s.j.Callers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for n := i; time.Now().Before(until); n++ {
				errs[i] = s.publisher.Publish(ctx, warren.Message{Queue: s.j.Queue, Body: s.bodies[n%len(s.bodies)]})
				if errs[i] != nil {
					return
				}
				total.Add(1)
			}
		})
	}
	group.Wait()
	return total.Load(), errors.Join(errs...)
}

func (s *autoSender) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.router.Close(ctx)
}
