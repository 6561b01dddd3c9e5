package clienttest_test

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// refusedDial changes the address and wants the dial to fail.
func (r *rig) refusedDial(change func(*amqp.URI)) *amqp.Error {
	r.Helper()
	uri, err := amqp.ParseURI(r.subject.url)
	r.must(err)
	change(&uri)
	c, err := amqp.Dial(uri.String())
	if err == nil {
		_ = c.Close()
		r.Fatal("the dial succeeded")
	}
	var refusal *amqp.Error
	if !errors.As(err, &refusal) {
		r.Fatalf("got %v", err)
	}
	return refusal
}

var connectionClauses = []clause{
	{"a wrong password", func(r *rig) {
		r.wantError(r.refusedDial(func(u *amqp.URI) { u.Password = "wrong" }), 403, "username or password not allowed")
	}},
	{"an unknown vhost", func(r *rig) {
		r.wantError(r.refusedDial(func(u *amqp.URI) { u.Vhost = "nope" }), 530, "NOT_ALLOWED - vhost nope not found")
	}},
	{"what the server offers", func(r *rig) {
		capabilities, _ := r.conn.Properties["capabilities"].(amqp.Table)
		for _, name := range []string{"authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify",
			"exchange_exchange_bindings", "per_consumer_qos", "publisher_confirms"} {
			r.want(name, capabilities[name], true)
		}
		r.want("product", r.conn.Properties["product"], "RabbitMQ")
		r.want("frame size", r.conn.Config.FrameSize, 131072)
		r.want("channels", r.conn.Config.ChannelMax, uint16(2047))
	}},
	{"an error ends one channel, not the others", func(r *rig) {
		other := r.channel()
		closed := other.NotifyClose(make(chan *amqp.Error, 1))
		r.must(other.Ack(1, false))
		r.wantError(receive(r, closed), 406, "unknown delivery tag 1")
		r.must(r.ch.Qos(1, 0, false))
		r.must(r.channel().Qos(1, 0, false))
	}},
	{"an operator closes connections", func(r *rig) {
		closed := r.conn.NotifyClose(make(chan *amqp.Error, 1))
		r.subject.closeIt(r.T)
		r.wantError(receive(r, closed), 320, "CONNECTION_FORCED - maintenance")
	}},
	{"an alarm blocks publishers and nobody else", func(r *rig) {
		q := r.queue("q", "classic", nil)
		consumer := r.dial()
		consumerBlocked := consumer.NotifyBlocked(make(chan amqp.Blocking, 4))
		consumerChannel, err := consumer.Channel()
		r.must(err)
		deliveries := r.consume(consumerChannel, q, "")

		earlier := r.conn // has published before the alarm
		earlierBlocked := earlier.NotifyBlocked(make(chan amqp.Blocking, 4))
		r.must(r.ch.PublishWithContext(r.Context(), "", q, false, false, amqp.Publishing{Body: []byte("1")}))
		r.must(receive(r, deliveries).Ack(false))

		later := r.dial() // begins to publish under the alarm
		laterBlocked := later.NotifyBlocked(make(chan amqp.Blocking, 4))
		laterChannel, err := later.Channel()
		r.must(err)
		r.must(laterChannel.Confirm(false))

		r.subject.block(r.T)
		unblocked := false
		defer func() {
			if !unblocked {
				r.subject.unblock(r.T)
			}
		}()
		r.must(r.ch.Qos(5, 0, false)) // does not publish now, and is served
		r.want("earlier, before it publishes again", len(earlierBlocked), 0)
		r.must(r.ch.PublishWithContext(r.Context(), "", q, false, false, amqp.Publishing{Body: []byte("2")}))
		b := receive(r, earlierBlocked)
		r.want("earlier", []any{b.Active, b.Reason}, []any{true, "low on memory"})
		r.must(laterChannel.Qos(5, 0, false)) // has not published, and is served
		r.want("later, before it publishes", len(laterBlocked), 0)
		d, err := laterChannel.PublishWithDeferredConfirm("", q, false, false, amqp.Publishing{Body: []byte("3")})
		r.must(err)
		b = receive(r, laterBlocked)
		r.want("later", []any{b.Active, b.Reason}, []any{true, "low on memory"})
		r.must(consumerChannel.Qos(5, 0, false))
		r.want("consumer", len(consumerBlocked), 0)
		r.want("confirmed under the alarm", d.Acked(), false)

		r.subject.unblock(r.T)
		unblocked = true
		r.want("earlier, active", receive(r, earlierBlocked).Active, false)
		r.want("later, active", receive(r, laterBlocked).Active, false)
		r.want("confirmed", r.confirmed(d), true)
		r.receive(2, deliveries)
	}},
}
