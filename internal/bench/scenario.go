package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/warren-mq/warren/internal/broker"
)

// The syntax of durations and sizes, for the schema too.
var (
	durationPattern = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
	sizePattern     = regexp.MustCompile(`^[0-9]{1,15}(B|KiB|MiB|GiB|kB|MB|GB)$`)
)

// LoadMode says what decides when the next message is sent.
type LoadMode string

// The modes of load.
const (
	// OpenLoop sends at Load.Rate, whatever the broker does: latency counts from the intended time.
	OpenLoop LoadMode = "Open"
	// ClosedLoop sends as fast as confirms, or the socket, allow. Its latency says little about users.
	ClosedLoop LoadMode = "Closed"
)

// QueueType of the scenario's queues.
type QueueType string

// The types of queue. Mirrored is a classic queue with a policy of two replicas, for brokers before 4.0.
const (
	ClassicQueue  QueueType = "Classic"
	QuorumQueue   QueueType = "Quorum"
	StreamQueue   QueueType = "Stream"
	MirroredQueue QueueType = "Mirrored"
)

// HostSpread says which of the broker's addresses connections go to.
type HostSpread string

// The spreads over hosts.
const (
	// AllHosts takes the addresses in turn.
	AllHosts HostSpread = "All"
	// FirstHost takes the first address for each connection.
	FirstHost HostSpread = "First"
	// ApartHosts sends publishers to the first half of the addresses and consumers to the second.
	ApartHosts HostSpread = "Apart"
)

// Library is what consumers are made with.
type Library string

// WarrenLibrary is Warren's own client library (package client), as applications use it. The empty value is the generator's own
// code, which costs least.
const WarrenLibrary Library = "Warren"

// Scenario is one load, as its file has it. Counts are totals over all workers. Decode reads one, Validate judges it,
// Matrix has the built-in ones. A built-in scenario and its file are the same.
type Scenario struct {
	// Name in CamelCase, at most 63 letters and digits: results of the same name are compared.
	Name string `json:"name"`
	// Description says what the scenario shows, in a sentence.
	Description string `json:"description,omitempty"`

	Load       Load       `json:"load"`
	Message    Message    `json:"message"`
	Publishers Publishers `json:"publishers"`
	Consumers  Consumers  `json:"consumers"`
	Queues     Queues     `json:"queues"`
	// Backlog, when set, fills the queues before consumers start.
	Backlog *Backlog `json:"backlog,omitempty"`
	// Storm, when set, opens many idle connections at the start of the measured part.
	Storm *Storm `json:"storm,omitempty"`

	// Hosts defaults to All.
	Hosts HostSpread `json:"hosts"`
	// Workers are the processes (pods) that share the load. Default 1.
	Workers int `json:"workers"`
	// WarmUp is cut from the figures; it is made longer, up to three times, until the rate is steady. Default 10s.
	WarmUp Duration `json:"warmUp"`
	// Duration of the measured part. With a backlog to drain it is the longest time that draining may take. Default 60s.
	Duration Duration `json:"duration"`
	// CoolDown between runs. Default 10s.
	CoolDown Duration `json:"coolDown"`
	// Runs of which the median is the result. Default 3.
	Runs int `json:"runs"`
	// Caps stop the load before it does harm.
	Caps Caps `json:"caps"`
}

// Load is how sends are timed.
type Load struct {
	// Mode defaults to Closed.
	Mode LoadMode `json:"mode"`
	// Rate is messages per second over all publishers; needed for Open, forbidden for Closed.
	Rate float64 `json:"rate,omitempty"`
}

// Message is what is sent.
type Message struct {
	// Sizes of the body. With several, messages take them in turn. At least MinBody each. Default [256B].
	Sizes []Size `json:"sizes"`
	// Persistent messages are written to disk. Default true.
	Persistent bool `json:"persistent"`
}

// MinBody is the smallest body: publisher, sequence and time are in it.
const MinBody Size = 32

// Publishers send.
type Publishers struct {
	// Count of publishers, each with a channel of its own, each bound to one queue in turn. Default 1. 0: none.
	Count int `json:"count"`
	// Connections that they share. Default: one each.
	Connections int `json:"connections,omitempty"`
	// ConfirmWindow is how many messages of one publisher may wait for their confirm; 1 is one by one, 0 is without
	// confirms. Default 500.
	ConfirmWindow int `json:"confirmWindow"`
}

