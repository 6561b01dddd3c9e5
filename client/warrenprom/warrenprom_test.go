package warrenprom

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/client/clienttest"
)

var update = flag.Bool("update", false, "write the golden files")

// clock is a time that only tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *clock) option() Option { return func(cfg *config) { cfg.now = c.now } }

// publish lets the hooks see a message and its outcome.
func publish(h warren.Hooks, m warren.Message, err error) {
	_, done := h.StartPublish(context.Background(), &m)
	done(err)
}

// everything makes each event happen.
func everything(h warren.Hooks, c *clock) {
	at := warren.ConnectionEvent{Cluster: "worker", Use: "publish", Host: "worker:5672"}
	h.DialFailed(at)
	h.Connected(at)
	h.Connected(at)
	h.Disconnected(at)
	h.Connected(warren.ConnectionEvent{Cluster: "worker", Use: "consume", Host: "worker:5672"})
	h.Blocked(at)
	c.pass(1500 * time.Millisecond)
	h.Unblocked(at)
	h.Blocked(at)
	c.pass(500 * time.Millisecond) // and still blocked

	_, done := h.StartPublish(context.Background(), &warren.Message{Queue: "worker.resize"})
	c.pass(3 * time.Millisecond)
	done(nil)
	for _, err := range []error{
		fmt.Errorf("%w: full", warren.ErrNacked),
		fmt.Errorf("%w: no queue", warren.ErrReturned),
		fmt.Errorf("%w: no exchange", warren.ErrRefused),
		fmt.Errorf("%w: %w", warren.ErrUnknown, warren.ErrClosed),
		fmt.Errorf("%w: %w", warren.ErrNotSent, context.Canceled),
		warren.ErrBufferFull,
	} {
		publish(h, warren.Message{Exchange: "events", Key: "a"}, err)
	}
	h.Published(warren.PublishEvent{Cluster: "worker", Messages: 10, Sent: 2, Bytes: 4096, Waited: time.Millisecond})
	h.Resent("worker", 3)

	h.Handled(warren.HandleEvent{Queue: "worker.resize", Cluster: "worker", Acked: 97, Retried: 1, DeadLettered: 1, GivenBack: 1, Took: 30 * time.Millisecond})
	h.Handled(warren.HandleEvent{Queue: "worker.resize", Cluster: "worker", Retried: 1, Took: 2 * time.Second, Err: errors.New("no")})
	h.StaleAck("worker.resize", 7)
	h.DeadLettered("worker.resize", errors.New("no picture"))
	h.DeadLettered("worker.resize", fmt.Errorf("%w: 20 times", warren.ErrTooManyAttempts))
	h.Limit("worker.resize", 10)
	h.Limit("worker.resize", 7)
	h.ConsumerFailed("worker.resize", "worker", errors.New("cancelled"))

	h.RouteChanged("41")
	h.RouteChanged("42")
	h.RouteFailed(errors.New("no such file"))
}

func TestExposition(t *testing.T) {
	reg, c := prometheus.NewPedanticRegistry(), &clock{at: time.Unix(1_800_000_000, 0)}
	h, err := New(reg, c.option(), ConfirmBuckets(0.001, 0.01), HandlerBuckets(0.1, 1), BatchBuckets(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	everything(h, c)
	const golden = "testdata/metrics.txt"
	if *update {
		write(t, golden, reg)
	}
	want, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := testutil.GatherAndCompare(reg, want); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, file string, g prometheus.Gatherer) {
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNames holds names and units to the conventions of Prometheus.
func TestNames(t *testing.T) {
	reg, c := prometheus.NewPedanticRegistry(), &clock{at: time.Unix(1_800_000_000, 0)}
	h, err := New(reg, c.option())
	if err != nil {
		t.Fatal(err)
	}
	everything(h, c)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestEveryHook sees that no event is left out.
func TestEveryHook(t *testing.T) {
	h, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	// A batch has its numbers in Handled, when it has ended.
	v := reflect.ValueOf(h)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsNil() && name != "StartBatch" {
			t.Errorf("hook %s has no metric", name)
		}
	}
}

func TestTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := New(reg); err != nil {
		t.Fatal(err)
	}
	_, err := New(reg)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		t.Errorf("the second New says %v", err)
	}
	// With a label for each router both find a place.
	reg = prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		if _, err := New(prometheus.WrapRegistererWith(prometheus.Labels{"router": name}, reg)); err != nil {
			t.Errorf("router %s: %v", name, err)
		}
	}
}

