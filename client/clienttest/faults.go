package clienttest

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// inOrder are the connections by age.
func (b *Broker) inOrder() []*conn {
	return slices.SortedFunc(maps.Keys(b.conns), func(a, o *conn) int { return cmp.Compare(a.id, o.id) })
}

func (b *Broker) eachChannel(do func(*channel)) {
	for _, c := range b.inOrder() {
		for _, n := range slices.Sorted(maps.Keys(c.channels)) {
			if ch := c.channels[n]; ch != nil && !ch.closing {
				do(ch)
			}
		}
	}
}

// DropConnections resets connections, as the death of a node or a network does, and returns how many. Unacked messages go
// back to their queues; confirms and deliveries that the client has not read are lost. With names it drops only
// connections with one of these connection_names.
func (b *Broker) DropConnections(names ...string) int {
	b.lock()
	defer b.unlock()
	return b.drop(names)
}

func (b *Broker) drop(names []string) int {
	n := 0
	for _, c := range b.inOrder() {
		if c.named(names) {
			c.kill(true)
			n++
		}
	}
	return n
}

// DropAfter resets all connections as soon as n more messages have been published. The last one is stored (unless its
// queue refuses it) and never confirmed; confirms of those before it may be lost too. Zero ends the plan. With
// HoldConfirms it is certain that none is confirmed.
func (b *Broker) DropAfter(n int) {
	b.lock()
	defer b.unlock()
	b.dropAfter = n
}

// countDown is called after each publish.
func (b *Broker) countDown() *amqpError {
	if b.dropAfter > 0 {
		if b.dropAfter--; b.dropAfter == 0 {
			b.drop(nil)
		}
	}
	return nil
}

// Pause stops all reading and writing, as SIGSTOP does: connections stay open and nobody answers, and new ones get no
// answer either. When it returns no more bytes move. Messages can still be looked at and published by the test.
func (b *Broker) Pause() {
	b.lock()
	b.paused = true
	b.unlock()
	b.gate.close()
}

// Resume ends Pause. Nothing is lost.
func (b *Broker) Resume() {
	b.lock()
	defer b.unlock()
	b.paused = false
	b.gate.open()
	b.readers.Broadcast()
}

// Block raises a memory alarm. A connection that publishes from now on gets connection.blocked with the reason ("" stands
// for "low on memory") when it announced that it understands it, and nothing more is read from it: neither the message
// itself, which is not confirmed until Unblock, nor acks. Heartbeats go on, and connections that do not publish are served.
func (b *Broker) Block(reason string) {
	b.lock()
	defer b.unlock()
	b.alarm, b.alarmReason = true, cmp.Or(reason, "low on memory")
}

// Unblock ends Block, with connection.unblocked for those that were blocked.
func (b *Broker) Unblock() {
	b.lock()
	defer b.unlock()
	b.alarm = false
	for _, c := range b.inOrder() {
		if c.blocked {
			c.blocked = false
			if c.can("connection.blocked") {
				c.send(connectionUnblocked)
			}
		}
	}
	b.readers.Broadcast()
}

// publishes blocks the connection when there is an alarm.
func (c *conn) publishes() {
	if !c.broker.alarm || c.blocked {
		return
	}
	c.blocked = true
	if c.can("connection.blocked") {
		c.send(connectionBlocked, c.broker.alarmReason)
	}
}

// CloseChannels ends all channels with channel.close, as RabbitMQ does after an error, and returns how many. With names it
// ends only those of connections with one of these connection_names.
func (b *Broker) CloseChannels(code uint16, text string, names ...string) int {
	b.lock()
	defer b.unlock()
	n := 0
	b.eachChannel(func(ch *channel) {
		if ch.conn.named(names) {
			ch.fail(&amqpError{code: code, text: text}, 0)
			n++
		}
	})
	return n
}

// CloseConnections ends all connections with connection.close, as an operator or a shutdown does (320 CONNECTION_FORCED),
// and returns how many. With names it ends only those with one of these connection_names.
func (b *Broker) CloseConnections(code uint16, text string, names ...string) int {
	b.lock()
	defer b.unlock()
	n := 0
	for _, c := range b.inOrder() {
		if c.state == running && c.named(names) {
			c.failing = 0
			c.fail(&amqpError{code: code, text: text, hard: true})
			n++
		}
	}
	return n
}

