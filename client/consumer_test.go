package warren

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/client/envelope"
)

const queue = "worker.resize"

var errBroken = errors.New("broken")

// quorum is a queue that counts deliveries.
var quorum = clienttest.Table{"x-queue-type": "quorum"}

// fill publishes numbered messages.
func fill(t *testing.T, b *clienttest.Broker, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		put(t, b, fmt.Sprint(i), nil)
	}
}

func put(t *testing.T, b *clienttest.Broker, body string, headers clienttest.Table) {
	t.Helper()
	m := clienttest.Message{Body: []byte(body), Properties: clienttest.Properties{MessageID: "id-" + body, DeliveryMode: 2, Headers: headers}}
	if err := b.Publish(queue, m); err != nil {
		t.Fatal(err)
	}
}

// running is a consumer that runs.
type running struct {
	*Consumer
	t      *testing.T
	cancel context.CancelFunc
	result chan error
}

func consume(t *testing.T, r *Router, h Handler, opts ...ConsumeOption) *running {
	t.Helper()
	c, err := r.NewConsumer(queue, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &running{Consumer: c, t: t, cancel: cancel, result: make(chan error, 1)}
	go func() { out.result <- c.Run(ctx) }()
	t.Cleanup(cancel)
	return out
}

// ends waits for Run.
func (c *running) ends() error {
	c.t.Helper()
	select {
	case err := <-c.result:
		return err
	case <-time.After(within):
		c.t.Fatal("the consumer does not end")
		return nil
	}
}

// drain ends the consumer in good order.
func (c *running) drain() {
	c.t.Helper()
	c.cancel()
	if err := c.ends(); err != nil {
		c.t.Errorf("drained with %v", err)
	}
}

// seen is what handlers got, in the order they began.
type seen struct {
	mu      sync.Mutex
	bodies  []string
	batches []int
	changed chan struct{}
}

func newSeen() *seen { return &seen{changed: make(chan struct{}, 1)} }

func (s *seen) add(b *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, b.Len())
	for _, m := range b.Messages() {
		s.bodies = append(s.bodies, string(m.Body))
	}
	notify(s.changed)
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *seen) wait(t *testing.T, n int) {
	t.Helper()
	for deadline := time.After(within); len(s.all()) < n; {
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("handlers got %d messages, want %d", len(s.all()), n)
		}
	}
}

func handle(context.Context, *Batch) error { return nil }

func empty(t *testing.T, b *clienttest.Broker, name string) {
	t.Helper()
	b.WaitFor(t, "empty queue "+name, func() bool {
		ready, unacked := b.Depth(name)
		return ready+unacked == 0
	})
}

func TestTheCallSite(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 250)
	router := newRouter(t, b)
	work := func(_ context.Context, m *Delivery) error {
		if string(m.Body) == "77" {
			return errBroken
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		result <- router.Consume(ctx, queue, func(ctx context.Context, batch *Batch) error {
			for _, m := range batch.Messages() {
				if err := work(ctx, m); err != nil {
					m.DeadLetter(err)
				}
			}
			return nil
		}, BatchSize(100), BatchWait(50*time.Millisecond), Workers(10), TargetLatency(200*time.Millisecond))
	}()
	empty(t, b, queue)
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if got := bodies(b, queue+".dead-letters"); !slices.Equal(got, []string{"77"}) {
		t.Errorf("dead letters: %v", got)
	}
}

func TestOnePoisonousMessageLeavesTheOthersAlone(t *testing.T) {
	for name, h := range map[string]func(*Delivery){
		"verdict": func(m *Delivery) { m.DeadLetter(errBroken) },
		"panic":   func(*Delivery) { panic(errBroken) },
	} {
		t.Run(name, func(t *testing.T) {
			b := clienttest.Start(t)
			if err := b.DeclareQueue(queue, quorum); err != nil {
				t.Fatal(err)
			}
			fill(t, b, 0, 250)
			put(t, b, "poison", clienttest.Table{"tenant": "a", "CC": []any{"elsewhere"}})
			fill(t, b, 250, 499)
			var reason error
			r := newRouter(t, b, WithHooks(Hooks{DeadLettered: func(_ string, err error) { reason = err }}))
			c := consume(t, r, func(_ context.Context, batch *Batch) error {
				for _, m := range batch.Messages() {
					if string(m.Body) == "poison" {
						h(m)
					}
				}
				return nil
			}, BatchSize(500), Workers(1))
			empty(t, b, queue)
			c.drain()
			n := b.Counters()
			if n.Redelivered != 0 || n.Rejected+n.Nacked != 0 || n.Acked != 500 || n.AckFrames > 10 || n.AckFrames != n.AckFramesMultiple {
				t.Errorf("others were disturbed: %+v", n)
			}
			q, _ := b.Queue(queue + ".dead-letters")
			if len(q.Ready) != 1 || !q.Durable {
				t.Fatalf("dead letters: %+v", q)
			}
			dead := q.Ready[0]
			headers := dead.Properties.Headers
			text, _ := headers[HeaderDeathReason].(string)
			if string(dead.Body) != "poison" || dead.Properties.MessageID != "id-poison" || headers["tenant"] != "a" ||
				headers[HeaderDeathQueue] != queue || !strings.Contains(text, "broken") || strings.Contains(text, "goroutine") ||
				headers[HeaderDeathAttempts] != int64(1) || headers["CC"] != nil {
				t.Errorf("the dead letter: %q %+v", dead.Body, dead.Properties)
			}
			if at, ok := headers[HeaderDeathTime].(time.Time); !ok || time.Since(at) > time.Minute {
				t.Errorf("it died at %v", headers[HeaderDeathTime])
			}
			if reason == nil || !strings.Contains(reason.Error(), "broken") {
				t.Errorf("the hook was told %v", reason)
			}
		})
	}
}

