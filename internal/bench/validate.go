package bench

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

var namePattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// rule is what one field says and may be. Bounds of numbers are in the schema too; those of durations and sizes cannot be.
type rule struct {
	path, description string
	min, max          float64
	value             func(*Scenario) (float64, bool) // nil for what has no bounds
}

func number(get func(*Scenario) float64) func(*Scenario) (float64, bool) {
	return func(s *Scenario) (float64, bool) { return get(s), true }
}

func count(get func(*Scenario) int) func(*Scenario) (float64, bool) {
	return func(s *Scenario) (float64, bool) { return float64(get(s)), true }
}

func span(get func(*Scenario) Duration) func(*Scenario) (float64, bool) {
	return func(s *Scenario) (float64, bool) { return get(s).Seconds(), true }
}

const (
	most     = 100_000    // of connections, publishers, consumers, queues
	mostRate = 10_000_000 // messages per second
	short    = 65535      // AMQP's prefetch count is a short
	hour     = 3600

	mostLikeName = 100 // bytes; a number for the run and the queue follows
)

// rules are of all fields, in the order of the types. What durations and sizes are counted in is seconds and bytes.
var rules = []rule{
	{path: "name", description: "Name in CamelCase, at most 63 letters and digits. Results of the same name are compared."},
	{path: "description", description: "What the scenario shows, in a sentence."},
	{path: "load", description: "How sends are timed."},
	{path: "load.mode", description: "Open sends at the rate, whatever the broker does, and counts latency from the intended time. Closed sends as fast as confirms or the socket allow. Default Closed."},
	{"load.rate", "Messages per second over all publishers. Needed for Open, forbidden for Closed.", 0, mostRate, number(func(s *Scenario) float64 { return s.Load.Rate })},
	{path: "message", description: "What is sent."},
	{path: "message.sizes", description: "Sizes of the body, 32B to 128MiB. With several, messages take them in turn. Default 256B."},
	{path: "message.persistent", description: "Whether messages are written to disk. Default true."},
	{path: "publishers", description: "Who sends."},
	{"publishers.count", "Publishers in all, each with a channel of its own, each on one queue in turn. Default 1.", 0, most, count(func(s *Scenario) int { return s.Publishers.Count })},
	{"publishers.connections", "Connections that publishers share. 0, the default, is one each.", 0, most, count(func(s *Scenario) int { return s.Publishers.Connections })},
	{"publishers.confirmWindow", "How many messages of one publisher may wait for their confirm: 1 is one by one, 0 is without confirms. Default 500.", 0, most, count(func(s *Scenario) int { return s.Publishers.ConfirmWindow })},
	{path: "consumers", description: "Who receives."},
	{"consumers.count", "Consumers in all, each with a channel of its own, each on one queue in turn. Default 1.", 0, most, count(func(s *Scenario) int { return s.Consumers.Count })},
	{"consumers.connections", "Connections that consumers share, never with publishers. 0, the default, is one each.", 0, most, count(func(s *Scenario) int { return s.Consumers.Connections })},
	{"consumers.prefetch", "How many unacknowledged messages one consumer may hold. 0 is no limit. Default 200.", 0, short, count(func(s *Scenario) int { return s.Consumers.Prefetch })},
	{"consumers.ackEvery", "After how many messages one acknowledgement goes out. 0 is automatic acknowledgement. Default 1.", 0, short, count(func(s *Scenario) int { return s.Consumers.AckEvery })},
	{"consumers.ackWait", "The longest time that an acknowledgement is held back, at most 1m. Default 5ms.", 0, 60, span(func(s *Scenario) Duration { return s.Consumers.AckWait })},
	{"consumers.latency", "What handling one message, or one batch, takes, at most 1h. Default 0s.", 0, hour, span(func(s *Scenario) Duration { return s.Consumers.Latency })},
	{path: "consumers.library", description: "Have messages consumed by Warren's client library, as applications do that use it; needs a batch. Default: the generator's own code."},
	{path: "consumers.batch", description: "When set, messages are handled together and each batch is acknowledged at once."},
	{"consumers.batch.size", "How many messages are handled together. consumers.prefetch must be at least twice as much.", 1, short, func(s *Scenario) (float64, bool) {
		if s.Consumers.Batch == nil {
			return 0, false
		}
		return float64(s.Consumers.Batch.Size), true
	}},
	{"consumers.batch.wait", "The longest time from the first message of a batch to its handling, 1ms to 1m. Default 50ms.", 0.001, 60, func(s *Scenario) (float64, bool) {
		if s.Consumers.Batch == nil {
			return 0, false
		}
		return s.Consumers.Batch.Wait.Seconds(), true
	}},
	{path: "queues", description: "What the scenario declares, and deletes at the end."},
	{"queues.count", "Queues in all. Default 1.", 1, most, count(func(s *Scenario) int { return s.Queues.Count })},
	{path: "queues.type", description: "Mirrored is a classic queue with a policy of two replicas, for brokers before 4.0. Default Classic."},
	{path: "queues.arguments", description: "Arguments of the declaration, without x-queue-type."},
	{path: "queues.like", description: "When set, the queues have the policies that queues of an application have."},
	{path: "queues.like.name", description: "The queues' names begin with it, so that the patterns of policies match. At most 100 bytes."},
	{path: "queues.like.vhost", description: "The vhost whose policies are copied for the scenario. Default /."},
	{path: "backlog", description: "When set, publishers fill the queues before consumers start."},
	{"backlog.messages", "Messages in all queues together when filling ends.", 1, 1e9, func(s *Scenario) (float64, bool) {
		if s.Backlog == nil {
			return 0, false
		}
		return float64(s.Backlog.Messages), true
	}},
	{"backlog.freshRate", "Messages per second that are sent while consumers drain; their latency is reported. Default 0: none.", 0, mostRate, func(s *Scenario) (float64, bool) {
		if s.Backlog == nil {
			return 0, false
		}
		return s.Backlog.FreshRate, true
	}},
	{path: "storm", description: "When set, many connections are opened at the start of the measured part and held."},
	{"storm.connections", "Connections in all.", 1, most, func(s *Scenario) (float64, bool) {
		if s.Storm == nil {
			return 0, false
		}
		return float64(s.Storm.Connections), true
	}},
	{"storm.jitter", "The attempts are spread evenly over this time, at most 1h. Default 0s: all at once.", 0, hour, func(s *Scenario) (float64, bool) {
		if s.Storm == nil {
			return 0, false
		}
		return s.Storm.Jitter.Seconds(), true
	}},
	{path: "hosts", description: "Which addresses connections go to: All in turn, the First, or Apart: publishers to the first half and consumers to the second. Default All."},
	{"workers", "Processes (pods) that share the load. Default 1.", 1, 1000, count(func(s *Scenario) int { return s.Workers })},
	{"warmUp", "Cut from the figures, and made longer up to three times until the rate is steady. At most 1h. Default 10s.", 0, hour, span(func(s *Scenario) Duration { return s.WarmUp })},
	{"duration", "Of the measured part, 1s to 24h; in less than 4s too few whole seconds are measured for a run to count. With a backlog it is the longest time that draining may take. Default 1m.", 1, 24 * hour, span(func(s *Scenario) Duration { return s.Duration })},
	{"coolDown", "Pause between runs, at most 1h. Default 10s.", 0, hour, span(func(s *Scenario) Duration { return s.CoolDown })},
	{"runs", "Runs of which the median is the result. Default 3.", 1, 100, count(func(s *Scenario) int { return s.Runs })},
	{path: "caps", description: "They stop the load before it does harm."},
	{"caps.rate", "The most messages per second that all publishers send, in Closed mode too. 0, the default, is no cap.", 0, mostRate, number(func(s *Scenario) float64 { return s.Caps.Rate })},
	{"caps.connections", "The most connections at once. A scenario that needs more is refused. 0, the default, is no cap.", 0, most, count(func(s *Scenario) int { return s.Caps.Connections })},
	{path: "caps.disk", description: "The most bytes of bodies that may wait in the queues; publishers stop there. 0 is no cap. Default 2GiB."},
}

