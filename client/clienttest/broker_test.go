package clienttest_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/warren-mq/warren/client/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, b *clienttest.Broker) *amqp.Connection {
	t.Helper()
	c, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func channel(t testing.TB, c *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestPublishConsume(t *testing.T) {
	b := clienttest.Start(t)
	ch := channel(t, dial(t, b))
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	d, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", "q", false, false, amqp.Publishing{Body: []byte("hello"), Headers: amqp.Table{"a": int64(1)}})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Wait() {
		t.Fatal("nacked")
	}
	deliveries, err := ch.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := <-deliveries
	if string(got.Body) != "hello" || got.Headers["a"] != int64(1) {
		t.Fatalf("got %+v", got)
	}
	if err := got.Ack(false); err != nil {
		t.Fatal(err)
	}
	b.WaitFor(t, "ack", func() bool { return b.Counters().Acked == 1 })
	if r, u := b.Depth("q"); r != 0 || u != 0 {
		t.Fatal(r, u)
	}
}

func BenchmarkPublishConfirm(b *testing.B) {
	broker := clienttest.Start(b)
	ch := channel(b, dial(b, broker))
	if err := broker.DeclareQueue("q", clienttest.Table{"x-max-length": 1000}); err != nil {
		b.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 256)
	b.ReportAllocs()
	b.ResetTimer()
	var last *amqp.DeferredConfirmation
	for range b.N {
		d, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp.Publishing{Body: body})
		if err != nil {
			b.Fatal(err)
		}
		last = d
	}
	last.Wait()
}
