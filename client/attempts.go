package warren

import (
	"hash/maphash"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// headerAttempts is how often a message was delivered before it was published again by itself, out of a pack.
	headerAttempts = "x-warren-attempts"
	// headerDeliveryCount is how often a quorum queue delivered a message in vain. Since RabbitMQ 4.3 what consumers gave back
	// does not count.
	headerDeliveryCount = "x-delivery-count"
	// headerAcquiredCount is how often a quorum queue of RabbitMQ 4.3 delivered a message that came back for any reason.
	headerAcquiredCount = "x-acquired-count"
)

// attempts is how often a message was delivered in vain before, as far as the broker and this process know.
func attempts(d *amqp.Delivery, here int) int {
	before := int(max(number(d.Headers[headerAttempts]), 0))
	if n := number(d.Headers[headerDeliveryCount]); n >= 0 {
		return before + max(int(n), here)
	}
	if number(d.Headers[headerAcquiredCount]) >= 0 {
		return before + here // it only ever was given back
	}
	if d.Redelivered {
		return before + max(here, 1)
	}
	return before + here
}

// number of a header, of any of the types that brokers use; -1 when there is none.
func number(v any) int64 {
	n := int64(-1)
	switch v := v.(type) {
	case int64:
		n = v
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	case int8:
		n = int64(v)
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint32:
		n = int64(v)
	}
	return min(max(n, -1), 1<<31-1)
}

// triesKept is how many messages are remembered that were tried in vain: at most twice as many.
const triesKept = 5000

// tries remembers how often messages were tried here in vain, for queues that do not count. What was not touched for long is
// forgotten first.
type tries struct {
	mu         sync.Mutex
	young, old map[tryKey]int
}

// tryKey is a message's ID, or else the hash of its body.
type tryKey struct {
	id   string
	hash uint64
}

var trySeed = maphash.MakeSeed()

func keyOf(id string, body []byte) tryKey {
	if id != "" {
		return tryKey{id: id}
	}
	return tryKey{hash: maphash.Bytes(trySeed, body)}
}

func newTries() *tries { return &tries{young: map[tryKey]int{}} }

// of a delivery; only those that were delivered before can be known.
func (t *tries) of(d *amqp.Delivery) int {
	if !d.Redelivered {
		return 0
	}
	key := keyOf(d.MessageId, d.Body)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.young[key] + t.old[key] // it is in one of them
}

// add one in vain.
func (t *tries) add(d *amqp.Delivery) {
	key := keyOf(d.MessageId, d.Body)
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.young[key] + t.old[key] + 1
	delete(t.young, key)
	delete(t.old, key)
	if len(t.young) >= triesKept {
		t.old, t.young = t.young, map[tryKey]int{}
	}
	t.young[key] = n
}

// forget a message that has been settled.
func (t *tries) forget(d *amqp.Delivery) {
	if !d.Redelivered {
		return
	}
	key := keyOf(d.MessageId, d.Body)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.young, key)
	delete(t.old, key)
}
