package clienttest

import (
	"cmp"
	"slices"
	"time"
)

// message is what was published. It never changes, and queues share it.
type message struct {
	exchange, key string
	props         []byte // flags and values as they are on the wire
	body          []byte
	persistent    bool
	ttl           int64 // milliseconds of its own expiration, -1 none
	deaths        []any // its x-death, of a message that was dead-lettered
}

// item is a message in a queue.
type item struct {
	msg         *message
	pos         uint64 // place in the order of arrival
	expires     int64  // nanoseconds of Unix time, 0 never
	failures    int    // deliveries that count toward the limit
	acquired    int    // deliveries
	redelivered bool
}

// fifo is a queue of items in one piece of memory.
type fifo struct {
	items []item
	head  int
}

func (f *fifo) len() int     { return len(f.items) - f.head }
func (f *fifo) front() *item { return &f.items[f.head] }
func (f *fifo) all() []item  { return f.items[f.head:] }

func (f *fifo) push(it item) {
	if f.head > 0 && len(f.items) == cap(f.items) && f.head >= len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, it)
}

func (f *fifo) pop() item {
	it := f.items[f.head]
	f.items[f.head] = item{}
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return it
}

// insert keeps the order of arrival.
func (f *fifo) insert(it item) {
	at, _ := slices.BinarySearchFunc(f.all(), it.pos, func(o item, pos uint64) int { return cmp.Compare(o.pos, pos) })
	f.items = slices.Insert(f.items, f.head+at, it)
}

type queue struct {
	vhost      *vhost
	name       string
	durable    bool
	autoDelete bool
	owner      *conn // of an exclusive queue
	args       Table
	quorum     bool
	settings   queueSettings

	returned  fifo // what was requeued and goes out again before all else
	fresh     fifo
	bytes     int // of the bodies that are ready
	nextPos   uint64
	unacked   int
	consumers []*consumer
	turn      int // whose turn it is among them
	hadSome   bool
	deleted   bool
	timer     *time.Timer
	timerAt   int64
}

func (q *queue) ready() int { return q.returned.len() + q.fresh.len() }

// parts are the ready items in the order of delivery.
func (q *queue) parts() [2]*fifo { return [2]*fifo{&q.returned, &q.fresh} }

func (q *queue) head() *item {
	if q.returned.len() > 0 {
		return q.returned.front()
	}
	return q.fresh.front()
}

func (q *queue) pop() item {
	part := &q.fresh
	if q.returned.len() > 0 {
		part = &q.returned
	}
	it := part.pop()
	q.bytes -= len(it.msg.body)
	return it
}

// full tells whether a queue that rejects publishes does so now.
func (q *queue) full(m *message) bool {
	s := &q.settings
	return s.rejectPublish && (s.maxLength >= 0 && q.ready() >= s.maxLength ||
		s.maxBytes >= 0 && q.bytes+len(m.body) > s.maxBytes)
}

// enqueue is for a message that was published or dead-lettered. Its result is false when the queue rejects it.
func (q *queue) enqueue(m *message, redelivered bool) bool {
	if q.full(m) {
		return false
	}
	it := item{msg: m, pos: q.nextPos, redelivered: redelivered}
	q.nextPos++
	if ttl := q.ttl(m); ttl >= 0 {
		it.expires = time.Now().UnixNano() + ttl*int64(time.Millisecond)
	}
	if q.ready() == 0 && len(q.consumers) > 0 {
		if c := q.nextConsumer(); c != nil { // even with a time to live of zero
			it.redelivered = redelivered && q.quorum // a classic queue forgets it when a consumer waits
			c.deliver(it)
			return true
		}
	}
	q.fresh.push(it)
	q.bytes += len(m.body)
	q.dispatch()
	q.dropOverflow()
	q.watchExpiry()
	return true
}

func (q *queue) ttl(m *message) int64 {
	if m.ttl < 0 || q.settings.ttl >= 0 && q.settings.ttl < m.ttl {
		return q.settings.ttl
	}
	return m.ttl
}

func (q *queue) dropOverflow() {
	s := &q.settings
	if s.rejectPublish {
		return
	}
	for q.ready() > 0 && (s.maxLength >= 0 && q.ready() > s.maxLength || s.maxBytes >= 0 && q.bytes > s.maxBytes) {
		q.deadLetter(q.pop(), reasonMaxLength)
	}
}

