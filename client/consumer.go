package warren

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/warren-mq/warren/client/internal/adapt"
	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/route"
)

// rpcTimeout is how long a broker may take to answer before its connection is given up.
const rpcTimeout = 30 * time.Second

// Consumer handles the messages of one queue in batches, from the cluster that serves it, or from the old and the new one
// while it moves. Make one with Router.NewConsumer and run it once.
//
// A message is acknowledged when it has been handled, so it is delivered at least once: after a crash or a lost connection
// those that were not acknowledged come again. Order is that of the queue only among messages that are acknowledged at the
// first attempt, with one worker.
type Consumer struct {
	r      *Router
	queue  string
	h      Handler
	cfg    consumerConfig
	gate   *gate
	budget *semaphore.Weighted // of the prefetch, over all clusters
	tries  *tries

	stopped chan struct{} // closed when it is to drain
	done    chan struct{} // closed when Run has returned, or never will run

	// The steps of the end, each after the one before: handlers are to return, are waited for no longer, brokers are waited for no longer.
	soft, abandoned, hard context.Context
	cutSoft, cutAbandoned context.CancelFunc
	cutHard               context.CancelFunc

	wg        sync.WaitGroup // of loads
	staleAcks atomic.Uint64

	limitMu sync.Mutex
	limit   *adapt.Limit // nil without back-pressure

	mu      sync.Mutex
	ran     bool
	closed  bool
	failure error
	route   route.Route
	intakes map[string]*intake // by cluster key
}

// ConsumerStats is what a consumer does at a moment.
type ConsumerStats struct {
	// Running batches, and how many may run.
	Running, Limit int
	// P95 is the 95th percentile of latencies that back-pressure last went by; 0 without.
	P95 time.Duration
	// StaleAcks counts acknowledgements that were dropped since their channel had ended.
	StaleAcks uint64
	// Clusters that the queue is consumed from.
	Clusters []ClusterStats
}

// ClusterStats is about one cluster of a consumer.
type ClusterStats struct {
	Cluster string
	// Connected is set while it is subscribed.
	Connected bool
	// Careful is set while messages are taken one at a time, since one of them may take the process down.
	Careful bool
	// Prefetch is how many messages the broker may give.
	Prefetch int
	// Unacked is how many it gave and that are not settled; Buffered of them wait for a worker.
	Unacked, Buffered int
	// Err is the last failure, until it is connected again.
	Err error
}

// Consume handles the messages of a queue in batches until ctx ends, and then returns nil when all that was being handled has
// been settled.
func (r *Router) Consume(ctx context.Context, queue string, h Handler, opts ...ConsumeOption) error {
	c, err := r.NewConsumer(queue, h, opts...)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// NewConsumer makes a consumer without running it. The error is ErrInvalid for options that cannot work together, and says
// what to change, or ErrNoRoute.
func (r *Router) NewConsumer(queue string, h Handler, opts ...ConsumeOption) (*Consumer, error) {
	cfg, err := newConsumerConfig(queue, opts)
	if err != nil {
		return nil, fmt.Errorf("consumer of %q: %w", queue, err)
	}
	if h == nil {
		return nil, fmt.Errorf("consumer of %q: %w: there is no handler", queue, ErrInvalid)
	}
	if _, err := r.source.Table().Queue(queue, cfg.class); err != nil {
		return nil, err
	}
	c := &Consumer{
		r: r, queue: queue, h: h, cfg: cfg, gate: newGate(cfg.workers), budget: semaphore.NewWeighted(int64(cfg.prefetch)),
		tries: newTries(), stopped: make(chan struct{}), done: make(chan struct{}), intakes: map[string]*intake{},
	}
	if cfg.target > 0 {
		c.limit = adapt.New(cfg.target, cfg.workers, time.Now())
		c.gate.set(c.limit.Limit())
	}
	return c, nil
}

// Run consumes until ctx ends or Close is called, and then drains: no more messages are taken, running handlers may finish
// for DrainTimeout, then their context ends; what was handled is acknowledged and the rest given back. It returns nil when
// that went well. Before, it returns only an error that trying again cannot help: there can be no queue for dead letters. A
// queue that does not exist yet, or that the user may not read, is waited for.
func (c *Consumer) Run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	_, limit := c.gate.load()
	c.limited(limit)
	unfollow := c.r.follow(func(*route.Table) { c.reroute() })
	c.reroute()
	select {
	case <-ctx.Done():
	case <-c.stopped:
	}
	unfollow()
	err := c.drain()
	c.r.leave(c)
	close(c.done)
	return err
}

func (c *Consumer) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran || c.closed {
		return fmt.Errorf("consumer of %q: %w", c.queue, ErrClosed)
	}
	if err := c.r.join(c); err != nil {
		return err
	}
	c.ran = true
	// Handlers go on when ctx ends, and keep what it carries.
	base := context.WithoutCancel(ctx)
	c.hard, c.cutHard = context.WithCancel(base)
	c.abandoned, c.cutAbandoned = context.WithCancel(c.hard)
	c.soft, c.cutSoft = context.WithCancel(c.abandoned)
	return nil
}

// Close makes Run drain, and waits for it as long as ctx allows; then it ends the handlers' context and does not wait for
// them or the brokers any longer.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	ran := c.ran
	if !c.closed {
		c.closed = true
		close(c.stopped)
	}
	c.mu.Unlock()
	if !ran {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.cut(100 * time.Millisecond)
	<-c.done
	return fmt.Errorf("consumer of %q: it was closed before its handlers returned: %w", c.queue, ctx.Err())
}

