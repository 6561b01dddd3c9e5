package broker

// QueueType is a queue's type as the broker names it.
type QueueType string

// The queue types.
const (
	Classic QueueType = "classic"
	Quorum  QueueType = "quorum"
	Stream  QueueType = "stream"
)

// ApplyTo is what a policy applies to, as the broker names it.
type ApplyTo string

// The values of apply-to. The last three exist since 3.12.
const (
	ApplyToAll           ApplyTo = "all"
	ApplyToQueues        ApplyTo = "queues"
	ApplyToExchanges     ApplyTo = "exchanges"
	ApplyToClassicQueues ApplyTo = "classic_queues"
	ApplyToQuorumQueues  ApplyTo = "quorum_queues"
	ApplyToStreams       ApplyTo = "streams"
)

// Policy is a policy of one vhost. In a Definition that was read, whole numbers are int64 and others float64
// (NormalizeDefinition); compare definitions with EqualDefinitions.
type Policy struct {
	VHost, Name string
	Pattern     string
	ApplyTo     ApplyTo
	Priority    int
	Definition  map[string]any
}

// Queue is what the broker said of one queue. A nil pointer, and EffectiveDefinition nil, mean that the broker
// did not say: unknown, never zero or empty.
type Queue struct {
	VHost, Name string
	Type        QueueType
	Durable     bool
	AutoDelete  bool
	Exclusive   bool
	Arguments   map[string]any
	State       string
	// Node hosts the classic queue's master or the quorum queue's leader.
	Node string

	// Policy in force, "" when the broker says that there is none; nil when it did not say.
	Policy, OperatorPolicy *string
	// EffectiveDefinition is the merged definition in force: empty when the broker says none, nil when it did not say.
	EffectiveDefinition map[string]any

	// Taken is the definition that the queue's own process says it works by, from the broker's statistics and so seconds late; nil
	// when not said. EffectiveDefinition is what the broker stored: a busy process comes to it later, and then to all changes
	// since as one.
	Taken map[string]any

	// Mirrors and SynchronisedMirrors are node names (classic queues up to 3.13); nil when not said.
	Mirrors, SynchronisedMirrors []string
	// Members and Online are node names (quorum queues and streams); nil when not said.
	Members, Online []string

	Messages, Ready, Unacknowledged, Consumers *int64
	// MessageBytes is the size of the bodies of all messages.
	MessageBytes *int64
}

// Node is what the broker said of one of its nodes. A nil pointer means that it did not say.
type Node struct {
	Name                           string
	Running                        bool
	MemoryUsed, MemoryLimit        *int64 // bytes
	DiskFree, DiskFreeLimit        *int64 // bytes
	MemoryAlarm, DiskAlarm         *bool
	BeingDrained                   *bool
	EnabledPlugins                 []string
	RabbitMQVersion, ErlangVersion string // "" when not said (before 4.2.4)
}

// Overview is what a broker says of itself.
type Overview struct {
	ClusterName     string
	Node            string
	RabbitMQVersion string
	ErlangVersion   string
}

// Runtime is what one node's Prometheus endpoint says of it; a nil pointer is a series that was absent. A node says so from its
// start, while its figures in the management API are absent until they were first collected (5 s by default).
type Runtime struct {
	Schedulers, SchedulersOnline           *int
	MemoryUsed, MemoryLimit, DiskFreeLimit *int64 // bytes
	MemoryAlarm, DiskAlarm                 *bool  // of this node
}

// Exchange is what the broker said of an exchange, or is to make of one.
type Exchange struct {
	VHost, Name string
	// Type as direct, fanout, topic, headers.
	Type                string
	Durable, AutoDelete bool
	Internal            bool
	Arguments           map[string]any
	// Policy in force; nil when the broker did not say.
	Policy *string
}

// Binding from an exchange to a queue or an exchange.
type Binding struct {
	VHost, Source string
	// Destination is the name of a queue or, with ToExchange, of an exchange.
	Destination string
	ToExchange  bool
	RoutingKey  string
	Arguments   map[string]any
}
