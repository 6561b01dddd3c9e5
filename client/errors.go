package warren

import (
	"errors"
	"fmt"

	"github.com/warren-mq/warren/client/internal/route"
)

// Errors to test for with errors.Is. The text around them says which queue, cluster and entry is meant.
var (
	// ErrNoRoute says that no class serves a queue or exchange.
	ErrNoRoute = route.ErrNoRoute
	// ErrInvalid is a message that AMQP cannot carry, or options that cannot work together. Trying again does not help.
	ErrInvalid = errors.New("invalid")
	// ErrClosed is returned once the router, publisher or consumer has been closed. What is returned with it was not sent.
	ErrClosed = errors.New("closed")
	// ErrBufferFull is returned, when FailWhenFull is set, for a message that would exceed the bound of unconfirmed bytes.
	// It was not sent.
	ErrBufferFull = errors.New("too many bytes are unconfirmed")
	// ErrTooLarge is a message that is larger than the bound of unconfirmed bytes by itself.
	ErrTooLarge = errors.New("message too large")
	// ErrNacked is a message that the broker refused: its queue is full (overflow reject-publish), or failed.
	ErrNacked = errors.New("refused by the broker")
	// ErrRefused is a message over which the broker closed the channel: there is no such exchange, no permission, or the
	// message is larger than the broker takes.
	ErrRefused = errors.New("not accepted by the broker")
	// ErrReturned is a message that no queue takes: there is no such queue, or no binding matches its key.
	ErrReturned = errors.New("no queue takes the message")
	// ErrUnknown is a message that was sent and neither confirmed nor refused: it may or may not be in the queue.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNotSent is a message that was not sent before its context ended.
	ErrNotSent = errors.New("not sent")
	// ErrTooManyAttempts is a delivery that was tried as often as MaxAttempts allows.
	ErrTooManyAttempts = errors.New("delivered too often")
)

// BatchError is what PublishBatch returns when not all messages were confirmed.
type BatchError struct {
	// Errors has the result of each message at the index it was given with: nil is confirmed.
	Errors []error
	failed int
}

func (e *BatchError) Error() string {
	for i, err := range e.Errors {
		if err != nil {
			return fmt.Sprintf("%d of %d messages were not confirmed; the first, at %d: %v", e.failed, len(e.Errors), i, err)
		}
	}
	return "no message failed"
}

// Unwrap gives errors.Is and errors.As the errors of all messages.
func (e *BatchError) Unwrap() []error {
	out := make([]error, 0, e.failed)
	for _, err := range e.Errors {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}