// Validate says all that is wrong with a scenario, in the order of its fields: first each field on its own, then what they
// mean together. Nil when nothing is.
func (s *Scenario) Validate() Faults {
	var faults Faults
	if !namePattern.MatchString(s.Name) {
		faults.add("name", "want CamelCase of at most 63 letters and digits, not %q", s.Name)
	}
	for i := range rules {
		r := &rules[i]
		if r.value == nil {
			continue
		}
		if v, present := r.value(s); present && !(v >= r.min && v <= r.max) {
			faults.add(r.path, "want %s to %s, not %s", r.text(r.min), r.text(r.max), r.text(v))
		}
	}
	for i, size := range s.Message.Sizes {
		if size < MinBody || size > 128<<20 {
			faults.add(fmt.Sprintf("message.sizes[%d]", i), "want %s to 128MiB, not %s", MinBody, size)
		}
	}
	if n := len(s.Message.Sizes); n < 1 || n > 100 {
		faults.add("message.sizes", "want 1 to 100 sizes, not %d", n)
	}
	if len(faults) > 0 {
		return faults // what follows reckons with values in bounds
	}
	s.validateLoad(&faults)
	s.validateQueues(&faults)
	s.validateConsumers(&faults)
	s.validateBacklog(&faults)
	s.validateCounts(&faults)
	return faults
}

