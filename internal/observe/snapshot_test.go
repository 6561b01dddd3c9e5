package observe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/policy"
)

// standing is a clock that moves when a test says so.
type standing struct {
	mu sync.Mutex
	at time.Time
}

func (c *standing) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *standing) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const poll = 30 * time.Second

func snapshotOf(t *testing.T, server *brokertest.Server) (Broker, *standing) {
	t.Helper()
	clock := &standing{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	s := NewSnapshots(clock.now, poll)
	target := server.Target(t.Name())
	api, err := server.Connector().Connect(target)
	if err != nil {
		t.Fatal(err)
	}
	return Broker{Client: api, UID: "uid", snapshots: s, shared: s.of(target)}, clock
}

func (c *standing) vhost(t *testing.T, b Broker, parts Parts, age time.Duration) (*policy.Vhost, error) {
	t.Helper()
	return b.Vhost(t.Context(), "/", parts, c.now().Add(-age))
}

func reads(server *brokertest.Server, prefix string) int {
	n := 0
	for _, r := range server.Requests() {
		if strings.HasPrefix(r.Path, prefix) {
			n++
		}
	}
	return n
}

// G1: many passes at once are one bulk read, and what was read is shared until it is too old for who asks.
func TestReadsAreShared(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.AddQueue(broker.Queue{VHost: "/", Name: "orders"})
	b, clock := snapshotOf(t, server)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if v, err := clock.vhost(t, b, Parts{}, poll); err != nil || len(v.Queues) != 1 || v.RunningNodes != 1 || !v.AlarmsKnown {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	wg.Wait()
	expect := func(what string, policies, queues, overviews int) {
		t.Helper()
		got := [3]int{reads(server, "/api/policies"), reads(server, "/api/queues"), reads(server, "/api/overview")}
		if got != [3]int{policies, queues, overviews} {
			t.Errorf("%s: %v reads of policies, queues, overview, want %d, %d, %d", what, got, policies, queues, overviews)
		}
	}
	expect("fifty at once", 1, 1, 1)
	clock.pass(10 * time.Second)
	_, _ = clock.vhost(t, b, Parts{}, poll)
	expect("young enough", 1, 1, 1)
	_, _ = clock.vhost(t, b, Parts{}, 5*time.Second)
	expect("too old for a write", 2, 2, 1)
	v, err := clock.vhost(t, b, Parts{Needs: policy.Needs{Counts: true}}, poll)
	if err != nil || !v.Counted || v.Queues[0].Messages == nil {
		t.Errorf("%+v, %v", v, err)
	}
	expect("with counts too, which is two listings", 2, 4, 1)
	if v, err = clock.vhost(t, b, Parts{}, poll); err != nil || !v.Counted {
		t.Errorf("counts that are there are not used: %v", err)
	}
	expect("what has more is enough", 2, 4, 1)
	clock.pass(poll + time.Second)
	_, _ = clock.vhost(t, b, Parts{}, poll)
	expect("a poll later", 3, 5, 2)
}

// G1: a listing that failed is an error for all who ask, is not asked for again at once, and after a 504 less and less often.
func TestFailuresAreSharedAndSlowDown(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	b, clock := snapshotOf(t, server)
	if _, err := clock.vhost(t, b, Parts{}, poll); err != nil {
		t.Fatal(err)
	}
	clock.pass(poll + time.Second)
	answer := func() error { _, err := clock.vhost(t, b, Parts{}, 0); return err }
	server.ForgetRequests()
	server.FailNext(1, http.StatusInternalServerError)
	if err := answer(); broker.KindOf(err) != broker.Unavailable {
		t.Fatalf("a failed read is no error: %v", err)
	}
	seen := len(server.Requests())
	if err := answer(); err == nil || len(server.Requests()) != seen {
		t.Errorf("asked again at once, %v", err)
	}
	clock.pass(failurePause + time.Second)
	if err := answer(); err != nil {
		t.Errorf("not asked again: %v", err)
	}
	var c cell[int]
	asked := 0
	slow := func() {
		t.Helper()
		_, _, err := c.get(t.Context(), b.snapshots, clock.now(), anything[int], func(context.Context) (int, error) {
			asked++
			return 0, &broker.Error{Kind: broker.Unavailable, TooSlow: true}
		})
		if err == nil {
			t.Fatal("a 504 is no error")
		}
	}
	for i, pause := range []time.Duration{2 * poll, 4 * poll, 8 * poll, 8 * poll} {
		slow()
		clock.pass(pause - time.Second)
		slow()
		clock.pass(time.Second)
		if asked != i+1 {
			t.Errorf("asked %d times, want %d: within %s after a 504", asked, i+1, pause)
		}
	}
}

// What nobody asks for is dropped, and so is what was said to other credentials.
func TestWhatIsNotUsedIsDropped(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.AddVHost("other")
	b, clock := snapshotOf(t, server)
	s := b.snapshots
	for _, name := range []string{"/", "other"} {
		if _, err := b.Vhost(t.Context(), name, Parts{}, clock.now()); err != nil {
			t.Fatal(err)
		}
	}
	for range evictAfter + 1 {
		clock.pass(poll)
		s.of(b.shared.target)
		s.vhost(b.shared, "/")
	}
	if len(b.shared.vhosts) != 1 {
		t.Errorf("%d vhosts are kept", len(b.shared.vhosts))
	}
	other := b.shared.target
	other.Password = "another"
	if s.of(other) == b.shared || len(s.brokers) != 1 {
		t.Error("what was said to other credentials is kept")
	}
}

// One who gives up waiting does not wait for the broker.
func TestWaitingEndsWithTheContext(t *testing.T) {
	s := NewSnapshots(time.Now, poll)
	var c cell[int]
	asked, answer := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, _, err := c.get(t.Context(), s, time.Now(), anything[int], func(context.Context) (int, error) { close(asked); <-answer; return 1, nil })
		done <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.get(ctx, s, time.Now(), anything[int], nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
