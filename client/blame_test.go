package warren

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestTheOldestMessageThatTheBrokersWordsFitIsToBlame(t *testing.T) {
	unit := func(exchange string, bytes int) sent {
		m := Message{Queue: "q"}
		if exchange != "" {
			m = Message{Exchange: exchange, Key: "k"}
		}
		return sent{one: &Confirmation{m: m}, bytes: bytes}
	}
	unknown := []sent{unit("", 10), unit("a", 20), unit("b", 30), unit("a", 30), unit("", 40)}
	for _, c := range []struct {
		code int
		text string
		want int
	}{
		{404, "NOT_FOUND - no exchange 'a' in vhost '/'", 1},
		{404, "NOT_FOUND - no exchange 'b' in vhost '/'", 2},
		{404, "NOT_FOUND - no exchange 'c' in vhost '/'", -1},
		{403, "ACCESS_REFUSED - write access to exchange 'b' in vhost '/' refused for user 'u'", 2},
		{403, "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'u'", 0},
		{403, "ACCESS_REFUSED - write access to topic 'k' in exchange 'b' in vhost '/' refused for user 'u'", -1},
		{406, "PRECONDITION_FAILED - message size 30 is larger than configured max size 25", 2},
		{406, "PRECONDITION_FAILED - message size 3 is larger than configured max size 2", -1},
		{406, "PRECONDITION_FAILED - invalid expiration", -1},
	} {
		if got := blamed(&amqp.Error{Code: c.code, Reason: c.text, Server: true}, unknown); got != c.want {
			t.Errorf("%s: got %d, want %d", c.text, got, c.want)
		}
	}
}

func TestOnlyTheBrokersOwnRefusalsBlameAMessage(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&amqp.Error{Code: 404, Server: true}, true},
		{&amqp.Error{Code: 406, Server: true}, true},
		{&amqp.Error{Code: 404}, false},
		{&amqp.Error{Code: 320, Server: true}, false},
		{errors.New("EOF"), false},
		{nil, false},
	} {
		if got := refusal(c.err) != nil; got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