// RefuseConnections makes the broker reset new connections at once. Those that are open go on.
func (b *Broker) RefuseConnections(refuse bool) {
	b.lock()
	defer b.unlock()
	b.refusing = refuse
}

// Restart is that of a node: all connections are reset, and what is transient is gone: queues and exchanges that are not
// durable or are exclusive, and messages in classic queues that are not persistent. The address stays.
func (b *Broker) Restart() {
	b.lock()
	defer b.unlock()
	b.drop(nil)
	for _, v := range b.vhosts {
		for _, q := range slices.Collect(maps.Values(v.queues)) {
			if !q.durable {
				v.deleteQueue(q)
				continue
			}
			q.dropTransient()
		}
		for _, x := range slices.Collect(maps.Values(v.exchanges)) {
			if !x.durable {
				v.deleteExchange(x)
			}
		}
	}
}

func (q *queue) dropTransient() {
	if q.quorum {
		return
	}
	q.bytes = 0
	for _, part := range q.parts() {
		kept := fifo{}
		for _, it := range part.all() {
			if it.msg.persistent {
				kept.push(it)
				q.bytes += len(it.msg.body)
			}
		}
		*part = kept
	}
	q.watchExpiry()
}

// SetConsumerTimeout is how long a delivery may stay unacked; zero, the default, is for ever. It holds for deliveries from
// now on. What follows depends on the line, see ExpireDeliveries.
func (b *Broker) SetConsumerTimeout(d time.Duration) {
	b.lock()
	defer b.unlock()
	b.consumerTimeout = d
	if b.consumerTimer != nil {
		b.consumerTimer.Stop()
		b.consumerTimer = nil
	}
}

// ExpireDeliveries lets the consumer timeout pass at once for the deliveries of a queue that are unacked now. In the line
// 3.10 their channels are closed with 406 PRECONDITION_FAILED. In the line 4.3 consumers of a quorum queue are cancelled, and
// what is late goes back without counting toward the delivery limit: settling it later has no effect and is no error.
// Other queues know no timeout there.
func (b *Broker) ExpireDeliveries(queue string) {
	b.lock()
	defer b.unlock()
	q := b.first().queues[queue]
	b.expire(func(d *delivered) bool { return d.queue == q })
}

// watchConsumers makes sure that somebody looks after the time d.
func (b *Broker) watchConsumers(d time.Duration) {
	if b.consumerTimer == nil {
		b.consumerTimer = time.AfterFunc(d, b.checkConsumers)
	}
}

func (b *Broker) checkConsumers() {
	b.lock()
	defer b.unlock()
	b.consumerTimer = nil
	if b.closed || b.consumerTimeout <= 0 {
		return
	}
	now := time.Now()
	b.expire(func(d *delivered) bool { return !d.at.IsZero() && now.Sub(d.at) >= b.consumerTimeout })
	var oldest time.Time
	b.eachChannel(func(ch *channel) {
		for i := range ch.ledger.entries {
			if d := &ch.ledger.entries[i]; d.open && !d.void && !d.at.IsZero() && (oldest.IsZero() || d.at.Before(oldest)) {
				oldest = d.at
			}
		}
	})
	if !oldest.IsZero() {
		b.watchConsumers(max(time.Millisecond, b.consumerTimeout-now.Sub(oldest)))
	}
}

func (b *Broker) expire(due func(*delivered) bool) {
	b.eachChannel(func(ch *channel) {
		late := slices.ContainsFunc(ch.ledger.entries, func(d delivered) bool { return d.open && !d.void && due(&d) })
		if !late {
			return
		}
		if !b.line.timeoutCancels {
			ch.fail(soft(codePreconditionFailed, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. This timeout value can be configured, see consumers doc guide to learn more",
				ch.number, b.consumerTimeout.Milliseconds()), 0)
			return
		}
		ch.expireConsumers(due)
	})
}

// expireConsumers cancels the consumers whose deliveries are late, and gives back those that are.
func (ch *channel) expireConsumers(due func(*delivered) bool) {
	var back []delivered
	for i := range ch.ledger.entries {
		d := &ch.ledger.entries[i]
		if d.open && !d.void && d.consumer != nil && d.queue.quorum && due(d) {
			back = append(back, *d)
			d.void = true // the client may settle it still, to no effect
		}
	}
	for i := range back {
		if c := back[i].consumer; ch.consumers[c.tag] == c {
			c.cancelFromServer()
		}
	}
	returnAll(back, byTimeout)
}
