package warren

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// refusal is the broker's error when it closed a channel (and not the connection) over a message that it cannot take: there
// is no such exchange, no permission, it is too large; nil when the channel was lost for another reason.
func refusal(cause error) *amqp.Error {
	var closed *amqp.Error
	if !errors.As(cause, &closed) || !closed.Server {
		return nil
	}
	switch closed.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.PreconditionFailed, amqp.ContentTooLarge, amqp.NotImplemented:
		return closed
	}
	return nil
}

// blamed returns which of the unconfirmed messages, in the order in which they were sent, the broker refused; -1 if its words
// do not tell. The broker takes messages in order and nothing after the first that it refuses, so of those that its words fit
// it was the oldest.
func blamed(closed *amqp.Error, unknown []sent) int {
	return slices.IndexFunc(unknown, func(u sent) bool {
		exchange, _ := u.first().m.target()
		if exchange == "" {
			exchange = "amq.default"
		}
		switch {
		case closed.Code == amqp.NotFound:
			return strings.Contains(closed.Reason, "no exchange '"+exchange+"' in vhost")
		case closed.Code == amqp.AccessRefused && !strings.Contains(closed.Reason, "topic"):
			return strings.Contains(closed.Reason, "access to exchange '"+exchange+"' in vhost")
		case closed.Code == amqp.PreconditionFailed:
			return strings.Contains(closed.Reason, fmt.Sprintf("message size %d is larger", u.bytes))
		}
		return false
	})
}
