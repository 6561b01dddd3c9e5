package clienttest

import (
	"fmt"
	"slices"
)

// Verdict is what becomes of a publish in confirm mode.
type Verdict int

// What PlanConfirms may answer.
const (
	Ack  Verdict = iota // as the broker would: an ack, or a nack when a queue with reject-publish is full
	Nack                // the message is not stored and is confirmed with basic.nack
	Hold                // the message is stored, and confirmed by ReleaseConfirms or SendConfirms

	holdNack // held, and a nack when it is released
)

// Confirm is one basic.ack, or basic.nack, from the broker to a publisher.
type Confirm struct {
	Tag      uint64
	Multiple bool
	Nack     bool
}

// Published is what PlanConfirms decides on.
type Published struct {
	Connection string // connection_name of the client, "" without one
	Channel    uint16
	Tag        uint64 // counts the publishes of the channel from 1; 0 outside confirm mode
	Exchange   string
	RoutingKey string
	Body       []byte // must not be changed
	Properties func() Properties
}

// confirms are those of a channel.
type confirms struct {
	on     bool
	seq    uint64
	held   []heldConfirm // in the order of their tags
	acked  []uint64      // to be sent
	nacked []uint64
	queued bool // the broker knows that there is something to send
}

type heldConfirm struct {
	tag  uint64
	nack bool
}

func (c *confirms) next() uint64 {
	if !c.on {
		return 0
	}
	c.seq++
	return c.seq
}

func onConfirmSelect(ch *channel, a *cursor) *amqpError {
	noWait := a.octet()&1 != 0
	if a.bad {
		return syntaxError(confirmSelect)
	}
	ch.confirms.on = true
	if !noWait {
		ch.send(confirmSelectOK)
	}
	return nil
}

func (b *Broker) verdict(ch *channel, tag uint64, m *message) Verdict {
	switch {
	case tag == 0 || b.nackNext == 0 && b.plan == nil && !b.holding:
		return Ack
	case b.nackNext > 0:
		b.nackNext--
		return Nack
	case b.plan != nil:
		v := b.plan(Published{
			Connection: ch.conn.name, Channel: ch.number, Tag: tag, Exchange: m.exchange, RoutingKey: m.key, Body: m.body,
			Properties: func() Properties { p, _ := decodeProperties(m.props); return p },
		})
		if v != Ack || !b.holding {
			return v
		}
	}
	return Hold
}

func (ch *channel) confirm(tag uint64, v Verdict) {
	c := &ch.confirms
	if tag == 0 {
		return
	}
	switch {
	case v == Hold || v == holdNack:
		c.held = append(c.held, heldConfirm{tag, v == holdNack})
		return
	case v == Nack && ch.conn.broker.holding:
		c.held = append(c.held, heldConfirm{tag, true})
		return
	case v == Nack:
		c.nacked = append(c.nacked, tag)
	default:
		c.acked = append(c.acked, tag)
	}
	ch.queueConfirms()
}

func (ch *channel) queueConfirms() {
	if !ch.confirms.queued {
		ch.confirms.queued = true
		ch.conn.broker.confirming = append(ch.conn.broker.confirming, ch)
	}
}

// flushConfirms sends what has piled up in as few frames as RabbitMQ does: one frame for all tags below the smallest that
// is still open or has the other verdict, and one frame for each of the others.
func (ch *channel) flushConfirms() {
	c := &ch.confirms
	c.queued = false
	ch.coalesce(c.acked, c.nacked, false)
	ch.coalesce(c.nacked, c.acked, true)
	c.acked, c.nacked = c.acked[:0], c.nacked[:0]
}

func (ch *channel) coalesce(tags, others []uint64, nack bool) {
	if len(tags) == 0 {
		return
	}
	cutoff := tags[len(tags)-1] + 1
	if len(ch.confirms.held) > 0 {
		cutoff = ch.confirms.held[0].tag
	}
	if len(others) > 0 {
		cutoff = min(cutoff, others[0])
	}
	below := 0
	for below < len(tags) && tags[below] < cutoff {
		below++
	}
	if below > 0 {
		ch.sendConfirm(Confirm{Tag: tags[below-1], Multiple: below > 1, Nack: nack})
	}
	for _, tag := range tags[below:] {
		ch.sendConfirm(Confirm{Tag: tag, Nack: nack})
	}
	count := &ch.conn.broker.counters.Confirmed
	if nack {
		count = &ch.conn.broker.counters.ConfirmedNack
	}
	*count += uint64(len(tags))
}

func (ch *channel) sendConfirm(c Confirm) {
	id := basicAck
	if c.Nack {
		id = basicNack
	}
	b, start := beginMethod(ch.conn.begin(), ch.number, id)
	ch.conn.out = endFrame(appendBit(appendLonglong(b, c.Tag), c.Multiple), start)
	ch.conn.broker.counters.ConfirmFrames++
}

// release sends what was held.
func (ch *channel) releaseConfirms() {
	c := &ch.confirms
	for _, h := range c.held {
		if h.nack {
			c.nacked = append(c.nacked, h.tag)
		} else {
			c.acked = append(c.acked, h.tag)
		}
	}
	if len(c.held) == 0 {
		return
	}
	c.held = nil
	slices.Sort(c.acked)
	slices.Sort(c.nacked)
	ch.queueConfirms()
}

// HoldConfirms makes publishes wait for their confirms until ReleaseConfirms. Messages are stored and delivered as ever.
func (b *Broker) HoldConfirms() {
	b.lock()
	defer b.unlock()
	b.holding = true
}

// ReleaseConfirms ends HoldConfirms, and sends all that was held, by it or by PlanConfirms.
func (b *Broker) ReleaseConfirms() {
	b.lock()
	defer b.unlock()
	b.holding = false
	b.eachChannel(func(ch *channel) { ch.releaseConfirms() })
}

// NackNext makes the broker refuse the next n publishes in confirm mode: they are not stored, and get basic.nack.
func (b *Broker) NackNext(n int) {
	b.lock()
	defer b.unlock()
	b.nackNext = n
}

// PlanConfirms asks plan about each publish in confirm mode; nil ends that. plan must not call the broker. NackNext goes
// before it, and while HoldConfirms is in force its Ack means Hold.
func (b *Broker) PlanConfirms(plan func(Published) Verdict) {
	b.lock()
	defer b.unlock()
	b.plan = plan
}

// SendConfirms writes exactly these frames to the channel that has held confirms, in this order, without a look at
// whether they make sense: a nack of 3 while 1 and 2 are open, then an ack of 5 with multiple. What they settle is held no
// longer. It fails when not exactly one channel has held confirms; connections, when given, limits the search to
// connections of these names.
func (b *Broker) SendConfirms(frames []Confirm, connections ...string) error {
	b.lock()
	defer b.unlock()
	var found []*channel
	b.eachChannel(func(ch *channel) {
		if len(ch.confirms.held) > 0 && ch.conn.named(connections) {
			found = append(found, ch)
		}
	})
	if len(found) != 1 {
		return fmt.Errorf("clienttest: %d channels have confirms that are held, want 1", len(found))
	}
	ch := found[0]
	for _, f := range frames {
		ch.sendConfirm(f)
		count := &b.counters.Confirmed
		if f.Nack {
			count = &b.counters.ConfirmedNack
		}
		before := len(ch.confirms.held)
		ch.confirms.held = slices.DeleteFunc(ch.confirms.held, func(h heldConfirm) bool {
			return h.tag == f.Tag || f.Multiple && (h.tag < f.Tag || f.Tag == 0)
		})
		*count += uint64(before - len(ch.confirms.held))
	}
	return nil
}
