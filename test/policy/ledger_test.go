//go:build broker

package policy_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ledger has every message of a test: whether the broker confirmed it, and where it came out.
type ledger struct {
	mu        sync.Mutex
	next      int
	confirmed map[string]bool
	refused   int
	unsure    int            // the connection ended before the broker answered
	taken     map[string]int // how often a consumer acknowledged it
}

func newLedger() *ledger { return &ledger{confirmed: map[string]bool{}, taken: map[string]int{}} }

// name of the next message for a queue.
func (l *ledger) name(queue string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return fmt.Sprintf("%s#%d", queue, l.next)
}

func (l *ledger) answered(name string, confirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if confirmed {
		l.confirmed[name] = true
	} else {
		l.refused++
	}
}

func (l *ledger) take(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken[name]++
}

// left are confirmed messages that nobody has taken.
func (l *ledger) left() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.confirmed {
		if l.taken[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// queues that messages were confirmed for.
func (l *ledger) queues() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for name := range l.confirmed {
		queue, _, _ := strings.Cut(name, "#")
		names[queue] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (l *ledger) counts() (confirmed, refused, taken, twice int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.taken {
		taken++
		if n > 1 {
			twice++
		}
	}
	return len(l.confirmed), l.refused, taken, twice
}

// outgoing is a message that waits for the broker's answer.
type outgoing struct {
	name   string
	answer *amqp.DeferredConfirmation
}

// publisher publishes to its queues in turn over one connection, as fast as tick lets it, until told to stop. It dials again when the
// connection ends.
type publisher struct {
	ledger  *ledger
	address func(attempt int) string
	queues  []string
	tick    time.Duration
	window  int
	body    func(name string) []byte
	most    int // messages; 0 for no end
	sent    int
}

func (p *publisher) run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil && (p.most == 0 || p.sent < p.most); attempt++ {
		if attempt > 0 {
			time.Sleep(200 * time.Millisecond)
		}
		p.session(ctx, p.address(attempt))
	}
}

func (p *publisher) session(ctx context.Context, address string) {
	connection, err := amqp.Dial(address)
	if err != nil {
		return
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil || channel.Confirm(false) != nil {
		return
	}
	ended := connection.NotifyClose(make(chan *amqp.Error, 1))
	var waiting []outgoing
	defer func() { p.settle(waiting, 0, ended) }()
	pace := time.NewTicker(max(p.tick, time.Microsecond))
	defer pace.Stop()
	for p.most == 0 || p.sent < p.most {
		if p.tick > 0 {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
		} else if ctx.Err() != nil {
			return
		}
		queue := p.queues[p.sent%len(p.queues)]
		name := p.ledger.name(queue)
		answer, err := channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: name, Body: p.body(name),
		})
		if err != nil {
			return
		}
		p.sent++
		waiting = append(waiting, outgoing{name, answer})
		if len(waiting) > p.window {
			if waiting = p.settle(waiting, p.window/2, ended); waiting == nil {
				return
			}
		}
	}
}

// settle waits until at most so many messages are unanswered; nil says that the connection ended first.
func (p *publisher) settle(waiting []outgoing, most int, ended <-chan *amqp.Error) []outgoing {
	for len(waiting) > most {
		select {
		case <-waiting[0].answer.Done():
			p.ledger.answered(waiting[0].name, waiting[0].answer.Acked())
			waiting = waiting[1:]
		case <-ended:
			p.ledger.mu.Lock()
			p.ledger.unsure += len(waiting)
			p.ledger.mu.Unlock()
			return nil
		}
	}
	return append([]outgoing{}, waiting...)
}

// consumer takes messages of its queues over one connection. What it does with one is handle's business, which acknowledges
// it. It dials again when the connection or one of its consumers ends.
type consumer struct {
	address  func(attempt int) string
	queues   []string
	prefetch int
	handle   func(queue string, d amqp.Delivery) error
}

func (c *consumer) run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		c.session(ctx, c.address(attempt))
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *consumer) session(ctx context.Context, address string) {
	connection, err := amqp.Dial(address)
	if err != nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	var busy sync.WaitGroup
	defer func() { end(); _ = connection.Close(); busy.Wait() }()
	channel, err := connection.Channel()
	if err != nil || channel.Qos(c.prefetch, 0, false) != nil {
		return
	}
	for _, queue := range c.queues {
		deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return
		}
		busy.Go(func() {
			defer end()
			for {
				select {
				case <-ctx.Done():
					return
				case d, open := <-deliveries:
					if !open || c.handle(queue, d) != nil {
						return
					}
				}
			}
		})
	}
	<-ctx.Done()
}

// declare a durable queue with the connection's node as its first.
func declare(t *testing.T, address string, kind string, queues ...string) {
	t.Helper()
	connection, err := amqp.Dial(address)
	must(t, err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	must(t, err)
	for _, queue := range queues {
		_, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": kind})
		must(t, err)
	}
}

// drain takes all that a queue holds.
func drain(address, queue string) (out []amqp.Delivery, err error) {
	connection, err := amqp.Dial(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	for err == nil {
		d, got, failure := channel.Get(queue, true)
		if failure != nil || !got {
			return out, failure
		}
		out = append(out, d)
	}
	return out, err
}

// body of so many bytes.
func body(bytes int) func(string) []byte {
	filler := make([]byte, bytes)
	return func(string) []byte { return filler }
}
