package warren

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/route"
)

// Headers of a dead letter.
const (
	// HeaderDeathQueue is the queue that the message could not be handled from.
	HeaderDeathQueue = "x-warren-death-queue"
	// HeaderDeathReason is why, in at most 1 KiB.
	HeaderDeathReason = "x-warren-death-reason"
	// HeaderDeathTime is when.
	HeaderDeathTime = "x-warren-death-time"
	// HeaderDeathAttempts is how often it was delivered.
	HeaderDeathAttempts = "x-warren-death-attempts"
	// HeaderDeathExchange and HeaderDeathKey are what it was published with, when that was not the default exchange.
	HeaderDeathExchange = "x-warren-death-exchange"
	HeaderDeathKey      = "x-warren-death-routing-key"
	// HeaderDeathExpiration is the expiration in milliseconds that it had: a dead letter does not expire.
	HeaderDeathExpiration = "x-warren-death-expiration"
)

// maxReason is how much of a reason a dead letter carries, in bytes.
const maxReason = 1024

// again is a message as it was, to be published by itself to a queue. What the broker counted for it, or would act on, is
// left out.
func again(m *Message, queue string) Message {
	out := *m
	out.Queue, out.Exchange, out.Key, out.Class = queue, "", "", ""
	out.Headers = make(map[string]any, len(m.Headers)+8)
	maps.Copy(out.Headers, m.Headers)
	for _, h := range []string{headerAttempts, headerDeliveryCount, headerAcquiredCount, "CC", "BCC"} {
		delete(out.Headers, h)
	}
	return out
}

// deadLetter is what is published of a message that cannot be handled.
func deadLetter(original Message, attempts int, from, to string, reason error, now time.Time) Message {
	m := again(&original, to)
	text := "no reason was given"
	if reason != nil {
		text = reason.Error()
	}
	m.Headers[HeaderDeathQueue] = from
	m.Headers[HeaderDeathReason] = cut(text, maxReason)
	m.Headers[HeaderDeathTime] = now
	m.Headers[HeaderDeathAttempts] = int64(attempts + 1)
	if original.Exchange != "" {
		m.Headers[HeaderDeathExchange], m.Headers[HeaderDeathKey] = original.Exchange, original.Key
	}
	if m.Expiration > 0 {
		m.Headers[HeaderDeathExpiration] = m.Expiration.Milliseconds()
		m.Expiration = 0
	}
	m.Transient = false
	return m
}

// cut text to so many bytes of valid UTF-8.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	end := limit - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// publishAll publishes messages to the cluster of the intake, and returns the outcome of each when all are known.
func (in *intake) publishAll(messages []Message) []error {
	ctx, cancel := context.WithTimeout(in.c.hard, in.c.cfg.settleTimeout())
	defer cancel()
	errs := make([]error, len(messages))
	p, err := in.c.r.settling()
	confirmations := make([]*Confirmation, len(messages))
	for i := range messages {
		if errs[i] = err; err == nil {
			confirmations[i], errs[i] = p.accept(ctx, messages[i], in.cluster)
		}
	}
	for i, c := range confirmations {
		if c != nil {
			errs[i] = c.publish(ctx)
		}
	}
	return errs
}

// bury publishes dead letters. The queue is made again when somebody has deleted it.
func (in *intake) bury(messages []Message) []error {
	errs := in.publishAll(messages)
	var missed []int
	for i, err := range errs {
		if errors.Is(err, ErrReturned) {
			missed = append(missed, i)
		}
	}
	if len(missed) == 0 {
		return errs
	}
	ctx, cancel := context.WithTimeout(in.c.hard, in.c.cfg.settleTimeout())
	defer cancel()
	if err := in.prepare(ctx); err != nil {
		return errs
	}
	second := make([]Message, len(missed))
	for i, at := range missed {
		second[i] = messages[at]
	}
	for i, err := range in.publishAll(second) {
		errs[missed[i]] = err
	}
	return errs
}

// prepare sees to it that there is a queue for dead letters, on channels of its own: a broker closes the channel on which it says no.
func (in *intake) prepare(ctx context.Context) error {
	if in.c.cfg.byReject {
		return nil
	}
	if len(in.graveyard) > 255 {
		return &forbidden{fmt.Errorf("queue %q for dead letters: %w: its name has more than 255 bytes: name another with DeadLetterTo",
			in.graveyard, ErrInvalid)}
	}
	err := in.declare(ctx, func(ch *link.Channel) error {
		_, err := ch.QueueDeclarePassive(in.graveyard, true, false, false, false, nil)
		return err
	})
	if code(err) == amqp.NotFound {
		err = in.declare(ctx, func(ch *link.Channel) error {
			_, err := ch.QueueDeclare(in.graveyard, true, false, false, false, nil)
			return err
		})
	}
	if code(err) == amqp.ResourceLocked || code(err) == amqp.AccessRefused {
		return &forbidden{fmt.Errorf("queue %q for the dead letters of %q, on cluster %s: %w: let the user configure it or make it beforehand, "+
			"name another with DeadLetterTo, or leave dead letters to the broker with DeadLetterByReject", in.graveyard, in.c.queue,
			in.cluster.Name, err)}
	}
	if err != nil {
		return fmt.Errorf("queue %q for dead letters: %w", in.graveyard, err)
	}
	return nil
}

// forbidden is an error that trying again does not help.
type forbidden struct{ error }

func (f *forbidden) Unwrap() error { return f.error }

func (in *intake) declare(ctx context.Context, do func(*link.Channel) error) error {
	ch, err := in.conn.Channel(ctx)
	if err != nil {
		return err
	}
	if err := in.c.rpc(ch, func() error { return do(ch) }); err != nil {
		return err // the broker has closed the channel, or the connection is gone
	}
	return ch.Shut(ctx)
}

// code is what the broker said, or 0.
func code(err error) int {
	var said *amqp.Error
	if errors.As(err, &said) {
		return said.Code
	}
	return 0
}

// graveyard is where dead letters of a queue go.
func (c *Consumer) graveyard(to route.Route) string {
	switch {
	case c.cfg.deadLetterTo != "":
		return c.cfg.deadLetterTo
	case to.DeadLetter != "" && to.DeadLetter != c.queue:
		return to.DeadLetter
	}
	return c.queue + ".dead-letters"
}

// isPack tells whether a message says that it is several.
func isPack(d *amqp.Delivery) bool {
	_, marked := d.Headers[envelope.HeaderVersion]
	return marked || d.ContentType == envelope.ContentType
}