// text is a bound as the file would have it.
func (r *rule) text(v float64) string {
	switch r.path {
	case "consumers.ackWait", "consumers.latency", "consumers.batch.wait", "storm.jitter", "warmUp", "duration", "coolDown":
		return Duration(math.Round(v * float64(time.Second))).String()
	}
	return formatNumber(v)
}

func (s *Scenario) validateLoad(faults *Faults) {
	switch {
	case s.Load.Mode == OpenLoop && s.Load.Rate == 0:
		faults.add("load.rate", "is needed in mode Open")
	case s.Load.Mode == OpenLoop && s.Publishers.Count == 0:
		faults.add("publishers.count", "mode Open needs publishers")
	case s.Load.Mode == ClosedLoop && s.Load.Rate != 0:
		faults.add("load.rate", "mode Closed has no rate; use mode Open, or caps.rate for a bound")
	}
	if s.Caps.Rate > 0 && s.Load.Rate > s.Caps.Rate {
		faults.add("load.rate", "%s is more than caps.rate %s", formatNumber(s.Load.Rate), formatNumber(s.Caps.Rate))
	}
}

func (s *Scenario) validateQueues(faults *Faults) {
	if _, has := s.Queues.Arguments["x-queue-type"]; has {
		faults.add("queues.arguments.x-queue-type", "is what queues.type says")
	}
	like := s.Queues.Like
	switch {
	case like == nil:
	case like.Name == "" || len(like.Name) > mostLikeName:
		faults.add("queues.like.name", "want a name of 1 to %d bytes, not %d", mostLikeName, len(like.Name))
	case strings.HasPrefix(like.Name, "amq."):
		faults.add("queues.like.name", "names that begin with amq. are the broker's own")
	case strings.ContainsAny(like.Name, "\r\n"):
		faults.add("queues.like.name", "must not have line breaks, which the broker leaves out of names")
	case s.Queues.Type == MirroredQueue:
		faults.add("queues.like", "brings the policies of queues.like.vhost, and type Mirrored one of its own: want one of them")
	}
}

func (s *Scenario) validateConsumers(faults *Faults) {
	c := s.Consumers
	if c.Count == 0 {
		return
	}
	if b := c.Batch; b != nil {
		if c.AckEvery != 1 {
			faults.add("consumers.ackEvery", "must be 1 with a batch: each batch is acknowledged at once")
		}
		if c.Prefetch != 0 && c.Prefetch < 2*b.Size {
			faults.add("consumers.prefetch", "%d is less than twice consumers.batch.size: nothing would be fetched while a batch is handled; want at least %d", c.Prefetch, 2*b.Size)
		}
	}
	if c.Library == WarrenLibrary {
		s.validateLibrary(faults)
	}
	if c.Prefetch != 0 && c.AckEvery > c.Prefetch {
		faults.add("consumers.ackEvery", "%d is more than consumers.prefetch %d: each acknowledgement would wait for consumers.ackWait", c.AckEvery, c.Prefetch)
	}
	if s.Queues.Type == StreamQueue && (c.Prefetch == 0 || c.AckEvery == 0) {
		faults.add("consumers", "a stream needs a prefetch and manual acknowledgements")
	}
}

