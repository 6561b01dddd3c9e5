package link

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is one open connection.
type session struct {
	conn *Conn
	amqp *amqp.Connection
	raw  *gathered
	host string
	lost chan struct{} // closed when the connection has ended
	err  error         // why; set before lost is closed

	closing atomic.Bool // by us

	mu        sync.Mutex
	unblocked chan struct{} // closed while the broker takes messages
	isBlocked atomic.Bool
}

func newSession(c *Conn, conn *amqp.Connection, raw *gathered, host string) *session {
	s := &session{conn: c, amqp: conn, raw: raw, host: host, lost: make(chan struct{}), unblocked: make(chan struct{})}
	close(s.unblocked)
	closes := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocks := conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	go func() {
		for b := range blocks {
			s.block(b)
		}
	}()
	go func() {
		s.err = ErrClosed
		// When we closed it, the end of the socket may come before the AMQP library has noted that.
		if err := <-closes; err != nil && !s.closing.Load() {
			s.err = err
		}
		_ = raw.abort()
		close(s.lost)
	}()
	return s
}

func (s *session) block(b amqp.Blocking) {
	s.mu.Lock()
	if b.Active == s.isBlocked.Load() {
		s.mu.Unlock()
		return
	}
	s.isBlocked.Store(b.Active)
	if b.Active {
		s.unblocked = make(chan struct{})
	} else {
		close(s.unblocked)
	}
	s.mu.Unlock()
	s.raw.hold(b.Active)
	if b.Active && s.conn.cfg.Blocked != nil {
		s.conn.cfg.Blocked(s.host, b.Reason)
	}
	if !b.Active {
		call(s.conn.cfg.Unblocked, s.host)
	}
}

func (s *session) ended() bool {
	select {
	case <-s.lost:
		return true
	default:
		return s.amqp.IsClosed()
	}
}

// wait until the connection has ended. It is aborted when ctx ends first.
func (s *session) wait(ctx context.Context) {
	select {
	case <-s.lost:
	case <-ctx.Done():
		_ = s.raw.abort()
		<-s.lost
	}
}

// end closes the connection, by force when ctx ends (or after 5 s) before the broker has answered.
func (s *session) end(ctx context.Context) error {
	deadline := time.Now().Add(5 * time.Second)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	s.closing.Store(true)
	closed := make(chan error, 1)
	go func() { closed <- s.amqp.CloseDeadline(deadline) }()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var err error
	select {
	case err = <-closed:
		if errors.Is(err, amqp.ErrClosed) {
			err = nil
		}
	case <-timer.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = s.raw.abort()
	<-s.lost
	return err
}

// open a channel. AMQP's own call knows no context: a channel that comes too late is closed.
func (s *session) open(ctx context.Context) (*Channel, error) {
	type result struct {
		ch  *amqp.Channel
		err error
	}
	results := make(chan result, 1)
	go func() {
		ch, err := s.amqp.Channel()
		results <- result{ch, err}
	}()
	select {
	case r := <-results:
		if r.err != nil {
			return nil, r.err
		}
		return newChannel(s, r.ch), nil
	case <-ctx.Done():
		go func() {
			if r := <-results; r.ch != nil {
				_ = r.ch.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Channel is an open channel. It is used until it is lost and never comes back.
type Channel struct {
	*amqp.Channel
	// Epoch is a number that no other channel of the process has.
	Epoch uint64

	session *session
	lost    chan struct{}
	err     error
}

func newChannel(s *session, ch *amqp.Channel) *Channel {
	c := &Channel{Channel: ch, Epoch: epochs.Add(1), session: s, lost: make(chan struct{}), err: ErrClosed}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if err := <-closes; err != nil {
			c.err = err
		}
		close(c.lost)
	}()
	return c
}

// Lost is closed when the channel has ended, for whatever reason.
func (c *Channel) Lost() <-chan struct{} { return c.lost }

// Err is why the channel ended; only to be called after Lost was closed.
func (c *Channel) Err() error { return c.err }

// Host that the channel's connection leads to, as HOST:PORT.
func (c *Channel) Host() string { return c.session.host }

// Unblocked is closed while the broker takes messages on the connection. When it is not, wait for it or for Lost.
func (c *Channel) Unblocked() <-chan struct{} {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.session.unblocked
}

// Blocked tells whether the broker has said that it takes no messages for now.
func (c *Channel) Blocked() bool { return c.session.isBlocked.Load() }

// FrameSize is the largest frame that was agreed on, in bytes; 0 is no bound.
func (c *Channel) FrameSize() int { return c.session.amqp.Config.FrameSize }

// Drop ends the whole connection at once, for a broker that no longer answers.
func (c *Channel) Drop() { _ = c.session.raw.abort() }

// Shut closes the channel, waiting for the broker's answer as long as ctx allows; then the whole connection is dropped.
func (c *Channel) Shut(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- c.Channel.Close() }()
	select {
	case err := <-closed:
		if errors.Is(err, amqp.ErrClosed) {
			return nil
		}
		return err
	case <-ctx.Done():
		c.Drop()
		return ctx.Err()
	}
}
