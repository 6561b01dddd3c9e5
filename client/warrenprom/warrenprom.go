// Package warrenprom counts what Warren's client library does as metrics of Prometheus.
//
//	hooks, err := warrenprom.New(prometheus.DefaultRegisterer)
//	router, err := warren.FromEnv(warren.WithHooks(hooks))
//
// All names begin with warren_client_. A program with several routers gives all of them the same hooks: their numbers are
// added. To tell them apart, wrap the registerer with a label (prometheus.WrapRegistererWith) for each.
package warrenprom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warren-mq/warren/client"
)

// Other is the label of queues and exchanges beyond MaxNames.
const Other = "other"

// Option is given to New.
type Option func(*config)

type config struct {
	label    func(name string) string
	maxNames int
	confirm  []float64
	handler  []float64
	batch    []float64
	now      func() time.Time
}

// Label replaces how the name of a queue or exchange becomes its label. It is called for each message and must be quick. By
// default names are labels as they are, but for those that brokers make up (amq.gen-…, amq.rabbitmq.reply-to.…), which all
// are "amq.*".
func Label(label func(name string) string) Option { return func(c *config) { c.label = label } }

// MaxNames is how many labels of queues that are published to, of exchanges, and of queues that are consumed there may be, for
// each of the three: 100. Names that come later are counted as Other, so that reply queues cannot fill the memory.
func MaxNames(n int) Option { return func(c *config) { c.maxNames = n } }

// ConfirmBuckets are the buckets of warren_client_confirm_seconds, in seconds: by default from 0.5 ms to 32 s, each twice the
// one before.
func ConfirmBuckets(seconds ...float64) Option { return func(c *config) { c.confirm = seconds } }

// HandlerBuckets are the buckets of warren_client_handler_seconds, in seconds: by default from 1 ms to 65 s, each twice the one
// before.
func HandlerBuckets(seconds ...float64) Option { return func(c *config) { c.handler = seconds } }

// BatchBuckets are the buckets of warren_client_batch_messages, in messages: by default 1, 2, 5, 10 and so on up to 1,000.
func BatchBuckets(messages ...float64) Option { return func(c *config) { c.batch = messages } }

// New registers the metrics and returns hooks that fill them. The error is that of the registerer, for instance a
// prometheus.AlreadyRegisteredError when it has them already; nothing is registered then.
func New(reg prometheus.Registerer, opts ...Option) (warren.Hooks, error) {
	c := config{
		label: label, maxNames: 100, now: time.Now,
		confirm: prometheus.ExponentialBuckets(0.0005, 2, 17),
		handler: prometheus.ExponentialBuckets(0.001, 2, 17),
		batch:   []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
	}
	for _, o := range opts {
		o(&c)
	}
	m := newMetrics(&c)
	if err := reg.Register(m); err != nil {
		return warren.Hooks{}, fmt.Errorf("metrics of the client library: %w", err)
	}
	return m.hooks(), nil
}

func label(name string) string {
	if strings.HasPrefix(name, "amq.gen") || strings.HasPrefix(name, "amq.rabbitmq.reply-to") {
		return "amq.*"
	}
	return name
}

func (m *metrics) hooks() warren.Hooks {
	return warren.Hooks{
		Connected: func(e warren.ConnectionEvent) {
			m.connects.WithLabelValues(e.Cluster, e.Use).Inc()
			m.connections.WithLabelValues(e.Cluster, e.Use).Inc()
			m.blocked.change(e.Cluster, e.Use, 0)
		},
		Disconnected: func(e warren.ConnectionEvent) {
			m.disconnects.WithLabelValues(e.Cluster, e.Use).Inc()
			m.connections.WithLabelValues(e.Cluster, e.Use).Dec()
		},
		DialFailed: func(e warren.ConnectionEvent) { m.dialFailures.WithLabelValues(e.Cluster, e.Use).Inc() },
		Blocked:    func(e warren.ConnectionEvent) { m.blocked.change(e.Cluster, e.Use, 1) },
		Unblocked:  func(e warren.ConnectionEvent) { m.blocked.change(e.Cluster, e.Use, -1) },

		StartPublish: m.startPublish,
		Published: func(e warren.PublishEvent) {
			m.answered.WithLabelValues(e.Cluster).Add(float64(e.Messages))
			m.answeredAMQP.WithLabelValues(e.Cluster).Add(float64(e.Sent))
			m.answeredBytes.WithLabelValues(e.Cluster).Add(float64(e.Bytes))
		},
		Resent: func(cluster string, messages int) { m.resent.WithLabelValues(cluster).Add(float64(messages)) },

		Handled:  m.handled,
		StaleAck: func(queue string, n int) { m.staleAcks.WithLabelValues(m.consumed.label(queue)).Add(float64(n)) },
		DeadLettered: func(queue string, reason error) {
			why := "handler"
			if errors.Is(reason, warren.ErrTooManyAttempts) {
				why = "attempts"
			}
			m.deadLettered.WithLabelValues(m.consumed.label(queue), why).Inc()
		},
		Limit: func(queue string, running int) {
			m.limit.WithLabelValues(m.consumed.label(queue)).Set(float64(running))
		},
		ConsumerFailed: func(queue, cluster string, _ error) {
			m.consumerFailures.WithLabelValues(m.consumed.label(queue), cluster).Inc()
		},

		RouteChanged: func(revision string) {
			m.revision.Store(&revision)
			m.routeChanges.Inc()
		},
		RouteFailed: func(error) { m.routeFailures.Inc() },
	}
}

// startPublish counts the outcome of one message. It is per message, and not from Published, since only here each outcome is
// told, and with the queue.
func (m *metrics) startPublish(ctx context.Context, message *warren.Message) (context.Context, func(error)) {
	s := m.seriesOf(message)
	began := m.now()
	return ctx, func(err error) {
		s.outcomes[outcomeOf(err)].Inc()
		if err == nil {
			s.confirm.Observe(m.now().Sub(began).Seconds())
		}
	}
}

func (m *metrics) handled(e warren.HandleEvent) {
	queue := m.consumed.label(e.Queue)
	verdict := "handled"
	if e.Err != nil {
		verdict = "failed"
	}
	m.batches.WithLabelValues(queue, e.Cluster, verdict).Inc()
	m.batchSize.WithLabelValues(queue, e.Cluster).Observe(float64(e.Acked + e.Retried + e.DeadLettered + e.GivenBack))
	m.handlerTime.WithLabelValues(queue, e.Cluster).Observe(e.Took.Seconds())
	for _, part := range []struct {
		outcome string
		n       int
	}{{"acked", e.Acked}, {"retried", e.Retried}, {"dead_lettered", e.DeadLettered}, {"given_back", e.GivenBack}} {
		m.handledMessages.WithLabelValues(queue, e.Cluster, part.outcome).Add(float64(part.n))
	}
}
