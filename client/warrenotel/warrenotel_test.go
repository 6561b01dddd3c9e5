package warrenotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/client/clienttest"
)

// recorded makes hooks whose spans are kept.
func recorded(t *testing.T) (*tracer, *tracetest.InMemoryExporter, []Option) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	opts := []Option{
		WithTracerProvider(provider),
		WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
	}
	c := newConfig(opts)
	return &tracer{c, c.provider.Tracer("test")}, exporter, opts
}

func only(t *testing.T, e *tracetest.InMemoryExporter) tracetest.SpanStub {
	t.Helper()
	spans := e.GetSpans()
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	return spans[0]
}

func attributes(s tracetest.SpanStub) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes {
		out[string(a.Key)] = a.Value.AsInterface()
	}
	return out
}

func wantAttributes(t *testing.T, s tracetest.SpanStub, want map[string]any) {
	t.Helper()
	if got := attributes(s); !maps.Equal(got, want) {
		t.Errorf("attributes are\n%v, want\n%v", got, want)
	}
}

func TestPublishToQueue(t *testing.T) {
	tr, spans, _ := recorded(t)
	m := warren.Message{Queue: "worker.resize", ID: "id-1", CorrelationID: "c-1", Body: []byte("12345")}
	_, done := tr.startPublish(context.Background(), &m)
	done(nil)
	s := only(t, spans)
	if s.Name != "publish worker.resize" || s.SpanKind != trace.SpanKindProducer || s.Status.Code != codes.Unset {
		t.Errorf("span is %s, %s, %v", s.Name, s.SpanKind, s.Status)
	}
	wantAttributes(t, s, map[string]any{
		"messaging.system": "rabbitmq", "messaging.operation.type": "send", "messaging.operation.name": "publish",
		"messaging.destination.name": "worker.resize", "messaging.message.id": "id-1", "messaging.message.body.size": int64(5),
		"messaging.message.conversation_id": "c-1",
	})
	want := fmt.Sprintf("00-%s-%s-01", s.SpanContext.TraceID(), s.SpanContext.SpanID())
	if got := m.Headers["traceparent"]; got != want {
		t.Errorf("traceparent is %v, want %s", got, want)
	}
}

func TestPublishToExchange(t *testing.T) {
	tr, spans, _ := recorded(t)
	m := warren.Message{Exchange: "events", Key: "user.4711"}
	_, done := tr.startPublish(context.Background(), &m)
	done(nil)
	s := only(t, spans)
	if s.Name != "publish events" {
		t.Errorf("the name is %q: a routing key may have many values", s.Name)
	}
	got := attributes(s)
	if got["messaging.destination.name"] != "events:user.4711" || got["messaging.rabbitmq.destination.routing_key"] != "user.4711" {
		t.Errorf("attributes are %v", got)
	}
}

func TestPublishErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: full", warren.ErrNacked), "nacked"},
		{warren.ErrReturned, "returned"},
		{warren.ErrRefused, "refused"},
		{fmt.Errorf("%w: %w", warren.ErrUnknown, warren.ErrClosed), "unknown"},
		{fmt.Errorf("%w: %w", warren.ErrNotSent, context.Canceled), "not_sent"},
		{warren.ErrNoRoute, "not_accepted"},
	} {
		tr, spans, _ := recorded(t)
		_, done := tr.startPublish(context.Background(), &warren.Message{Queue: "q"})
		done(c.err)
		s := only(t, spans)
		if s.Status.Code != codes.Error || s.Status.Description != c.err.Error() || attributes(s)["error.type"] != c.want ||
			len(s.Events) != 1 {
			t.Errorf("%v: %v, %v, %v", c.err, s.Status, attributes(s), s.Events)
		}
	}
}

// TestHeadersStayTheCallers publishes twice with one map, which must not change.
func TestHeadersStayTheCallers(t *testing.T) {
	tr, _, _ := recorded(t)
	headers := map[string]any{"tenant": "a"}
	first, second := warren.Message{Queue: "q", Headers: headers}, warren.Message{Queue: "q", Headers: headers}
	tr.startPublish(context.Background(), &first)
	tr.startPublish(context.Background(), &second)
	if len(headers) != 1 {
		t.Errorf("the caller's headers are %v", headers)
	}
	if first.Headers["tenant"] != "a" || first.Headers["traceparent"] == second.Headers["traceparent"] {
		t.Errorf("headers are %v and %v", first.Headers, second.Headers)
	}
}

