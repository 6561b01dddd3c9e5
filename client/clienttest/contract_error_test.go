package clienttest_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// refusal is something that ends a channel.
type refusal struct {
	name string
	do   func(ch *amqp.Channel) error
	code int
	text string
}

func declare(name string, durable, autoDelete, exclusive bool, args amqp.Table) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, false, args)
		return err
	}
}

func (r *rig) refusals(all []refusal) {
	r.Helper()
	for _, each := range all {
		r.Run(each.name, func(t *testing.T) {
			inner := *r
			inner.T = t
			inner.wantError(inner.refused(each.do), each.code, each.text)
		})
	}
}

var errorClauses = []clause{
	{"queues that are not there", func(r *rig) {
		const missing = "NOT_FOUND - no queue 'nope' in vhost '/'"
		r.refusals([]refusal{
			{"passive", func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclarePassive("nope", true, false, false, false, nil)
				return err
			}, 404, missing},
			{"consume", func(ch *amqp.Channel) error {
				_, err := ch.Consume("nope", "", false, false, false, false, nil)
				return err
			}, 404, missing},
			{"get", func(ch *amqp.Channel) error { _, _, err := ch.Get("nope", false); return err }, 404, missing},
			{"purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge("nope", false); return err }, 404, missing},
			{"bind", func(ch *amqp.Channel) error { return ch.QueueBind("nope", "k", "amq.direct", false, nil) }, 404, missing},
		})
		_, err := r.ch.QueueDelete("nope", false, false, false)
		r.must(err)
	}},
	{"exchanges that are not there", func(r *rig) {
		q := r.queue("q", "classic", nil)
		const missing = "NOT_FOUND - no exchange 'nope' in vhost '/'"
		r.refusals([]refusal{
			{"passive", func(ch *amqp.Channel) error {
				return ch.ExchangeDeclarePassive("nope", "direct", true, false, false, false, nil)
			}, 404, missing},
			{"publish", func(ch *amqp.Channel) error {
				return ch.Publish("nope", "k", false, false, amqp.Publishing{Body: []byte("x")})
			}, 404, missing},
			{"bind", func(ch *amqp.Channel) error { return ch.QueueBind(q, "k", "nope", false, nil) }, 404, missing},
		})
		r.must(r.ch.ExchangeDelete("nope", false, false))
		r.must(r.ch.QueueUnbind(q, "k", "amq.direct", nil))
	}},
	{"declarations of queues", func(r *rig) {
		q := r.queue("q", "classic", nil)
		quorum := amqp.Table{"x-queue-type": "quorum"}
		n := r.name("no")
		r.refusals([]refusal{
			{"reserved", declare("amq.foo", true, false, false, nil), 403, "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"},
			{"argument", declare(q, true, false, false, amqp.Table{"x-max-length": int64(3)}), 406,
				"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '" + q + "' in vhost '/': received the value '3' of type 'long' but current is none"},
			{"auto-delete", declare(q, true, true, false, nil), 406,
				"PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '" + q + "' in vhost '/': received 'true' but current is 'false'"},
			{"durable", declare(q, false, false, false, nil), 406,
				"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '" + q + "' in vhost '/': received 'false' but current is 'true'"},
			{"type", declare(q, true, false, false, quorum), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '" + q + "' in vhost '/': received "},
			{"exclusive", declare(q, true, false, true, nil), 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + q + "' in vhost '/'"},
			{"transient quorum", declare(n, false, false, false, quorum), 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue '" + n + "' in vhost '/'"},
			{"exclusive quorum", declare(n, true, false, true, quorum), 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue '" + n + "' in vhost '/'"},
			{"bad type", declare(n, true, false, false, amqp.Table{"x-queue-type": "nope"}), 406, "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '" + n + "' in vhost '/': \"unsupported queue type 'nope'\""},
			{"bad number", declare(n, true, false, false, amqp.Table{"x-message-ttl": "x"}), 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '" + n + "' in vhost '/': \"expected integer, got longstr\""},
			{"negative", declare(n, true, false, false, amqp.Table{"x-max-length": int64(-1)}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue '" + n + "' in vhost '/': {value_negative,-1}"},
			{"overflow", declare(n, true, false, false, amqp.Table{"x-overflow": "nope"}), 406, "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue '" + n + "' in vhost '/': invalid_overflow"},
			{"key without exchange", declare(n, true, false, false, amqp.Table{"x-dead-letter-routing-key": "k"}), 406, "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '" + n + "' in vhost '/': routing_key_but_no_dlx_defined"},
			{"classic with limit", declare(n, true, false, false, amqp.Table{"x-delivery-limit": int64(3)}), 406, "PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue '" + n + "' in vhost '/' of queue type rabbit_classic_queue"},
			{"quorum with priority", declare(n, true, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-priority": int64(3)}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '" + n + "' in vhost '/' of queue type rabbit_quorum_queue"},
		})
		r.must(declare(q, true, false, false, amqp.Table{"x-queue-type": "classic", "x-unknown": "x"})(r.ch))
	}},
	{"deletion of queues", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.publish(q, "a", "b")
		r.consume(r.channel(), r.queue("used", "classic", nil), "")
		used := r.name("used")
		r.refusals([]refusal{
			{"not empty", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, true, false); return err }, 406, "PRECONDITION_FAILED - queue '" + q + "' in vhost '/' not empty"},
			{"in use", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(used, true, false, false); return err }, 406, "PRECONDITION_FAILED - queue '" + used + "' in vhost '/' in use"},
		})
		n, err := r.ch.QueuePurge(q, false)
		r.must(err)
		r.want("purged", n, 2)
		r.publish(q, "c")
		n, err = r.ch.QueueDelete(q, false, false, false)
		r.must(err)
		r.want("deleted", n, 1)
	}},
	{"exchanges", func(r *rig) {
		r.refusals([]refusal{
			{"reserved", func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare("amq.foo", "direct", true, false, false, false, nil)
			}, 403, "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"},
			{"type", func(ch *amqp.Channel) error { return ch.ExchangeDeclare("foo", "nope", true, false, false, false, nil) }, line(r, 503, 406), "unknown exchange type 'nope'"},
			{"other type", func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare("amq.direct", "topic", true, false, false, false, nil)
			}, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'topic' but current is 'direct'"},
			{"other durable", func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare("amq.direct", "direct", false, false, false, false, nil)
			}, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true'"},
			{"declare default", func(ch *amqp.Channel) error { return ch.ExchangeDeclare("", "direct", true, false, false, false, nil) }, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
			{"delete system", func(ch *amqp.Channel) error { return ch.ExchangeDelete("amq.direct", false, false) }, 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"},
			{"bind default", func(ch *amqp.Channel) error { return ch.QueueBind("x", "k", "", false, nil) }, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
			{"internal", func(ch *amqp.Channel) error {
				name := r.name("x")
				if err := ch.ExchangeDeclare(name, "direct", false, true, true, false, nil); err != nil {
					return err
				}
				r.forget(func(ch *amqp.Channel) { _ = ch.ExchangeDelete(name, false, false) })
				return ch.Publish(name, "k", false, false, amqp.Publishing{})
			}, 403, "ACCESS_REFUSED - cannot publish to internal exchange"},
		})
	}},
	{"publishes and consumers", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.refusals([]refusal{
			{"immediate", func(ch *amqp.Channel) error { return ch.Publish("", "k", false, true, amqp.Publishing{}) }, 540, "NOT_IMPLEMENTED - immediate=true"},
			{"user", func(ch *amqp.Channel) error { return ch.Publish("", "k", false, false, amqp.Publishing{UserId: "x"}) }, 406, "PRECONDITION_FAILED - user_id property set to 'x' but authenticated user was '"},
			{"expiration", func(ch *amqp.Channel) error {
				return ch.Publish("", "k", false, false, amqp.Publishing{Expiration: "x"})
			}, 406, "PRECONDITION_FAILED - invalid expiration 'x': no_integer"},
			{"prefetch size", func(ch *amqp.Channel) error { return ch.Qos(10, 10, false) }, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)"},
			{"same tag", func(ch *amqp.Channel) error {
				if _, err := ch.Consume(q, "t", false, false, false, false, nil); err != nil {
					return err
				}
				_, err := ch.Consume(q, "t", false, false, false, false, nil)
				return err
			}, 530, "NOT_ALLOWED - attempt to reuse consumer tag 't'"},
		})
	}},
	{"an exclusive queue is for its connection", func(r *rig) {
		q, err := r.ch.QueueDeclare(r.name("q"), false, false, true, false, nil)
		r.must(err)
		locked := "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + q.Name + "' in vhost '/'"
		r.refusals([]refusal{
			{"declare", declare(q.Name, false, false, true, nil), 405, locked},
			{"consume", func(ch *amqp.Channel) error {
				_, err := ch.Consume(q.Name, "", false, false, false, false, nil)
				return err
			}, 405, locked},
			{"get", func(ch *amqp.Channel) error { _, _, err := ch.Get(q.Name, false); return err }, 405, locked},
			{"delete", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q.Name, false, false, false); return err }, 405, locked},
		})
		r.must(r.conn.Close())
		r.conn = r.dial()
		deadline := time.Now().Add(patience)
		for { // the broker deletes it after it has answered
			ch := r.channel()
			_, err := ch.QueueDeclarePassive(q.Name, false, false, true, false, nil)
			if refusal := (*amqp.Error)(nil); errors.As(err, &refusal) && refusal.Code == 404 {
				return
			}
			if time.Now().After(deadline) {
				r.Fatalf("got %v, want 404", err)
			}
			_ = ch.Close()
		}
	}},
}
