// Package warrenotel makes spans of OpenTelemetry of what Warren's client library publishes and consumes, and carries the
// context of a trace in the headers of messages.
//
//	router, err := warren.FromEnv(warren.WithHooks(warrenotel.New()))
//
// Each message that is published has a span of kind producer, from when it is given to a publisher to its outcome. Each batch
// that is handled has one of kind consumer, which is linked to the spans of its messages: a batch has no single parent. The
// context of the handler holds the span of the batch; Context gives that of one message.
//
// Names and attributes follow the semantic conventions for messaging. There is one span per message: sampling decides what
// that costs.
package warrenotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/warren-mq/warren/client"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/warren-mq/warren/client/warrenotel"

// ClusterKey is the attribute with the name of the cluster that a batch came from.
const ClusterKey = attribute.Key("warren.cluster")

// Option is given to New and Context.
type Option func(*config)

type config struct {
	provider   trace.TracerProvider
	propagator propagation.TextMapPropagator
}

// WithTracerProvider makes the spans with this provider instead of the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// WithPropagators writes and reads headers with this propagator instead of the global one, which carries nothing until the
// program has set one.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return func(c *config) { c.propagator = p }
}

func newConfig(opts []Option) config {
	c := config{provider: otel.GetTracerProvider(), propagator: otel.GetTextMapPropagator()}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// New returns hooks that make the spans.
func New(opts ...Option) warren.Hooks {
	c := newConfig(opts)
	t := &tracer{
		config: c,
		tracer: c.provider.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL)),
	}
	return warren.Hooks{StartPublish: t.startPublish, StartBatch: t.startBatch}
}

// Context returns ctx with the context that the message carries, so that a span that is started with it becomes a child of
// the span that published the message. It is ctx itself when the message carries none.
func Context(ctx context.Context, d *warren.Delivery, opts ...Option) context.Context {
	return newConfig(opts).propagator.Extract(ctx, carrier{&d.Message})
}

type tracer struct {
	config
	tracer trace.Tracer
}

// startPublish begins the span of one message. A message that carries a context already (a dead letter, or one that is passed
// on) stays connected with it: as a child when there is no span around, else by a link.
func (t *tracer) startPublish(ctx context.Context, m *warren.Message) (context.Context, func(error)) {
	destination, low := m.Queue, m.Queue
	attributes := make([]attribute.KeyValue, 0, 8)
	if m.Queue == "" {
		destination, low = m.Exchange, m.Exchange
		if m.Key != "" {
			destination += ":" + m.Key
			attributes = append(attributes, semconv.MessagingRabbitMQDestinationRoutingKey(m.Key))
		}
	}
	attributes = append(attributes, semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("publish"), semconv.MessagingDestinationName(destination),
		semconv.MessagingMessageID(m.ID), semconv.MessagingMessageBodySize(len(m.Body)))
	if m.CorrelationID != "" {
		attributes = append(attributes, semconv.MessagingMessageConversationID(m.CorrelationID))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...)}
	around := trace.SpanContextFromContext(ctx)
	if carried := t.propagator.Extract(ctx, carrier{m}); !around.IsValid() {
		ctx = carried
	} else if from := trace.SpanContextFromContext(carried); !from.Equal(around) {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := t.tracer.Start(ctx, "publish "+low, options...)
	t.propagator.Inject(ctx, &writer{carrier: carrier{m}})
	return ctx, func(err error) { end(span, err, outcome(err)) }
}

// startBatch begins the span of one call of a handler.
func (t *tracer) startBatch(ctx context.Context, b *warren.Batch) (context.Context, func(error)) {
	return t.batch(ctx, b.Queue(), b.Cluster(), b.Messages())
}

func (t *tracer) batch(ctx context.Context, queue, cluster string, messages []*warren.Delivery) (context.Context, func(error)) {
	var links []trace.Link
	for _, d := range messages {
		from := trace.SpanContextFromContext(t.propagator.Extract(context.Background(), carrier{&d.Message}))
		if from.IsValid() {
			links = append(links, trace.Link{
				SpanContext: from, Attributes: []attribute.KeyValue{semconv.MessagingMessageID(d.ID)},
			})
		}
	}
	ctx, span := t.tracer.Start(ctx, "process "+queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationTypeProcess,
			semconv.MessagingOperationName("process"), semconv.MessagingDestinationName(queue),
			semconv.MessagingBatchMessageCount(len(messages)), ClusterKey.String(cluster)))
	return ctx, func(err error) { end(span, err, "handler") }
}

func end(span trace.Span, err error, kind string) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	}
	span.End()
}

// outcome is the error.type of a message: few values. An error may wrap a second one as its reason, so what is told first is
// asked for first.
func outcome(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{warren.ErrUnknown, "unknown"}, {warren.ErrNotSent, "not_sent"}, {warren.ErrNacked, "nacked"},
		{warren.ErrReturned, "returned"}, {warren.ErrRefused, "refused"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "not_accepted"
}