// TestNothingToCarry leaves headers alone when there is no trace.
func TestNothingToCarry(t *testing.T) {
	h := New()
	m := warren.Message{Queue: "q"}
	_, done := h.StartPublish(context.Background(), &m)
	done(nil)
	if m.Headers != nil {
		t.Errorf("headers are %v", m.Headers)
	}
}

// TestPassedOn publishes messages that carry a context already.
func TestPassedOn(t *testing.T) {
	tr, spans, _ := recorded(t)
	first := warren.Message{Queue: "q"}
	_, done := tr.startPublish(context.Background(), &first)
	done(nil)
	origin := only(t, spans).SpanContext

	t.Run("without a span around", func(t *testing.T) {
		spans.Reset()
		m := first
		_, done := tr.startPublish(context.Background(), &m)
		done(nil)
		s := only(t, spans)
		if s.Parent.SpanID() != origin.SpanID() || s.SpanContext.TraceID() != origin.TraceID() || len(s.Links) != 0 {
			t.Errorf("parent is %v, links are %v", s.Parent.SpanID(), s.Links)
		}
		if first.Headers["traceparent"] == m.Headers["traceparent"] {
			t.Error("the headers were not renewed, or those of the first message changed")
		}
	})
	t.Run("in a span", func(t *testing.T) {
		spans.Reset()
		ctx, around := tr.tracer.Start(context.Background(), "around")
		m := first
		_, done := tr.startPublish(ctx, &m)
		done(nil)
		s := only(t, spans)
		if s.Parent.SpanID() != around.SpanContext().SpanID() {
			t.Errorf("parent is %v", s.Parent.SpanID())
		}
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != origin.SpanID() {
			t.Errorf("links are %v", s.Links)
		}
	})
}

func TestBatch(t *testing.T) {
	tr, spans, opts := recorded(t)
	var messages []*warren.Delivery
	var published []trace.SpanContext
	for i := range 3 {
		m := warren.Message{Queue: "q", ID: fmt.Sprint("id-", i)}
		_, done := tr.startPublish(context.Background(), &m)
		done(nil)
		published = append(published, spans.GetSpans()[i].SpanContext)
		messages = append(messages, &warren.Delivery{Message: m})
	}
	messages = append(messages,
		&warren.Delivery{Message: warren.Message{ID: "untraced"}},
		&warren.Delivery{Message: warren.Message{ID: "number", Headers: map[string]any{"traceparent": int64(3)}}})
	// Another client may send text as bytes.
	messages[0].Headers["traceparent"] = []byte(messages[0].Headers["traceparent"].(string))
	spans.Reset()
	ctx, done := tr.batch(context.Background(), "q", "worker", messages)
	within := trace.SpanContextFromContext(ctx)
	done(errors.New("no"))
	s := only(t, spans)
	if !s.SpanContext.Equal(within) {
		t.Error("the handler's context does not hold the span")
	}
	if s.Name != "process q" || s.SpanKind != trace.SpanKindConsumer || s.Status.Code != codes.Error {
		t.Errorf("span is %s, %s, %v", s.Name, s.SpanKind, s.Status)
	}
	wantAttributes(t, s, map[string]any{
		"messaging.system": "rabbitmq", "messaging.operation.type": "process", "messaging.operation.name": "process",
		"messaging.destination.name": "q", "messaging.batch.message_count": int64(5), "warren.cluster": "worker", "error.type": "handler",
	})
	if len(s.Links) != 3 {
		t.Fatalf("links are %v", s.Links)
	}
	for i, l := range s.Links {
		id := attribute.NewSet(l.Attributes...)
		if v, _ := id.Value("messaging.message.id"); l.SpanContext.SpanID() != published[i].SpanID() || v.AsString() != fmt.Sprint("id-", i) {
			t.Errorf("link %d is %v, %v", i, l.SpanContext.SpanID(), l.Attributes)
		}
		got := trace.SpanContextFromContext(Context(ctx, messages[i], opts...))
		if got.SpanID() != published[i].SpanID() || !got.IsRemote() {
			t.Errorf("message %d carries %v", i, got)
		}
	}
	if got := trace.SpanContextFromContext(Context(ctx, messages[3], opts...)); !got.Equal(within) {
		t.Errorf("a message that carries nothing gives %v", got)
	}
}

