package warren

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/route"
)

// Router knows which cluster serves which queue, and makes publishers and consumers that follow when that changes. One for a
// process is enough. All methods may be called from several goroutines.
type Router struct {
	cfg    routerConfig
	source *route.Source
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ended  chan struct{} // the watcher has ended

	mu        sync.Mutex
	closed    bool
	followers map[*follower]struct{}
	members   map[member]struct{} // what Close has to close first
	consumes  map[string]*shared  // by cluster key

	settlerMu sync.Mutex // taken before mu: making a publisher takes that
	settler   *Publisher // of dead letters and repeated messages
	over      bool       // no settler is made any more
}

// member is a publisher or consumer.
type member interface{ Close(context.Context) error }

// FromEnv reads where the clusters are from the environment (RMQ_<CLASS>_HOSTS and what goes with it) and, if
// RMQ_ROUTES_FILE is set, from that file, which it goes on watching. It connects to nothing yet. The error names the variable or
// the place in the file that is wrong, never a password.
func FromEnv(opts ...RouterOption) (*Router, error) {
	cfg := newRouterConfig(opts)
	if cfg.err != nil {
		return nil, cfg.err
	}
	source, err := route.FromEnv(cfg.environ)
	if err != nil {
		return nil, err
	}
	r := &Router{
		cfg: cfg, source: source, ended: make(chan struct{}),
		followers: map[*follower]struct{}{}, members: map[member]struct{}{}, consumes: map[string]*shared{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if t := source.Table(); t.Revision() != "" {
		r.told(t)
	}
	go func() {
		defer close(r.ended)
		source.Watch(r.ctx, r.changed, func(err error) {
			r.hook(func(h *Hooks) {
				if h.RouteFailed != nil {
					h.RouteFailed(err)
				}
			})
		})
	}()
	return r, nil
}

// Close closes all consumers and publishers of the router, as their own Close does, and what they share. What could not be
// settled before ctx ended is in the error.
func (r *Router) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var consumers, publishers []member
	for m := range r.members {
		if _, ok := m.(*Publisher); ok {
			publishers = append(publishers, m)
		} else {
			consumers = append(consumers, m)
		}
	}
	r.mu.Unlock()
	// Consumers first: their handlers may publish. The settler last: consumers need it to the end.
	err := errors.Join(closeAll(ctx, consumers), closeAll(ctx, publishers))
	r.settlerMu.Lock()
	settler := r.settler
	r.over = true
	r.settlerMu.Unlock()
	if settler != nil {
		err = errors.Join(err, settler.Close(ctx))
	}
	r.cancel()
	<-r.ended
	return err
}

func closeAll(ctx context.Context, members []member) error {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// join notes a publisher or consumer, until leave.
func (r *Router) join(m member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.members[m] = struct{}{}
	return nil
}

func (r *Router) leave(m member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, m)
}

func (r *Router) hook(call func(*Hooks)) {
	for i := range r.cfg.hooks {
		call(&r.cfg.hooks[i])
	}
}

// follower is told of every new table.
type follower struct{ changed func(*route.Table) }

// follow calls changed for every new table until stop is called. Calls do not overlap.
func (r *Router) follow(changed func(*route.Table)) (stop func()) {
	f := &follower{changed}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers[f] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.followers, f)
	}
}

func (r *Router) changed(t *route.Table) {
	r.mu.Lock()
	followers := make([]*follower, 0, len(r.followers))
	for f := range r.followers {
		followers = append(followers, f)
	}
	r.mu.Unlock()
	for _, f := range followers {
		f.changed(t)
	}
	r.told(t)
}

// told tells the hooks which routes are in force.
func (r *Router) told(t *route.Table) {
	r.hook(func(h *Hooks) {
		if h.RouteChanged != nil {
			h.RouteChanged(t.Revision())
		}
	})
}

// shared is a connection that several consumers use.
type shared struct {
	conn  *link.Conn
	users int
}

// consumeConn returns the connection on which queues of the cluster are consumed, and what gives it back.
func (r *Router) consumeConn(c *route.Cluster) (*link.Conn, func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.consumes[c.Key()]
	if s == nil {
		s = &shared{conn: r.newConn(c, "consume")}
		r.consumes[c.Key()] = s
	}
	s.users++
	var once sync.Once
	return s.conn, func(ctx context.Context) (err error) {
		once.Do(func() {
			r.mu.Lock()
			s.users--
			last := s.users == 0
			if last {
				delete(r.consumes, c.Key())
			}
			r.mu.Unlock()
			if last {
				r.unsettle(c)
				err = s.conn.Close(ctx)
			}
		})
		return err
	}
}

