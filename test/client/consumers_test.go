//go:build broker

package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	warren "github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/test/brokers"
)

// A queue that is deleted cancels its consumers; they go on when it is there again, and publishers are told meanwhile.
func TestQueueIsDeletedUnderItsConsumers(t *testing.T) {
	onBoth(t, [2]string{quorum, classic}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.consumeBoth()
		ways := s.everyWay()
		for range times(1, 3) {
			s.publish(share()/2, ways...).finish()
			s.settled()
			failures := s.events.get("consumer failed")
			s.admin().remove(t, s.first)
			s.events.await(t, "consumer failed", failures+1, patience)
			for range 10 {
				err := ways[0].publisher.Publish(t.Context(), warren.Message{Queue: s.first, Body: []byte("x")})
				if !errors.Is(err, warren.ErrReturned) {
					t.Errorf("publishing to the deleted queue: %v", err)
				}
			}
			s.admin().declare(t, s.first, kind, nil)
		}
		s.publish(share()/2, ways...).finish()
		s.finish()
		if s.lost > 0 {
			t.Errorf("%d connections were lost over a deleted queue", s.lost)
		}
	})
}

// settled waits until all that was confirmed is consumed, and whatever else came is acknowledged: consumers that end give back
// what they have not handled yet.
func (s *stage) settled() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.ledger.complete(ctx); err != nil {
		s.t.Error(err)
	}
	for _, queue := range []string{s.first, s.second} {
		s.admin().drained(s.t, queue, patience)
	}
	for _, c := range s.consumers {
		for c.Consumer != nil && unacked(c) > 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // acknowledgements are no event
		}
	}
}

// subscribed waits until consumers have what they need on the broker.
func (s *stage) subscribed() {
	s.t.Helper()
	for _, c := range s.consumers {
		for end := time.Now().Add(patience); c.Consumer != nil && time.Now().Before(end); {
			if !slices.ContainsFunc(c.Stats().Clusters, func(c warren.ClusterStats) bool { return !c.Connected }) {
				break
			}
			time.Sleep(10 * time.Millisecond) // no hook tells of it
		}
	}
}

// unacked is how many messages a consumer holds.
func unacked(c *consumer) (n int) {
	for _, cluster := range c.Stats().Clusters {
		n += cluster.Unacked
	}
	return n
}

// A consumer whose connection is cut while it handles messages ends their context, drops the acknowledgements of what was
// delivered on the old channel, and gets the messages again.
func TestConnectionIsCutWhileMessagesAreHandled(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		held, release, ended := make(chan int, 1), make(chan struct{}), make(chan struct{})
		var begun atomic.Bool
		note := s.note(false)
		s.consume(s.first, func(ctx context.Context, batch *warren.Batch) error {
			if begun.CompareAndSwap(false, true) {
				held <- batch.Len()
				<-ctx.Done()
				close(ended)
				<-release
			}
			return note(ctx, batch)
		}, warren.Workers(2), warren.BatchSize(20))
		l := s.publish(share(), s.everyWay()[:4]...) // no packs: one acknowledgement is one message
		n := <-held
		if cut := s.admin().cut(t, s.name+" (consume)", 1); cut != 1 {
			t.Fatalf("%d connections were cut, want 1", cut)
		}
		<-ended
		// The messages that are held are delivered anew while the first handler still has them.
		s.events.await(t, "connected consume", 2, patience)
		l.finish()
		close(release)
		s.finish()
		if stale := s.events.get("stale acks"); stale < n {
			t.Errorf("%d acknowledgements were dropped, want at least the %d of the batch that was held", stale, n)
		}
		if again := s.ledger.sums().redelivered; again < n {
			t.Errorf("%d messages were delivered again, want at least %d", again, n)
		}
	})
}

