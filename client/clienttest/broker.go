package clienttest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Options are how a broker is made. The zero value is a broker of the newest line with the user guest and the vhost "/".
type Options struct {
	// Version is what the broker says it is, and decides what it does where the lines 3.10 and 4.3 differ. Default 4.3.6.
	Version string
	// User and Password are the only ones that may log in. Default guest, guest.
	User, Password string
	// VHosts are the virtual hosts. The first is the one that methods of Broker mean. Default "/".
	VHosts []string
	// TLS makes the listener speak TLS. It must hold a certificate.
	TLS *tls.Config
	// FrameMax is the largest frame in bytes that is offered, at least 4096. Default 131072.
	FrameMax int
	// ChannelMax is the number of channels that is offered. Default 2047.
	ChannelMax int
	// Heartbeat is offered to clients, in whole seconds. Default 60 s, negative for none.
	Heartbeat time.Duration
	// Listen is the address to listen on. Default "127.0.0.1:0".
	Listen string
	// CloseTimeout is how long a client may take to answer connection.close. Default 5 s.
	CloseTimeout time.Duration
}

func (o Options) withDefaults() (Options, error) {
	o.Version = cmp.Or(o.Version, "4.3.6")
	o.User = cmp.Or(o.User, "guest")
	o.Password = cmp.Or(o.Password, "guest")
	if len(o.VHosts) == 0 {
		o.VHosts = []string{"/"}
	}
	o.FrameMax = cmp.Or(o.FrameMax, 131072)
	o.ChannelMax = cmp.Or(o.ChannelMax, 2047)
	o.Heartbeat = max(0, cmp.Or(o.Heartbeat, time.Minute))
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	if o.FrameMax < 4096 || o.ChannelMax < 0 || o.ChannelMax > 65535 || o.Heartbeat > 65535*time.Second {
		return o, errors.New("clienttest: FrameMax, ChannelMax or Heartbeat is out of range")
	}
	return o, nil
}

// Broker is an in-memory RabbitMQ. Its methods may be called from any goroutine, but not from the functions that it calls.
type Broker struct {
	options  Options
	line     line
	listener net.Listener
	gate     *gate
	wg       sync.WaitGroup

	mu         sync.Mutex
	readers    sync.Cond // on mu, for readers that must not go on
	closed     bool
	vhosts     map[string]*vhost
	conns      map[*conn]struct{}
	nextID     uint64
	names      uint64
	dirty      []*conn    // have something to write
	confirming []*channel // have confirms to send
	changed    chan struct{}
	watched    bool
	counters   Counters
	dials      []time.Time

	// Faults.
	paused          bool
	alarm           bool
	alarmReason     string
	holding         bool
	nackNext        int
	plan            func(Published) Verdict
	dropAfter       int
	refusing        bool
	consumerTimeout time.Duration
	consumerTimer   *time.Timer
}

// Start is New for tests: it fails the test on an error and closes the broker at its end. At most one Options is used.
func Start(t testing.TB, options ...Options) *Broker {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// New starts a broker. It fails when the options are out of range or the address cannot be listened on.
func New(o Options) (*Broker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		options: o, gate: newGate(), vhosts: map[string]*vhost{}, conns: map[*conn]struct{}{}, changed: make(chan struct{}),
	}
	if b.line, err = lineOf(o.Version); err != nil {
		return nil, err
	}
	b.readers.L = &b.mu
	for _, name := range o.VHosts {
		b.vhosts[name] = newVHost(b, name)
	}
	if b.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("clienttest: %w", err)
	}
	b.wg.Add(1)
	go b.accept()
	return b, nil
}

// Close ends all connections without a word, and returns when all goroutines have ended. It may be called again.
func (b *Broker) Close() {
	_ = b.listener.Close()
	b.lock()
	if !b.closed {
		b.closed = true
		b.paused = false
		for c := range b.conns {
			c.kill(true)
		}
		for _, v := range b.vhosts {
			for _, q := range v.queues {
				q.stopTimer()
			}
		}
		if b.consumerTimer != nil {
			b.consumerTimer.Stop()
		}
		b.readers.Broadcast()
	}
	b.unlock()
	b.wg.Wait()
}

// Addr is where the broker listens, "127.0.0.1:PORT".
func (b *Broker) Addr() string { return b.listener.Addr().String() }

// URL is the address with user, password and the first vhost, as amqp091-go takes it.
func (b *Broker) URL() string {
	scheme := "amqp"
	if b.options.TLS != nil {
		scheme = "amqps"
	}
	u := url.URL{Scheme: scheme, User: url.UserPassword(b.options.User, b.options.Password), Host: b.Addr()}
	return u.String() + "/" + url.PathEscape(b.options.VHosts[0])
}

// accept takes connections until the listener is closed.
func (b *Broker) accept() {
	defer b.wg.Done()
	for {
		raw, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.welcome(raw)
	}
}

func (b *Broker) welcome(raw net.Conn) {
	b.lock()
	defer b.unlock()
	if b.closed || b.refusing {
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = raw.Close()
		b.counters.Refused++
		return
	}
	b.counters.Accepted++
	b.dials = append(b.dials, time.Now())
	c := b.newConn(raw)
	b.nextID++
	c.id = b.nextID
	b.conns[c] = struct{}{}
	b.wg.Add(2)
	go c.read()
	go c.write()
}

func (b *Broker) lock() { b.mu.Lock() }

// unlock tells first those who must act on what has changed.
func (b *Broker) unlock() {
	b.settle()
	b.mu.Unlock()
}

// settle sends confirms that have piled up, and wakes the writers and who waits for a change.
func (b *Broker) settle() {
	for _, ch := range b.confirming {
		ch.flushConfirms()
	}
	b.confirming = b.confirming[:0]
	for _, c := range b.dirty {
		c.dirty = false
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	b.dirty = b.dirty[:0]
	if b.watched {
		b.watched = false
		close(b.changed)
		b.changed = make(chan struct{})
	}
}
