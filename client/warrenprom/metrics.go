package warrenprom

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warren-mq/warren/client"
)

const namespace = "warren_client"

// metrics is one collector, so that it is registered as a whole or not at all.
type metrics struct {
	now func() time.Time

	queues, exchanges, consumed *names
	series                      sync.Map // address → *series; bounded as the names are

	connections                         *prometheus.GaugeVec
	connects, disconnects, dialFailures *prometheus.CounterVec
	blocked                             *blocked

	published                             *prometheus.CounterVec
	confirm                               *prometheus.HistogramVec
	answered, answeredAMQP, answeredBytes *prometheus.CounterVec
	resent                                *prometheus.CounterVec

	batches, handledMessages    *prometheus.CounterVec
	batchSize, handlerTime      *prometheus.HistogramVec
	deadLettered, staleAcks     *prometheus.CounterVec
	limit                       *prometheus.GaugeVec
	consumerFailures            *prometheus.CounterVec
	routeChanges, routeFailures prometheus.Counter
	revision                    atomic.Pointer[string]
	routeInfo                   *prometheus.Desc
	all                         []prometheus.Collector
}

func newMetrics(c *config) *metrics {
	m := &metrics{
		now: c.now, queues: newNames(c), exchanges: newNames(c), consumed: newNames(c), blocked: newBlocked(c.now),
		routeInfo: prometheus.NewDesc(namespace+"_route_info", "1 for the revision of the routes file that was read last.", []string{"revision"}, nil),
	}
	m.all = append(m.all, m.blocked)
	m.publishing(c)
	m.consuming(c)
	return m
}

func (m *metrics) publishing(c *config) {
	m.connections = m.gauge("connections", "Open connections.", "cluster", "use")
	m.connects = m.counter("connects_total", "Connections that were opened.", "cluster", "use")
	m.disconnects = m.counter("disconnects_total", "Open connections that ended.", "cluster", "use")
	m.dialFailures = m.counter("dial_failures_total", "Connections that could not be opened.", "cluster", "use")

	m.published = m.counter("published_messages_total",
		"Messages given to publishers, by their outcome. Exactly one of queue and exchange is set.", "queue", "exchange", "outcome")
	m.confirm = m.histogram("confirm_seconds",
		"Time from when a message was given to a publisher to its confirm.", c.confirm, "queue", "exchange")
	m.answered = m.counter("answered_messages_total", "Messages that brokers confirmed, refused or returned.", "cluster")
	m.answeredAMQP = m.counter("answered_amqp_messages_total",
		"AMQP messages that brokers confirmed, refused or returned: fewer than messages where messages are packed.", "cluster")
	m.answeredBytes = m.counter("answered_bytes_total", "Bytes of the bodies of answered messages.", "cluster")
	m.resent = m.counter("resent_messages_total", "Messages sent again since their outcome was unknown.", "cluster")
}

func (m *metrics) consuming(c *config) {
	m.batches = m.counter("batches_total", "Batches that handlers ended; failed when they returned an error or panicked.",
		"queue", "cluster", "outcome")
	m.batchSize = m.histogram("batch_messages", "Messages of each batch.", c.batch, "queue", "cluster")
	m.handlerTime = m.histogram("handler_seconds", "Time that handlers ran for each batch.", c.handler, "queue", "cluster")
	m.handledMessages = m.counter("handled_messages_total", "Messages of batches, by what became of them.",
		"queue", "cluster", "outcome")
	m.deadLettered = m.counter("dead_lettered_messages_total",
		"Messages that went to a dead-letter queue, by who decided it: a handler, or the number of attempts.", "queue", "reason")
	m.staleAcks = m.counter("stale_acks_total",
		"Acknowledgements dropped since their channel had ended; the messages are delivered again.", "queue")
	m.limit = m.gauge("concurrent_batches_limit", "Batches that may run at once, as back-pressure set it last.", "queue")
	m.consumerFailures = m.counter("consumer_failures_total", "Times that consuming was interrupted.", "queue", "cluster")

	m.routeChanges = m.plain("route_changes_total", "Times that a routes file was read anew.")
	m.routeFailures = m.plain("route_failures_total", "Times that a routes file could not be used.")
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) plain(name, help string) prometheus.Counter {
	v := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.all = append(m.all, v)
	return v
}

func (m *metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.all = append(m.all, v)
	return v
}

// Describe is for the registry.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(out)
	}
	out <- m.routeInfo
}

