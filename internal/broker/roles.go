package broker

import "context"

// PolicyStore reads and writes the policies of a vhost. Put and Delete may be repeated: putting an equal policy
// changes nothing, deleting an absent one answers an error of kind NotFound.
type PolicyStore interface {
	// Policies lists the policies of vhost, sorted by name. A missing vhost is an error of kind NotFound.
	Policies(ctx context.Context, vhost string) ([]Policy, error)
	PutPolicy(ctx context.Context, policy Policy) error
	DeletePolicy(ctx context.Context, vhost, name string) error
}

// ListOption changes what a queue listing asks for, and so what it costs.
type ListOption int

const (
	// WithoutCounts leaves message counts out (nil): one bulk read less per listing.
	WithoutCounts ListOption = iota + 1
	// WithStatistics also reads the broker's statistics, one bulk read more: consumers, the size of messages, what the queues'
	// processes have taken of policies, and the message counts of streams. They are up to the broker's collect_statistics_interval (5 s) old, and nil where it collects none.
	WithStatistics
)

// QueueReader lists queues. An answer is complete or an error: a listing that broke off half way is never returned.
type QueueReader interface {
	// Queues lists the queues of vhost, sorted by name. Names, types, policies, members and mirrors are what the
	// broker has now; message counts of streams, and consumers, are nil unless WithStatistics is given.
	Queues(ctx context.Context, vhost string, options ...ListOption) ([]Queue, error)
}

// QueueInspector looks at one queue: what a listing says of it, with counts and statistics.
type QueueInspector interface {
	// Queue answers an error of kind NotFound when the vhost or the queue does not exist.
	Queue(ctx context.Context, vhost, name string) (Queue, error)
}

// NodeReader reads the cluster's nodes.
type NodeReader interface {
	Overview(ctx context.Context) (Overview, error)
	// Nodes lists the cluster's nodes, sorted by name; a stopped node has Running false.
	Nodes(ctx context.Context) ([]Node, error)
}

// Declarer makes and removes vhosts and queues.
type Declarer interface {
	VHosts(ctx context.Context) ([]string, error)
	PutVHost(ctx context.Context, name string) error
	DeleteVHost(ctx context.Context, name string) error
	// DefaultQueueType is the type of queues that are declared in vhost without one; "" when the broker does not say.
	DefaultQueueType(ctx context.Context, vhost string) (QueueType, error)
	// SetDefaultQueueType changes it and nothing else of the vhost. Only for brokers with Capabilities.DefaultQueueType.
	SetDefaultQueueType(ctx context.Context, vhost string, kind QueueType) error
	// PutQueue declares a queue from its VHost, Name, Durable, AutoDelete and Arguments.
	PutQueue(ctx context.Context, queue Queue) error
	DeleteQueue(ctx context.Context, vhost, name string) error
}

// OperatorPolicyStore reads and writes the operator policies of a vhost, which limit what any policy or queue argument says.
type OperatorPolicyStore interface {
	// OperatorPolicies lists those of vhost, sorted by name.
	OperatorPolicies(ctx context.Context, vhost string) ([]Policy, error)
	PutOperatorPolicy(ctx context.Context, policy Policy) error
	// DeleteOperatorPolicy answers an error of kind NotFound when there is none.
	DeleteOperatorPolicy(ctx context.Context, vhost, name string) error
}

// Topology reads and makes exchanges and bindings.
type Topology interface {
	// Exchanges lists those of vhost, sorted by name, the broker's own included.
	Exchanges(ctx context.Context, vhost string) ([]Exchange, error)
	// PutExchange declares one; one that exists with other properties is an error of kind Invalid.
	PutExchange(ctx context.Context, exchange Exchange) error
	// Bindings lists those of vhost but for the default exchange's own.
	Bindings(ctx context.Context, vhost string) ([]Binding, error)
	// PutBinding makes one; one that is there already is success. A missing end is an error of kind NotFound.
	PutBinding(ctx context.Context, binding Binding) error
	// DeleteUnusedExchange answers an error of kind Invalid when something is bound to it.
	DeleteUnusedExchange(ctx context.Context, vhost, name string) error
	// DeleteEmptyQueue answers an error of kind Invalid when the queue holds messages or has consumers, or the broker does not
	// say so: it never drops a message.
	DeleteEmptyQueue(ctx context.Context, vhost, name string) error
}

// Grower adds and removes members of quorum queues.
type Grower interface {
	// GrowQueue adds a member on node; one that is there already is success. Only for brokers with
	// Capabilities.GrowsOnRequest.
	GrowQueue(ctx context.Context, vhost, queue, node string) error
	// ShrinkQueue removes the member on node; one that is not there is success. The last member of a queue stays: an error. Only
	// for brokers with Capabilities.GrowsOnRequest.
	ShrinkQueue(ctx context.Context, vhost, queue, node string) error
}

// Parameters reads and writes the global parameters, which every node of the cluster has.
type Parameters interface {
	// GlobalParameters are all of them by name, with values as DecodeDefinition has them.
	GlobalParameters(ctx context.Context) (map[string]any, error)
	// PutGlobalParameter sets one; an equal one changes nothing.
	PutGlobalParameter(ctx context.Context, name string, value any) error
}

// Client is one broker cluster, for one user. It is safe for concurrent use.
type Client interface {
	PolicyStore
	QueueReader
	QueueInspector
	NodeReader
	Declarer
	Parameters
	OperatorPolicyStore
	Topology
	Grower
}

// Target says where a cluster's management API is and who asks.
type Target struct {
	// Key is unique per cluster for its life (its UID): connections are shared under it.
	Key string
	// URL of the management API without a path, as http://runtime.messaging.svc:15672.
	URL                string
	Username, Password string
	// CABundle holds PEM certificates that an https URL is checked against; "" means the system's.
	CABundle string
}

// Connector hands out clients. A client for the same Target shares its connections with earlier ones; a changed
// URL or credential under the same Key replaces them.
type Connector interface {
	Connect(target Target) (Client, error)
	// Runtime reads the Erlang figures of one node from its Prometheus endpoint, as http://HOST:15692.
	Runtime(ctx context.Context, url string) (Runtime, error)
	// Forget drops the connections under key; harmless if there are none.
	Forget(key string)
}
