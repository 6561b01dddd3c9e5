//go:build broker

package client_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	warren "github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/test/brokers"
)

// full are the arguments of a queue that refuses what is beyond n messages.
func full(n int) amqp.Table {
	return amqp.Table{"x-max-length": int64(n), "x-overflow": "reject-publish"}
}

// A queue that is full refuses messages; those that it refused, and no others, are ErrNacked.
func TestFullQueueRefuses(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		small := s.name + ".small"
		s.admin().declare(t, small, kind, full(100))
		s.consumeBoth()
		ways := s.everyWay()
		for _, w := range ways[:3] {
			w.queue = small
			ways = append(ways, w)
		}
		packed := s.publisher(warren.AutoBatch(), warren.Pack(small))
		ways = append(ways, way{packed, small, async, 100, "packed, async"}, way{packed, s.first, async, 100, "packed, async"})
		s.publish(share(), ways...).finish()
		sum := s.ledger.sums()
		if sum.said[nacked] == 0 || sum.said[confirmed]+sum.said[nacked] != sum.accepted {
			t.Errorf("want confirmed and nacked messages alone: %v", sum)
		}
		// What was confirmed is in the queue, and nothing else.
		s.consumeQueue(small, false)
		s.finish()
		s.admin().drained(t, small, patience)
		s.admin().remove(t, small)
		s.admin().remove(t, small+deadLetters)
		if sum := s.ledger.sums(); sum.refusedAndConsumed != 0 || sum.consumed != sum.said[confirmed] {
			t.Errorf("%d refused messages were consumed: %v", sum.refusedAndConsumed, sum)
		}
	})
}

// A message for a queue that is not there is ErrReturned, one for a missing exchange ErrRefused; what is published beside
// them by the same publishers is not disturbed.
func TestNothingTakesTheMessage(t *testing.T) {
	onBoth(t, [2]string{quorum, classic}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.run(func() {
			lenient := s.publisher(warren.AllowUnroutable())
			publishers := []*warren.Publisher{s.publisher(), s.publisher(warren.AutoBatch())}
			load := s.publish(share(), way{publishers[0], s.first, async, 100, "plain, async"}, way{publishers[1], s.first, async, 100, "gathered, async"})
			for i := range 20 {
				nowhere := warren.Message{Queue: s.name + ".missing", Body: []byte("x")}
				if err := publishers[i%2].Publish(t.Context(), nowhere); !errors.Is(err, warren.ErrReturned) {
					t.Errorf("a missing queue: %v", err)
				}
				if err := lenient.Publish(t.Context(), nowhere); err != nil {
					t.Errorf("a missing queue that is allowed: %v", err)
				}
				if i%5 > 0 {
					continue
				}
				nowhere = warren.Message{Exchange: "worker.nowhere", Key: "k", Body: []byte("x")}
				if err := publishers[i%2].Publish(t.Context(), nowhere); !errors.Is(err, warren.ErrRefused) {
					t.Errorf("a missing exchange: %v", err)
				}
			}
			load.finish()
		})
		if s.lost > 0 {
			t.Errorf("%d connections were lost over missing exchanges, which cost a channel", s.lost)
		}
	})
}

// amqp091-go's NotifyPublish tells an ack for a message that the broker refused when a later ack of several passes over it.
// The publisher tells what the broker said first.
func TestNotifyPublishTellsAcksForRefusedMessages(t *testing.T) {
	onBoth(t, [2]string{classic, classic}, func(t *testing.T, b *brokers.Broker, _ string) {
		s := newStage(t, b, quorum, settings{})
		small := s.name + ".small"
		s.admin().declare(t, small, classic, full(1))
		lies, refusals := 0, 0
		for end := time.Now().Add(20 * time.Second); lies == 0 && time.Now().Before(end); {
			l, r, err := lie(b, s.first, small)
			if err != nil {
				t.Fatal(err)
			}
			lies, refusals = lies+l, refusals+r
		}
		t.Logf("NotifyPublish told %d acks for %d refused messages", lies, refusals)
		figures.add(figure{
			Name: s.title + ": acks that amqp091-go's NotifyPublish told for refused messages", Value: float64(lies), Unit: "messages",
			Goal: "to be seen", Holds: lies > 0, Note: fmt.Sprintf("%d were refused", refusals),
		})

		// The queue is full: whatever the publisher sends there is refused.
		p := s.publisher()
		confirmations := map[string][]*warren.Confirmation{}
		for i := range 4000 {
			queue := []string{s.first, small}[i%2]
			c, err := p.PublishAsync(t.Context(), warren.Message{Queue: queue, Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			confirmations[queue] = append(confirmations[queue], c)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for queue, all := range confirmations {
			for _, c := range all {
				if err := c.Wait(t.Context()); queue == small && !errors.Is(err, warren.ErrNacked) || queue != small && err != nil {
					wrong++
				}
			}
		}
		if wrong > 0 {
			t.Errorf("the publisher told the wrong outcome of %d messages", wrong)
		}
		figures.add(figure{
			Name: s.title + ": wrong outcomes of the publisher", Value: float64(wrong), Unit: "messages", Goal: "0", Holds: wrong == 0,
			Note: "4000 messages, every other one to a full queue",
		})
		s.close()
		for _, queue := range []string{s.first, s.second, small} {
			s.admin().remove(t, queue)
		}
	})
}

// lie publishes by amqp091-go to a slow queue and to one that refuses, by turns, and counts what NotifyPublish tells wrong.
func lie(b *brokers.Broker, slow, small string) (lies, refusals int, err error) {
	conn, err := amqp.Dial(b.AMQP + "/")
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, 0, err
	}
	const count = 2000
	told := ch.NotifyPublish(make(chan amqp.Confirmation, count))
	if err := ch.Confirm(false); err != nil {
		return 0, 0, err
	}
	first := make([]*amqp.DeferredConfirmation, count)
	for i := range first {
		queue := []string{slow, small}[i%2]
		first[i], err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent})
		if err != nil {
			return 0, 0, err
		}
	}
	for range first {
		c := <-told
		verdict := first[c.DeliveryTag-1]
		<-verdict.Done()
		if !verdict.Acked() {
			refusals++
			if c.Ack {
				lies++
			}
		}
	}
	return lies, refusals, nil
}