// TestNothingIsHalfRegistered has a name that is taken already.
func TestNothingIsHalfRegistered(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "warren_client_route_failures_total", Help: "taken"}))
	if _, err := New(reg); err == nil {
		t.Fatal("no error")
	}
	if n, err := testutil.GatherAndCount(reg); n != 1 || err != nil {
		t.Errorf("%d metrics are registered, %v", n, err)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	h, err := New(reg, MaxNames(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"a", "amq.gen-x1", "b", "c", "a", "amq.gen-x2", "amq.rabbitmq.reply-to.y"} {
		publish(h, warren.Message{Queue: queue}, nil)
	}
	for i := range 1000 {
		h.StaleAck(fmt.Sprint("consumed", i), 1)
		publish(h, warren.Message{Exchange: fmt.Sprint("exchange", i)}, nil)
	}
	want := `
		# HELP warren_client_stale_acks_total Acknowledgements dropped since their channel had ended; the messages are delivered again.
		# TYPE warren_client_stale_acks_total counter
		warren_client_stale_acks_total{queue="consumed0"} 1
		warren_client_stale_acks_total{queue="consumed1"} 1
		warren_client_stale_acks_total{queue="other"} 998
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "warren_client_stale_acks_total"); err != nil {
		t.Error(err)
	}
	text, err := testutil.GatherAndFormat(reg, expfmt.TypeTextPlain, "warren_client_published_messages_total")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{exchange="",outcome="confirmed",queue="a"} 2`,
		`{exchange="",outcome="confirmed",queue="amq.*"} 3`,
		`{exchange="",outcome="confirmed",queue="other"} 2`,
		`{exchange="exchange1",outcome="confirmed",queue=""} 1`,
		`{exchange="other",outcome="confirmed",queue=""} 998`,
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no line with %s in\n%s", line, text)
		}
	}
}

func TestLabel(t *testing.T) {
	reg := prometheus.NewRegistry()
	h, err := New(reg, Label(func(string) string { return "all" }))
	if err != nil {
		t.Fatal(err)
	}
	h.Limit("a", 1)
	h.Limit("b", 2)
	want := `
		# HELP warren_client_concurrent_batches_limit Batches that may run at once, as back-pressure set it last.
		# TYPE warren_client_concurrent_batches_limit gauge
		warren_client_concurrent_batches_limit{queue="all"} 2
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "warren_client_concurrent_batches_limit"); err != nil {
		t.Error(err)
	}
}

// TestTogether is for the race detector: all hooks at once, while the metrics are read.
func TestTogether(t *testing.T) {
	reg, c := prometheus.NewRegistry(), &clock{at: time.Unix(1_800_000_000, 0)}
	h, err := New(reg, c.option(), MaxNames(3))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				everything(h, c)
				publish(h, warren.Message{Queue: fmt.Sprint(i, j%5)}, nil)
				if j%10 == 0 {
					if _, err := reg.Gather(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	want := `
		# HELP warren_client_route_failures_total Times that a routes file could not be used.
		# TYPE warren_client_route_failures_total counter
		warren_client_route_failures_total 400
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "warren_client_route_failures_total"); err != nil {
		t.Error(err)
	}
}

// TestOverABroker has a publisher and a consumer make the numbers.
func TestOverABroker(t *testing.T) {
	reg := prometheus.NewRegistry()
	h, err := New(reg)
	if err != nil {
		t.Fatal(err)
	}
	broker := clienttest.Start(t)
	if err := broker.DeclareQueue("worker.resize", nil); err != nil {
		t.Fatal(err)
	}
	router, err := warren.FromEnv(warren.WithHooks(h), warren.Environ([]string{
		"RMQ_WORKER_HOSTS=" + broker.Addr(), "RMQ_USERNAME=guest", "RMQ_PASSWORD=guest",
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	defer router.Close(ctx)
	p, err := router.Publisher(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.PublishBatch(ctx, []warren.Message{{Queue: "worker.resize"}, {Queue: "worker.nowhere"}, {Queue: "worker.resize", ID: "bad"}})
	consume, stop := context.WithCancel(ctx)
	left := 2
	err = router.Consume(consume, "worker.resize", func(_ context.Context, b *warren.Batch) error {
		for _, m := range b.Messages() {
			if m.ID == "bad" {
				m.DeadLetter(errors.New("no picture"))
			}
		}
		if left -= b.Len(); left == 0 {
			stop()
		}
		return nil
	}, warren.Workers(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := router.Close(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := testutil.GatherAndFormat(reg, expfmt.TypeTextPlain, "warren_client_published_messages_total",
		"warren_client_handled_messages_total", "warren_client_dead_lettered_messages_total", "warren_client_connections")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`published_messages_total{exchange="",outcome="confirmed",queue="worker.resize"} 2`,
		`published_messages_total{exchange="",outcome="returned",queue="worker.nowhere"} 1`,
		`published_messages_total{exchange="",outcome="confirmed",queue="worker.resize.dead-letters"} 1`,
		`handled_messages_total{cluster="worker",outcome="acked",queue="worker.resize"} 1`,
		`handled_messages_total{cluster="worker",outcome="dead_lettered",queue="worker.resize"} 1`,
		`dead_lettered_messages_total{queue="worker.resize",reason="handler"} 1`,
		`connections{cluster="worker",use="consume"} 0`,
		`connections{cluster="worker",use="publish"} 0`,
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no line with %s in\n%s", line, text)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	h, err := New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	m := warren.Message{Queue: "worker.resize"}
	b.ReportAllocs()
	for b.Loop() {
		_, done := h.StartPublish(context.Background(), &m)
		done(nil)
	}
}