// Consumers receive.
type Consumers struct {
	// Count of consumers, each with a channel of its own, each on one queue in turn. Default 1. 0: none.
	Count int `json:"count"`
	// Connections that they share, never with publishers. Default: one each.
	Connections int `json:"connections,omitempty"`
	// Prefetch is how many unacknowledged messages one consumer may hold. 0 is no limit. Default 200.
	Prefetch int `json:"prefetch"`
	// AckEvery is after how many messages one acknowledgement (multiple) goes out; 1 is each on its own. What is left is
	// acknowledged after AckWait. 0 is automatic acknowledgement, by the broker at the send. Default 1.
	AckEvery int `json:"ackEvery"`
	// AckWait is the longest time that an acknowledgement is held back. Default 5ms.
	AckWait Duration `json:"ackWait"`
	// Latency is what handling one message, or one batch, takes. Default 0s.
	Latency Duration `json:"latency"`
	// Library, when set, has messages consumed by a client library instead of the generator's own code: what applications
	// get that use it. Warren needs a batch.
	Library Library `json:"library,omitempty"`
	// Batch, when set, handles messages together and acknowledges each batch at once; AckEvery must be 1 then.
	Batch *Batch `json:"batch,omitempty"`
}

// Batch is how a consumer collects messages.
type Batch struct {
	// Size is how many messages are handled together; Prefetch must be at least twice as much.
	Size int `json:"size"`
	// Wait is the longest time from the first message of a batch to its handling. Default 50ms.
	Wait Duration `json:"wait"`
}

// Queues are what the scenario declares and deletes.
type Queues struct {
	// Count of queues. Default 1.
	Count int `json:"count"`
	// Type defaults to Classic.
	Type QueueType `json:"type"`
	// Arguments of the declaration: strings, whole numbers and booleans. x-queue-type is what Type says.
	Arguments Arguments `json:"arguments,omitempty"`
	// Like, when set, makes them queues such as an application has, in the eyes of policies.
	Like *Likeness `json:"like,omitempty"`
}

// Likeness is what makes policies of the cluster apply to a scenario's queues, which are in a vhost of their own.
type Likeness struct {
	// Name that the queues' names begin with: what a policy's pattern is to match.
	Name string `json:"name"`
	// VHost whose policies are copied for the scenario. Default "/".
	VHost string `json:"vhost"`
}

// Arguments of a queue by name: string, int64 and bool, as AMQP takes them.
type Arguments map[string]any

// UnmarshalJSON reads whole numbers as int64.
func (a *Arguments) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var raw map[string]any
	if err := decoder.Decode(&raw); err != nil {
		return err
	}
	for name, value := range raw {
		if n, ok := value.(json.Number); ok {
			whole, err := n.Int64()
			if err != nil {
				return fmt.Errorf("argument %s: want a whole number, not %s", name, n)
			}
			raw[name] = whole
		}
	}
	*a = raw
	return nil
}

// Backlog is a phase before the measured part in which publishers fill the queues while no consumer runs.
type Backlog struct {
	// Messages in all queues together when filling ends.
	Messages int64 `json:"messages"`
	// FreshRate is messages per second that are sent while consumers drain; their latency is a histogram of its own.
	// Default 0: none.
	FreshRate float64 `json:"freshRate,omitempty"`
}

// Storm is many connections at once, each with one channel, held until the run ends.
type Storm struct {
	// Connections in all.
	Connections int `json:"connections"`
	// Jitter spreads the attempts evenly over this time. Default 0s: all at once.
	Jitter Duration `json:"jitter,omitempty"`
}

// Caps are the most that the generator does. Zero means no cap of one's own.
type Caps struct {
	// Rate is the most messages per second that all publishers send, in Closed mode too.
	Rate float64 `json:"rate,omitempty"`
	// Connections is the most that are open at once. A scenario that needs more is refused.
	Connections int `json:"connections,omitempty"`
	// Disk is the most bytes of bodies that may wait in the queues. Publishers stop at it. Default 2GiB.
	Disk Size `json:"disk,omitempty"`
}

// UnsupportedBy says why a broker of the version cannot run the scenario; "" if it can, or the version is not known.
func (s *Scenario) UnsupportedBy(version string) string {
	v, err := broker.ParseVersion(version)
	if err != nil {
		return ""
	}
	can, err := broker.CapabilitiesOf(v)
	if err != nil || can.MirroredQueues || s.Queues.Type != MirroredQueue {
		return ""
	}
	return fmt.Sprintf("scenario %s has mirrored queues, which RabbitMQ %s does not have: use type Quorum", s.Name, v)
}

// Defaults is a scenario without a name in which each field that has a default has it.
func Defaults() Scenario {
	return Scenario{
		Load:       Load{Mode: ClosedLoop},
		Message:    Message{Sizes: []Size{256}, Persistent: true},
		Publishers: Publishers{Count: 1, ConfirmWindow: 500},
		Consumers:  Consumers{Count: 1, Prefetch: 200, AckEvery: 1, AckWait: Duration(5e6)},
		Queues:     Queues{Count: 1, Type: ClassicQueue},
		Hosts:      AllHosts,
		Workers:    1,
		WarmUp:     Duration(10e9),
		Duration:   Duration(60e9),
		CoolDown:   Duration(10e9),
		Runs:       3,
		Caps:       Caps{Disk: 2 << 30},
	}
}
