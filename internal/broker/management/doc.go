// Package management speaks RabbitMQ's management HTTP API and turns it into the words of package broker.
//
// Its promises: every call ends by its context and by its own time limit; names travel escaped exactly once or
// are refused; an answer is the broker's own or an error of kind Unavailable; a listing is complete or an error;
// what the broker did not say is nil, not zero. docs/design/management-adapter.md has the measurements behind it.
package management
