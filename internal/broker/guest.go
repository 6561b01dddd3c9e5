package broker

import "context"

// VHost is what the broker said of a vhost.
type VHost struct {
	Name        string
	Description string
	Tags        []string
}

// User is what the broker said of a user, or is to make of one. Password is only written.
type User struct {
	Name     string
	Password string
	Tags     []string
}

// Connection is an AMQP connection as the broker's statistics have it, up to 5 s late.
type Connection struct {
	Name, User, VHost string
	// State is running, flow, blocking, blocked, or a state of opening and closing.
	State string
}

// Totals are the sums that a broker says of itself. A nil pointer means that it did not say: where statistics are
// switched off, or none were collected yet.
type Totals struct {
	Connections, Channels, Consumers, Queues *int64
	Messages                                 *int64
}

// Flow is how many objects of a vhost the broker slows down or blocks.
type Flow struct {
	ConnectionsInFlow, ConnectionsBlocked, ChannelsInFlow, QueuesInFlow int
}

// Guest is what a temporary tenant of a broker does: it has a vhost and a user of its own, sees who else is there, and
// removes what it made. All of it needs an administrator.
type Guest interface {
	// DescribedVHosts lists the vhosts with their descriptions and tags, sorted by name.
	DescribedVHosts(ctx context.Context) ([]VHost, error)
	// PutDescribedVHost makes a vhost, or changes the description and tags of one.
	PutDescribedVHost(ctx context.Context, vhost VHost) error
	// LimitVHost sets a limit of a vhost by the broker's word for it: max-connections or max-queues.
	LimitVHost(ctx context.Context, vhost, limit string, value int) error
	// Users lists the users, sorted by name.
	Users(ctx context.Context) ([]User, error)
	PutUser(ctx context.Context, user User) error
	// DeleteUser answers an error of kind NotFound when there is no such user.
	DeleteUser(ctx context.Context, name string) error
	// PermitAll lets a user do all in a vhost.
	PermitAll(ctx context.Context, user, vhost string) error
	// Totals are those of the whole cluster.
	Totals(ctx context.Context) (Totals, error)
	// Connections lists the AMQP connections of the whole cluster. It is empty where statistics are switched off.
	Connections(ctx context.Context) ([]Connection, error)
	// FlowOf counts what is slowed down in a vhost.
	FlowOf(ctx context.Context, vhost string) (Flow, error)
}

// Scraper reads Prometheus endpoints of broker nodes.
type Scraper interface {
	// Scrape reads the page at url, as http://HOST:15692, with a path such as /metrics and its query, as text.
	Scrape(ctx context.Context, url, path, query string) ([]byte, error)
}