// Collect is for the registry.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(out)
	}
	if revision := m.revision.Load(); revision != nil {
		out <- prometheus.MustNewConstMetric(m.routeInfo, prometheus.GaugeValue, 1, *revision)
	}
}

// address is the labels of what is published to.
type address struct{ queue, exchange string }

// series are the metrics of one address, looked up once.
type series struct {
	outcomes [len(outcomes)]prometheus.Counter
	confirm  prometheus.Observer
}

func (m *metrics) seriesOf(message *warren.Message) *series {
	var a address
	if message.Queue != "" {
		a.queue = m.queues.label(message.Queue)
	} else {
		a.exchange = m.exchanges.label(message.Exchange)
	}
	if found, ok := m.series.Load(a); ok {
		return found.(*series)
	}
	s := &series{confirm: m.confirm.WithLabelValues(a.queue, a.exchange)}
	for i, name := range outcomes {
		s.outcomes[i] = m.published.WithLabelValues(a.queue, a.exchange, name)
	}
	found, _ := m.series.LoadOrStore(a, s)
	return found.(*series)
}

// outcomes of a message, in the order of the constants below.
var outcomes = [...]string{"confirmed", "nacked", "returned", "refused", "unknown", "not_sent", "not_accepted"}

const (
	confirmed = iota
	nacked
	returned
	refused
	unknown
	notSent
	notAccepted // no route, too large, the buffer is full, closed
)

// outcomeOf asks for what is told first: an error may wrap a second one as its reason.
func outcomeOf(err error) int {
	switch {
	case err == nil:
		return confirmed
	case errors.Is(err, warren.ErrUnknown):
		return unknown
	case errors.Is(err, warren.ErrNotSent):
		return notSent
	case errors.Is(err, warren.ErrNacked):
		return nacked
	case errors.Is(err, warren.ErrReturned):
		return returned
	case errors.Is(err, warren.ErrRefused):
		return refused
	}
	return notAccepted
}

// names makes labels of names, a bounded number of them.
type names struct {
	of  func(string) string
	max int

	mu    sync.RWMutex
	known map[string]struct{}
}

func newNames(c *config) *names {
	return &names{of: c.label, max: c.maxNames, known: map[string]struct{}{}}
}

func (n *names) label(name string) string {
	name = n.of(name)
	n.mu.RLock()
	_, ok := n.known[name]
	full := len(n.known) >= n.max
	n.mu.RUnlock()
	switch {
	case ok:
		return name
	case full:
		return Other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; !ok && len(n.known) >= n.max {
		return Other
	}
	n.known[name] = struct{}{}
	return name
}

// blocked counts connections whose broker takes no messages, and for how long, up to the moment of the scrape: an alarm may last
// for hours.
type blocked struct {
	now         func() time.Time
	connections *prometheus.Desc
	seconds     *prometheus.Desc

	mu sync.Mutex
	by map[[2]string]*blockedTime
}

type blockedTime struct {
	n     int
	since time.Time // of the last change of n
	total time.Duration
}

func newBlocked(now func() time.Time) *blocked {
	labels := []string{"cluster", "use"}
	return &blocked{
		now: now, by: map[[2]string]*blockedTime{},
		connections: prometheus.NewDesc(namespace+"_blocked_connections", "Open connections on which the broker takes no messages.", labels, nil),
		seconds: prometheus.NewDesc(namespace+"_blocked_seconds_total",
			"Time that connections were blocked, added up over connections.", labels, nil),
	}
}

func (b *blocked) change(cluster, use string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := [2]string{cluster, use}
	t := b.by[key]
	if t == nil {
		t = &blockedTime{}
		b.by[key] = t
	}
	now := b.now()
	t.total += time.Duration(t.n) * now.Sub(t.since)
	t.since = now
	t.n = max(t.n+by, 0)
}

// Describe is for the registry.
func (b *blocked) Describe(out chan<- *prometheus.Desc) {
	out <- b.connections
	out <- b.seconds
}

// Collect is for the registry.
func (b *blocked) Collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, t := range b.by {
		total := t.total + time.Duration(t.n)*b.now().Sub(t.since)
		out <- prometheus.MustNewConstMetric(b.connections, prometheus.GaugeValue, float64(t.n), key[0], key[1])
		out <- prometheus.MustNewConstMetric(b.seconds, prometheus.CounterValue, total.Seconds(), key[0], key[1])
	}
}