func TestAPanicHasTheOthersHandledAgainOnce(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 10)
	var events []HandleEvent
	r := newRouter(t, b, WithHooks(Hooks{Handled: func(e HandleEvent) { events = append(events, e) }}))
	calls := map[string]int{}
	c := consume(t, r, func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			calls[string(m.Body)]++
		}
		batch.Messages()[0].DeadLetter(errors.New("decided before"))
		for _, m := range batch.Messages() {
			switch string(m.Body) {
			case "5":
				panic("five")
			case "6":
				m.DeadLetter(errBroken)
			}
		}
		return nil
	}, BatchSize(10), Workers(1), BatchWait(time.Hour), ConsumerTimeout(1000*time.Hour))
	empty(t, b, queue)
	c.drain()
	for i := range 10 {
		want := 2
		if i == 0 {
			want = 1
		}
		if got := calls[fmt.Sprint(i)]; got != want {
			t.Errorf("%d was handled %d times, want %d", i, got, want)
		}
	}
	// Alone each is the first of its batch, and decided on; but a panic does not undo that.
	if len(events) != 1 || events[0].DeadLettered != 10 || !strings.Contains(events[0].Err.Error(), "goroutine") {
		t.Errorf("reported %+v", events)
	}
}

func TestABatchWaitsFromItsFirstMessage(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 3)
	s := newSeen()
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		s.add(batch)
		return nil
	}, BatchWait(20*time.Millisecond))
	s.wait(t, 3) // though the batch is not full and nothing more comes
	c.drain()

	fill(t, b, 0, 25)
	s = newSeen()
	c = consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		s.add(batch)
		return nil
	}, BatchWait(time.Hour), BatchSize(10), ConsumerTimeout(1000*time.Hour))
	s.wait(t, 20) // though no time has passed
	c.drain()
	if !slices.Equal(s.batches, []int{10, 10}) {
		t.Errorf("batches of %v", s.batches)
	}
	if ready, _ := b.Depth(queue); ready != 5 {
		t.Errorf("%d messages were given back, want 5", ready)
	}
}

func TestOptionsThatCannotWorkAreRefusedWithTheFix(t *testing.T) {
	b := clienttest.Start(t)
	r := newRouter(t, b)
	for _, tt := range []struct {
		name string
		opts []ConsumeOption
		want string // empty: accepted
	}{
		{"defaults", nil, ""},
		{"as much as a quorum queue gives", []ConsumeOption{BatchSize(400)}, ""},
		{"more than a quorum queue gives", []ConsumeOption{BatchSize(500)}, "BatchSize(400)"},
		{"more, knowingly", []ConsumeOption{BatchSize(500), Prefetch(2500)}, ""},
		{"a prefetch that never fills the batches", []ConsumeOption{Prefetch(499)}, "Prefetch(500)"},
		{"a prefetch that AMQP cannot say", []ConsumeOption{Prefetch(65536)}, "Prefetch(65535)"},
		{"no workers", []ConsumeOption{Workers(0)}, "Workers(0)"},
		{"no attempts", []ConsumeOption{MaxAttempts(0)}, "MaxAttempts(0)"},
		{"negative", []ConsumeOption{BatchWait(-1)}, "BatchWait"},
		{"a handler that outlives the consumer", []ConsumeOption{HandlerTimeout(12 * time.Minute)}, "HandlerTimeout(10m54"},
		{"that long with a longer consumer timeout", []ConsumeOption{HandlerTimeout(12 * time.Minute), ConsumerTimeout(time.Hour)}, ""},
		{"a wait beyond the consumer timeout", []ConsumeOption{BatchWait(time.Hour)}, "BatchWait"},
		{"a delay beyond the consumer timeout", []ConsumeOption{RetryDelay(time.Hour)}, "RetryDelay"},
		{"dead letters into the queue", []ConsumeOption{DeadLetterTo(queue)}, "is the queue itself"},
		{"two ways for dead letters", []ConsumeOption{DeadLetterTo("a"), DeadLetterByReject()}, "leave one out"},
		{"an argument that AMQP does not know", []ConsumeOption{ConsumerArguments(map[string]any{"a": struct{}{}})}, "ConsumerArguments"},
		{"a class that there is not", []ConsumeOption{ForClass("none")}, "no route"},
	} {
		_, err := r.NewConsumer(queue, handle, tt.opts...)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case tt.want != "" && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNoRoute):
			t.Errorf("%s: %v is not ErrInvalid", tt.name, err)
		}
	}
	if _, err := r.NewConsumer(queue, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a handler: %v", err)
	}
}

func TestAcknowledgementsOfALostConnectionAreDroppedAndCounted(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 30)
	var stale atomic.Int64
	r := newRouter(t, b, WithHooks(Hooks{StaleAck: func(_ string, n int) { stale.Add(int64(n)) }}))
	held := make(chan struct{})
	var cancelled, calls atomic.Int64
	s := newSeen()
	c := consume(t, r, func(ctx context.Context, batch *Batch) error {
		s.add(batch)
		if calls.Add(1) <= 3 {
			<-ctx.Done()
			cancelled.Add(1)
			<-held
			return nil // too late
		}
		return nil
	}, BatchSize(10), Workers(3), BatchWait(time.Hour), ConsumerTimeout(1000*time.Hour))
	s.wait(t, 30)
	b.DropConnections()
	b.WaitFor(t, "a second connection", func() bool { return len(b.Connections()) > 0 })
	close(held)
	empty(t, b, queue)
	c.drain()
	if stale.Load() != 30 || c.Stats().StaleAcks != 30 || cancelled.Load() != 3 {
		t.Errorf("%d were counted as stale, %d handlers were told", stale.Load(), cancelled.Load())
	}
	if n := b.Counters(); n.UnknownTags != 0 || n.Acked != 30 || n.Redelivered != 30 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestAConnectionMayBeLostAHundredTimes(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	const n = 2000
	fill(t, b, 0, n)
	var mu sync.Mutex
	acked := map[string]bool{}
	c := consume(t, newRouter(t, b), func(ctx context.Context, batch *Batch) error {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range batch.Messages() {
			acked[string(m.Body)] = true
		}
		return nil
	}, BatchSize(10), BatchWait(time.Millisecond), MaxAttempts(1000), QuarantineAfter(1000))
	for i := uint64(1); i <= 50; i++ {
		_ = b.Wait(soon(t), func() bool { return b.Counters().AckFrames >= i || len(b.Connections()) > 0 })
		b.DropConnections("test (consume)")
	}
	empty(t, b, queue)
	c.drain()
	if got := b.Counters(); got.UnknownTags != 0 || got.Acked != n || len(acked) != n {
		t.Errorf("%d of %d were handled; the broker saw %+v", len(acked), n, got)
	}
}

