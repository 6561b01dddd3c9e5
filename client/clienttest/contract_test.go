package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
)

// The contract: what a client relies on, the same for the fake and for real brokers of both lines. Real ones join with the
// build tag broker.

// subject is a broker that is held to the contract.
type subject struct {
	url     string
	old     bool                                // the line 3.10
	block   func(t *testing.T)                  // raise a memory alarm
	unblock func(t *testing.T)                  // end it
	timeout func(t *testing.T, d time.Duration) // consumer timeout, for channels that are opened after it; ends with the test
	closeIt func(t *testing.T)                  // close all connections as an operator does, with the reason "maintenance"
}

var subjects = []struct {
	name  string
	start func(t *testing.T) *subject
}{
	{"fake-3.10.8", func(t *testing.T) *subject { return fake(t, "3.10.8") }},
	{"fake-4.3.6", func(t *testing.T) *subject { return fake(t, "4.3.6") }},
}

func fake(t *testing.T, version string) *subject {
	b := clienttest.Start(t, clienttest.Options{Version: version})
	return &subject{
		url: b.URL(), old: strings.HasPrefix(version, "3."),
		block:   func(*testing.T) { b.Block("") },
		unblock: func(*testing.T) { b.Unblock() },
		timeout: func(t *testing.T, d time.Duration) {
			b.SetConsumerTimeout(d)
			t.Cleanup(func() { b.SetConsumerTimeout(0) })
		},
		closeIt: func(*testing.T) { b.CloseConnections(320, "CONNECTION_FORCED - maintenance") },
	}
}

func TestContract(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			at := s.start(t)
			for _, group := range [][]clause{confirmClauses, consumeClauses, settleClauses, limitClauses, errorClauses, routeClauses, connectionClauses} {
				for _, c := range group {
					t.Run(c.name, func(t *testing.T) { c.check(newRig(t, at)) })
				}
			}
		})
	}
}

type clause struct {
	name  string
	check func(r *rig)
}

// patience is how long anything may take on a broker that is busy.
const patience = 20 * time.Second

// rig is a connection with a channel, and names that nobody else uses.
type rig struct {
	*testing.T
	subject *subject
	conn    *amqp.Connection
	ch      *amqp.Channel
	orders  int // calls of order
}

func newRig(t *testing.T, s *subject) *rig {
	r := &rig{T: t, subject: s}
	r.conn = r.dial()
	r.ch = r.channel()
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) dial() *amqp.Connection {
	r.Helper()
	c, err := amqp.Dial(r.subject.url)
	r.must(err)
	r.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) channel() *amqp.Channel {
	r.Helper()
	ch, err := r.conn.Channel()
	r.must(err)
	return ch
}

func (r *rig) name(suffix string) string {
	return "contract." + strings.NewReplacer("/", ".", " ", "-").Replace(r.Name()) + "." + suffix
}

// queue declares a durable queue that goes with the test.
func (r *rig) queue(suffix, kind string, args amqp.Table) string {
	r.Helper()
	with := amqp.Table{"x-queue-type": kind}
	for k, v := range args {
		with[k] = v
	}
	q, err := r.ch.QueueDeclare(r.name(suffix), true, false, false, false, with)
	r.must(err)
	r.forget(func(ch *amqp.Channel) { _, _ = ch.QueueDelete(q.Name, false, false, false) })
	return q.Name
}

// forget cleans up over a connection of its own, for that of the test may be gone.
func (r *rig) forget(do func(ch *amqp.Channel)) {
	url := r.subject.url
	r.Cleanup(func() {
		c, err := amqp.Dial(url)
		if err != nil {
			r.Errorf("cleaning up: %v", err)
			return
		}
		if ch, err := c.Channel(); err == nil {
			do(ch)
		}
		_ = c.Close()
	})
}

// publish waits for the confirms, so that the messages are in their queue. It tells which were acked.
func (r *rig) publish(queue string, bodies ...string) []bool {
	r.Helper()
	ch := r.channel()
	defer ch.Close()
	r.must(ch.Confirm(false))
	var acked []bool
	for _, body := range bodies {
		d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: 2, Body: []byte(body)})
		r.must(err)
		acked = append(acked, r.confirmed(d))
	}
	return acked
}

func (r *rig) confirmed(d *amqp.DeferredConfirmation) bool {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	ok, err := d.WaitContext(ctx)
	r.must(err)
	return ok
}

func (r *rig) consume(ch *amqp.Channel, queue, tag string) <-chan amqp.Delivery {
	r.Helper()
	deliveries, err := ch.Consume(queue, tag, false, false, false, false, nil)
	r.must(err)
	return deliveries
}

func receive[V any](r *rig, from <-chan V) V {
	r.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			r.Fatalf("the channel of %T is closed", v)
		}
		return v
	case <-time.After(patience):
		var v V
		r.Fatalf("no %T came", v)
		return v
	}
}

func (r *rig) receive(n int, from <-chan amqp.Delivery) []amqp.Delivery {
	r.Helper()
	var all []amqp.Delivery
	for range n {
		all = append(all, receive(r, from))
	}
	return all
}

func bodies(deliveries []amqp.Delivery) string {
	var all []string
	for _, d := range deliveries {
		all = append(all, string(d.Body))
	}
	return strings.Join(all, " ")
}

// awaitReady asks the broker until so many messages are ready.
func (r *rig) awaitReady(queue string, want int) {
	r.Helper()
	ch := r.channel()
	defer ch.Close()
	got := -1
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		r.must(err)
		if got = q.Messages; got == want {
			return
		}
	}
	r.Fatalf("%d messages are ready, want %d", got, want)
}

// drain gets the next n messages in order and settles them.
func (r *rig) drain(queue string, n int) string {
	r.Helper()
	r.awaitReady(queue, n)
	ch := r.channel()
	defer ch.Close()
	all := r.receive(n, r.consume(ch, queue, ""))
	r.must(all[n-1].Ack(true))
	r.must(ch.Qos(1, 0, false)) // an answer tells that the acks are in
	return bodies(all)
}

// refused runs do on a channel of its own and returns the error that ends the channel or the connection.
func (r *rig) refused(do func(ch *amqp.Channel) error) *amqp.Error {
	r.Helper()
	c := r.dial()
	defer c.Close()
	ch, err := c.Channel()
	r.must(err)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	err = do(ch)
	var refusal *amqp.Error
	if err != nil {
		if !errors.As(err, &refusal) {
			r.Fatal(err)
		}
		return refusal
	}
	return receive(r, closed)
}

// wantError compares the code and the text.
func (r *rig) wantError(got *amqp.Error, code int, text string) {
	r.Helper()
	if got == nil || got.Code != code || !strings.Contains(got.Reason, text) {
		r.Errorf("got %v, want %d with %q", got, code, text)
	}
}

func (r *rig) want(what string, got, want any) {
	r.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		r.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// line chooses by the line of the subject.
func line[V any](r *rig, old, current V) V {
	if r.subject.old {
		return old
	}
	return current
}
