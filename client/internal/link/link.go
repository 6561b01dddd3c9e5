package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrClosed is returned by a Conn that has been closed.
var ErrClosed = errors.New("connection closed")

// Target is what a connection needs to know of a cluster.
type Target interface {
	// Addresses are the cluster's hosts, each as HOST:PORT.
	Addresses() []string
	// VirtualHost to open.
	VirtualHost() string
	// TLS is nil for a plain connection.
	TLS(host string) (*tls.Config, error)
	// Login is asked for at every dial, so that a changed password is followed. It is told the TLS in use.
	Login(*tls.Config) ([]amqp.Authentication, error)
}

// Config of a connection. Zero durations take their defaults.
type Config struct {
	Target Target
	// Name is shown by the broker (connection_name).
	Name string
	// Properties are further client properties.
	Properties map[string]any
	// Heartbeat interval that is asked for: 10 s. A broker that is silent for about three of them is given up.
	Heartbeat time.Duration
	// DialTimeout bounds dialling, TLS and AMQP handshakes together: 10 s.
	DialTimeout time.Duration
	// WriteTimeout bounds one write to the socket: 30 s. It does not run while the broker has said that it is blocked.
	WriteTimeout time.Duration
	// MinBackoff and MaxBackoff are the lowest and highest ceiling of the wait between dials: 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// FrameSize that is asked for, in bytes: 128 KiB.
	FrameSize int
	// Direct has writes that find the socket idle done by the caller: for few and small ones, which must not wait for
	// another goroutine.
	Direct bool
	// Limiter of dials: Process.
	Limiter *Limiter
	// Dial replaces net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Events may be nil.
	Connected    func(host string)
	Disconnected func(host string, err error)
	DialFailed   func(host string, err error, wait time.Duration)
	Blocked      func(host, reason string)
	Unblocked    func(host string)
}