// A handler that hangs holds no more than the prefetch. Its messages are tried again after its time, by another worker; what
// it says at last does not count.
func TestHungHandlerHoldsNoMoreThanThePrefetch(t *testing.T) {
	onBoth(t, [2]string{quorum, classic}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		const prefetch, size = 60, 20
		var begun atomic.Bool
		hung, release := make(chan int, 1), make(chan struct{})
		note := s.note(false)
		c := s.consume(s.first, func(ctx context.Context, batch *warren.Batch) error {
			if begun.CompareAndSwap(false, true) {
				hung <- batch.Len()
				<-release
				return errors.New("too late to matter")
			}
			return note(ctx, batch)
		}, warren.Workers(2), warren.BatchSize(size), warren.Prefetch(prefetch), warren.HandlerTimeout(time.Second))
		l := s.publish(share(), s.everyWay()[:3]...)
		n := <-hung
		if most := unacked(c); most > prefetch {
			t.Errorf("the consumer holds %d messages, want at most %d", most, prefetch)
		}
		l.finish()
		// All of it, also what the hung handler has, is handled while it still hangs.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.ledger.complete(ctx); err != nil {
			t.Error(err)
		}
		close(release)
		s.finish()
		if again := s.ledger.sums().redelivered; again < n {
			t.Errorf("%d messages were delivered again, want at least the %d that the handler held", again, n)
		}
	})
}

// A consumer that ends while a handler hangs gives back what it holds: nothing is lost with it, and the next consumer gets all.
func TestUnackedMessagesComeBackWhenTheirConsumerEnds(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		const count, prefetch = 50, 20
		s.publish(count, way{s.publisher(), s.first, group, 4000, "plain, in groups"}).finish()
		release := make(chan struct{})
		hung := make(chan struct{}, count)
		c := s.consume(s.first, func(context.Context, *warren.Batch) error {
			hung <- struct{}{}
			<-release
			return nil
		}, warren.Workers(1), warren.BatchSize(10), warren.Prefetch(prefetch), warren.DrainTimeout(time.Second))
		<-hung
		total := s.ledger.sums().accepted
		for end := time.Now().Add(patience); unacked(c) < prefetch && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond) // deliveries are no event
		}
		if left := s.admin().ready(t, s.first); left != total-prefetch {
			t.Errorf("%d messages are left in the queue, want %d: all but the prefetch", left, total-prefetch)
		}
		// It ends though its handler does not, and says so.
		c.cancel()
		<-c.done
		if c.err == nil {
			t.Error("the consumer says that all is well while its handler has not returned")
		}
		// A quorum queue takes them back after it has answered.
		left := -1
		for end := time.Now().Add(patience); left != total && time.Now().Before(end); left = s.admin().ready(t, s.first) {
			time.Sleep(10 * time.Millisecond) // and tells nobody
		}
		if left != total {
			t.Errorf("%d messages are in the queue after the consumer has ended, want %d", left, total)
		}
		close(release)
		s.consumers = nil
		s.consumeBoth()
		s.finish()
	})
}

// Of many messages a few are poison. They are dead-lettered with the reason, each once; no other is delivered again for
// their sake.
func TestPoisonIsDeadLetteredAlone(t *testing.T) {
	onBoth(t, [2]string{quorum, classic}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		every := times(50, 500)
		var dead [2]atomic.Int64
		handle := func(n *atomic.Int64, ordered bool) warren.Handler {
			return func(_ context.Context, batch *warren.Batch) error {
				for _, m := range batch.Messages() {
					s.see(m, ordered)
					if _, seq, err := decode(m.Body); err == nil && seq%every == every-1 {
						n.Add(1)
						m.DeadLetter(fmt.Errorf("message %d is poison", seq))
					}
				}
				return nil
			}
		}
		s.consume(s.first, handle(&dead[0], true), warren.Workers(1))
		s.consume(s.second, handle(&dead[1], false), warren.Workers(4), warren.AckEach())
		s.publish(max(share(), 8*every*2), s.everyWay()...).finish()
		s.settled()
		s.dead[s.first], s.dead[s.second] = int(dead[0].Load()), int(dead[1].Load())
		if s.dead[s.first] == 0 || s.dead[s.second] == 0 {
			t.Errorf("no poison: %v", s.dead)
		}
		s.finish()
		if sum := s.ledger.sums(); sum.redelivered != 0 || sum.duplicates != 0 {
			t.Errorf("%d messages were delivered again, %d twice", sum.redelivered, sum.duplicates)
		}
	})
}