func TestBatchesThatEndInAnyOrderAreAcknowledgedInTheOrderOfTheQueue(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	const n = 400
	fill(t, b, 0, n)
	var mu sync.Mutex
	waiting := map[string]chan struct{}{}
	s := newSeen()
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		release := make(chan struct{})
		mu.Lock()
		waiting[string(batch.Messages()[0].Body)] = release
		mu.Unlock()
		s.add(batch)
		<-release
		return nil
	}, BatchSize(10), Workers(8), BatchWait(time.Hour), ConsumerTimeout(1000*time.Hour))
	open := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		close(waiting[body])
		delete(waiting, body)
	}
	s.wait(t, 80)
	for _, first := range []string{"70", "20", "10", "50"} {
		open(first)
	}
	s.wait(t, 90) // all that the prefetch allows
	if got := b.Counters().Acked; got != 0 {
		t.Errorf("%d were acknowledged before the first batch", got)
	}
	open("0")
	b.WaitFor(t, "acks up to the gap", func() bool { return b.Counters().Acked == 30 })
	for opened := 5; opened < n/10; opened++ {
		s.wait(t, 10*opened+1)
		mu.Lock()
		var some []string
		for first := range waiting {
			some = append(some, first)
		}
		mu.Unlock()
		open(some[rand.IntN(len(some))])
	}
	empty(t, b, queue)
	c.drain()
	if got := b.Counters(); got.UnknownTags != 0 || got.AckFrames != got.AckFramesMultiple || got.AckFrames > n/10 {
		t.Errorf("the broker saw %+v", got)
	}
}

func TestAckEachDoesNotWaitForEarlierBatches(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 30)
	first := make(chan struct{})
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		if string(batch.Messages()[0].Body) == "0" {
			<-first
		}
		return nil
	}, BatchSize(10), Workers(3), BatchWait(time.Hour), AckEach(), ConsumerTimeout(1000*time.Hour))
	b.WaitFor(t, "acks of the later ones", func() bool { return b.Counters().Acked == 20 })
	close(first)
	empty(t, b, queue)
	c.drain()
	if n := b.Counters(); n.UnknownTags != 0 || n.AckFramesMultiple != 1 || n.AckFrames != 21 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestARetryIsRejectedSoThatItCounts(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 20)
	var mu sync.Mutex
	var tries []int
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			if string(m.Body) == "7" {
				mu.Lock()
				tries = append(tries, m.Attempts)
				mu.Unlock()
				m.Retry(errBroken)
			}
		}
		return nil
	}, BatchSize(20), Workers(1), RetryDelay(time.Millisecond), MaxAttempts(5))
	b.WaitFor(t, "a dead letter", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 1 })
	empty(t, b, queue)
	c.drain()
	if !slices.Equal(tries, []int{0, 1, 2, 3, 4}) {
		t.Errorf("attempts before each: %v", tries)
	}
	if n := b.Counters(); n.Rejected != 4 || n.Nacked != 0 || n.Acked != 20 || n.UnknownTags != 0 {
		t.Errorf("the broker saw %+v", n)
	}
	q, _ := b.Queue(queue + ".dead-letters")
	headers := q.Ready[0].Properties.Headers
	if text, _ := headers[HeaderDeathReason].(string); !strings.Contains(text, ErrTooManyAttempts.Error()) || !strings.Contains(text, "broken") ||
		headers[HeaderDeathAttempts] != int64(5) || headers[headerDeliveryCount] != nil {
		t.Errorf("headers %v", headers)
	}
}

func TestAttemptsAreCountedHereForQueuesThatDoNotCount(t *testing.T) {
	b := clienttest.Start(t, clienttest.Options{Version: "3.10.8"})
	declare(t, b, queue)
	if err := b.Publish(queue, clienttest.Message{Body: []byte("without an id")}); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 1)
	tries := map[string][]int{}
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			tries[m.ID] = append(tries[m.ID], m.Attempts)
		}
		return errBroken
	}, Workers(1), BatchWait(0), RetryDelay(time.Millisecond), MaxAttempts(4))
	b.WaitFor(t, "dead letters", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 2 })
	empty(t, b, queue)
	c.drain()
	for _, id := range []string{"", "id-0"} {
		if !slices.Equal(tries[id], []int{0, 1, 2, 3}) {
			t.Errorf("attempts of %q before each: %v", id, tries[id])
		}
	}
	if len(c.tries.young)+len(c.tries.old) != 0 {
		t.Errorf("what is settled is still remembered")
	}
}

func TestAMessageThatCameTooOftenIsNotHandled(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	put(t, b, "old", clienttest.Table{headerAttempts: int64(10)})
	c := consume(t, newRouter(t, b), func(context.Context, *Batch) error {
		t.Error("it was handled")
		return nil
	})
	b.WaitFor(t, "a dead letter", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 1 })
	empty(t, b, queue)
	c.drain()
}

func TestWhatIsGivenBackDoesNotCount(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 10)
	times := 0
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			if m.Attempts != 0 {
				t.Errorf("%s has %d attempts", m.Body, m.Attempts)
			}
			if string(m.Body) == "3" && times < 30 {
				times++
				m.Retry(errBroken)
				m.GiveBack() // the last one counts
			}
		}
		return nil
	}, BatchSize(10), Workers(1), BatchWait(0))
	empty(t, b, queue)
	c.drain()
	if n := b.Counters(); times != 30 || n.Nacked != 30 || n.Rejected != 0 {
		t.Errorf("given back %d times: %+v", times, n)
	}
}

