package warren

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/warren-mq/warren/client/internal/route"
)

// Publisher publishes messages, each to the cluster that serves it, and tells the outcome of each exactly once. It keeps
// the order of what one goroutine publishes to one queue, or to one exchange and key, also over lost connections and over
// the move of a queue to another cluster. It is safe for use by several goroutines.
type Publisher struct {
	r        *Router
	cfg      publisherConfig
	bytes    *semaphore.Weighted
	ctx      context.Context // ends when Close gives up
	cancel   context.CancelFunc
	unfollow func()
	done     chan struct{} // closed when Close has returned

	mu     sync.RWMutex
	closed bool
	lanes  map[laneKey]*lane
	pipes  map[string]*pipe // by cluster key

	retiring sync.WaitGroup // pipes that nobody uses any more

	flushMu sync.Mutex
	current atomic.Pointer[generation]
	earlier []*generation
}

// Publisher makes a publisher. ctx bounds the wait that ConnectNow asks for.
func (r *Router) Publisher(ctx context.Context, opts ...PublisherOption) (*Publisher, error) {
	p, err := r.newPublisher(opts)
	if err != nil {
		return nil, err
	}
	if err := r.join(p); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	for _, queue := range p.cfg.connect {
		if err := p.connect(ctx, queue); err != nil {
			return nil, errors.Join(fmt.Errorf("queue %q: %w", queue, err), p.Close(ctx))
		}
	}
	return p, nil
}

func (r *Router) newPublisher(opts []PublisherOption) (*Publisher, error) {
	cfg, err := newPublisherConfig(opts)
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		r: r, cfg: cfg, bytes: semaphore.NewWeighted(cfg.bound), lanes: map[laneKey]*lane{}, pipes: map[string]*pipe{},
		done: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.current.Store(newGeneration())
	p.unfollow = r.follow(p.reroute)
	return p, nil
}

// connect opens the connection to the cluster that serves the queue.
func (p *Publisher) connect(ctx context.Context, queue string) error {
	to, err := p.r.source.Table().Queue(queue, "")
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	pipe := p.pipe(place(to))
	p.mu.Unlock()
	ch, err := pipe.conn.Channel(ctx)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", pipe.cluster.Name, err)
	}
	return ch.Shut(ctx)
}

// Publish sends a message and returns when the broker has confirmed it. The error is ErrNotSent when ctx ended before it
// was sent, ErrUnknown when ctx ended later (it may still arrive), ErrNacked, ErrReturned, or what PublishAsync returns.
func (p *Publisher) Publish(ctx context.Context, m Message) error {
	c, err := p.PublishAsync(ctx, m)
	if err != nil {
		return err
	}
	return c.publish(ctx)
}

// PublishBatch sends messages, to one queue or many, and returns when the outcome of each is known. The error is nil when
// all were confirmed, else a *BatchError with the outcome of each.
func (p *Publisher) PublishBatch(ctx context.Context, messages []Message) error {
	confirmations := make([]*Confirmation, len(messages))
	result := &BatchError{Errors: make([]error, len(messages))}
	for i, m := range messages {
		confirmations[i], result.Errors[i] = p.PublishAsync(ctx, m)
	}
	for i, c := range confirmations {
		if c != nil {
			result.Errors[i] = c.publish(ctx)
		}
		if result.Errors[i] != nil {
			result.failed++
		}
	}
	if result.failed > 0 {
		return result
	}
	return nil
}

// PublishAsync accepts a message and returns at once, except that it waits, as long as ctx allows, while BufferBytes are
// unconfirmed. The Confirmation tells the outcome. An error means that the message was not accepted: ErrInvalid,
// ErrNoRoute, ErrTooLarge, ErrBufferFull (with FailWhenFull), ErrClosed, or that of ctx with ErrNotSent.
func (p *Publisher) PublishAsync(ctx context.Context, m Message) (*Confirmation, error) {
	return p.accept(ctx, m, nil)
}

// accept buffers a message. pin is the cluster that it must go to; nil for the one that the routes tell.
func (p *Publisher) accept(ctx context.Context, m Message, pin *route.Cluster) (*Confirmation, error) {
	if m.ID == "" {
		m.ID = newID()
	}
	c := &Confirmation{p: p, m: m, born: time.Now()}
	c.start(ctx)
	err := c.m.check()
	if err == nil {
		err = p.buffer(ctx, c, pin)
	}
	if err != nil {
		c.finish(err)
		return nil, err
	}
	return c, nil
}

