package clienttest

import (
	"slices"
	"time"
)

type consumer struct {
	tag       string
	channel   *channel
	queue     *queue
	noAck     bool
	exclusive bool
	asked     int // prefetch, 0 unlimited
	prefetch  int // in force, 0 unlimited
	unacked   int
}

// quorumPrefetch is what a quorum queue takes for an unlimited prefetch.
const quorumPrefetch = 2000

func (c *consumer) hasCredit() bool {
	conn := c.channel.conn
	return !c.channel.stopped && len(conn.out) < highWater && (c.noAck || c.prefetch == 0 || c.unacked < c.prefetch)
}

func (c *consumer) deliver(it item) {
	ch := c.channel
	ch.deliveryTag++
	b := ch.conn.begin()
	b, start := beginMethod(b, ch.number, basicDeliver)
	b = appendLonglong(appendShortString(b, c.tag), ch.deliveryTag)
	b = appendBit(b, it.redelivered)
	b = appendShortString(appendShortString(b, it.msg.exchange), it.msg.key)
	b = endFrame(b, start)
	ch.conn.out = appendContent(b, ch.number, c.queue.deliveredProps(&it, false), it.msg.body, ch.conn.frameMax)
	ch.conn.broker.counters.Delivered++
	if it.redelivered {
		ch.conn.broker.counters.Redelivered++
	}
	if c.noAck {
		return
	}
	c.unacked++
	ch.track(it, c.queue, c)
}

// appendBit is one bit alone.
func appendBit(b []byte, bit bool) []byte {
	if bit {
		return append(b, 1)
	}
	return append(b, 0)
}

// deliveredProps adds the counters of quorum queues, that of deliveries also when it is zero.
func (q *queue) deliveredProps(it *item, zero bool) []byte {
	props := it.msg.props
	if !q.quorum {
		return props
	}
	l := &q.vhost.broker.line
	if zero || it.failures > 0 {
		props = withCount(props, "x-delivery-count", int64(it.failures))
	}
	if l.counterHeader && it.acquired > 0 {
		props = withCount(props, "x-acquired-count", int64(it.acquired))
	}
	return props
}

// remove takes the consumer from its queue and its channel.
func (c *consumer) remove() {
	delete(c.channel.consumers, c.tag)
	c.queue.removeConsumer(c)
}

// cancelFromServer ends the consumer, and says so to a client that understands it.
func (c *consumer) cancelFromServer() {
	c.remove()
	if c.channel.conn.can("consumer_cancel_notify") {
		c.channel.send(basicCancel, c.tag, true)
	}
}

// delivered is a delivery that is not settled.
type delivered struct {
	item     item
	queue    *queue
	consumer *consumer // nil after basic.get
	open     bool
	void     bool      // gone back to its queue after a timeout: settling it does nothing
	at       time.Time // only with a consumer timeout
}

// ledger holds the deliveries of a channel by tag. Tags are contiguous, so a tag tells where its entry is.
type ledger struct {
	first   uint64 // tag of entries[head]
	head    int
	entries []delivered
	open    int
}

func (l *ledger) add(tag uint64, d delivered) {
	if l.head == len(l.entries) {
		l.entries, l.head, l.first = l.entries[:0], 0, tag
	}
	for l.first+uint64(len(l.entries)-l.head) < tag { // tags of deliveries that need no ack
		l.entries = append(l.entries, delivered{})
	}
	if l.head > 0 && len(l.entries) == cap(l.entries) && l.head >= len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.entries = append(l.entries, d)
	l.open++
}

// entry is nil for a tag that is not open.
func (l *ledger) entry(tag uint64) []delivered {
	if tag < l.first || tag-l.first >= uint64(len(l.entries)-l.head) {
		return nil
	}
	at := l.head + int(tag-l.first)
	if !l.entries[at].open {
		return nil
	}
	return l.entries[at : at+1]
}

func (l *ledger) trim() {
	for l.head < len(l.entries) && !l.entries[l.head].open {
		l.head++
		l.first++
	}
}

// takeUpTo settles the open entries with tags up to this one, all with tag 0, in the order of their tags.
func (l *ledger) takeUpTo(tag uint64) []delivered {
	end := len(l.entries)
	if tag != 0 {
		end = min(end, l.head+int(tag-l.first)+1)
	}
	return l.take(l.entries[l.head:end])
}

// take settles entries and returns them, without those that are void.
func (l *ledger) take(entries []delivered) []delivered {
	var taken []delivered
	for i := range entries {
		d := &entries[i]
		if !d.open {
			continue
		}
		if !d.void {
			taken = append(taken, *d)
		}
		*d = delivered{}
		l.open--
	}
	l.trim()
	return taken
}

// track remembers the delivery that has just got the channel's tag.
func (ch *channel) track(it item, q *queue, c *consumer) {
	b := ch.conn.broker
	d := delivered{item: it, queue: q, consumer: c, open: true}
	if b.consumerTimeout > 0 {
		d.at = time.Now()
		b.watchConsumers(b.consumerTimeout)
	}
	q.unacked++
	ch.ledger.add(ch.deliveryTag, d)
}

// release takes a settled delivery from the books of its queue and consumer.
func (d *delivered) release() {
	d.queue.unacked--
	if d.consumer != nil {
		d.consumer.unacked--
	}
}

// settleQueues lets queues go on, each once, after deliveries were settled.
func settleQueues(taken []delivered) {
	if len(taken) == 1 {
		taken[0].queue.settled()
		return
	}
	var seen []*queue
	for i := range taken {
		if q := taken[i].queue; !slices.Contains(seen, q) {
			seen = append(seen, q)
			q.settled()
		}
	}
}

// returnAll gives deliveries back in the order of their tags.
func returnAll(taken []delivered, why giveBack) {
	for i := range taken {
		taken[i].release()
		taken[i].item.acquired++
		taken[i].queue.giveBack(taken[i].item, why)
	}
	settleQueues(taken)
}