func TestVerdictsAfterTheHandlerAreIgnored(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 5)
	returned := make(chan struct{})
	var late sync.WaitGroup
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		late.Go(func() {
			<-returned
			for _, m := range batch.Messages() {
				m.DeadLetter(errBroken)
				m.Retry(errBroken)
			}
			batch.Observe(time.Hour)
		})
		return nil
	}, BatchSize(5), Workers(1))
	empty(t, b, queue)
	close(returned)
	late.Wait()
	c.drain()
	if n := b.Counters(); n.Acked != 5 || n.Rejected != 0 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestAConsumerThatTheBrokerCancelsSubscribesAnew(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	failed := make(chan error, 16)
	r := newRouter(t, b, WithHooks(Hooks{ConsumerFailed: func(_, _ string, err error) { failed <- err }}))
	s := newSeen()
	c := consume(t, r, func(_ context.Context, batch *Batch) error { s.add(batch); return nil }, BatchWait(0))
	fill(t, b, 0, 1)
	s.wait(t, 1)
	empty(t, b, queue)
	b.CancelConsumers(queue)
	if err := <-failed; !errors.Is(err, errCancelled) {
		t.Errorf("reported %v", err)
	}
	fill(t, b, 1, 2)
	s.wait(t, 2)
	empty(t, b, queue)
	if n := b.Counters().Accepted; n != 1 {
		t.Errorf("%d connections for one cancel", n)
	}
	// A queue that is gone is waited for.
	b.DeleteQueue(queue)
	<-failed
	if err := <-failed; code(err) != amqp.NotFound {
		t.Errorf("reported %v", err)
	}
	declare(t, b, queue)
	fill(t, b, 2, 3)
	s.wait(t, 3)
	empty(t, b, queue)
	c.drain()
}

func TestAQueueThatIsMissingAtTheStartIsWaitedFor(t *testing.T) {
	b := clienttest.Start(t)
	failed := make(chan error, 16)
	s := newSeen()
	c := consume(t, newRouter(t, b, WithHooks(Hooks{ConsumerFailed: func(_, _ string, err error) { failed <- err }})),
		func(_ context.Context, batch *Batch) error { s.add(batch); return nil })
	if err := <-failed; code(err) != amqp.NotFound {
		t.Errorf("reported %v", err)
	}
	if got := c.Stats().Clusters; len(got) != 1 || got[0].Connected || got[0].Err == nil {
		t.Errorf("stats %+v", got)
	}
	declare(t, b, queue)
	fill(t, b, 0, 1)
	s.wait(t, 1)
	empty(t, b, queue)
	c.drain()
}

func TestDrainFinishesWhatRunsAndGivesTheRestBack(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 50)
	release := make(chan struct{})
	s := newSeen()
	c := consume(t, newRouter(t, b), func(ctx context.Context, batch *Batch) error {
		s.add(batch)
		<-release
		return ctx.Err()
	}, BatchSize(10), Workers(2), BatchWait(time.Hour), ConsumerTimeout(1000*time.Hour))
	s.wait(t, 20)
	b.WaitFor(t, "all that may come", func() bool { _, unacked := b.Depth(queue); return unacked == 30 })
	c.cancel()
	b.WaitFor(t, "an end of the subscription", func() bool { q, _ := b.Queue(queue); return len(q.Consumers) == 0 })
	close(release)
	if err := c.ends(); err != nil {
		t.Error(err)
	}
	if got := len(s.all()); got != 20 {
		t.Errorf("%d messages were handled", got)
	}
	q, _ := b.Queue(queue)
	n := b.Counters()
	if len(q.Ready) != 30 || n.Acked != 20 || n.Nacked != 10 || n.Rejected != 0 || n.UnknownTags != 0 {
		t.Errorf("%d are left; the broker saw %+v", len(q.Ready), n)
	}
	for _, m := range q.Ready {
		if m.DeliveryCount != 0 {
			t.Errorf("%s counts as delivered", m.Body)
		}
	}
}

