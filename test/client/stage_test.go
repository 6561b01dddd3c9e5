//go:build broker

package client_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	warren "github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/test/brokers"
)

// patience bounds every wait for what must happen, also on a machine that has much else to do.
const patience = 3 * time.Minute

// heartbeat of all connections. A broker that is silent for three of them is given up.
const heartbeat = 2 * time.Second

var stageNumber atomic.Int32

// stage is what a scenario happens on: queues of its own, one router for publishers and one for consumers, and the ledger.
type stage struct {
	t       *testing.T
	name    string // in the names of queues and connections
	title   string // in the table
	brokers []*brokers.Broker
	kind    string
	ledger  *ledger
	events  *events
	// first has its messages handled in order, one batch at a time; second by several workers, acknowledged as they end.
	first, second string

	publishing, consuming *warren.Router
	consumers             []*consumer
	loads                 []*load
	lost                  int             // connections, before they were closed
	dead                  map[string]int  // messages of each queue that are to be dead-lettered
	consumed              map[string]bool // by the library
}

// deadLetters is what the name of a queue for dead letters ends in.
const deadLetters = ".dead-letters"

// settings of a stage.
type settings struct {
	hosts     []*brokers.Broker // besides the broker
	arguments amqp.Table        // of the queues
	environ   []string          // instead of the brokers' addresses
	options   []warren.RouterOption
}

func newStage(t *testing.T, b *brokers.Broker, kind string, set settings) *stage {
	t.Helper()
	name := fmt.Sprintf("worker.s%d", stageNumber.Add(1))
	s := &stage{
		t: t, name: name, title: strings.TrimPrefix(t.Name(), "Test"), brokers: append([]*brokers.Broker{b}, set.hosts...), kind: kind,
		ledger: newLedger(), events: newEvents(), first: name + ".first", second: name + ".second", dead: map[string]int{}, consumed: map[string]bool{},
	}
	if cut := strings.LastIndexByte(s.title, '-'); cut > 0 {
		s.title = s.title[:cut] // rounds are one figure
	}
	for _, queue := range []string{s.first, s.second} {
		admin{b}.declare(t, queue, kind, set.arguments)
	}
	environ := set.environ
	if environ == nil {
		environ = append(login(s.brokers[0]), "RMQ_WORKER_HOSTS="+hosts(s.brokers...))
	}
	options := append([]warren.RouterOption{
		warren.Environ(environ), warren.Name(name), warren.WithHooks(s.events.hooks()), warren.DialLimit(1000, 1000),
		warren.Reconnect(50*time.Millisecond, time.Second), warren.Heartbeat(heartbeat),
	}, set.options...)
	var err error
	if s.publishing, err = warren.FromEnv(options...); err != nil {
		t.Fatal(err)
	}
	if s.consuming, err = warren.FromEnv(options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.abandon)
	return s
}

// abandon ends what a failed scenario left.
func (s *stage) abandon() {
	for _, l := range s.loads {
		l.once.Do(func() { close(l.enough) })
		l.cancel()
	}
	for _, c := range s.consumers {
		c.cancel()
	}
	for _, r := range []*warren.Router{s.consuming, s.publishing} {
		_ = r.Close(closed())
	}
	for _, l := range s.loads {
		l.running.Wait()
	}
	for _, c := range s.consumers {
		<-c.done
	}
}

func hosts(all ...*brokers.Broker) string {
	var out []string
	for _, b := range all {
		u, err := url.Parse(b.AMQP)
		if err != nil {
			panic(err)
		}
		out = append(out, u.Host)
	}
	return strings.Join(out, ",")
}

func login(b *brokers.Broker) []string {
	return []string{"RMQ_USERNAME=" + b.Username, "RMQ_PASSWORD=" + b.Password}
}

func (s *stage) admin() admin { return admin{s.brokers[0]} }

