package warren

import (
	"context"
	"time"
)

// Hooks tell an application what the library does, without forcing a library for metrics, logs or traces on it. Each may
// be nil. They are called in line, on the library's own goroutines: they must be quick, must not block, and may be called
// at the same time. Packages warrenprom and warrenotel have them ready.
type Hooks struct {
	// Connected is called when a connection is open.
	Connected func(ConnectionEvent)
	// Disconnected is called when an open connection has ended; Err says why.
	Disconnected func(ConnectionEvent)
	// DialFailed is called when a connection could not be opened; Err says why, Wait how long the next try is put off.
	DialFailed func(ConnectionEvent)
	// Blocked is called when a broker stops taking messages, for instance for a memory alarm; Err has its reason.
	Blocked func(ConnectionEvent)
	// Unblocked is called when it takes them again, or when the connection ends before that. There is one for each Blocked.
	Unblocked func(ConnectionEvent)

	// Published is called once for each group of accepted messages whose outcome became known together.
	Published func(PublishEvent)
	// Resent is called with the number of messages that are sent again since their outcome was unknown.
	Resent func(cluster string, messages int)

	// Handled is called when a batch has been handled.
	Handled func(HandleEvent)
	// StaleAck is called with the number of acknowledgements that were dropped since their channel had ended. Their
	// messages are delivered again.
	StaleAck func(queue string, messages int)
	// DeadLettered is called for each message that went to a dead-letter queue.
	DeadLettered func(queue string, reason error)
	// Limit is called with how many batches may run at once, when a consumer begins and when back-pressure changes it.
	Limit func(queue string, running int)
	// ConsumerFailed is called when consuming was interrupted; it is taken up again.
	ConsumerFailed func(queue, cluster string, err error)

	// RouteChanged is called when a routes file was read, also for the first time.
	RouteChanged func(revision string)
	// RouteFailed is called when a routes file could not be used; what was read before stays in force.
	RouteFailed func(error)

	// StartPublish is called before a message is buffered; it may set headers (the map is the caller's: copy it) and return a
	// context for the span. done, if not nil, is called once, with the outcome.
	StartPublish func(ctx context.Context, m *Message) (context.Context, func(error))
	// StartBatch is called before a handler; the context that it returns is the handler's. done, if not nil, is called once.
	StartBatch func(ctx context.Context, b *Batch) (context.Context, func(error))
}

// ConnectionEvent is about one connection.
type ConnectionEvent struct {
	// Cluster by name.
	Cluster string
	// Use is "publish" or "consume".
	Use string
	// Host as "HOST:PORT".
	Host string
	// Err is why, where there is a why.
	Err error
	// Wait until the next try.
	Wait time.Duration
}

// PublishEvent is about messages whose outcome became known together.
type PublishEvent struct {
	Cluster string
	// Messages as the application counts them, Sent as the broker does: fewer when messages are packed.
	Messages, Sent int
	// Bytes of the bodies.
	Bytes int64
	// Waited is the age of the oldest, from when it was given to the publisher.
	Waited time.Duration
	// Err is nil when they were confirmed.
	Err error
}

// HandleEvent is about one batch.
type HandleEvent struct {
	Queue, Cluster string
	// How many messages of the batch ended how.
	Acked, Retried, DeadLettered, GivenBack int
	// Took is how long the handler ran.
	Took time.Duration
	// Latency is what back-pressure goes by: what the handler reported, else Took.
	Latency time.Duration
	// Err is what the handler returned, or its panic.
	Err error
}