func TestDrainIsBoundedWhateverHandlersAndBrokersDo(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	stubborn := func(s *seen) Handler {
		return func(ctx context.Context, batch *Batch) error {
			s.add(batch)
			<-ctx.Done()
			<-never
			return nil
		}
	}
	polite := func(s *seen) Handler {
		return func(ctx context.Context, batch *Batch) error {
			s.add(batch)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	t.Run("a handler that ends with its context", func(t *testing.T) {
		b := clienttest.Start(t)
		declare(t, b, queue)
		fill(t, b, 0, 10)
		s := newSeen()
		c := consume(t, newRouter(t, b), polite(s), BatchSize(10), DrainTimeout(50*time.Millisecond))
		s.wait(t, 10)
		c.drain()
		if ready, _ := b.Depth(queue); ready != 10 || b.Counters().Nacked != 10 {
			t.Errorf("%d are left: %+v", ready, b.Counters())
		}
	})
	t.Run("a handler that never returns", func(t *testing.T) {
		b := clienttest.Start(t)
		declare(t, b, queue)
		fill(t, b, 0, 10)
		s := newSeen()
		c := consume(t, newRouter(t, b), stubborn(s), BatchSize(10), DrainTimeout(50*time.Millisecond))
		s.wait(t, 10)
		c.cancel()
		if err := c.ends(); err == nil || !strings.Contains(err.Error(), "have not returned") {
			t.Errorf("drained with %v", err)
		}
		if ready, _ := b.Depth(queue); ready != 10 {
			t.Errorf("%d are left", ready)
		}
	})
	t.Run("a broker that is silent", func(t *testing.T) {
		b := clienttest.Start(t)
		declare(t, b, queue)
		fill(t, b, 0, 10)
		s := newSeen()
		c := consume(t, newRouter(t, b), polite(s), BatchSize(10), DrainTimeout(time.Hour))
		s.wait(t, 10)
		b.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with %v", err)
		}
		_ = c.ends()
		b.Resume()
	})
}

func TestAHandlerThatTakesTooLong(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 2)
	release := make(chan struct{})
	var handled atomic.Int64
	events := make(chan HandleEvent, 16)
	var calls atomic.Int64
	c := consume(t, newRouter(t, b, WithHooks(Hooks{Handled: func(e HandleEvent) { events <- e }})),
		func(_ context.Context, batch *Batch) error {
			if calls.Add(1) == 1 {
				<-release // deaf to its context
				for _, m := range batch.Messages() {
					m.DeadLetter(errBroken)
				}
				return nil
			}
			handled.Add(int64(batch.Len()))
			return nil
		}, BatchSize(2), Workers(2), BatchWait(time.Hour), ConsumerTimeout(1000*time.Hour), HandlerTimeout(10*time.Millisecond), RetryDelay(0),
		DrainTimeout(10*time.Millisecond))
	if e := <-events; e.Retried != 2 || !errors.Is(e.Err, errTooSlow) {
		t.Errorf("reported %+v", e)
	}
	empty(t, b, queue)
	if running := c.Stats().Running; running != 1 {
		t.Errorf("%d run: the worker is not free before its handler returns", running)
	}
	close(release)
	c.cancel()
	_ = c.ends()
	if n := b.Counters(); n.Rejected != 2 || n.Acked != 2 || handled.Load() != 2 {
		t.Errorf("the broker saw %+v", n)
	}
	if ready, _ := b.Depth(queue + ".dead-letters"); ready != 0 {
		t.Errorf("%d dead letters by a verdict that came too late", ready)
	}
}

func TestTwoClustersShareWorkersAndPrefetch(t *testing.T) {
	m := newMoving(t, queue)
	var mu sync.Mutex
	now, most := 0, 0
	from := map[string]int{}
	total := func() int {
		_, a := m.old.Depth(queue)
		_, c := m.new.Depth(queue)
		return a + c
	}
	stop := make(chan struct{})
	c := consume(t, m.r, func(_ context.Context, batch *Batch) error {
		mu.Lock()
		now++
		most = max(most, now)
		from[batch.Cluster()] += batch.Len()
		mu.Unlock()
		select {
		case <-stop:
		case <-time.After(time.Millisecond):
		}
		if got := total(); got > 40 {
			t.Errorf("%d are unacknowledged on both", got)
		}
		mu.Lock()
		now--
		mu.Unlock()
		return nil
	}, BatchSize(10), Workers(3), BatchWait(time.Millisecond))
	fill(t, m.old, 0, 500)
	m.old.WaitFor(t, "work", func() bool { return m.old.Counters().Acked >= 100 })
	m.to("Watching")
	fill(t, m.new, 0, 500)
	prefetch := func(b *clienttest.Broker, want int) {
		t.Helper()
		b.WaitFor(t, fmt.Sprintf("a prefetch of %d", want), func() bool {
			q, _ := b.Queue(queue)
			return want == 0 && len(q.Consumers) == 0 || len(q.Consumers) == 1 && q.Consumers[0].Prefetch == want
		})
	}
	prefetch(m.old, 20)
	prefetch(m.new, 20)
	empty(t, m.old, queue)
	empty(t, m.new, queue)
	m.to("Held")
	m.to("Flipped")
	m.to("Settled")
	prefetch(m.old, 0)
	prefetch(m.new, 40)
	fill(t, m.new, 500, 600)
	empty(t, m.new, queue)
	if s := c.Stats(); len(s.Clusters) != 1 || s.Clusters[0].Prefetch != 40 {
		t.Errorf("stats %+v", s)
	}
	close(stop)
	c.drain()
	if most > 3 {
		t.Errorf("%d batches ran at once", most)
	}
	if m.old.Counters().Acked != 500 || m.new.Counters().Acked != 600 || m.old.Counters().UnknownTags+m.new.Counters().UnknownTags != 0 {
		t.Errorf("old %+v, new %+v", m.old.Counters(), m.new.Counters())
	}
}

// pack publishes one AMQP message with several in it.
func pack(t *testing.T, b *clienttest.Broker, codec envelope.Codec, bodies ...string) {
	t.Helper()
	var p envelope.Packer
	for _, body := range bodies {
		if err := p.Add(&envelope.Message{ID: "id-" + body, Body: []byte(body), Headers: map[string]any{"n": body}}); err != nil {
			t.Fatal(err)
		}
	}
	body, encoding := envelope.Compress(codec, p.Bytes(), envelope.MinSize(1), envelope.MinSaving(0))
	err := b.Publish(queue, clienttest.Message{Body: body, Properties: clienttest.Properties{
		MessageID: "pack", ContentType: envelope.ContentType, ContentEncoding: encoding, DeliveryMode: 2,
		Headers: clienttest.Table{envelope.HeaderVersion: int64(envelope.Version), envelope.HeaderCount: int64(len(bodies))},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMessagesOfAPackHaveTheirOwnFates(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	pack(t, b, envelope.Zstd, strings.Repeat("a", 200), "dead", "again", "back", "fine")
	var mu sync.Mutex
	tries := map[string][]int{}
	back := false
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range batch.Messages() {
			body := string(m.Body)
			if m.ID != "id-"+body || m.Headers["n"] != body {
				t.Errorf("%q came as %q with %v", body, m.ID, m.Headers)
			}
			tries[body] = append(tries[body], m.Attempts)
			switch {
			case body == "dead":
				m.DeadLetter(errBroken)
			case body == "again" && m.Attempts < 2:
				m.Retry(errBroken)
			case body == "back" && !back:
				back = true
				m.GiveBack()
			}
		}
		return nil
	}, RetryDelay(time.Millisecond), BatchWait(0))
	b.WaitFor(t, "all settled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tries["again"]) == 3 && len(tries["back"]) == 2
	})
	empty(t, b, queue)
	c.drain()
	if !slices.Equal(tries["again"], []int{0, 1, 2}) || !slices.Equal(tries["back"], []int{0, 0}) || len(tries["fine"]) != 1 || len(tries["dead"]) != 1 {
		t.Errorf("attempts %v", tries)
	}
	q, _ := b.Queue(queue + ".dead-letters")
	if len(q.Ready) != 1 || string(q.Ready[0].Body) != "dead" || q.Ready[0].Properties.MessageID != "id-dead" || q.Ready[0].Properties.Headers["n"] != "dead" {
		t.Errorf("dead letters %+v", q.Ready)
	}
}

func TestAPackThatAllFailsWithIsTriedAgainAsAWhole(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	pack(t, b, envelope.None, "a", "b", "c")
	var tries []int
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		tries = append(tries, batch.Len(), batch.Messages()[0].Attempts)
		if batch.Messages()[0].Attempts == 0 {
			return errBroken
		}
		return nil
	}, RetryDelay(time.Millisecond), Workers(1))
	b.WaitFor(t, "its end", func() bool { return b.Counters().Acked == 1 })
	c.drain()
	if !slices.Equal(tries, []int{3, 0, 3, 1}) || b.Counters().Rejected != 1 {
		t.Errorf("handled %v; %+v", tries, b.Counters())
	}
}