// cut ends, one after the other, what the drain may wait for.
func (c *Consumer) cut(step time.Duration) {
	for _, end := range []context.CancelFunc{c.cutSoft, c.cutAbandoned, c.cutHard} {
		end()
		select {
		case <-time.After(step):
		case <-c.done:
		}
	}
}

// drain ends all intakes, within DrainTimeout and a few seconds.
func (c *Consumer) drain() error {
	c.mu.Lock()
	c.closed = true
	failure := c.failure
	var intakes []*intake
	for _, in := range c.intakes {
		in.stop()
		intakes = append(intakes, in)
	}
	c.mu.Unlock()
	timer := time.AfterFunc(c.cfg.drain, func() { c.cut(time.Second) })
	defer timer.Stop()
	for _, in := range intakes {
		<-in.ended
	}
	c.wg.Wait()
	late := c.soft.Err() != nil
	running, _ := c.gate.load()
	c.cutSoft()
	c.cutAbandoned()
	c.cutHard()
	switch {
	case failure != nil:
		return failure
	case late && running > 0:
		return fmt.Errorf("consumer of %q: %d handlers have not returned", c.queue, running)
	}
	return nil
}

// fail ends the consumer with an error.
func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = fmt.Errorf("consumer of %q: %w", c.queue, err)
	}
	if !c.closed {
		c.closed = true
		close(c.stopped)
	}
}

// reroute follows the present table. A queue that it no longer knows keeps its route.
func (c *Consumer) reroute() {
	c.mu.Lock()
	to, err := c.r.source.Table().Queue(c.queue, c.cfg.class) // with the lock held, so that the later table stays
	if err == nil {
		c.route = to
		c.adjust()
	}
	c.mu.Unlock()
	if err != nil {
		c.r.hook(func(h *Hooks) {
			if h.RouteFailed != nil {
				h.RouteFailed(fmt.Errorf("%w; its last route stays in force", err))
			}
		})
	}
}

// adjust starts and stops intakes as the route says. The lock is held.
func (c *Consumer) adjust() {
	if c.closed {
		return
	}
	wanted := map[string]bool{}
	for _, cluster := range c.route.Consume {
		key := cluster.Key()
		wanted[key] = true
		if c.intakes[key] == nil {
			in := newIntake(c, cluster, c.graveyard(c.route))
			c.intakes[key] = in
			go in.run()
		}
	}
	for key, in := range c.intakes {
		if !wanted[key] {
			in.stop()
		}
		in.tune()
	}
}

// gone is called when an intake has ended: its share goes to the others. If the route wants its cluster again it starts anew.
func (c *Consumer) gone(in *intake) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.intakes, in.cluster.Key())
	c.adjust()
}

// share of the prefetch that each intake has, also one that is draining: lessening it takes until that has ended.
func (c *Consumer) share() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.cfg.prefetch/max(len(c.intakes), 1), 1) // 0 is no bound to a broker
}

// rpc waits for an answer of the broker; when it does not come in time the connection is dropped, which ends the call.
func (c *Consumer) rpc(ch *link.Channel, call func() error) error {
	ctx, cancel := context.WithTimeout(c.hard, rpcTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, ch.Drop)
	defer stop()
	return call()
}

// observe gives back-pressure the latency of a batch.
func (c *Consumer) observe(latency time.Duration) {
	if c.limit == nil {
		return
	}
	running, _ := c.gate.load()
	c.limitMu.Lock()
	changed := c.limit.Observe(time.Now(), latency, running)
	limit := c.limit.Limit()
	if changed {
		c.gate.set(limit)
	}
	c.limitMu.Unlock()
	if changed {
		c.limited(limit)
	}
}

// limited tells how many batches may run at once.
func (c *Consumer) limited(limit int) {
	c.r.hook(func(h *Hooks) {
		if h.Limit != nil {
			h.Limit(c.queue, limit)
		}
	})
}

// stale counts acknowledgements that are dropped.
func (c *Consumer) stale(n int) {
	c.staleAcks.Add(uint64(n)) //nolint:gosec // it is a count
	c.r.hook(func(h *Hooks) {
		if h.StaleAck != nil {
			h.StaleAck(c.queue, n)
		}
	})
}

// failed tells that something went wrong that is tried again.
func (c *Consumer) failed(in *intake, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.r.hook(func(h *Hooks) {
		if h.ConsumerFailed != nil {
			h.ConsumerFailed(c.queue, in.cluster.Name, err)
		}
	})
}

func (c *Consumer) deadLettered(reason error) {
	c.r.hook(func(h *Hooks) {
		if h.DeadLettered != nil {
			h.DeadLettered(c.queue, reason)
		}
	})
}

// Stats tells what the consumer does at the moment.
func (c *Consumer) Stats() ConsumerStats {
	s := ConsumerStats{StaleAcks: c.staleAcks.Load()}
	s.Running, s.Limit = c.gate.load()
	if c.limit != nil {
		c.limitMu.Lock()
		s.P95 = c.limit.P95()
		c.limitMu.Unlock()
	}
	c.mu.Lock()
	intakes := make([]*intake, 0, len(c.intakes))
	for _, cluster := range c.route.Consume {
		if in := c.intakes[cluster.Key()]; in != nil {
			intakes = append(intakes, in)
		}
	}
	c.mu.Unlock()
	for _, in := range intakes {
		s.Clusters = append(s.Clusters, in.stats())
	}
	return s
}
