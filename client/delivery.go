package warren

import (
	"maps"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
)

// Delivery is a message as a handler gets it, with what is to become of it. Message is as it was published; a body that was
// compressed on its way is not any more. Headers may be changed, Body may not: it is what a dead letter is made of.
//
// The last verdict on a message counts. Verdicts may be given from any goroutine until the handler returns; later ones are
// ignored.
type Delivery struct {
	Message
	// Cluster that it came from, by name.
	Cluster string
	// Redelivered is set when it may have been delivered before, here or elsewhere.
	Redelivered bool
	// Attempts is how often it was delivered before, as far as is known: 0 for the first time. Quorum queues count; for
	// others the consumer does, as long as it lives.
	Attempts int

	batch   *Batch
	verdict verdict
	reason  error
	handed  bool // to the handler
}

// verdict is what becomes of a message.
type verdict uint8

const (
	undecided verdict = iota
	acked
	retried
	deadLettered
	givenBack
)

// Retry has the message delivered again, after a while, until MaxAttempts. It then is dead-lettered with err as the reason.
func (d *Delivery) Retry(err error) { d.decide(retried, err) }

// DeadLetter puts the message into the dead-letter queue, with err as the reason.
func (d *Delivery) DeadLetter(err error) { d.decide(deadLettered, err) }

// GiveBack returns the message to the queue without counting an attempt, for this or another consumer.
func (d *Delivery) GiveBack() { d.decide(givenBack, nil) }

// Verdict tells the last verdict and its reason: "Retry", "DeadLetter" or "GiveBack", or "" for none.
func (d *Delivery) Verdict() (name string, reason error) {
	if d.batch != nil {
		d.batch.mu.Lock()
		defer d.batch.mu.Unlock()
	}
	switch d.verdict {
	case retried:
		name = "Retry"
	case deadLettered:
		name = "DeadLetter"
	case givenBack:
		name = "GiveBack"
	}
	return name, d.reason
}

func (d *Delivery) decide(v verdict, reason error) {
	if d.batch == nil {
		return
	}
	d.batch.mu.Lock()
	defer d.batch.mu.Unlock()
	if !d.batch.over {
		d.verdict, d.reason = v, reason
	}
}

// outcome is only to be asked for while nobody may decide.
func (d *Delivery) outcome() outcome { return outcome{d.verdict, d.reason} }

// fresh is the delivery once more, without a verdict: who holds the earlier one cannot decide on it.
func (d *Delivery) fresh() *Delivery {
	return &Delivery{Message: d.Message, Cluster: d.Cluster, Redelivered: d.Redelivered, Attempts: d.Attempts}
}

// message is what was delivered, as it was published.
func message(d *amqp.Delivery) Message {
	m := Message{
		ID: d.MessageId, Body: d.Body, Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId, Timestamp: d.Timestamp,
		Priority: d.Priority, Transient: d.DeliveryMode != amqp.Persistent,
	}
	if d.Exchange == "" {
		m.Queue = d.RoutingKey
	} else {
		m.Exchange, m.Key = d.Exchange, d.RoutingKey
	}
	if d.Expiration == "" {
		return m
	}
	if ms, err := strconv.ParseUint(d.Expiration, 10, 32); err == nil && ms > 0 {
		m.Expiration = time.Duration(ms) * time.Millisecond //nolint:gosec // 32 bits
	}
	return m
}

// private is the message for a handler, who may change its headers, also when it has been left behind.
func (m Message) private() Message {
	m.Headers = maps.Clone(m.Headers)
	return m
}

// unpacked is a message of a pack, which went the way of the pack.
func unpacked(pack *Message, inner *envelope.Message) Message {
	return Message{
		Queue: pack.Queue, Exchange: pack.Exchange, Key: pack.Key, Transient: pack.Transient,
		ID: inner.ID, Body: inner.Body, Headers: inner.Headers, ContentType: inner.ContentType,
		ContentEncoding: inner.ContentEncoding, CorrelationID: inner.CorrelationID, ReplyTo: inner.ReplyTo, Type: inner.Type,
		AppID: inner.AppID, Timestamp: inner.Timestamp,
	}
}