func TestALargePackIsHandledInBatchesOfTheSizeThatWasAskedFor(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	pack(t, b, envelope.Gzip, numbers(25)...)
	pack(t, b, envelope.None, "x", "y", "z")
	pack(t, b, envelope.None, "u", "v", "w")
	fill(t, b, 100, 104)
	s := newSeen()
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error { s.add(batch); return nil }, BatchSize(10), Workers(1))
	s.wait(t, 35)
	empty(t, b, queue)
	c.drain()
	if !slices.Equal(s.batches, []int{10, 10, 5, 10}) {
		t.Errorf("batches of %v", s.batches)
	}
	if n := b.Counters(); n.Acked != 7 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestWhatCannotBeOpenedIsADeadLetter(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	bomb, _ := envelope.Compress(envelope.Gzip, make([]byte, 1<<20))
	publish := func(id, contentType, encoding string, body []byte) {
		t.Helper()
		if err := b.Publish(queue, clienttest.Message{Body: body, Properties: clienttest.Properties{MessageID: id, ContentType: contentType, ContentEncoding: encoding}}); err != nil {
			t.Fatal(err)
		}
	}
	fine, encoding := envelope.Compress(envelope.Zstd, []byte(strings.Repeat("fine", 1000)))
	publish("fine", "", encoding, fine)
	publish("bomb", "", "gzip", bomb)
	publish("no gzip", "", "gzip", []byte("plain"))
	publish("no pack", envelope.ContentType, "", []byte("plain"))
	publish("a later pack", envelope.ContentType, "", []byte("\xf7WPK\x09\x00........"))
	publish("text", "", "utf-8", []byte("text")) // some put a charset there
	got := map[string]string{}
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			got[m.ID] = m.ContentEncoding + " " + string(m.Body)
		}
		return nil
	}, Workers(1), MaxUnpacked(1<<16), DeadLetterTo("graves"))
	empty(t, b, queue)
	c.drain()
	if len(got) != 2 || got["fine"] != " "+strings.Repeat("fine", 1000) || got["text"] != "utf-8 text" {
		t.Errorf("handled %v", got)
	}
	q, _ := b.Queue("graves")
	reasons := map[string]string{}
	for _, m := range q.Ready {
		reasons[m.Properties.MessageID], _ = m.Properties.Headers[HeaderDeathReason].(string)
		if m.Properties.MessageID == "bomb" && (!slices.Equal(m.Body, bomb) || m.Properties.ContentEncoding != "gzip") {
			t.Error("the dead letter is not what came")
		}
	}
	for id, want := range map[string]string{"bomb": "too large", "no gzip": "corrupt", "no pack": "corrupt", "a later pack": "unknown version"} {
		if !strings.Contains(reasons[id], want) {
			t.Errorf("%s is dead since %q, want %q", id, reasons[id], want)
		}
	}
}

// crashed is a message that consumers that crashed had n times.
func crashed(body string, n int64) clienttest.Message {
	return clienttest.Message{Body: []byte(body), Properties: clienttest.Properties{MessageID: body, Headers: clienttest.Table{headerDeliveryCount: n}}}
}

func TestAfterCrashesSuspectsAreHandledAloneWithNothingElseOnTheWay(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	for i := range 5 {
		if err := b.Publish(queue, crashed(fmt.Sprint("suspect ", i), 3)); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, b, 0, 100)
	var mu sync.Mutex
	var alone, together int
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(string(batch.Messages()[0].Body), "suspect") {
			together += batch.Len()
			return nil
		}
		alone++
		if _, unacked := b.Depth(queue); batch.Len() != 1 || unacked != 1 {
			t.Errorf("a suspect with %d in its batch, and %d on their way", batch.Len(), unacked)
		}
		return nil
	}, BatchSize(20), Workers(4))
	empty(t, b, queue)
	b.WaitFor(t, "the usual prefetch", func() bool { q, _ := b.Queue(queue); return len(q.Consumers) == 1 && q.Consumers[0].Prefetch == 100 })
	c.drain()
	if alone != 5 || together != 100 {
		t.Errorf("%d alone, %d together", alone, together)
	}
}

