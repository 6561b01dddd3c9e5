package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/client"

	"github.com/warren-mq/warren/internal/bench"
)

// borrowed is a consumer whose work Warren's client library does, as in an application. What the library does of its own, it
// does here too: it batches, acknowledges in order and bounds what it fetches.
type borrowed struct {
	*consumer
	router  *warren.Router
	library *warren.Consumer
	begin   chan struct{} // closed when it may subscribe
	ending  atomic.Bool   // connections may end
}

// libraryClass is the class of work that the library is told of; nobody sees it.
const libraryClass = "BENCH"

// borrow makes consumer number i of the library. It connects to nothing yet.
func (f *fleet) borrow(i int) error {
	queue, settings := i%len(f.queues), f.scenario.Consumers
	b := &borrowed{begin: make(chan struct{}), consumer: &consumer{
		shared: f.shared, id: i, queue: queue, rec: f.rec.of(i), settings: settings, counted: true,
	}}
	b.prepare()
	router, err := warren.FromEnv(
		warren.Environ(f.hosts(1).environment()), warren.Name(fmt.Sprintf("%s consumer %d", f.name, i)), warren.DialLimit(1000, 1000),
		warren.WithHooks(warren.Hooks{
			Disconnected: func(e warren.ConnectionEvent) {
				if !b.ending.Load() {
					f.lose(fmt.Errorf("a connection of the client library was lost: %w", e.Err))
				}
			},
			ConsumerFailed: func(_, _ string, err error) {
				if !b.ending.Load() {
					f.lose(fmt.Errorf("the client library stopped consuming: %w", err))
				}
			},
		}))
	if err != nil {
		return fmt.Errorf("the client library: %w", err)
	}
	b.router = router
	b.library, err = router.NewConsumer(f.queues[queue], b.handle, warren.ForClass(libraryClass), warren.Workers(1),
		warren.BatchSize(settings.Batch.Size), warren.BatchWait(settings.Batch.Wait.Std()), warren.Prefetch(settings.Prefetch),
		warren.DeadLetterByReject())
	if err != nil {
		return errors.Join(fmt.Errorf("the client library: %w", err), router.Close(context.Background()))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumers, f.borrowed = append(f.consumers, b.consumer), append(f.borrowed, b)
	return nil
}

// environment is the endpoint as the library reads it. It is handed over in memory and is nobody else's to see.
func (e Endpoint) environment() []string {
	prefix := "RMQ_" + libraryClass
	said := []string{
		prefix + "_HOSTS=" + strings.Join(e.Hosts, ","), prefix + "_USERNAME=" + e.Username, prefix + "_PASSWORD=" + e.Password,
		prefix + "_VHOST=" + e.VHost, prefix + "_TLS=false",
	}
	if e.TLS == nil {
		return said
	}
	said[len(said)-1] = prefix + "_TLS=true"
	if e.CAFile != "" {
		said = append(said, prefix+"_CA_FILE="+e.CAFile)
	}
	if e.TLS.ServerName != "" {
		said = append(said, prefix+"_SERVER_NAME="+e.TLS.ServerName)
	}
	return said
}

// handle enters a batch in the account, takes as long as the scenario says, and has it acknowledged.
func (b *borrowed) handle(ctx context.Context, batch *warren.Batch) error {
	began := b.clock.now()
	messages := batch.Messages()
	for _, m := range messages {
		b.measure(began, m.Redelivered, m.Body)
	}
	if !pause(ctx, b.settings.Latency.Std()) {
		return ctx.Err()
	}
	took := b.clock.now() - began
	b.rec.add(func(s *bench.Second) {
		s.HandleSeconds += since(took)
		s.Acknowledged += int64(len(messages))
	})
	return nil
}

// run consumes from when it may begin until the context ends, and settles what it has.
func (b *borrowed) run(ctx context.Context) error {
	select {
	case <-b.begin:
	case <-ctx.Done():
		return nil
	}
	stop := context.AfterFunc(ctx, func() { b.ending.Store(true) })
	defer stop()
	return b.library.Run(ctx)
}

// subscribe begins all consumers of the library and waits until the broker has them.
func (f *fleet) subscribe(ctx context.Context) error {
	for _, b := range f.borrowed {
		close(b.begin)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	for _, b := range f.borrowed {
		for {
			at := b.library.Stats().Clusters
			if len(at) > 0 && at[0].Connected {
				break
			}
			if !pause(ctx, 5*time.Millisecond) {
				var why error
				if len(at) > 0 {
					why = at[0].Err
				}
				return fmt.Errorf("consumer %d of the client library did not subscribe in %s: %w", b.id, handshakeLimit, errors.Join(why, ctx.Err()))
			}
		}
		f.opened.Add(1)
	}
	return nil
}

// giveBack closes what the library has open.
func (f *fleet) giveBack(limit time.Duration) {
	if len(f.borrowed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, b := range f.borrowed {
		b.ending.Store(true)
		if err := b.router.Close(ctx); err != nil {
			f.events.add(bench.EventStopped, "the client library did not settle all that it had: "+err.Error())
		}
	}
	f.borrowed = nil
}