func (p *Publisher) buffer(ctx context.Context, c *Confirmation, pin *route.Cluster) error {
	p.compress(&c.m)
	headers, bytes, err := table(c.m.Headers)
	if err != nil {
		return err
	}
	c.m.Headers, c.body, c.frame = headers, len(c.m.Body), c.m.frame(bytes)
	if c.frame > maxFrame {
		return fmt.Errorf("%w: properties and headers need a frame of %d bytes, AMQP connections have %d", ErrInvalid, c.frame, maxFrame)
	}
	c.size = int64(overhead + c.body + bytes)
	if pin != nil {
		c.size = min(c.size, p.cfg.bound) // a dead letter is in memory already
	}
	if err := p.charge(ctx, c.size); err != nil {
		return err
	}
	c.generation = p.enter()
	for {
		l, err := p.lane(&c.m, pin)
		if err != nil {
			p.refund(c.size)
			c.generation.leave()
			return err
		}
		// A lane that was idle may have been dropped in between.
		if l.submit(c) {
			return nil
		}
	}
}

// place is where messages go, or wait while publishers hold.
func place(to route.Route) *route.Cluster {
	if to.Hold {
		return to.Consume[0]
	}
	return to.Publish
}

func (p *Publisher) charge(ctx context.Context, size int64) error {
	switch {
	case size > p.cfg.bound:
		return fmt.Errorf("%w: %d bytes; BufferBytes is %d", ErrTooLarge, size, p.cfg.bound)
	case p.bytes.TryAcquire(size):
		return nil
	case p.cfg.fail:
		return ErrBufferFull
	}
	if err := p.bytes.Acquire(ctx, size); err != nil {
		return fmt.Errorf("%w: %d bytes are unconfirmed: %w", ErrNotSent, p.cfg.bound, err)
	}
	return nil
}

func (p *Publisher) refund(size int64) { p.bytes.Release(size) }