func TestALonelySuspectDoesNotSlowTheOthersAgainAndAgain(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	if err := b.Publish(queue, crashed("first", 3)); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 50)
	if err := b.Publish(queue, crashed("second", 3)); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 50, 100)
	sizes := map[string]int{}
	var mu sync.Mutex
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range batch.Messages() {
			sizes[string(m.Body)] = batch.Len()
		}
		return nil
	}, BatchSize(20), Workers(1))
	empty(t, b, queue)
	nacked := b.Counters().Nacked
	c.drain()
	if sizes["first"] != 1 || sizes["second"] != 1 {
		t.Errorf("suspects in batches of %d and %d", sizes["first"], sizes["second"])
	}
	if nacked == 0 || nacked > 40 {
		t.Errorf("%d were given back, want those that were there when the first one came", nacked)
	}
}

func TestOwnRetriesMakeNobodyCareful(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 20)
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			if m.Attempts >= 3 && batch.Len() != 1 {
				t.Errorf("%d attempts and not alone", m.Attempts)
			}
			if m.Attempts < 6 {
				m.Retry(errBroken)
			}
		}
		return nil
	}, RetryDelay(time.Millisecond), BatchWait(time.Millisecond))
	empty(t, b, queue)
	c.drain()
	if n := b.Counters(); n.Nacked != 0 || n.Rejected != 120 || n.Acked != 20 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestADeadLetterThatIsNotConfirmedIsTriedAgain(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 1)
	b.NackNext(1)
	failed := make(chan error, 16)
	c := consume(t, newRouter(t, b, WithHooks(Hooks{ConsumerFailed: func(_, _ string, err error) { failed <- err }})),
		func(_ context.Context, batch *Batch) error {
			batch.Messages()[0].DeadLetter(errBroken)
			return nil
		}, BatchWait(0), RetryDelay(time.Millisecond))
	if err := <-failed; !errors.Is(err, ErrNacked) {
		t.Errorf("reported %v", err)
	}
	b.WaitFor(t, "a dead letter", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 1 })
	empty(t, b, queue)
	// Its queue is made again when somebody deletes it.
	b.DeleteQueue(queue + ".dead-letters")
	fill(t, b, 1, 2)
	b.WaitFor(t, "one more", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 1 })
	empty(t, b, queue)
	c.drain()
	if n := b.Counters(); n.Rejected != 1 || n.Acked != 2 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestDeadLettersCanBeLeftToTheBroker(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "graves")
	if err := b.DeclareQueue(queue, clienttest.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 0, 3)
	pack(t, b, envelope.None, "a", "b")
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		for _, m := range batch.Messages() {
			if body := string(m.Body); body == "1" || body == "b" {
				m.DeadLetter(errBroken)
			}
		}
		return nil
	}, DeadLetterByReject(), BatchWait(0))
	b.WaitFor(t, "dead letters", func() bool { ready, _ := b.Depth("graves"); return ready == 2 })
	empty(t, b, queue)
	c.drain()
	got := bodies(b, "graves")
	slices.Sort(got)
	if _, made := b.Queue(queue + ".dead-letters"); made || !slices.Equal(got, []string{"1", "b"}) {
		t.Errorf("dead letters %v", got)
	}
}

func TestAQueueForDeadLettersThatCannotBeUsedIsFoundAtTheStart(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	conn, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue+".dead-letters", true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	c := consume(t, newRouter(t, b), handle)
	if err := c.ends(); code(err) != amqp.ResourceLocked || !strings.Contains(err.Error(), "DeadLetterTo") {
		t.Errorf("run: %v", err)
	}
}

func TestBackPressureRunsFewerBatches(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	limits := make(chan int, 16)
	r := newRouter(t, b, WithHooks(Hooks{Limit: func(_ string, n int) { limits <- n }}))
	ctx, cancel := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() {
		for ctx.Err() == nil {
			ready, _ := b.Depth(queue)
			if ready < 100 {
				fill(t, b, 0, 100)
			}
			_ = b.Wait(ctx, func() bool { ready, _ := b.Depth(queue); return ready < 100 })
		}
	})
	c := consume(t, r, func(ctx context.Context, batch *Batch) error {
		batch.Observe(time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
		return nil
	}, BatchSize(1), Workers(8), TargetLatency(time.Millisecond))
	if got := <-limits; got != 4 {
		t.Errorf("it begins with %d", got)
	}
	if got := <-limits; got != 2 {
		t.Errorf("changed to %d", got)
	}
	if s := c.Stats(); s.P95 != time.Second || s.Limit != 2 {
		t.Errorf("stats %+v", s)
	}
	cancel()
	feeding.Wait()
	c.drain()
}

func TestCloseEndsRunAndRunOnlyOnce(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	r := newRouter(t, b)
	c := consume(t, r, handle)
	b.WaitFor(t, "a consumer", func() bool { q, _ := b.Queue(queue); return len(q.Consumers) == 1 })
	if err := c.Close(soon(t)); err != nil {
		t.Error(err)
	}
	if err := c.ends(); err != nil {
		t.Error(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("run again: %v", err)
	}
	b.WaitFor(t, "no connection", func() bool { return len(b.Connections()) == 0 })
	// A router closes its consumers.
	c = consume(t, r, handle)
	b.WaitFor(t, "a consumer", func() bool { q, _ := b.Queue(queue); return len(q.Consumers) == 1 })
	if err := r.Close(soon(t)); err != nil {
		t.Error(err)
	}
	if err := c.ends(); err != nil {
		t.Error(err)
	}
	if err := r.Consume(t.Context(), queue, handle); !errors.Is(err, ErrClosed) {
		t.Errorf("after the router was closed: %v", err)
	}
}

func TestStartBatchGivesTheHandlerItsContext(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 1)
	type key struct{}
	results := make(chan error, 1)
	r := newRouter(t, b, WithHooks(Hooks{StartBatch: func(ctx context.Context, _ *Batch) (context.Context, func(error)) {
		return context.WithValue(ctx, key{}, "span"), func(err error) { results <- err }
	}}))
	c := consume(t, r, func(ctx context.Context, _ *Batch) error {
		if ctx.Value(key{}) != "span" {
			t.Error("not the context of the hook")
		}
		return nil
	})
	if err := <-results; err != nil {
		t.Error(err)
	}
	empty(t, b, queue)
	c.drain()
}

