package broker

import (
	"errors"
	"fmt"
)

// ErrorKind says what an error means for the caller: who has to act.
type ErrorKind string

// The kinds of errors.
const (
	// NotFound: the vhost, queue or policy does not exist.
	NotFound ErrorKind = "NotFound"
	// Unauthorized: the broker refused the credentials or the permission. Nothing may be concluded about objects.
	Unauthorized ErrorKind = "Unauthorized"
	// Invalid: the broker understood and refused; asking again without a change is useless.
	Invalid ErrorKind = "Invalid"
	// Unavailable: no answer, a time-out, a 5xx, or an answer that makes no sense. Asking later may help.
	Unavailable ErrorKind = "Unavailable"
)

// Error is an answer of a broker that is not success, or the lack of an answer.
type Error struct {
	Kind ErrorKind
	// Op is what was asked, in words without credentials, as `put policy "a" in vhost "/"`.
	Op string
	// Reason is the broker's own sentence (unescaped), or the transport's.
	Reason string
	Err    error
	// TooSlow: the broker, or a proxy before it, did not answer in time. Asking as often makes it worse.
	TooSlow bool
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Op, e.Reason) }

// Unwrap gives the cause, so that context.DeadlineExceeded and the like can be tested for.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of err, or "" when it is not a broker's error.
func KindOf(err error) ErrorKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// IsNotFound tells whether err says that the thing asked about does not exist.
func IsNotFound(err error) bool { return KindOf(err) == NotFound }

// IsInvalid tells whether err is the broker's refusal of what was asked.
func IsInvalid(err error) bool { return KindOf(err) == Invalid }