// WithDefaults is the configuration with what it leaves open.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Heartbeat, 10 * time.Second}, {&c.DialTimeout, 10 * time.Second}, {&c.WriteTimeout, 30 * time.Second},
		{&c.MinBackoff, 100 * time.Millisecond}, {&c.MaxBackoff, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.FrameSize == 0 {
		c.FrameSize = 128 << 10
	}
	if c.Limiter == nil {
		c.Limiter = Process
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

// Conn is a connection that is opened when it is first wanted and opened again whenever it was lost, until it is closed.
type Conn struct {
	cfg     Config
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	closing atomic.Bool // Close has begun: what is lost is not opened again

	mu      sync.Mutex
	cur     *session
	changed chan struct{} // closed at the next change of cur
	started bool
	lastErr error // of the last dial or connection
	done    chan struct{}
}

// New makes a connection; it is dialled by the first call of Channel.
func New(cfg Config) *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &Conn{cfg: cfg.WithDefaults(), ctx: ctx, cancel: cancel, changed: make(chan struct{}), done: make(chan struct{})}
}

// Channel opens a channel, waiting for a connection as long as ctx allows. The error then has the last failure in it.
func (c *Conn) Channel(ctx context.Context) (*Channel, error) {
	for {
		c.mu.Lock()
		if !c.started && c.ctx.Err() == nil {
			c.started = true
			go c.run()
		}
		s, changed := c.cur, c.changed
		c.mu.Unlock()
		if s != nil {
			ch, err := s.open(ctx)
			if err == nil || ctx.Err() != nil || !s.ended() {
				return ch, err
			}
		}
		select {
		case <-c.ctx.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			if last := c.LastError(); last != nil {
				return nil, fmt.Errorf("%w; the last failure: %w", ctx.Err(), last)
			}
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// LastError is why the connection is not open, or was not when it last was not; nil before the first failure.
func (c *Conn) LastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}

// Drop ends the present connection at once; it is opened again.
func (c *Conn) Drop() {
	c.mu.Lock()
	s := c.cur
	c.mu.Unlock()
	if s != nil {
		_ = s.raw.abort()
	}
}

// Close ends the connection for good: properly while ctx allows, then by force. It returns when nothing of it is left.
func (c *Conn) Close(ctx context.Context) error {
	c.closing.Store(true)
	c.mu.Lock()
	s, started := c.cur, c.started
	c.mu.Unlock()
	var err error
	if s != nil {
		err = s.end(ctx)
	}
	c.cancel()
	if started {
		<-c.done
	}
	return err
}

func (c *Conn) run() {
	defer close(c.done)
	hosts := append([]string(nil), c.cfg.Target.Addresses()...)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	for attempt, next := 0, 0; c.ctx.Err() == nil && !c.closing.Load(); next++ {
		host := hosts[next%len(hosts)]
		s, err := c.dial(host)
		if err != nil {
			if c.ctx.Err() != nil {
				return
			}
			wait := c.failed(host, err, attempt)
			attempt++
			c.sleep(wait)
			continue
		}
		began := time.Now()
		c.set(s, nil)
		call(c.cfg.Connected, host)
		s.wait(c.ctx)
		c.set(nil, s.err)
		if c.cfg.Disconnected != nil {
			c.cfg.Disconnected(host, s.err)
		}
		// A connection that lived is no failure; one that the broker ends at once is.
		if time.Since(began) > 500*time.Millisecond {
			attempt = 0
		}
		c.sleep(backoff(attempt, c.cfg.MinBackoff, c.cfg.MaxBackoff, chance))
		attempt++
	}
}

func call(f func(string), host string) {
	if f != nil {
		f(host)
	}
}

// failed records why a dial failed and returns how long to wait. A broker that refuses the login or has no such virtual
// host is not asked again for seconds: every such dial costs it more than one that succeeds.
func (c *Conn) failed(host string, err error, attempt int) time.Duration {
	wait := backoff(attempt, c.cfg.MinBackoff, c.cfg.MaxBackoff, chance)
	var refused *amqp.Error
	if errors.As(err, &refused) && (refused.Code == amqp.AccessRefused || refused.Code == amqp.NotAllowed) {
		wait += refusedWait
	}
	err = fmt.Errorf("%s: %w", host, err)
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
	if c.cfg.DialFailed != nil {
		c.cfg.DialFailed(host, err, wait)
	}
	return wait
}

func (c *Conn) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

func (c *Conn) set(s *session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cur = s
	if err != nil {
		c.lastErr = err
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Conn) dial(host string) (*session, error) {
	release, err := c.cfg.Limiter.acquire(c.ctx, host)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
	defer cancel()

	tcp, login, err := c.secure(ctx, host)
	if err != nil {
		return nil, err
	}
	raw := gather(tcp, c.cfg.WriteTimeout, c.cfg.Direct)
	// The AMQP handshake knows no context: what ends it is the end of the connection.
	stop := context.AfterFunc(ctx, func() { _ = raw.abort() })
	defer stop()
	properties := amqp.NewConnectionProperties()
	for k, v := range c.cfg.Properties {
		properties[k] = v
	}
	properties.SetClientConnectionName(c.cfg.Name)
	conn, err := amqp.Open(raw, amqp.Config{
		SASL:       login,
		Vhost:      c.cfg.Target.VirtualHost(),
		Heartbeat:  c.cfg.Heartbeat,
		FrameSize:  c.cfg.FrameSize,
		Properties: properties,
		Locale:     "en_US",
	})
	if err != nil {
		_ = raw.abort()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("AMQP handshake: %w", ctx.Err())
		}
		return nil, fmt.Errorf("AMQP handshake: %w", err)
	}
	if !stop() {
		_ = raw.abort()
		return nil, fmt.Errorf("AMQP handshake: %w", ctx.Err())
	}
	return newSession(c, conn, raw, host), nil
}

// secure dials and makes the TLS connection, below the gathering of writes: above it each would be a record of its own.
func (c *Conn) secure(ctx context.Context, host string) (net.Conn, []amqp.Authentication, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	config, err := c.cfg.Target.TLS(name)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS: %w", err)
	}
	login, err := c.cfg.Target.Login(config)
	if err != nil {
		return nil, nil, err
	}
	tcp, err := c.cfg.Dial(ctx, "tcp", host)
	if err != nil || config == nil {
		return tcp, login, err
	}
	secured := tls.Client(tcp, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, login, nil
}

// refusedWait is the least wait after a refused login.
const refusedWait = time.Second

var epochs atomic.Uint64