// validateLibrary says what Warren's client library does not do.
func (s *Scenario) validateLibrary(faults *Faults) {
	c := s.Consumers
	switch {
	case c.Batch == nil:
		faults.add("consumers.batch", "is needed with library Warren, which consumes in batches")
	case c.Prefetch == 0:
		faults.add("consumers.prefetch", "is needed with library Warren, which does not consume without a bound; want at least %d", 2*c.Batch.Size)
	case c.Latency > Duration(libraryLatency):
		faults.add("consumers.latency", "%s is more than the %s for which the library lets a handler run", c.Latency, Duration(libraryLatency))
	}
	if s.Queues.Type == StreamQueue {
		faults.add("consumers.library", "Warren's client library does not read streams")
	}
}

// libraryLatency is well below the time after which the library tries messages again.
const libraryLatency = 30 * time.Second

func (s *Scenario) validateBacklog(faults *Faults) {
	b := s.Backlog
	if b == nil {
		if s.Consumers.Count > 0 && s.Publishers.Count == 0 {
			faults.add("publishers.count", "consumers have nothing to receive: want publishers, and for consumers alone a backlog too")
		}
		return
	}
	if s.Publishers.Count == 0 {
		faults.add("publishers.count", "a backlog needs publishers that build it")
	}
	if s.Consumers.Count == 0 {
		faults.add("consumers.count", "a backlog needs consumers that drain it; publishers alone need no backlog")
	}
	if s.Load.Mode != ClosedLoop {
		faults.add("load.mode", "must be Closed with a backlog; backlog.freshRate is the rate while it drains")
	}
	var sum float64
	for _, size := range s.Message.Sizes {
		sum += float64(size)
	}
	if bytes := float64(b.Messages) * sum / float64(len(s.Message.Sizes)); s.Caps.Disk > 0 && bytes > float64(s.Caps.Disk) {
		faults.add("backlog.messages", "%d messages are about %s MiB, more than caps.disk %s", b.Messages, formatNumber(math.Ceil(bytes/(1<<20))), s.Caps.Disk)
	}
}

func (s *Scenario) validateCounts(faults *Faults) {
	publishers, consumers := s.Publishers.Count, s.Consumers.Count
	if publishers == 0 && consumers == 0 && s.Storm == nil {
		faults.add("", "there is nothing to do: want publishers, consumers or a storm")
	}
	if s.Publishers.Connections > publishers {
		faults.add("publishers.connections", "%d connections for %d publishers", s.Publishers.Connections, publishers)
	}
	if s.Consumers.Connections > consumers {
		faults.add("consumers.connections", "%d connections for %d consumers", s.Consumers.Connections, consumers)
	}
	if q := s.Queues.Count; publishers > 0 && publishers < q {
		faults.add("queues.count", "%d queues for %d publishers: each publisher has one queue, the others would stay empty", q, publishers)
	}
	if q := s.Queues.Count; consumers > 0 && consumers < q {
		faults.add("queues.count", "%d queues for %d consumers: each consumer has one queue, the others would only grow", q, consumers)
	}
	busiest := max(publishers, consumers)
	if s.Storm != nil {
		busiest = max(busiest, s.Storm.Connections)
	}
	if s.Workers > max(busiest, 1) {
		faults.add("workers", "%d workers for %d clients: some would have nothing to do", s.Workers, busiest)
	}
	if need := s.Connections(); s.Caps.Connections > 0 && need > s.Caps.Connections {
		faults.add("caps.connections", "the scenario needs %d connections, the cap is %d", need, s.Caps.Connections)
	}
}

// PublisherConnections that the scenario opens.
func (s *Scenario) PublisherConnections() int {
	return shared(s.Publishers.Connections, s.Publishers.Count)
}

// ConsumerConnections that the scenario opens.
func (s *Scenario) ConsumerConnections() int {
	return shared(s.Consumers.Connections, s.Consumers.Count)
}

// Connections that the scenario has open at most, over all workers.
func (s *Scenario) Connections() int {
	n := s.PublisherConnections() + s.ConsumerConnections()
	if s.Storm != nil {
		n += s.Storm.Connections
	}
	return n
}

func shared(connections, users int) int {
	if connections == 0 {
		return users
	}
	return min(connections, users)
}

// formatNumber writes a number for people: up to three digits after the point, none that is zero.
func formatNumber(v float64) string {
	text := fmt.Sprintf("%.3f", v)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
