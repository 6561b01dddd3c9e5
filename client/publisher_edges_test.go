package warren

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
)

// Each of these would make the AMQP library or the broker end the connection, as often as it was sent.
func TestHeadersThatEndConnectionsAreRefused(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	p := newPublisher(t, newRouter(t, b))
	itself := map[string]any{}
	itself["k"] = itself
	for name, headers := range map[string]map[string]any{
		"a long name":    {strings.Repeat("k", 256): 1},
		"one in a table": {"k": map[string]any{strings.Repeat("k", 256): 1}},
		"one in a list":  {"k": []any{amqp.Table{strings.Repeat("k", 256): 1}}},
		"a large frame":  {"k": strings.Repeat("k", maxFrame)},
		"many values":    {"k": make([]any, maxFrame)},
		"endless":        itself,
	} {
		if err := p.Publish(soon(t), Message{Queue: "worker.a", Headers: headers}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Publish(soon(t), Message{Queue: "worker.a", Headers: map[string]any{"k": strings.Repeat("k", maxFrame-200)}}); err != nil {
		t.Errorf("what just fits: %v", err)
	}
	if n := len(b.Dials()); n != 1 {
		t.Errorf("%d connections were made", n)
	}
	nothingCharged(t, p)
}

func TestHeadersThatAreTooLargeForTheBrokerAreRefused(t *testing.T) {
	b := clienttest.Start(t, clienttest.Options{FrameMax: 4096})
	declare(t, b, "worker.a")
	p := newPublisher(t, newRouter(t, b))
	large := async(t, p, Message{Queue: "worker.a", Headers: map[string]any{"k": strings.Repeat("k", 5000)}})
	if err := p.Publish(soon(t), to("worker.a", "x")); err != nil {
		t.Error(err)
	}
	if err := large.Wait(soon(t)); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	if n := len(b.Dials()); n != 1 {
		t.Errorf("%d connections were made", n)
	}
	nothingCharged(t, p)
}

func TestWhatWasTakenBackIsNotKept(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	p := newPublisher(t, newRouter(t, b), BufferBytes(64<<10))
	b.RefuseConnections(true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 {
		if err := p.Publish(gone, Message{Queue: "worker.a", Body: make([]byte, 1000)}); !errors.Is(err, ErrNotSent) {
			t.Fatal(err)
		}
	}
	kept, bytes := 0, 0
	for _, pi := range p.pipes {
		for _, s := range pi.shards {
			s.mu.Lock()
			for _, c := range append(slices.Clone(s.queue), s.again...) {
				kept++
				bytes += len(c.m.Body)
			}
			s.mu.Unlock()
		}
	}
	for _, l := range p.lanes {
		if l.inflight != kept {
			t.Errorf("the lane counts %d messages, there are %d", l.inflight, kept)
		}
	}
	if kept > 200 || bytes > 0 {
		t.Errorf("%d messages with %d bytes are kept", kept, bytes)
	}
	b.RefuseConnections(false)
	if err := p.Publish(soon(t), to("worker.a", "x")); err != nil {
		t.Error(err)
	}
	if got := bodies(b, "worker.a"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("got %v", got)
	}
	nothingCharged(t, p)
}

func TestWhatWasTakenBackIsNotKeptWhilePublishersHold(t *testing.T) {
	m := newMoving(t, "worker.a")
	p := newPublisher(t, m.r)
	m.to("Held")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 {
		if err := p.Publish(gone, to("worker.a", "x")); !errors.Is(err, ErrNotSent) {
			t.Fatal(err)
		}
	}
	for _, l := range p.lanes {
		if n := len(l.waiting); n > 200 {
			t.Errorf("%d messages are kept", n)
		}
	}
}

func TestAHoldThatIsTakenBackKeepsTheOrder(t *testing.T) {
	m := newMoving(t, "worker.a")
	p := newPublisher(t, m.r, ConfirmWindow(1))
	m.old.HoldConfirms()
	for i := range 4 {
		async(t, p, to("worker.a", fmt.Sprint(i)))
		if i == 0 {
			m.old.WaitFor(t, "one", func() bool { return m.old.Counters().Published == 1 })
		}
	}
	s := p.lanes[laneKey{queue: "worker.a"}].home.shards[0]
	until(t, "others claimed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue) < 3
	})
	async(t, p, to("worker.a", "4"))
	m.to("Held")
	async(t, p, to("worker.a", "5"))
	m.to("Before")
	async(t, p, to("worker.a", "6"))
	m.old.ReleaseConfirms()
	if err := p.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := bodies(m.old, "worker.a"); !slices.Equal(got, numbers(7)) {
		t.Errorf("got %v", got)
	}
}

func TestCloseSettlesWhatComesAtItsEnd(t *testing.T) {
	b := clienttest.Start(t)
	b.RefuseConnections(true)
	var p *Publisher
	var late *Confirmation
	var once sync.Once
	r := newRouter(t, b, WithHooks(Hooks{Published: func(PublishEvent) {
		once.Do(func() {
			time.Sleep(50 * time.Millisecond) // the goroutines of channels may end
			late.lane.submit(late)
		})
	}}))
	p = newPublisher(t, r)
	for i := range 20 {
		async(t, p, to(fmt.Sprint("worker.", i), ""))
	}
	for _, l := range p.lanes {
		for _, off := range l.update(l.want, true) {
			t.Fatal(off)
		}
	}
	m := to("worker.open", "")
	open, err := p.lane(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	late = &Confirmation{p: p, m: m, born: time.Now(), generation: newGeneration(), lane: open}
	late.generation.join()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(gone); err == nil {
		t.Error("nothing was left")
	}
	if open.inflight > 0 && !late.over() {
		t.Error("a message that was accepted during Close never settles")
	}
}

func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	p := newPublisher(t, newRouter(t, b))
	b.HoldConfirms()
	c := async(t, p, to("worker.a", "x"))
	first := make(chan error, 1)
	go func() { first <- p.Close(soon(t)) }()
	until(t, "Close", func() bool {
		p.mu.RLock()
		defer p.mu.RUnlock()
		return p.closed
	})
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second Close answered %v before the first", err)
	}
	b.ReleaseConfirms()
	if err := errors.Join(<-first, p.Close(soon(t)), c.Wait(soon(t))); err != nil {
		t.Error(err)
	}
}

func TestRouteFailedHookMayPublish(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	var p *Publisher
	var told error
	p = newPublisher(t, newRouter(t, b, WithHooks(Hooks{RouteFailed: func(err error) {
		told = errors.Join(err, p.Publish(soon(t), to("worker.a", "y")))
	}})))
	async(t, p, Message{Queue: "worker.a", Class: "worker", Body: []byte("x")})
	other := routerFor(t, []string{"RMQ_OTHER_HOSTS=" + b.Addr()})
	done := make(chan struct{})
	go func() {
		p.reroute(other.source.Table())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		t.Fatal("hang")
	}
	if !errors.Is(told, ErrNoRoute) {
		t.Error(told)
	}
}

func TestIntegersInTablesAreSentWhole(t *testing.T) {
	h, _, err := table(map[string]any{"a": amqp.Table{"b": 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	if got := h["a"].(amqp.Table)["b"]; got != int64(1<<40) {
		t.Errorf("%T", got)
	}
}

func TestWhatIsConfirmedIsNotCharged(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	p := newPublisher(t, newRouter(t, b), FailWhenFull(), BufferBytes(300), BatchMaxBytes(1))
	for i := range 3000 {
		if err := p.Publish(soon(t), to("worker.a", "x")); err != nil {
			t.Fatalf("message %d, alone: %v", i, err)
		}
	}
}
