package clienttest

import "time"

// maxMessage is the largest body that is taken, as RabbitMQ 4.x does by default.
const maxMessage = 16 << 20

func onPublish(ch *channel, a *cursor) *amqpError {
	a.short()
	name, key := a.shortBytes(), a.shortBytes()
	bits := a.octet()
	if a.bad {
		return syntaxError(basicPublish)
	}
	ch.conn.publishes()
	if bits&2 != 0 {
		return notImplemented("immediate=true")
	}
	if string(name) != ch.exchangeName {
		ch.exchangeName = string(name)
	}
	if string(key) != ch.key {
		ch.key = string(key)
	}
	x, err := ch.conn.vhost.exchange(ch.exchangeName)
	if err != nil {
		return err
	}
	if x.internal {
		return soft(codeAccessRefused, "cannot publish to internal exchange '%s' in vhost '%s'", x.name, ch.conn.vhost.name)
	}
	ch.incoming = incoming{
		active: true, mandatory: bits&1 != 0, exchange: x,
		msg: &message{exchange: ch.exchangeName, key: ch.key, ttl: -1},
	}
	return nil
}

// content takes the header and the body frames of a publish.
func (ch *channel) content(f frame) *amqpError {
	in := &ch.incoming
	if !in.active || in.header != (f.kind == frameBody) {
		return hard(codeUnexpectedFrame, "expected another frame than of type %d on channel %d", f.kind, ch.number)
	}
	if f.kind == frameHeader {
		if err := ch.contentHeader(f.payload); err != nil {
			return err
		}
	} else {
		if uint64(len(f.payload)) > in.left {
			return hard(codeUnexpectedFrame, "the body is longer than its header says, by %d bytes", uint64(len(f.payload))-in.left)
		}
		in.left -= uint64(len(f.payload))
		in.msg.body = append(in.msg.body, f.payload...)
	}
	if in.left > 0 {
		return nil
	}
	done := *in
	*in = incoming{}
	return ch.published(&done)
}

func (ch *channel) contentHeader(payload []byte) *amqpError {
	in := &ch.incoming
	c := cursor{b: payload}
	class, _, size := c.short(), c.short(), c.longlong()
	var ok bool
	if in.facts, ok = readFacts(c.b); c.bad || class != classBasic || !ok {
		return hard(codeSyntaxError, "malformed content header")
	}
	if size > maxMessage {
		return soft(codePreconditionFailed, "message size %d is larger than configured max size %d", size, maxMessage)
	}
	in.header, in.left = true, size
	in.msg.props = append([]byte(nil), c.b...)
	if size > 0 {
		// What the header promises is not believed before it has come.
		in.msg.body = make([]byte, 0, min(size, readAhead))
	}
	return nil
}

// published routes a message that is complete. mandatory messages without a queue are returned before they are confirmed.
func (ch *channel) published(in *incoming) *amqpError {
	b := ch.conn.broker
	m := in.msg
	if u := in.facts.userID; u != "" && u != ch.conn.user {
		return soft(codePreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", u, ch.conn.user)
	}
	if e := in.facts.expiration; e != "" {
		ttl, ok := expirationMillis(e)
		if !ok {
			return soft(codePreconditionFailed, "invalid expiration '%s': no_integer", e)
		}
		m.ttl = ttl
	}
	m.persistent = in.facts.persistent
	b.counters.Published++
	tag := ch.confirms.next()
	verdict := b.verdict(ch, tag, m)
	if verdict == Nack {
		ch.confirm(tag, verdict)
		return b.countDown()
	}
	var room [8]*queue
	targets := in.exchange.route(m, room[:0])
	if len(targets) == 0 {
		b.counters.Unroutable++
		if in.mandatory {
			ch.sendReturn(m)
		}
	}
	for _, q := range targets {
		if !q.enqueue(m, false) {
			verdict = rejected(verdict)
		}
	}
	ch.confirm(tag, verdict)
	return b.countDown()
}

// rejected is the verdict after a queue is full: one that waits goes on waiting.
func rejected(v Verdict) Verdict {
	if v == Hold {
		return holdNack
	}
	return Nack
}

func (ch *channel) sendReturn(m *message) {
	b, start := beginMethod(ch.conn.begin(), ch.number, basicReturn)
	b = appendShortString(appendShort(b, codeNoRoute), "NO_ROUTE")
	b = appendShortString(appendShortString(b, m.exchange), m.key)
	ch.conn.out = appendContent(endFrame(b, start), ch.number, m.props, m.body, ch.conn.frameMax)
	ch.conn.broker.counters.Returned++
}

// newMessage is one made by the test itself.
func newMessage(exchange, key string, m Message) (*message, error) {
	props, err := m.Properties.encode()
	if err != nil {
		return nil, err
	}
	made := &message{
		exchange: exchange, key: key, props: props, body: append([]byte(nil), m.Body...),
		persistent: m.Properties.DeliveryMode == 2, ttl: -1,
	}
	if e := m.Properties.Expiration; e != "" {
		ttl, ok := expirationMillis(e)
		if !ok {
			return nil, &time.ParseError{Layout: "milliseconds", Value: e, Message: ": not a number of milliseconds"}
		}
		made.ttl = ttl
	}
	return made, nil
}
