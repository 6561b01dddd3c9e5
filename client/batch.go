package warren

import (
	"context"
	"sync"
	"time"
)

// Handler handles a batch. Messages that it gave no verdict on (see Delivery) are acknowledged when it returns nil, and tried
// again when it returns an error. When it panics they are handled again one by one, and one that panics alone is dead-lettered.
// The context ends with HandlerTimeout, with the connection, and when the consumer ends and DrainTimeout has passed; what
// is returned after the connection was lost is dropped, since the broker delivers the messages again.
type Handler func(ctx context.Context, b *Batch) error

// Batch is what a handler gets: messages of one queue from one cluster, in the order of the queue.
type Batch struct {
	queue, cluster string
	messages       []*Delivery

	mu      sync.Mutex
	over    bool // verdicts count no more
	latency time.Duration
}

// newBatch makes a batch. The slice is the handler's to change.
func newBatch(queue, cluster string, messages []*Delivery) *Batch {
	b := &Batch{queue: queue, cluster: cluster, messages: messages}
	for _, d := range messages {
		d.batch = b
	}
	return b
}

// NewBatch makes a batch as a consumer would, so that a handler can be tested without one.
func NewBatch(queue, cluster string, messages ...Message) *Batch {
	deliveries := make([]*Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = &Delivery{Message: m, Cluster: cluster}
	}
	return newBatch(queue, cluster, deliveries)
}

// Queue that the messages came from.
func (b *Batch) Queue() string { return b.queue }

// Cluster that the messages came from, by name.
func (b *Batch) Cluster() string { return b.cluster }

// Messages of the batch; at least one.
func (b *Batch) Messages() []*Delivery { return b.messages }

// Len is the number of messages.
func (b *Batch) Len() int { return len(b.messages) }

// Observe tells how long something downstream took, for instance a database, so that back-pressure goes by that and not by
// the time of the whole handler. Of several the longest counts.
func (b *Batch) Observe(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.latency = max(b.latency, d)
	}
}

// end makes the verdicts final, and returns what was observed.
func (b *Batch) end() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	return b.latency
}