// dropExpired looks at the head only, as RabbitMQ does.
func (q *queue) dropExpired() {
	for q.ready() > 0 && q.head().expires != 0 && q.head().expires <= time.Now().UnixNano() {
		q.deadLetter(q.pop(), reasonExpired)
	}
}

// watchExpiry sets the timer for the head.
func (q *queue) watchExpiry() {
	if q.ready() == 0 || q.head().expires == 0 || q.deleted {
		q.stopTimer()
		return
	}
	at := q.head().expires
	if q.timer != nil && q.timerAt == at {
		return
	}
	q.stopTimer()
	b := q.vhost.broker
	q.timerAt = at
	q.timer = time.AfterFunc(time.Duration(at-time.Now().UnixNano()), func() {
		b.lock()
		defer b.unlock()
		if b.closed || q.deleted {
			return
		}
		q.timerAt = 0
		q.dropExpired()
		q.watchExpiry()
	})
}

func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// dispatch gives what is ready to the consumers that may have more.
func (q *queue) dispatch() {
	for q.ready() > 0 && len(q.consumers) > 0 {
		q.dropExpired()
		if q.ready() == 0 {
			return
		}
		c := q.nextConsumer()
		if c == nil {
			return
		}
		c.deliver(q.pop())
	}
}

// nextConsumer goes around. With a single active consumer only the eldest gets messages.
func (q *queue) nextConsumer() *consumer {
	n := len(q.consumers)
	if q.settings.singleActive {
		n = 1
		q.turn = 0
	}
	for range n {
		if q.turn >= len(q.consumers) {
			q.turn = 0
		}
		c := q.consumers[q.turn]
		q.turn++
		if c.hasCredit() {
			return c
		}
	}
	return nil
}

// A giveBack is why a delivery comes back.
type giveBack int

const (
	byNack    giveBack = iota // basic.nack and basic.recover
	byReject                  // basic.reject
	byLoss                    // the channel or the connection ended
	byTimeout                 // the consumer timeout
)

// giveBack puts an item back where the kind of queue and the line of the broker want it.
func (q *queue) giveBack(it item, why giveBack) {
	if q.deleted {
		return
	}
	l := &q.vhost.broker.line
	it.redelivered = true
	q.bytes += len(it.msg.body)
	if !q.quorum {
		q.returned.insert(it)
		return
	}
	if why == byReject || why == byLoss || why == byNack && l.nackCounts {
		it.failures++
	}
	limit := q.settings.deliveryLimit
	switch {
	case limit >= 0 && it.failures > limit:
		q.bytes -= len(it.msg.body)
		q.deadLetter(it, reasonDeliveryLimit)
	case limit < 0 && l.tailWithoutLimit && why != byLoss:
		it.pos = q.nextPos
		q.nextPos++
		q.fresh.push(it)
	default:
		q.returned.push(it)
	}
}

// settled is called after deliveries came back, or made room by being acknowledged.
func (q *queue) settled() {
	if q.deleted {
		return
	}
	q.dispatch()
	q.dropOverflow()
	q.watchExpiry()
}

func (q *queue) purge() int {
	n := q.ready()
	q.returned, q.fresh, q.bytes = fifo{}, fifo{}, 0
	q.stopTimer()
	return n
}

func (q *queue) addConsumer(c *consumer) {
	q.consumers = append(q.consumers, c)
	q.hadSome = true
}

// removeConsumer deletes an auto-delete queue with its last consumer.
func (q *queue) removeConsumer(c *consumer) {
	q.consumers = slices.DeleteFunc(q.consumers, func(o *consumer) bool { return o == c })
	if len(q.consumers) == 0 && q.autoDelete && q.hadSome && !q.deleted {
		q.vhost.deleteQueue(q)
	}
}

// cancelConsumers sends basic.cancel to those who understand it.
func (q *queue) cancelConsumers() int {
	consumers := slices.Clone(q.consumers)
	for _, c := range consumers {
		c.cancelFromServer()
	}
	return len(consumers)
}

func (q *queue) exclusiveConsumer() bool {
	return len(q.consumers) > 0 && q.consumers[0].exclusive
}

func (q *queue) locked() *amqpError {
	return soft(codeResourceLocked, "cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be originally "+
		"declared on another connection or the exclusive property value does not match that of the original declaration.", q.name, q.vhost.name)
}
