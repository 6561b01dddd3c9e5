package link

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
)

const within = 10 * time.Second

type cluster struct {
	hosts  []string
	secure *tls.Config
	login  func() (string, string, error)
}

func (c cluster) Addresses() []string { return c.hosts }
func (c cluster) VirtualHost() string { return "/" }
func (c cluster) TLS(host string) (*tls.Config, error) {
	if c.secure == nil {
		return nil, nil
	}
	config := c.secure.Clone()
	config.ServerName = host
	return config, nil
}

func (c cluster) Login(*tls.Config) ([]amqp.Authentication, error) {
	username, password := "guest", "guest"
	if c.login != nil {
		var err error
		if username, password, err = c.login(); err != nil {
			return nil, err
		}
	}
	return []amqp.Authentication{&amqp.PlainAuth{Username: username, Password: password}}, nil
}

func config(hosts ...string) Config {
	return Config{
		Target: cluster{hosts: hosts}, Name: "test", MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
		Limiter: NewLimiter(1000, 1000),
	}
}

func connect(t *testing.T, cfg Config) *Conn {
	t.Helper()
	c := New(cfg)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func channel(t *testing.T, c *Conn) *Channel {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ch, err := c.Channel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("%s did not happen", what)
	}
}

func TestAConnectionIsOpenedWhenItIsWanted(t *testing.T) {
	b := clienttest.Start(t)
	c := connect(t, config(b.Addr()))
	if n := b.Counters().Accepted; n != 0 {
		t.Errorf("%d connections before the first channel", n)
	}
	one, two := channel(t, c), channel(t, c)
	if one.Epoch == two.Epoch {
		t.Error("two channels have one epoch")
	}
	if got := b.Connections(); len(got) != 1 || got[0].Name != "test" || len(got[0].Channels) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestALostConnectionIsOpenedAgain(t *testing.T) {
	b := clienttest.Start(t)
	lost := make(chan error, 8)
	cfg := config(b.Addr())
	cfg.Disconnected = func(host string, err error) { lost <- err }
	c := connect(t, cfg)
	first := channel(t, c)
	b.DropConnections()
	await(t, "the loss", first.Lost())
	if err := <-lost; err == nil {
		t.Error("nobody said why")
	}
	second := channel(t, c)
	if second.Epoch == first.Epoch {
		t.Error("a channel was revived")
	}
	if err := first.Ack(1, true); err == nil {
		t.Error("the lost channel can still acknowledge")
	}
}

func TestAClosedChannelLeavesTheConnection(t *testing.T) {
	b := clienttest.Start(t)
	c := connect(t, config(b.Addr()))
	ch := channel(t, c)
	if _, err := ch.QueueDeclarePassive("nowhere", false, false, false, false, nil); err == nil {
		t.Fatal("a queue that does not exist was found")
	}
	await(t, "the loss", ch.Lost())
	var closed *amqp.Error
	if !errors.As(ch.Err(), &closed) || closed.Code != amqp.NotFound {
		t.Errorf("got %v", ch.Err())
	}
	channel(t, c)
	if n := b.Counters().Accepted; n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestBlockedAndUnblocked(t *testing.T) {
	b := clienttest.Start(t)
	blocked, unblocked := make(chan string, 1), make(chan struct{}, 1)
	cfg := config(b.Addr())
	cfg.Blocked = func(_, reason string) { blocked <- reason }
	cfg.Unblocked = func(string) { unblocked <- struct{}{} }
	ch := channel(t, connect(t, cfg))
	if ch.Blocked() {
		t.Error("blocked from the start")
	}
	await(t, "leave to send", ch.Unblocked())
	b.Block("low on memory")
	_ = ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{})
	if got := <-blocked; got != "low on memory" || !ch.Blocked() {
		t.Errorf("got %q", got)
	}
	select {
	case <-ch.Unblocked():
		t.Error("it may send while it is blocked")
	default:
	}
	waits := ch.Unblocked()
	b.Unblock()
	await(t, "the end", waits)
	<-unblocked
}

func TestHostsTakeTurns(t *testing.T) {
	b := clienttest.Start(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	failed := make(chan string, 64)
	cfg := config(dead.Addr().String(), b.Addr())
	cfg.DialFailed = func(host string, err error, wait time.Duration) { failed <- host }
	c := connect(t, cfg)
	for range 6 {
		ch := channel(t, c)
		if ch.Host() != b.Addr() {
			t.Errorf("connected to %s", ch.Host())
		}
		b.DropConnections()
		await(t, "the loss", ch.Lost())
	}
	if len(failed) == 0 || <-failed != dead.Addr().String() {
		t.Error("the other host was never tried")
	}
}

func TestARefusedLoginIsNotRepeatedAtOnceAndFollowsANewPassword(t *testing.T) {
	b := clienttest.Start(t)
	waits := make(chan time.Duration, 8)
	var password atomic.Value
	password.Store("wrong-secret")
	cfg := config(b.Addr())
	cfg.Target = cluster{hosts: []string{b.Addr()}, login: func() (string, string, error) { return "guest", password.Load().(string), nil }}
	cfg.DialFailed = func(_ string, err error, wait time.Duration) {
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats the password: %v", err)
		}
		password.Store("guest")
		waits <- wait
	}
	channel(t, connect(t, cfg))
	if wait := <-waits; wait < refusedWait {
		t.Errorf("the next try is after %v", wait)
	}
	if n := b.Counters().AuthFailures; n != 1 {
		t.Errorf("%d refused logins", n)
	}
}

func TestWhatIsClosedIsNotOpenedAgain(t *testing.T) {
	b := clienttest.Start(t)
	for range 50 {
		c := New(config(b.Addr()))
		channel(t, c)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Counters().Accepted; n != 50 {
		t.Errorf("%d connections", n)
	}
}

func TestTheErrorHasTheLastFailureInIt(t *testing.T) {
	b := clienttest.Start(t)
	b.RefuseConnections(true)
	c := connect(t, config(b.Addr()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Channel(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("got %v", err)
	}
}

func TestAHandshakeThatNobodyAnswersEnds(t *testing.T) {
	b := clienttest.Start(t)
	b.Pause()
	failed := make(chan error, 8)
	cfg := config(b.Addr())
	cfg.DialTimeout = 20 * time.Millisecond
	cfg.DialFailed = func(_ string, err error, _ time.Duration) { failed <- err }
	c := connect(t, cfg)
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		_, err := c.Channel(ctx)
		got <- err
	}()
	if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	b.Resume()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestCloseIsBoundedWhenTheBrokerIsSilent(t *testing.T) {
	b := clienttest.Start(t)
	c := New(config(b.Addr()))
	ch := channel(t, c)
	b.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	await(t, "the loss", ch.Lost())
	if _, err := c.Channel(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	b.Resume()
}

func TestCloseBeforeTheFirstConnection(t *testing.T) {
	c := New(config("127.0.0.1:1"))
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Channel(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCloseSaysGoodbye(t *testing.T) {
	b := clienttest.Start(t)
	var why error = errors.New("not told")
	told := make(chan struct{})
	cfg := config(b.Addr())
	cfg.Disconnected = func(_ string, err error) { why = err; close(told) }
	c := New(cfg)
	channel(t, c)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, "the end", told)
	if !errors.Is(why, ErrClosed) {
		t.Errorf("got %v", why)
	}
	b.WaitFor(t, "no connection", func() bool { return len(b.Connections()) == 0 })
}

func TestAChannelThatComesTooLateIsClosed(t *testing.T) {
	b := clienttest.Start(t)
	c := connect(t, config(b.Addr()))
	first := channel(t, c)
	b.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Channel(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	b.Resume()
	b.WaitFor(t, "one channel", func() bool {
		got := b.Connections()
		return len(got) == 1 && len(got[0].Channels) == 1
	})
	if err := first.Shut(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutDropsAConnectionThatDoesNotAnswer(t *testing.T) {
	b := clienttest.Start(t)
	c := connect(t, config(b.Addr()))
	ch := channel(t, c)
	b.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := ch.Shut(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	await(t, "the loss", ch.Lost())
	b.Resume()
	channel(t, c)
}

// Many that lose their broker together come back spread out: at most one dial at a time, and no faster than the limit.
func TestNoStormWhenManyReconnect(t *testing.T) {
	b := clienttest.Start(t)
	limiter := NewLimiter(100, 5)
	var all []*Conn
	for range 20 {
		cfg := config(b.Addr())
		cfg.Limiter = limiter
		all = append(all, connect(t, cfg))
	}
	for _, c := range all {
		channel(t, c)
	}
	b.DropConnections()
	for _, c := range all {
		channel(t, c)
	}
	dials := b.Dials()
	for i := range dials {
		if i+15 < len(dials) {
			// 15 more than this one: 5 may come at once, 10 take at least 90 ms at 100 a second.
			if d := dials[i+15].Sub(dials[i]); d < 80*time.Millisecond {
				t.Errorf("16 dials within %v", d)
			}
		}
	}
}
