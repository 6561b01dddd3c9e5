package clienttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// Message is one in a queue, or one to publish. Only Properties and Body of a message to publish are used.
type Message struct {
	Properties    Properties
	Body          []byte
	Exchange      string
	RoutingKey    string
	Redelivered   bool // was delivered before
	DeliveryCount int  // deliveries that count toward the delivery limit of a quorum queue
	AcquiredCount int  // deliveries that came back
}

// Consumer is one that is subscribed now.
type Consumer struct {
	Tag        string
	Queue      string
	Connection string // connection_name, "" without one
	Channel    uint16
	Prefetch   int // as asked by basic.qos before it; 0 unlimited
	NoAck      bool
	Exclusive  bool
	Unacked    int
}

// Queue is a copy of what a queue is at one moment.
type Queue struct {
	Name       string
	Type       string // "classic" or "quorum"
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Table
	Ready      []Message // in the order of delivery
	Unacked    []Message // by the age of the connection, then in the order of tags
	Consumers  []Consumer
}

// Channel is one that is open.
type Channel struct {
	Number      uint16
	ConfirmMode bool
	Prefetch    int // what basic.qos said last
	Unacked     int
	HeldTags    []uint64 // publishes whose confirms are held
	Consumers   []Consumer
}

// Connection is one that is open, or being opened.
type Connection struct {
	Name             string // connection_name
	User             string
	VHost            string
	RemoteAddr       string
	ClientProperties Table
	FrameMax         int // bytes, 0 unlimited
	ChannelMax       int
	Heartbeat        time.Duration
	Opened           time.Time
	Blocked          bool // by Block
	Channels         []Channel
}

// Counters count since the broker was made. Those of messages count messages, not frames.
type Counters struct {
	Published     uint64 // complete publishes, also those that are refused
	Unroutable    uint64 // reached no queue
	Returned      uint64 // by basic.return
	Confirmed     uint64 // by basic.ack to the publisher
	ConfirmedNack uint64 // by basic.nack to the publisher
	ConfirmFrames uint64 // basic.ack and basic.nack to publishers

	Delivered    uint64 // by basic.deliver and basic.get-ok
	Redelivered  uint64 // of these, with the redelivered flag
	Acked        uint64
	Nacked       uint64 // by basic.nack
	Rejected     uint64 // by basic.reject
	DeadLettered uint64 // given to a dead letter exchange
	Dropped      uint64 // expired, over a limit or refused for good, without a dead letter exchange

	AckFrames         uint64 // basic.ack from consumers
	AckFramesMultiple uint64 // of these, with multiple
	UnknownTags       uint64 // acks, nacks and rejects of tags that are not open

	Accepted     uint64 // connections
	Refused      uint64 // by RefuseConnections
	AuthFailures uint64
}

// Counters returns a copy.
func (b *Broker) Counters() Counters {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counters
}

// Dials are the times at which connections were accepted, in order.
func (b *Broker) Dials() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.dials)
}

// Connections are those that are open, by age.
func (b *Broker) Connections() []Connection {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Connection
	for _, c := range b.inOrder() {
		seen := Connection{
			Name: c.name, User: c.user, RemoteAddr: c.sock.RemoteAddr().String(), ClientProperties: c.properties,
			FrameMax: c.frameMax, ChannelMax: c.channelMax, Heartbeat: c.heartbeat, Opened: c.opened, Blocked: c.blocked,
		}
		if c.vhost != nil {
			seen.VHost = c.vhost.name
		}
		for _, n := range slices.Sorted(maps.Keys(c.channels)) {
			seen.Channels = append(seen.Channels, c.channels[n].inspect())
		}
		all = append(all, seen)
	}
	return all
}

func (ch *channel) inspect() Channel {
	seen := Channel{Number: ch.number, ConfirmMode: ch.confirms.on, Prefetch: ch.prefetch, Unacked: ch.ledger.open}
	for _, h := range ch.confirms.held {
		seen.HeldTags = append(seen.HeldTags, h.tag)
	}
	for _, tag := range slices.Sorted(maps.Keys(ch.consumers)) {
		seen.Consumers = append(seen.Consumers, ch.consumers[tag].inspect())
	}
	return seen
}

func (c *consumer) inspect() Consumer {
	return Consumer{
		Tag: c.tag, Queue: c.queue.name, Connection: c.channel.conn.name, Channel: c.channel.number,
		Prefetch: c.asked, NoAck: c.noAck, Exclusive: c.exclusive, Unacked: c.unacked,
	}
}

func (it *item) inspect() Message {
	properties, _ := decodeProperties(it.msg.props)
	return Message{
		Properties: properties, Body: slices.Clone(it.msg.body), Exchange: it.msg.exchange, RoutingKey: it.msg.key,
		Redelivered: it.redelivered, DeliveryCount: it.failures, AcquiredCount: it.acquired,
	}
}

// VHost is one virtual host of a broker.
type VHost struct {
	broker *Broker
	vhost  *vhost
}

// VHost is nil when the broker does not have it.
func (b *Broker) VHost(name string) *VHost {
	if v := b.vhosts[name]; v != nil {
		return &VHost{b, v}
	}
	return nil
}