// consumer is one that runs.
type consumer struct {
	*warren.Consumer
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// consume begins to handle the messages of a queue.
func (s *stage) consume(queue string, handle warren.Handler, options ...warren.ConsumeOption) *consumer {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	made, err := s.consuming.NewConsumer(queue, handle, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	c := &consumer{Consumer: made, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = made.Run(ctx)
	}()
	s.consumers = append(s.consumers, c)
	s.consumed[queue] = true
	return c
}

// end stops a consumer, which finishes what it has in hand.
func (c *consumer) end(t *testing.T) {
	t.Helper()
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(patience):
		t.Fatal("a consumer does not end")
	}
	if c.err != nil {
		t.Errorf("Run: %v", c.err)
	}
}

// note puts the messages of a batch into the ledger.
func (s *stage) note(ordered bool) warren.Handler {
	return func(_ context.Context, b *warren.Batch) error {
		for _, m := range b.Messages() {
			s.see(m, ordered)
		}
		return nil
	}
}

func (s *stage) see(m *warren.Delivery, ordered bool) {
	s.ledger.see(sight{body: m.Body, redelivered: m.Redelivered, cluster: m.Cluster, ordered: ordered})
}

// consumeBoth begins to handle both queues, each as it is meant.
func (s *stage) consumeBoth() {
	s.consumeQueue(s.first, true)
	s.consumeQueue(s.second, false)
}

// consumeQueue notes all that comes to a queue, in order or by several workers.
func (s *stage) consumeQueue(queue string, ordered bool) {
	switch {
	case *plain:
		s.consumePlainly(queue)
	case ordered:
		s.consume(queue, s.note(true), warren.Workers(1))
	default:
		s.consume(queue, s.note(false), warren.Workers(4), warren.AckEach())
	}
}

// run publishes in every way while the fault happens, and then sees to it that all is as it must be.
func (s *stage) run(fault func()) {
	s.t.Helper()
	s.consumeBoth()
	l := s.publish(share(), s.everyWay()...)
	fault()
	l.finish()
	s.finish()
	sum := s.ledger.sums()
	if sum.said[confirmed]+sum.said[unknown] != sum.accepted {
		s.t.Errorf("nobody refused anything, but the library says so: %v", sum)
	}
}

// finish waits until all is consumed, closes everything and judges.
func (s *stage) finish() {
	s.t.Helper()
	s.settled()
	s.close()
	for _, queue := range []string{s.first, s.second} {
		// What a consumer held and did not acknowledge would be back now.
		if left := s.admin().ready(s.t, queue); left != 0 {
			s.t.Errorf("%d messages are in %s after all was handled", left, queue)
		}
		if s.consumed[queue] {
			if dead := s.admin().ready(s.t, queue+deadLetters); dead != s.dead[queue] {
				s.t.Errorf("%d messages of %s were dead-lettered, want %d", dead, queue, s.dead[queue])
			}
		}
		s.admin().remove(s.t, queue)
		s.admin().remove(s.t, queue+deadLetters)
	}
	s.judge()
}

// close ends consumers and publishers as an application does.
func (s *stage) close() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.lost = s.events.disconnects()
	for _, c := range s.consumers {
		c.end(s.t)
	}
	for _, r := range []*warren.Router{s.consuming, s.publishing} {
		if err := r.Close(ctx); err != nil {
			s.t.Errorf("Close: %v", err)
		}
	}
}

// judge says what went wrong, and notes the figures.
func (s *stage) judge() {
	s.t.Helper()
	sum := s.ledger.sums()
	for _, fault := range sum.faults {
		s.t.Error(fault)
	}
	for _, err := range s.events.unknownTags() {
		s.t.Error(err)
	}
	// What came twice was either sent twice or delivered twice, and the library says how much of each there was.
	explained := s.events.get("resent") + sum.redelivered
	if sum.duplicates > explained {
		s.t.Errorf("%d duplicates, but %d messages were sent again and %d deliveries again", sum.duplicates, s.events.get("resent"), sum.redelivered)
	}
	s.t.Logf("%v; resent %d, redelivered %d, stale acks %d, connections lost %d", sum, s.events.get("resent"), sum.redelivered,
		s.events.get("stale acks"), s.lost)
	for _, text := range sum.failures {
		s.t.Log("other outcome: ", text)
	}
	figures.count(sum.accepted)
	note := fmt.Sprintf("%v, %d connections lost", sum, s.lost)
	figures.add(figure{Name: s.title + ": lost", Value: float64(sum.missing), Unit: "messages", Goal: "0", Holds: sum.missing == 0, Note: note})
	figures.add(figure{
		Name: s.title + ": duplicates", Value: float64(sum.duplicates), Unit: "messages",
		Goal: fmt.Sprintf("≤ sent or delivered again (%d)", explained), Holds: sum.duplicates <= explained,
	})
	figures.add(figure{
		Name: s.title + ": out of order, invented or twice told", Value: float64(len(sum.faults)), Unit: "messages", Goal: "0",
		Holds: len(sum.faults) == 0,
	})
}

// noLeaks sees that no goroutine outlives a test. The short form, in which other things happen meanwhile, sees to it at its end.
func noLeaks(t *testing.T) {
	t.Helper()
	if !*long {
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}