func TestAHandlerThatEndsItsGoroutineIsTriedAgain(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 1)
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		if batch.Messages()[0].Attempts == 0 {
			runtime.Goexit()
		}
		return nil
	}, BatchWait(0), RetryDelay(time.Millisecond))
	b.WaitFor(t, "an ack", func() bool { return b.Counters().Acked == 1 })
	c.drain()
	if n := b.Counters(); n.Rejected != 1 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestConsumerArgumentsReachTheBroker(t *testing.T) {
	cfg, err := newConsumerConfig(queue, []ConsumeOption{ConsumerArguments(map[string]any{"x-priority": 5})})
	if err != nil || cfg.args["x-priority"] != int64(5) {
		t.Errorf("%v, %v", cfg.args, err)
	}
}

func TestAPackThatFailsAgainAndAgainIsSplit(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue(queue, quorum); err != nil {
		t.Fatal(err)
	}
	pack(t, b, envelope.None, "a", "poison", "c")
	var mu sync.Mutex
	tries := map[string][]int{}
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		mu.Lock()
		defer mu.Unlock()
		failed := false
		for _, m := range batch.Messages() {
			tries[string(m.Body)] = append(tries[string(m.Body)], m.Attempts)
			failed = failed || string(m.Body) == "poison"
		}
		if failed {
			return errBroken
		}
		return nil
	}, RetryDelay(time.Millisecond), QuarantineAfter(2), MaxAttempts(4))
	b.WaitFor(t, "a dead letter", func() bool { ready, _ := b.Depth(queue + ".dead-letters"); return ready == 1 })
	empty(t, b, queue)
	c.drain()
	if !slices.Equal(tries["a"], []int{0, 1, 2}) || !slices.Equal(tries["poison"], []int{0, 1, 2, 3}) {
		t.Errorf("attempts %v", tries)
	}
	if got := bodies(b, queue+".dead-letters"); !slices.Equal(got, []string{"poison"}) {
		t.Errorf("dead letters %v", got)
	}
}

func TestMessagesThatWaitTooLongForAWorkerAreGivenBackInTime(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, queue)
	fill(t, b, 0, 2)
	release := make(chan struct{})
	s := newSeen()
	c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
		s.add(batch)
		<-release
		return nil
	}, BatchSize(1), Workers(1), HandlerTimeout(100*time.Millisecond), ConsumerTimeout(2800*time.Millisecond)) // leaves 40 ms to wait
	s.wait(t, 1)
	b.WaitFor(t, "a nack", func() bool { return b.Counters().Nacked > 0 })
	if got := s.all(); len(got) != 1 {
		t.Errorf("handled %v at once", got)
	}
	close(release)
	empty(t, b, queue)
	c.drain()
	if n := b.Counters(); n.UnknownTags != 0 {
		t.Errorf("the broker saw %+v", n)
	}
}

func TestDeliveriesThatTheBrokerTakesBackAreHandledAgain(t *testing.T) {
	for _, version := range []string{"3.10.8", "4.3.6"} {
		t.Run(version, func(t *testing.T) {
			b := clienttest.Start(t, clienttest.Options{Version: version})
			if err := b.DeclareQueue(queue, quorum); err != nil {
				t.Fatal(err)
			}
			fill(t, b, 0, 20)
			release := make(chan struct{})
			var calls atomic.Int64
			s := newSeen()
			c := consume(t, newRouter(t, b), func(_ context.Context, batch *Batch) error {
				s.add(batch)
				if calls.Add(1) <= 2 {
					<-release
				}
				return nil
			}, BatchSize(10), Workers(4), BatchWait(time.Millisecond))
			s.wait(t, 20)
			b.ExpireDeliveries(queue)
			close(release)
			empty(t, b, queue)
			c.drain()
			if n := b.Counters(); n.Acked != 20 || n.Dropped+n.DeadLettered != 0 {
				t.Errorf("the broker saw %+v", n)
			}
		})
	}
}

// Whatever handlers decide, and in whatever order they end: each message is settled once, no tag twice.
func TestAnyVerdictsInAnyOrder(t *testing.T) {
	for _, ack := range []ConsumeOption{AckOrdered(), AckEach()} {
		for seed := range uint64(4) {
			b := clienttest.Start(t)
			if err := b.DeclareQueue(queue, quorum); err != nil {
				t.Fatal(err)
			}
			const n = 300
			fill(t, b, 0, n)
			lost := make(chan ConnectionEvent, 16)
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 0))
			c := consume(t, newRouter(t, b, WithHooks(Hooks{Disconnected: func(e ConnectionEvent) { lost <- e }})), func(_ context.Context, batch *Batch) error {
				mu.Lock()
				wait := time.Duration(rnd.IntN(3000)) * time.Microsecond
				broken := false
				for _, m := range batch.Messages() {
					switch rnd.IntN(40) {
					case 0:
						m.Retry(errBroken)
					case 1:
						m.DeadLetter(errBroken)
					case 2:
						m.GiveBack()
					case 3:
						broken = broken || m.Attempts < 2
					}
				}
				mu.Unlock()
				time.Sleep(wait) // so that they end in any order
				switch {
				case broken && wait%2 == 0:
					panic("broken")
				case broken:
					return errBroken
				}
				return nil
			}, ack, BatchSize(7), Workers(6), RetryDelay(time.Millisecond), BatchWait(time.Millisecond))
			empty(t, b, queue)
			select {
			case e := <-lost:
				t.Errorf("seed %d: a connection was lost: %+v", seed, e)
			default:
			}
			c.drain()
			dead, _ := b.Depth(queue + ".dead-letters")
			if got := b.Counters(); got.UnknownTags != 0 || got.Acked != n {
				t.Errorf("seed %d: %d dead, the broker saw %+v", seed, dead, got)
			}
		}
	}
}
