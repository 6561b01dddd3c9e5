package clienttest

import (
	"maps"
	"slices"
)

// channel is one of a connection. All of it is guarded by the broker's lock.
type channel struct {
	conn    *conn
	number  uint16
	closing bool // the server has sent channel.close and waits for the answer
	stopped bool // the client does not want deliveries now

	prefetch    int
	consumers   map[string]*consumer
	deliveryTag uint64
	ledger      ledger
	confirms    confirms
	incoming    incoming

	exchangeName, key string // of the last publish: most are to the same place
	queueName         string // declared last: what an empty name stands for
}

// incoming is a publish of which not all frames are there.
type incoming struct {
	active    bool
	header    bool // has come
	mandatory bool
	exchange  *exchange
	msg       *message
	facts     facts
	left      uint64 // bytes of the body that are to come
}

func newChannel(c *conn, number uint16) *channel {
	return &channel{conn: c, number: number, consumers: map[string]*consumer{}}
}

// send is for methods that are not in a hurry.
func (ch *channel) send(id methodID, arguments ...any) {
	b, start := beginMethod(ch.conn.begin(), ch.number, id)
	ch.conn.out = endFrame(appendArguments(b, arguments...), start)
}

// handler answers one method. It has the lock of the broker.
type handler func(ch *channel, a *cursor) *amqpError

var handlers map[methodID]handler

func init() { // not a literal, for handlers reach it again
	handlers = map[methodID]handler{
		channelFlow: onChannelFlow, channelFlowOK: onIgnored, channelClose: onChannelClose,
		exchangeDeclare: onExchangeDeclare, exchangeDelete: onExchangeDelete,
		exchangeBind: onExchangeBind, exchangeUnbind: onExchangeUnbind,
		queueDeclare: onQueueDeclare, queueBind: onQueueBind, queueUnbind: onQueueUnbind,
		queuePurge: onQueuePurge, queueDelete: onQueueDelete,
		basicQos: onQos, basicConsume: onConsume, basicCancel: onCancel, basicCancelOK: onIgnored,
		basicPublish: onPublish, basicGet: onGet, basicAck: onAck, basicNack: onNack, basicReject: onReject,
		basicRecover: onRecover, basicRecoverAsync: onRecoverAsync,
		confirmSelect: onConfirmSelect,
	}
}

func (ch *channel) handle(f frame) *amqpError {
	if ch.closing {
		return ch.awaitClose(f)
	}
	if f.kind != frameMethod {
		return ch.content(f)
	}
	if ch.incoming.active {
		return hard(codeUnexpectedFrame, "expected content header or body, got a method frame instead")
	}
	a := cursor{b: f.payload}
	id := methodID(a.long())
	handle := handlers[id]
	if a.bad || handle == nil {
		if id.class() == 90 {
			return notImplemented("clienttest has no transactions")
		}
		return hard(codeCommandInvalid, "unknown method %d.%d on channel %d", id.class(), id.method(), ch.number)
	}
	ch.conn.failing = id
	return handle(ch, &a)
}

// awaitClose drops everything but the end of the channel.
func (ch *channel) awaitClose(f frame) *amqpError {
	if f.kind != frameMethod {
		return nil
	}
	a := cursor{b: f.payload}
	switch methodID(a.long()) {
	case channelCloseOK:
		delete(ch.conn.channels, ch.number)
	case channelClose:
		ch.send(channelCloseOK)
	}
	return nil
}

// fail ends the channel from the side of the server.
func (ch *channel) fail(err *amqpError, id methodID) {
	ch.teardown()
	ch.closing = true
	ch.send(channelClose, err.code, err.text, id.class(), id.method())
}

// teardown gives back what is unacked. What waits to be confirmed never will be.
func (ch *channel) teardown() {
	ch.dropConsumers()
	ch.incoming = incoming{}
	ch.confirms.held, ch.confirms.acked, ch.confirms.nacked = nil, nil, nil
	returnAll(ch.ledger.takeUpTo(0), byLoss)
}

func (ch *channel) dropConsumers() {
	for _, tag := range slices.Sorted(maps.Keys(ch.consumers)) {
		ch.consumers[tag].remove()
	}
}

func onIgnored(*channel, *cursor) *amqpError { return nil }

func onChannelClose(ch *channel, _ *cursor) *amqpError {
	ch.flushConfirms()
	ch.teardown()
	delete(ch.conn.channels, ch.number)
	ch.send(channelCloseOK)
	return nil
}

func onChannelFlow(ch *channel, a *cursor) *amqpError {
	active := a.octet()&1 != 0
	if a.bad {
		return syntaxError(channelFlow)
	}
	ch.stopped = !active
	ch.send(channelFlowOK, active)
	ch.resume()
	return nil
}

// resume lets the queues of the channel's consumers go on.
func (ch *channel) resume() {
	for _, tag := range slices.Sorted(maps.Keys(ch.consumers)) {
		ch.consumers[tag].queue.settled()
	}
}
