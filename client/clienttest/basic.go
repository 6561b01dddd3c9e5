package clienttest

import "fmt"

func onQos(ch *channel, a *cursor) *amqpError {
	size, count, global := a.long(), a.short(), a.octet()&1 != 0
	switch {
	case a.bad:
		return syntaxError(basicQos)
	case size != 0:
		return notImplemented("prefetch_size!=0 (%d)", size)
	case global:
		return notImplemented("clienttest has no prefetch for a whole channel (global)")
	}
	ch.prefetch = int(count)
	ch.send(basicQosOK)
	return nil
}

func onConsume(ch *channel, a *cursor) *amqpError {
	a.short()
	name, tag := a.shortString(), a.shortString()
	bits := a.octet()
	args := a.table()
	if a.bad {
		return syntaxError(basicConsume)
	}
	noAck, exclusive, noWait := bits&2 != 0, bits&4 != 0, bits&8 != 0
	q, err := ch.conn.vhost.queueFor(ch.lastQueue(name), ch.conn)
	if err != nil {
		return err
	}
	if _, given := args["x-priority"]; given {
		return notImplemented("clienttest has no priorities of consumers")
	}
	if tag == "" {
		tag = ch.conn.broker.makeName("amq.ctag-")
	}
	if ch.consumers[tag] != nil {
		return hard(codeNotAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	if q.exclusiveConsumer() || exclusive && len(q.consumers) > 0 {
		return soft(codeAccessRefused, "queue '%s' in vhost '%s' in exclusive use", q.name, q.vhost.name)
	}
	c := &consumer{tag: tag, channel: ch, queue: q, noAck: noAck, exclusive: exclusive, asked: ch.prefetch, prefetch: ch.prefetch}
	if q.quorum && c.prefetch == 0 {
		c.prefetch = quorumPrefetch
	}
	ch.consumers[tag] = c
	if !noWait {
		ch.send(basicConsumeOK, tag)
	}
	q.addConsumer(c)
	q.settled()
	return nil
}

func onCancel(ch *channel, a *cursor) *amqpError {
	tag, noWait := a.shortString(), a.octet()&1 != 0
	if a.bad {
		return syntaxError(basicCancel)
	}
	if c := ch.consumers[tag]; c != nil {
		c.remove()
		c.queue.settled()
	}
	if !noWait {
		ch.send(basicCancelOK, tag)
	}
	return nil
}

func onGet(ch *channel, a *cursor) *amqpError {
	a.short()
	name, noAck := a.shortString(), a.octet()&1 != 0
	if a.bad {
		return syntaxError(basicGet)
	}
	q, err := ch.conn.vhost.queueFor(ch.lastQueue(name), ch.conn)
	if err != nil {
		return err
	}
	q.dropExpired()
	if q.ready() == 0 {
		ch.send(basicGetEmpty, "")
		return nil
	}
	it := q.pop()
	ch.deliveryTag++
	b, start := beginMethod(ch.conn.begin(), ch.number, basicGetOK)
	b = appendArguments(b, ch.deliveryTag, it.redelivered, it.msg.exchange, it.msg.key, uint32(q.ready()))
	ch.conn.out = appendContent(endFrame(b, start), ch.number, q.deliveredProps(&it, ch.conn.broker.line.getCountsZero), it.msg.body, ch.conn.frameMax)
	counters := &ch.conn.broker.counters
	counters.Delivered++
	if it.redelivered {
		counters.Redelivered++
	}
	if !noAck {
		ch.track(it, q, nil)
	}
	q.watchExpiry()
	return nil
}

// unknownTag is the error of a tag that is settled or was never given.
func (ch *channel) unknownTag(tag uint64) *amqpError {
	ch.conn.broker.counters.UnknownTags++
	return soft(codePreconditionFailed, "unknown delivery tag %d", tag)
}

// settle takes the deliveries that a client settles. The tag itself must be open, also with multiple; tag 0 with multiple
// stands for all, which may be none.
func (ch *channel) settle(tag uint64, multiple bool) ([]delivered, *amqpError) {
	if multiple && tag == 0 {
		return ch.ledger.takeUpTo(0), nil
	}
	entry := ch.ledger.entry(tag)
	switch {
	case entry == nil:
		return nil, ch.unknownTag(tag)
	case multiple:
		return ch.ledger.takeUpTo(tag), nil
	}
	return ch.ledger.take(entry), nil
}

func onAck(ch *channel, a *cursor) *amqpError {
	tag, multiple := a.longlong(), a.octet()&1 != 0
	if a.bad {
		return syntaxError(basicAck)
	}
	counters := &ch.conn.broker.counters
	counters.AckFrames++
	if multiple {
		counters.AckFramesMultiple++
	}
	taken, err := ch.settle(tag, multiple)
	if err != nil {
		return err
	}
	counters.Acked += uint64(len(taken))
	for i := range taken {
		taken[i].release()
	}
	settleQueues(taken)
	return nil
}

func onNack(ch *channel, a *cursor) *amqpError {
	tag, bits := a.longlong(), a.octet()
	if a.bad {
		return syntaxError(basicNack)
	}
	taken, err := ch.settle(tag, bits&1 != 0)
	if err != nil {
		return err
	}
	ch.conn.broker.counters.Nacked += uint64(len(taken))
	refuse(taken, bits&2 != 0, byNack)
	return nil
}

func onReject(ch *channel, a *cursor) *amqpError {
	tag, requeue := a.longlong(), a.octet()&1 != 0
	if a.bad {
		return syntaxError(basicReject)
	}
	taken, err := ch.settle(tag, false)
	if err != nil {
		return err
	}
	ch.conn.broker.counters.Rejected += uint64(len(taken))
	refuse(taken, requeue, byReject)
	return nil
}

func refuse(taken []delivered, requeue bool, why giveBack) {
	if requeue {
		returnAll(taken, why)
		return
	}
	for i := range taken {
		taken[i].release()
		if !taken[i].queue.deleted {
			taken[i].queue.deadLetter(taken[i].item, reasonRejected)
		}
	}
	settleQueues(taken)
}

func onRecover(ch *channel, a *cursor) *amqpError {
	if err := onRecoverAsync(ch, a); err != nil {
		return err
	}
	ch.send(basicRecoverOK)
	return nil
}

func onRecoverAsync(ch *channel, a *cursor) *amqpError {
	requeue := a.octet()&1 != 0
	if a.bad {
		return syntaxError(basicRecover)
	}
	if !requeue {
		return notImplemented("recover with requeue=false")
	}
	returnAll(ch.ledger.takeUpTo(0), byNack)
	return nil
}

// lastQueue is the queue that an empty name stands for.
func (ch *channel) lastQueue(name string) string {
	if name == "" {
		return ch.queueName
	}
	return name
}

// makeName is a name that nobody else has.
func (b *Broker) makeName(prefix string) string {
	b.names++
	return fmt.Sprintf("%s%08d", prefix, b.names)
}