// over starts a broker with one queue, and a router with the hooks.
func over(t *testing.T, queue string, h warren.Hooks) (*clienttest.Broker, *warren.Router, context.Context) {
	t.Helper()
	broker := clienttest.Start(t)
	if err := broker.DeclareQueue(queue, nil); err != nil {
		t.Fatal(err)
	}
	router, err := warren.FromEnv(warren.WithHooks(h), warren.Environ([]string{
		"RMQ_WORKER_HOSTS=" + broker.Addr(), "RMQ_USERNAME=guest", "RMQ_PASSWORD=guest",
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	t.Cleanup(func() { _ = router.Close(ctx) })
	return broker, router, ctx
}

// TestOverABroker publishes, and looks at what the broker was given.
func TestOverABroker(t *testing.T) {
	_, spans, opts := recorded(t)
	broker, router, ctx := over(t, "worker.resize", New(opts...))
	p, err := router.Publisher(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, warren.Message{Queue: "worker.resize", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, warren.Message{Queue: "worker.nowhere"}); !errors.Is(err, warren.ErrReturned) {
		t.Fatal(err)
	}
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Status.Code != codes.Unset || attributes(got[1])["error.type"] != "returned" {
		t.Fatalf("spans are %v", got)
	}
	if attributes(got[0])["messaging.message.id"] == "" {
		t.Error("the span has no id of the message")
	}
	q, _ := broker.Queue("worker.resize")
	want := fmt.Sprintf("00-%s-%s-01", got[0].SpanContext.TraceID(), got[0].SpanContext.SpanID())
	if len(q.Ready) != 1 || q.Ready[0].Properties.Headers["traceparent"] != want {
		t.Errorf("the queue holds %v, want traceparent %s", q.Ready, want)
	}
}

// TestThrough follows a trace from a publisher to the handler, packed and plain, and on to the dead letter.
func TestThrough(t *testing.T) {
	for name, publishing := range map[string][]warren.PublisherOption{
		"plain":  nil,
		"packed": {warren.AutoBatch(), warren.Pack("worker.resize")},
	} {
		t.Run(name, func(t *testing.T) {
			tr, spans, opts := recorded(t)
			broker, router, ctx := over(t, "worker.resize", New(opts...))
			p, err := router.Publisher(ctx, publishing...)
			if err != nil {
				t.Fatal(err)
			}
			asked, request := tr.tracer.Start(ctx, "request")
			messages := []warren.Message{{Queue: "worker.resize", ID: "good"}, {Queue: "worker.resize", ID: "bad"}, {Queue: "worker.resize", ID: "best"}}
			if err := p.PublishBatch(asked, messages); err != nil {
				t.Fatal(err)
			}
			request.End()
			consume, cancel := context.WithCancel(ctx)
			left := len(messages)
			var failed trace.SpanContext
			err = router.Consume(consume, "worker.resize", func(ctx context.Context, b *warren.Batch) error {
				for _, m := range b.Messages() {
					own := trace.SpanContextFromContext(Context(ctx, m, opts...))
					if own.TraceID() != request.SpanContext().TraceID() {
						t.Errorf("message %s carries the trace %s", m.ID, own.TraceID())
					}
					if m.ID == "bad" {
						failed = own
						m.DeadLetter(errors.New("no picture"))
					}
				}
				if left -= b.Len(); left == 0 {
					cancel()
				}
				return nil
			}, warren.Workers(1), warren.BatchSize(3))
			if err != nil {
				t.Fatal(err)
			}
			linked := map[string]bool{}
			var dead *tracetest.SpanStub
			for _, s := range spans.GetSpans() {
				for _, l := range s.Links {
					id := attribute.NewSet(l.Attributes...)
					v, _ := id.Value("messaging.message.id")
					if l.SpanContext.TraceID() == request.SpanContext().TraceID() && s.SpanKind == trace.SpanKindConsumer {
						linked[v.AsString()] = true
					}
				}
				if s.Name == "publish worker.resize.dead-letters" {
					dead = &s
				}
			}
			if len(linked) != 3 {
				t.Errorf("batches are linked to %v", linked)
			}
			if dead == nil || dead.Parent.SpanID() != failed.SpanID() {
				t.Errorf("the dead letter's span is %v, which is no child of %v", dead, failed.SpanID())
			}
			if ready, unacked := broker.Depth("worker.resize"); ready+unacked != 0 {
				t.Errorf("%d messages are left", ready+unacked)
			}
		})
	}
}
