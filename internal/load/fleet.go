package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
)

// fleet is the connections of one run with the publishers and consumers on them.
type fleet struct {
	*shared
	scenario *bench.Scenario
	endpoint Endpoint
	queues   []string
	name     string // of connections, for people who look at the broker
	events   *events

	mu    sync.Mutex
	links []*link

	publishers []*publisher
	consumers  []*consumer
	borrowed   []*borrowed     // of the client library: each is in consumers too
	channels   []*amqp.Channel // of consumers, by index
	connect    *bench.Histogram

	worker, workers int

	watches  []func()
	watchers sync.WaitGroup
	lost     chan error // the first connection or channel that was lost
	closing  bool
}

const (
	// publisherBuffer and consumerBuffer are what a connection reads at once, in bytes.
	publisherBuffer = 4 << 10
	consumerBuffer  = 64 << 10
	// atOnce is how many connections are opened at the same time, but in a storm.
	atOnce = 16
)

// connectAll opens the connections and channels of this worker's publishers and consumers; none consumes yet.
func (f *fleet) connectAll(ctx context.Context) error {
	s := f.scenario
	publishers, consumers := f.mine(s.Publishers.Count), f.mine(s.Consumers.Count)
	pubs, err := f.openLinks(ctx, "publisher", connections(publishers, len(f.mine(s.Publishers.Connections))), publisherBuffer, 0)
	if err != nil {
		return err
	}
	var cons []*link
	if s.Consumers.Library == "" { // a client library makes its own
		cons, err = f.openLinks(ctx, "consumer", connections(consumers, len(f.mine(s.Consumers.Connections))), consumerBuffer, 1)
		if err != nil {
			return err
		}
	}
	for at, id := range publishers {
		if err := f.addPublisher(id, pubs[at%len(pubs)]); err != nil {
			return fmt.Errorf("publisher %d: %w", id, err)
		}
	}
	for at, id := range consumers {
		if s.Consumers.Library == "" {
			err = f.addConsumer(id, cons[at%len(cons)])
		} else {
			err = f.borrow(id)
		}
		if err != nil {
			return fmt.Errorf("consumer %d: %w", id, err)
		}
	}
	return nil
}

// mine are the numbers that fall to this worker of n things.
func (f *fleet) mine(n int) (ids []int) {
	for id := f.worker; id < n; id += f.workers {
		ids = append(ids, id)
	}
	return ids
}

// share of a number of messages that falls to this worker, by its publishers.
func (f *fleet) share(total int64) (mine int64) {
	n := int64(f.scenario.Publishers.Count)
	for _, p := range f.publishers {
		mine += total / n
		if int64(p.id) < total%n {
			mine++
		}
	}
	return mine
}

// connections that so many workers have.
func connections(workers []int, connections int) int {
	if connections <= 0 || connections > len(workers) {
		return len(workers)
	}
	return connections
}

// openLinks opens n connections. half is the half of the hosts that they go to when publishers and consumers are apart.
func (f *fleet) openLinks(ctx context.Context, kind string, n, buffer, half int) ([]*link, error) {
	endpoint := f.hosts(half)
	links := make([]*link, n)
	var all sync.WaitGroup
	tokens := make(chan struct{}, atOnce)
	var failed error
	for i := range n {
		tokens <- struct{}{}
		f.mu.Lock()
		stop := failed != nil
		f.mu.Unlock()
		if stop || ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-tokens }()
			began := time.Now()
			l, err := endpoint.dial(ctx, i*f.workers+f.worker, fmt.Sprintf("%s %s %d", f.name, kind, i*f.workers+f.worker), buffer)
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				failed = err
				f.refused.Add(1)
				return
			}
			f.connect.Record(time.Since(began))
			f.opened.Add(1)
			links[i] = l
			f.links = append(f.links, l)
		})
	}
	all.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	if failed == nil {
		for _, l := range links {
			f.watch(l)
		}
	}
	return links, failed
}

func (f *fleet) hosts(half int) Endpoint {
	e := f.endpoint
	n := len(e.Hosts)
	switch {
	case f.scenario.Hosts == bench.FirstHost:
		e.Hosts = e.Hosts[:1]
	case f.scenario.Hosts == bench.ApartHosts && n > 1 && half == 0:
		e.Hosts = e.Hosts[:n/2]
	case f.scenario.Hosts == bench.ApartHosts && n > 1:
		e.Hosts = e.Hosts[n/2:]
	}
	return e
}

// watchAll begins to note what happens to connections and channels.
func (f *fleet) watchAll() {
	for _, watch := range f.watches {
		f.watchers.Go(watch)
	}
	f.watches = nil
}

// watch notes when a connection is blocked or lost.
func (f *fleet) watch(l *link) {
	blocked := l.NotifyBlocked(make(chan amqp.Blocking, 4))
	closed := l.NotifyClose(make(chan *amqp.Error, 1))
	f.watches = append(f.watches, func() {
		for blocked != nil || closed != nil {
			select {
			case b, open := <-blocked:
				if !open {
					blocked = nil
					continue
				}
				l.blockedSince(f.clock.now(), b.Active)
				f.events.block(b)
			case err, open := <-closed:
				if open {
					f.lose(fmt.Errorf("a connection was lost: %w", err))
				}
				closed = nil
			}
		}
	})
}