func (b *Broker) first() *vhost { return b.vhosts[b.options.VHosts[0]] }

func (b *Broker) firstVHost() *VHost { return &VHost{b, b.first()} }

// Queue copies a queue with its messages. Its second result is false when there is none of this name.
func (v *VHost) Queue(name string) (Queue, bool) {
	b := v.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	q := v.vhost.queues[name]
	if q == nil {
		return Queue{}, false
	}
	seen := Queue{
		Name: q.name, Type: queueType(q.args), Durable: q.durable, AutoDelete: q.autoDelete, Exclusive: q.owner != nil,
		Arguments: maps.Clone(q.args),
	}
	for _, part := range q.parts() {
		for i := range part.all() {
			seen.Ready = append(seen.Ready, part.all()[i].inspect())
		}
	}
	b.eachChannel(func(ch *channel) {
		for i := range ch.ledger.entries {
			if d := &ch.ledger.entries[i]; d.open && !d.void && d.queue == q {
				seen.Unacked = append(seen.Unacked, d.item.inspect())
			}
		}
	})
	for _, c := range q.consumers {
		seen.Consumers = append(seen.Consumers, c.inspect())
	}
	return seen, true
}

// Depth is how many messages are ready and unacked, without a copy of them. A queue that is missing has none.
func (v *VHost) Depth(name string) (ready, unacked int) {
	v.broker.mu.Lock()
	defer v.broker.mu.Unlock()
	if q := v.vhost.queues[name]; q != nil {
		return q.ready(), q.unacked
	}
	return 0, 0
}

// DeclareQueue makes a durable queue as a client would with these arguments, or finds an equal one.
func (v *VHost) DeclareQueue(name string, arguments Table) error {
	v.broker.lock()
	defer v.broker.unlock()
	_, err := v.vhost.declare(nil, name, false, true, false, false, arguments)
	return plain(err)
}

// plain keeps a nil pointer from becoming an error.
func plain(err *amqpError) error {
	if err != nil {
		return err
	}
	return nil
}

// Publish puts messages into a queue through the default exchange. It fails when there is no such queue, when a
// property cannot be encoded, or when the queue rejects a message.
func (v *VHost) Publish(queue string, messages ...Message) error {
	v.broker.lock()
	defer v.broker.unlock()
	q, err := v.vhost.queueFor(queue, nil)
	if err != nil {
		return err
	}
	for i, each := range messages {
		m, err := newMessage("", queue, each)
		if err != nil {
			return err
		}
		if !q.enqueue(m, false) {
			return fmt.Errorf("clienttest: queue %q rejects message %d: it is full", queue, i)
		}
	}
	return nil
}

// CancelConsumers ends all consumers of a queue with basic.cancel, as the loss of its leader does, and returns how many.
// Their deliveries stay unacked.
func (v *VHost) CancelConsumers(queue string) int {
	v.broker.lock()
	defer v.broker.unlock()
	if q := v.vhost.queues[queue]; q != nil {
		return q.cancelConsumers()
	}
	return 0
}

// DeleteQueue deletes a queue with its messages, and cancels its consumers. It tells whether there was one.
func (v *VHost) DeleteQueue(queue string) bool {
	v.broker.lock()
	defer v.broker.unlock()
	q := v.vhost.queues[queue]
	if q != nil {
		v.vhost.deleteQueue(q)
	}
	return q != nil
}

// Queue is that of the first vhost, see VHost.Queue.
func (b *Broker) Queue(name string) (Queue, bool) { return b.firstVHost().Queue(name) }

// Depth is that of the first vhost, see VHost.Depth.
func (b *Broker) Depth(name string) (ready, unacked int) { return b.firstVHost().Depth(name) }

// DeclareQueue is that of the first vhost, see VHost.DeclareQueue.
func (b *Broker) DeclareQueue(name string, arguments Table) error {
	return b.firstVHost().DeclareQueue(name, arguments)
}

// Publish is that of the first vhost, see VHost.Publish.
func (b *Broker) Publish(queue string, messages ...Message) error {
	return b.firstVHost().Publish(queue, messages...)
}

// CancelConsumers is that of the first vhost, see VHost.CancelConsumers.
func (b *Broker) CancelConsumers(queue string) int { return b.firstVHost().CancelConsumers(queue) }

// DeleteQueue is that of the first vhost, see VHost.DeleteQueue.
func (b *Broker) DeleteQueue(queue string) bool { return b.firstVHost().DeleteQueue(queue) }

// waitLimit is how long WaitFor waits.
const waitLimit = 10 * time.Second

// WaitFor returns when condition holds, and fails the test after ten seconds, or earlier at the deadline of its context.
// The condition may call the broker; it is asked again after each change of the broker, and only then.
func (b *Broker) WaitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := b.Wait(ctx, condition); err != nil {
		t.Fatalf("no %s: %v; counters %+v", what, err, b.Counters())
	}
}

// Wait is WaitFor without a test. It fails with the error of the context.
func (b *Broker) Wait(ctx context.Context, condition func() bool) error {
	for {
		b.mu.Lock()
		b.watched = true
		changed := b.changed
		b.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