// newConn makes a connection that tells the hooks what happens to it.
func (r *Router) newConn(c *route.Cluster, use string) *link.Conn {
	cfg := r.cfg.link
	cfg.Target = target{c}
	cfg.Direct = use == "consume" // acknowledgements
	cfg.Name = r.cfg.name + " (" + use + ")"
	event := func(pick func(*Hooks) func(ConnectionEvent), e ConnectionEvent) {
		e.Cluster, e.Use = c.Name, use
		r.hook(func(h *Hooks) {
			if f := pick(h); f != nil {
				f(e)
			}
		})
	}
	// An alarm ends with its connection, so that whoever counts the blocked ones need not know them one by one.
	var blocked atomic.Bool
	unblocked := func(host string) {
		if blocked.Swap(false) {
			event(func(h *Hooks) func(ConnectionEvent) { return h.Unblocked }, ConnectionEvent{Host: host})
		}
	}
	cfg.Connected = func(host string) {
		event(func(h *Hooks) func(ConnectionEvent) { return h.Connected }, ConnectionEvent{Host: host})
	}
	cfg.Disconnected = func(host string, err error) {
		unblocked(host)
		event(func(h *Hooks) func(ConnectionEvent) { return h.Disconnected }, ConnectionEvent{Host: host, Err: err})
	}
	cfg.DialFailed = func(host string, err error, wait time.Duration) {
		event(func(h *Hooks) func(ConnectionEvent) { return h.DialFailed }, ConnectionEvent{Host: host, Err: err, Wait: wait})
	}
	cfg.Blocked = func(host, reason string) {
		blocked.Store(true)
		event(func(h *Hooks) func(ConnectionEvent) { return h.Blocked }, ConnectionEvent{Host: host, Err: errors.New(reason)})
	}
	cfg.Unblocked = unblocked
	return link.New(cfg)
}

// target is a cluster as link wants it.
type target struct{ *route.Cluster }

func (t target) Addresses() []string { return t.Hosts }
func (t target) VirtualHost() string { return t.VHost }

// Login is by name and password, or by the client's certificate where there is no name.
func (t target) Login(secure *tls.Config) ([]amqp.Authentication, error) {
	username, password, err := t.Credentials()
	switch {
	case err == nil:
		return []amqp.Authentication{&amqp.PlainAuth{Username: username, Password: password}}, nil
	case errors.Is(err, route.ErrNoCredentials) && secure != nil && len(secure.Certificates) > 0:
		return []amqp.Authentication{&amqp.ExternalAuth{}}, nil
	}
	return nil, err
}

// settling returns the publisher of dead letters and repeated messages.
func (r *Router) settling() (*Publisher, error) {
	r.settlerMu.Lock()
	defer r.settlerMu.Unlock()
	if r.over {
		return nil, ErrClosed
	}
	if r.settler == nil {
		p, err := r.newPublisher(nil)
		if err != nil {
			return nil, err
		}
		r.settler = p
	}
	return r.settler, nil
}

// unsettle gives up the connection for dead letters to a cluster that nobody consumes from any more: it may be gone for good.
func (r *Router) unsettle(c *route.Cluster) {
	r.settlerMu.Lock()
	p := r.settler
	r.settlerMu.Unlock()
	if p != nil {
		p.unpin(c)
	}
}

// RouteInfo says where a queue is served at the moment.
type RouteInfo struct {
	// Class of work that the queue belongs to.
	Class string
	// Phase of the move of the queue: Settled, Before, Watching, Held or Flipped.
	Phase string
	// Publish names the cluster and hosts that messages go to; empty while publishers hold.
	Publish string
	// Consume names the clusters and hosts that are consumed from.
	Consume []string
	// Revision of the routes file.
	Revision string
}

// Route says where a queue is served at the moment, for logs and for people. The error is ErrNoRoute.
func (r *Router) Route(queue string) (RouteInfo, error) {
	t := r.source.Table()
	got, err := t.Queue(queue, "")
	if err != nil {
		return RouteInfo{}, err
	}
	describe := func(c *route.Cluster) string { return fmt.Sprintf("%s %v", c.Name, c.Hosts) }
	info := RouteInfo{Class: got.Class, Phase: string(got.Phase), Revision: t.Revision()}
	if !got.Hold {
		info.Publish = describe(got.Publish)
	}
	for _, c := range got.Consume {
		info.Consume = append(info.Consume, describe(c))
	}
	return info, nil
}
