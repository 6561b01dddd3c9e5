package clienttest

import (
	"fmt"
	"slices"
	"strings"
)

const reserved = "amq."

func onExchangeDeclare(ch *channel, a *cursor) *amqpError {
	a.short()
	name, kind := a.shortString(), a.shortString()
	bits := a.octet()
	args := a.table()
	if a.bad {
		return syntaxError(exchangeDeclare)
	}
	passive, noWait := bits&1 != 0, bits&16 != 0
	v := ch.conn.vhost
	if name == "" {
		return defaultExchange()
	}
	x := v.exchanges[name]
	switch {
	case passive && x == nil:
		return soft(codeNotFound, "no exchange '%s' in vhost '%s'", name, v.name)
	case passive:
	case !slices.Contains([]string{kindDirect, kindFanout, kindTopic, kindHeaders}, kind):
		return v.broker.line.badExchangeType(kind)
	case x != nil:
		if err := x.equivalent(kind, bits); err != nil {
			return err
		}
	case strings.HasPrefix(name, reserved):
		return soft(codeAccessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", name)
	default:
		x = newExchange(v, name, kind)
		x.durable, x.autoDelete, x.internal, x.args = bits&2 != 0, bits&4 != 0, bits&8 != 0, args
		x.alternate, _ = args["alternate-exchange"].(string)
		v.exchanges[name] = x
	}
	if !noWait {
		ch.send(exchangeDeclareOK)
	}
	return nil
}

func defaultExchange() *amqpError {
	return soft(codeAccessRefused, "operation not permitted on the default exchange")
}

// equivalent is the error of a declaration that differs from the exchange that exists.
func (x *exchange) equivalent(kind string, bits uint8) *amqpError {
	differs := func(name, received, current string) *amqpError {
		return soft(codePreconditionFailed, "inequivalent arg '%s' for exchange '%s' in vhost '%s': received '%s' but current is '%s'",
			name, x.name, x.vhost.name, received, current)
	}
	if kind != x.kind {
		return differs("type", kind, x.kind)
	}
	for _, flag := range []struct {
		name    string
		bit     uint8
		current bool
	}{{"durable", 2, x.durable}, {"auto_delete", 4, x.autoDelete}, {"internal", 8, x.internal}} {
		if received := bits&flag.bit != 0; received != flag.current {
			return differs(flag.name, fmt.Sprint(received), fmt.Sprint(flag.current))
		}
	}
	return nil
}

func onExchangeDelete(ch *channel, a *cursor) *amqpError {
	a.short()
	name, bits := a.shortString(), a.octet()
	if a.bad {
		return syntaxError(exchangeDelete)
	}
	v := ch.conn.vhost
	switch x := v.exchanges[name]; {
	case name == "":
		return defaultExchange()
	case x == nil: // deletion is idempotent
	case strings.HasPrefix(name, reserved):
		return soft(codeAccessRefused, "deletion of system exchange '%s' in vhost '%s' not allowed", name, v.name)
	case bits&1 != 0 && len(x.bindings) > 0:
		return soft(codePreconditionFailed, "exchange '%s' in vhost '%s' in use", name, v.name)
	default:
		v.deleteExchange(x)
	}
	if bits&2 == 0 {
		ch.send(exchangeDeleteOK)
	}
	return nil
}

func onExchangeBind(ch *channel, a *cursor) *amqpError {
	return ch.bindExchanges(a, exchangeBind, exchangeBindOK, func(x *exchange, b *binding) { x.bind(b) })
}

func onExchangeUnbind(ch *channel, a *cursor) *amqpError {
	return ch.bindExchanges(a, exchangeUnbind, exchangeUnbindOK, func(x *exchange, b *binding) { x.unbind(b.same) })
}

func (ch *channel) bindExchanges(a *cursor, id, ok methodID, do func(*exchange, *binding)) *amqpError {
	a.short()
	destination, source, key := a.shortString(), a.shortString(), a.shortString()
	noWait := a.octet()&1 != 0
	args := a.table()
	if a.bad {
		return syntaxError(id)
	}
	v := ch.conn.vhost
	if destination == "" || source == "" {
		return defaultExchange()
	}
	to, err := v.exchange(destination)
	if err != nil {
		return err
	}
	from, err := v.exchange(source)
	if err != nil {
		return err
	}
	do(from, &binding{key: key, args: args, exchange: to})
	if !noWait {
		ch.send(ok)
	}
	return nil
}

func onQueueDeclare(ch *channel, a *cursor) *amqpError {
	a.short()
	name, bits := a.shortString(), a.octet()
	args := a.table()
	if a.bad {
		return syntaxError(queueDeclare)
	}
	passive, noWait := bits&1 != 0, bits&16 != 0
	q, err := ch.conn.vhost.declare(ch.conn, name, passive, bits&2 != 0, bits&4 != 0, bits&8 != 0, args)
	if err != nil {
		return err
	}
	ch.queueName = q.name
	if !noWait {
		ch.send(queueDeclareOK, q.name, uint32(q.ready()), uint32(len(q.consumers)))
	}
	return nil
}

// declare makes the queue or finds it. c is nil when the broker itself declares.
func (v *vhost) declare(c *conn, name string, passive, durable, exclusive, autoDelete bool, args Table) (*queue, *amqpError) {
	if passive {
		return v.queueFor(name, c)
	}
	if name == "" {
		name = v.broker.makeName("amq.gen-")
	} else if strings.HasPrefix(name, reserved) && v.queues[name] == nil {
		return nil, soft(codeAccessRefused, "queue name '%s' contains reserved prefix 'amq.*'", name)
	}
	settings, err := v.readArguments(name, args)
	if err != nil {
		return nil, err
	}
	if q := v.queues[name]; q != nil {
		if q, err = v.queueFor(name, c); err != nil {
			return nil, err
		}
		return q, q.equivalent(durable, autoDelete, exclusive, args)
	}
	quorum := queueType(args) == "quorum"
	for _, property := range []struct {
		set  bool
		name string
	}{{!durable, "non-durable"}, {autoDelete, "auto-delete"}, {exclusive, "exclusive-owner"}} {
		if quorum && property.set {
			return nil, soft(codePreconditionFailed, "invalid property '%s' for queue '%s' in vhost '%s'", property.name, name, v.name)
		}
	}
	q := &queue{vhost: v, name: name, durable: durable, autoDelete: autoDelete, args: args, quorum: quorum, settings: settings}
	if exclusive {
		q.owner = c
	}
	v.queues[name] = q
	return q, nil
}

func onQueueBind(ch *channel, a *cursor) *amqpError {
	a.short()
	name, source, key := a.shortString(), a.shortString(), a.shortString()
	noWait := a.octet()&1 != 0
	args := a.table()
	if a.bad {
		return syntaxError(queueBind)
	}
	q, x, err := ch.queueAndExchange(name, source)
	if err != nil {
		return err
	}
	x.bind(&binding{key: key, args: args, queue: q})
	if !noWait {
		ch.send(queueBindOK)
	}
	return nil
}

func (ch *channel) queueAndExchange(name, source string) (*queue, *exchange, *amqpError) {
	if source == "" {
		return nil, nil, defaultExchange()
	}
	q, err := ch.conn.vhost.queueFor(ch.lastQueue(name), ch.conn)
	if err != nil {
		return nil, nil, err
	}
	x, err := ch.conn.vhost.exchange(source)
	return q, x, err
}

func onQueueUnbind(ch *channel, a *cursor) *amqpError {
	a.short()
	name, source, key := a.shortString(), a.shortString(), a.shortString()
	args := a.table()
	if a.bad {
		return syntaxError(queueUnbind)
	}
	q, x, err := ch.queueAndExchange(name, source)
	if err != nil {
		return err
	}
	x.unbind((&binding{key: key, args: args, queue: q}).same)
	ch.send(queueUnbindOK)
	return nil
}

func onQueuePurge(ch *channel, a *cursor) *amqpError {
	a.short()
	name, noWait := a.shortString(), a.octet()&1 != 0
	if a.bad {
		return syntaxError(queuePurge)
	}
	q, err := ch.conn.vhost.queueFor(ch.lastQueue(name), ch.conn)
	if err != nil {
		return err
	}
	n := q.purge()
	if !noWait {
		ch.send(queuePurgeOK, uint32(n))
	}
	return nil
}

func onQueueDelete(ch *channel, a *cursor) *amqpError {
	a.short()
	name, bits := a.shortString(), a.octet()
	if a.bad {
		return syntaxError(queueDelete)
	}
	v := ch.conn.vhost
	ready := 0
	if q := v.queues[ch.lastQueue(name)]; q != nil { // deletion is idempotent
		if _, err := v.queueFor(q.name, ch.conn); err != nil {
			return err
		}
		switch ready = q.ready(); {
		case bits&1 != 0 && len(q.consumers) > 0:
			return soft(codePreconditionFailed, "queue '%s' in vhost '%s' in use", q.name, v.name)
		case bits&2 != 0 && ready > 0:
			return soft(codePreconditionFailed, "queue '%s' in vhost '%s' not empty", q.name, v.name)
		}
		v.deleteQueue(q)
	}
	if bits&4 == 0 {
		ch.send(queueDeleteOK, uint32(ready))
	}
	return nil
}