// lane returns the lane of the message, made if there is none.
func (p *Publisher) lane(m *Message, pin *route.Cluster) (*lane, error) {
	key := laneKey{class: m.Class, exchange: m.Exchange, queue: m.Queue}
	if pin != nil {
		key.pin = pin.Key()
	}
	p.mu.RLock()
	l, closed := p.lanes[key], p.closed
	p.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if l != nil && !l.gone() {
		return l, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if l := p.lanes[key]; l != nil && !l.gone() {
		return l, nil
	}
	to, err := key.resolve(p.r.source.Table(), pin) // with the lock held: reroute finds the lane, or the table is the later one
	if err != nil {
		return nil, err
	}
	p.sweep()
	l = &lane{key: key, pinned: pin != nil, packs: p.cfg.pack[m.Queue] || (to.Unpack && p.cfg.auto && m.Queue != "")}
	l.home = p.pipe(place(to))
	l.home.lanes++
	l.want, l.held = l.home, to.Hold
	l.parted.Store(l.held)
	p.lanes[key] = l
	return l, nil
}

// manyLanes is how many lanes a publisher keeps before it looks for idle ones: reply queues come and go.
const manyLanes = 4096

// sweep drops idle lanes when there are many. The lock is held.
func (p *Publisher) sweep() {
	if len(p.lanes) < manyLanes {
		return
	}
	for key, l := range p.lanes {
		if home, idle := l.drop(); idle {
			delete(p.lanes, key)
			p.unuse(home)
		}
	}
}

// unpin drops the idle lanes of messages that must go to this cluster.
func (p *Publisher) unpin(from *route.Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, l := range p.lanes {
		if key.pin != from.Key() {
			continue
		}
		if home, idle := l.drop(); idle {
			delete(p.lanes, key)
			p.unuse(home)
		}
	}
}

// pipe returns the pipe to a cluster. The lock is held.
func (p *Publisher) pipe(c *route.Cluster) *pipe {
	if found := p.pipes[c.Key()]; found != nil {
		return found
	}
	made := newPipe(p, c)
	p.pipes[c.Key()] = made
	return made
}

// reroute follows a new table. A queue that the table no longer knows keeps its route: losing messages is worse.
func (p *Publisher) reroute(t *route.Table) {
	for _, err := range p.follow(t) {
		p.r.hook(func(h *Hooks) {
			if h.RouteFailed != nil {
				h.RouteFailed(fmt.Errorf("%w; its last route stays in force", err))
			}
		})
	}
}

func (p *Publisher) follow(t *route.Table) (failed []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for _, l := range p.lanes {
		if l.pinned {
			continue
		}
		to, err := l.key.resolve(t, nil)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		// While publishers hold, the place that they wait at stays what it was.
		want := l.target()
		if !to.Hold {
			want = p.pipe(to.Publish)
		}
		for _, off := range l.update(want, to.Hold) {
			p.unuse(off)
		}
	}
	return failed
}

// moved is called, without locks, when a lane has left a pipe.
func (p *Publisher) moved(from *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unuse(from)
}

// unuse counts a lane off a pipe, which ends with its last. The lock is held.
func (p *Publisher) unuse(from *pipe) {
	from.lanes--
	if from.lanes == 0 && !p.closed {
		delete(p.pipes, from.cluster.Key())
		p.retiring.Go(from.retire)
	}
}

// Flush waits until the outcome of all messages that were accepted before the call is known.
func (p *Publisher) Flush(ctx context.Context) error {
	p.flushMu.Lock()
	sealed := p.current.Swap(newGeneration())
	sealed.seal()
	waitFor := p.earlier[:0]
	for _, g := range p.earlier {
		if !g.empty() {
			waitFor = append(waitFor, g)
		}
	}
	p.earlier = append(waitFor, sealed)
	waitFor = append([]*generation(nil), p.earlier...)
	pipes := p.allPipes()
	p.flushMu.Unlock()
	for _, pipe := range pipes {
		pipe.hurry()
	}
	for _, g := range waitFor {
		select {
		case <-g.done:
		case <-ctx.Done():
			return fmt.Errorf("%d messages are unconfirmed: %w", g.left.Load(), ctx.Err())
		}
	}
	return nil
}

func (p *Publisher) allPipes() []*pipe {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := make([]*pipe, 0, len(p.pipes))
	for _, pipe := range p.pipes {
		out = append(out, pipe)
	}
	return out
}

// Close accepts no more messages, waits as long as ctx allows for the outcome of those it has, and closes the connections.
// What was not sent by then ends with ErrNotSent, what was not confirmed with ErrUnknown; Close then returns an error.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("publisher is still being closed: %w", ctx.Err())
		}
	}
	defer close(p.done)
	p.unfollow()
	err := p.Flush(ctx)
	p.mu.RLock()
	lanes := p.lanes
	p.mu.RUnlock()
	// First, so that nothing more reaches a channel's goroutine when that has ended.
	for _, l := range lanes {
		l.abandon()
	}
	p.cancel()
	var wg sync.WaitGroup
	for _, pipe := range p.allPipes() {
		wg.Go(func() { pipe.close(ctx) })
	}
	wg.Wait()
	p.retiring.Wait()
	p.r.leave(p)
	if err != nil {
		return fmt.Errorf("publisher closed before all was confirmed: %w", err)
	}
	return nil
}

// enter counts a message in the present generation.
func (p *Publisher) enter() *generation {
	for {
		g := p.current.Load()
		if g.join() {
			return g
		}
	}
}

// generation counts the messages that were accepted between two flushes.
type generation struct {
	left   atomic.Int64
	sealed atomic.Bool
	once   sync.Once
	done   chan struct{}
}

func newGeneration() *generation { return &generation{done: make(chan struct{})} }

func (g *generation) join() bool {
	g.left.Add(1)
	if g.sealed.Load() {
		g.leave()
		return false
	}
	return true
}

func (g *generation) leave() {
	if g.left.Add(-1) == 0 && g.sealed.Load() {
		g.once.Do(func() { close(g.done) })
	}
}

func (g *generation) seal() {
	g.sealed.Store(true)
	if g.left.Load() == 0 {
		g.once.Do(func() { close(g.done) })
	}
}

func (g *generation) empty() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}
