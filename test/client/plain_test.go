//go:build broker

package client_test

import (
	"context"
	"flag"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
	"github.com/warren-mq/warren/test/brokers"
)

var plain = flag.Bool("plain", false, "consume by the bare protocol, to tell a fault of the library's consumers from one of its publishers")

// consumePlainly notes what is in a queue until the stage ends, and begins again whenever the connection is lost.
func (s *stage) consumePlainly(queue string) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{cancel: cancel, done: make(chan struct{})}
	s.consumers = append(s.consumers, c)
	go func() {
		defer close(c.done)
		for next := 0; ctx.Err() == nil; next++ {
			s.readPlainly(ctx, s.brokers[next%len(s.brokers)], queue)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
}

func (s *stage) readPlainly(ctx context.Context, b *brokers.Broker, queue string) {
	conn, err := amqp.DialConfig(b.AMQP+"/", amqp.Config{
		Heartbeat: 2 * time.Second, Properties: amqp.Table{"connection_name": s.name + " (consume)"},
	})
	if err != nil {
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil || ch.Qos(200, 0, false) != nil {
		return
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for d := range deliveries {
		s.seePlainly(queue, d)
		if d.Ack(false) != nil {
			return
		}
	}
}

func (s *stage) seePlainly(queue string, d amqp.Delivery) {
	note := func(body []byte) {
		s.ledger.see(sight{body: body, redelivered: d.Redelivered, ordered: queue == s.first})
	}
	body, err := envelope.Decompress(d.ContentEncoding, d.Body, envelope.DefaultMaxBytes)
	if err != nil || d.ContentType != envelope.ContentType {
		note(body)
		return
	}
	inner, err := envelope.Unpack(body, envelope.Limits{})
	if err != nil {
		note(nil)
	}
	for _, m := range inner {
		body, err := envelope.Decompress(m.ContentEncoding, m.Body, envelope.DefaultMaxBytes)
		if err != nil {
			body = nil
		}
		note(body)
	}
}
