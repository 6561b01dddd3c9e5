package policy

import (
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

// Vhost is what one pass knows of one vhost of one cluster. It is shared by all QueuePolicies of the vhost and must not be
// changed.
type Vhost struct {
	Name         string
	Capabilities broker.Capabilities
	// RunningNodes is 0 when that is not known.
	RunningNodes int
	// Nodes that run, by name.
	Nodes []string
	// Alarms in words, as "memory alarm on rabbit@a"; AlarmsKnown is false when a node did not say.
	Alarms      []string
	AlarmsKnown bool

	Policies, OperatorPolicies []broker.Policy
	// Queues of the vhost; their counts are nil unless Counted.
	Queues  []broker.Queue
	Counted bool
	// Match says which of Queues a pattern matches, from what passes share; nil when they share nothing.
	Match func(pattern string) *Matches
	// Exchanges and Bindings are nil when nobody asked for them.
	Exchanges []broker.Exchange
	Bindings  []broker.Binding

	// ReadAt is when the oldest part was asked for.
	ReadAt time.Time
}

// Rendered is all that a QueuePolicy means for one vhost of one version of RabbitMQ.
type Rendered struct {
	// Policy; without a definition there is none, as with hard limits alone.
	Policy broker.Policy
	// Operator policy for hard limits; nil for none.
	Operator *broker.Policy
	// DeadLetter objects that must exist before the policy points at them; nil for none.
	DeadLetter *DeadLetter
	// Warnings about what is accepted and still dangerous.
	Warnings []string
}

// DeadLetter is where dead messages go.
type DeadLetter struct {
	Exchange broker.Exchange
	// Queue and Binding; nil when somebody else binds a queue.
	Queue   *broker.Queue
	Binding *broker.Binding
}

// ActionVerb is what to do with one object of the broker.
type ActionVerb string

// The action verbs. All may be repeated.
const (
	PutPolicy            ActionVerb = "PutPolicy"
	DeletePolicy         ActionVerb = "DeletePolicy"
	PutOperatorPolicy    ActionVerb = "PutOperatorPolicy"
	DeleteOperatorPolicy ActionVerb = "DeleteOperatorPolicy"
	DeclareExchange      ActionVerb = "DeclareExchange"
	DeclareQueue         ActionVerb = "DeclareQueue"
	Bind                 ActionVerb = "Bind"
	// DeleteQueue and DeleteExchange only if it holds nothing and nobody uses it: the broker's refusal is no failure.
	DeleteQueue    ActionVerb = "DeleteQueue"
	DeleteExchange ActionVerb = "DeleteExchange"
	// GrowQueue adds a member on a node to a quorum queue.
	GrowQueue ActionVerb = "GrowQueue"
	// SetDefaultQueueType of the queue's vhost to the queue's type.
	SetDefaultQueueType ActionVerb = "SetDefaultQueueType"
)

// Action is one write to a broker, decided, with its reason. Actions are carried out in order; a failure ends the pass.
type Action struct {
	Verb ActionVerb
	// Policy of the policy verbs.
	Policy   broker.Policy
	Exchange broker.Exchange
	Queue    broker.Queue
	Binding  broker.Binding
	// Node of GrowQueue.
	Node string
	// Why, in words a person can read.
	Why string
	// Drift is true when the broker had what was wanted before and somebody changed it.
	Drift bool
	// Absent is true when the broker has no such object.
	Absent bool
}