// lose tells of the first loss.
func (f *fleet) lose(err error) {
	f.mu.Lock()
	closing := f.closing
	f.mu.Unlock()
	if closing {
		return
	}
	f.events.add(bench.EventLost, err.Error())
	select {
	case f.lost <- err:
	default:
	}
}

// watchChannel notes when the broker closes a channel or cancels its consumer.
func (f *fleet) watchChannel(ch *amqp.Channel) {
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := ch.NotifyCancel(make(chan string, 1))
	f.watches = append(f.watches, func() {
		for closed != nil || cancelled != nil {
			select {
			case err, open := <-closed:
				if open && err != nil {
					f.lose(fmt.Errorf("a channel was closed: %w", err))
				}
				closed = nil
			case _, open := <-cancelled:
				if open {
					f.lose(errors.New("the broker cancelled a consumer"))
				} else {
					cancelled = nil
				}
			}
		}
	})
}

func (f *fleet) addPublisher(i int, l *link) error {
	ch, number, err := l.open()
	if err != nil {
		return err
	}
	f.watchChannel(ch)
	queue := i % len(f.queues)
	p := &publisher{
		shared: f.shared, id: i, queue: queue, wire: l.wire, amqp: ch, rec: f.rec.of(i), window: f.scenario.Publishers.ConfirmWindow,
	}
	for _, size := range f.scenario.Message.Sizes {
		m := newMessage(number, "", f.queues[queue], true, f.scenario.Message.Persistent, int(size), l.frameMax())
		p.messages, p.bodies = append(p.messages, m), append(p.bodies, max(int64(size), stampSize))
	}
	p.prepare()
	l.wire.register(number, p)
	if p.confirms {
		if err := ch.Confirm(false); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l.publishers++
	f.publishers = append(f.publishers, p)
	return nil
}

func (f *fleet) addConsumer(i int, l *link) error {
	ch, number, err := l.open()
	if err != nil {
		return err
	}
	f.watchChannel(ch)
	if err := ch.Qos(f.scenario.Consumers.Prefetch, 0, false); err != nil {
		return err
	}
	queue := i % len(f.queues)
	c := &consumer{
		shared: f.shared, id: i, queue: queue, wire: l.wire, channel: number, rec: f.rec.of(i),
		settings: f.scenario.Consumers, counted: f.scenario.Queues.Type != bench.StreamQueue || i < len(f.queues),
	}
	c.prepare()
	l.wire.register(number, c)
	f.consumers, f.channels = append(f.consumers, c), append(f.channels, ch)
	return nil
}

// consume starts all consumers.
func (f *fleet) consume(ctx context.Context) error {
	arguments := amqp.Table{}
	if f.scenario.Queues.Type == bench.StreamQueue {
		arguments["x-stream-offset"] = "first"
	}
	for i, ch := range f.channels {
		automatic := f.scenario.Consumers.AckEvery == 0
		if _, err := ch.Consume(f.queues[f.consumers[i].queue], fmt.Sprintf("consumer-%d", i), automatic, false, false, false, arguments); err != nil {
			return fmt.Errorf("consumer %d: %w", i, err)
		}
	}
	return f.subscribe(ctx)
}

// unconfirmed messages of all publishers.
func (f *fleet) unconfirmed() int64 {
	var n int64
	for _, p := range f.publishers {
		n += p.open.Load()
	}
	return n
}

// close ends all connections. Those that do not answer within the limit are cut.
func (f *fleet) close(limit time.Duration) {
	f.mu.Lock()
	f.closing = true
	links := f.links
	f.mu.Unlock()
	f.watchAll() // of a run that never began
	f.giveBack(limit)
	var all sync.WaitGroup
	tokens := make(chan struct{}, atOnce)
	for _, l := range links {
		tokens <- struct{}{}
		all.Go(func() {
			defer func() { <-tokens }()
			l.end(limit)
		})
	}
	all.Wait()
	f.watchers.Wait()
}

// end closes a connection, or cuts it after the limit.
func (l *link) end(limit time.Duration) {
	cut := time.AfterFunc(limit, func() { _ = l.wire.Conn.Close() })
	defer cut.Stop()
	_ = l.CloseDeadline(time.Now().Add(limit))
	_ = l.wire.Conn.Close()
}

// events of a run, from any goroutine.
type events struct {
	clock clock
	mu    sync.Mutex
	list  []bench.Event
	many  map[bench.EventKind]int
}

// mostEvents of one kind are listed: a storm of them says no more.
const mostEvents = 100

func (e *events) add(kind bench.EventKind, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.many == nil {
		e.many = map[bench.EventKind]int{}
	}
	if e.many[kind]++; e.many[kind] <= mostEvents {
		e.list = append(e.list, bench.Event{AtSeconds: since(e.clock.now()), Kind: kind, Message: message})
	}
}

func (e *events) block(b amqp.Blocking) {
	if b.Active {
		e.add(bench.EventBlocked, b.Reason)
	} else {
		e.add(bench.EventUnblocked, "")
	}
}

func (e *events) all() []bench.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]bench.Event(nil), e.list...)
}
