package warren

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
)

func TestNoDeadLetterIsLostToTheDeliveryLimit(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, clienttest.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(5)}); err != nil {
		t.Fatal(err)
	}
	if err := b.DeclareQueue(queue+".dead-letters", clienttest.Table{"x-max-length": int64(0), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 1)
	c := consume(t, newRouter(t, b), func(_ context.Context, b *Batch) error {
		for _, m := range b.Messages() {
			m.DeadLetter(errBroken)
		}
		return nil
	}, MaxAttempts(3), RetryDelay(time.Millisecond))
	b.WaitFor(t, "more tries than the limit", func() bool { return b.Counters().Delivered > 10 })
	c.drain()
	if ready, unacked := b.Depth(queue); ready+unacked != 1 {
		t.Errorf("the message is gone: %d, %d", ready, unacked)
	}
}

func TestNothingStaysConnectedWhereNobodyConsumes(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 1)
	c := consume(t, newRouter(t, b), func(_ context.Context, b *Batch) error {
		b.Messages()[0].DeadLetter(errBroken)
		return nil
	})
	empty(t, b, queue)
	c.drain()
	b.WaitFor(t, "no connection", func() bool { return len(b.Connections()) == 0 })
}

func TestAShareIsNeverWithoutBound(t *testing.T) {
	c := &Consumer{cfg: consumerConfig{prefetch: 2}, intakes: map[string]*intake{"draining": nil, "old": nil, "new": nil}}
	if n := c.share(); n < 1 {
		t.Errorf("a prefetch of %d is none to a broker", n)
	}
}

func TestAHandlerMayChangeHeaders(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	put(t, b, "x", clienttest.Table{"mine": "1"})
	c := consume(t, newRouter(t, b), func(_ context.Context, b *Batch) error {
		m := b.Messages()[0]
		m.Headers["mine"] = "2"
		m.Headers["other"] = struct{}{} // not for AMQP
		m.DeadLetter(errBroken)
		return nil
	})
	empty(t, b, queue)
	c.drain()
	q, _ := b.Queue(queue + ".dead-letters")
	if len(q.Ready) != 1 || q.Ready[0].Properties.Headers["mine"] != "1" {
		t.Errorf("got %v", q.Ready)
	}
}

func TestDeadLettersMayBeLargerThanTheBuffer(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	r := newRouter(t, b)
	p, err := r.newPublisher([]PublisherOption{BufferBytes(1000), BatchMaxBytes(1000)})
	if err != nil {
		t.Fatal(err)
	}
	r.settler = p
	put(t, b, strings.Repeat("x", 5000), nil)
	c := consume(t, r, func(_ context.Context, b *Batch) error {
		b.Messages()[0].DeadLetter(errBroken)
		return nil
	})
	empty(t, b, queue)
	c.drain()
	if got := bodies(b, queue+".dead-letters"); len(got) != 1 {
		t.Errorf("got %d", len(got))
	}
	nothingCharged(t, p)
}

func TestANameOfADeadLetterQueueThatIsTooLongIsRefused(t *testing.T) {
	b := clienttest.Start(t)
	c, err := newRouter(t, b).NewConsumer("worker."+strings.Repeat("x", 245), handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(soon(t)); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
