package clienttest

import "fmt"

// Reply codes of AMQP 0-9-1.
const (
	codeNoRoute            = 312
	codeConnectionForced   = 320
	codeAccessRefused      = 403
	codeNotFound           = 404
	codeResourceLocked     = 405
	codePreconditionFailed = 406
	codeFrameError         = 501
	codeSyntaxError        = 502
	codeCommandInvalid     = 503
	codeChannelError       = 504
	codeUnexpectedFrame    = 505
	codeNotAllowed         = 530
	codeNotImplemented     = 540
)

var codeNames = map[uint16]string{
	codeNoRoute: "NO_ROUTE", codeConnectionForced: "CONNECTION_FORCED", codeAccessRefused: "ACCESS_REFUSED",
	codeNotFound: "NOT_FOUND", codeResourceLocked: "RESOURCE_LOCKED", codePreconditionFailed: "PRECONDITION_FAILED",
	codeFrameError: "FRAME_ERROR", codeSyntaxError: "SYNTAX_ERROR", codeCommandInvalid: "COMMAND_INVALID",
	codeChannelError: "CHANNEL_ERROR", codeUnexpectedFrame: "UNEXPECTED_FRAME", codeNotAllowed: "NOT_ALLOWED",
	codeNotImplemented: "NOT_IMPLEMENTED",
}

// amqpError ends a channel, or the connection when it is hard.
type amqpError struct {
	code uint16
	text string
	hard bool
}

// Error implements error.
func (e *amqpError) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

func soft(code uint16, format string, arguments ...any) *amqpError {
	return &amqpError{code: code, text: codeNames[code] + " - " + fmt.Sprintf(format, arguments...)}
}

func hard(code uint16, format string, arguments ...any) *amqpError {
	e := soft(code, format, arguments...)
	e.hard = true
	return e
}

func syntaxError(id methodID) *amqpError {
	return hard(codeSyntaxError, "the arguments of method %d.%d are malformed", id.class(), id.method())
}

func notImplemented(format string, arguments ...any) *amqpError {
	return hard(codeNotImplemented, format, arguments...)
}
