package clienttest_test

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

var kinds = []string{"classic", "quorum"}

var consumeClauses = []clause{
	{"prefetch limits what is unacked", func(r *rig) {
		for _, kind := range kinds {
			q := r.queue(kind, kind, nil)
			r.publish(q, "1", "2", "3", "4", "5")
			ch := r.channel()
			r.must(ch.Qos(3, 0, false))
			deliveries := r.consume(ch, q, "")
			first := r.receive(3, deliveries)
			r.awaitReady(q, 2)
			r.must(first[1].Ack(false))
			r.want("after an ack", bodies(r.receive(1, deliveries)), "4")
			r.awaitReady(q, 1)
			r.must(ch.Close())
		}
	}},
	{"prefetch is for each consumer that comes after it", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.publish(q, "1", "2", "3", "4", "5", "6")
		r.must(r.ch.Qos(2, 0, false))
		a := r.consume(r.ch, q, "a")
		r.must(r.ch.Qos(1, 0, false))
		b := r.consume(r.ch, q, "b")
		r.receive(2, a)
		r.receive(1, b)
		r.awaitReady(q, 3)
	}},
	{"a quorum queue takes no prefetch for 2000", func(r *rig) {
		q := r.queue("q", "quorum", nil)
		ch := r.channel()
		r.must(ch.Confirm(false))
		var last *amqp.DeferredConfirmation
		for range 2100 {
			d, err := ch.PublishWithDeferredConfirm("", q, false, false, amqp.Publishing{Body: []byte("x")})
			r.must(err)
			last = d
		}
		r.confirmed(last)
		r.awaitReady(q, 2100)
		r.receive(2000, r.consume(r.ch, q, ""))
		r.awaitReady(q, 100)
	}},
	{"consumers take turns", func(r *rig) {
		q := r.queue("q", "classic", nil)
		a, b := r.consume(r.ch, q, "a"), r.consume(r.ch, q, "b")
		r.publish(q, "1", "2", "3", "4")
		r.receive(2, a)
		r.receive(2, b)
	}},
	{"a single active consumer gets all until it goes", func(r *rig) {
		q := r.queue("q", "quorum", amqp.Table{"x-single-active-consumer": true})
		a := r.consume(r.ch, q, "a")
		other := r.channel()
		b := r.consume(other, q, "b")
		r.publish(q, "1", "2")
		for _, d := range r.receive(2, a) {
			r.must(d.Ack(false))
		}
		r.must(r.ch.Cancel("a", false))
		r.publish(q, "3")
		r.want("then", bodies(r.receive(1, b)), "3")
	}},
	{"an exclusive consumer is alone", func(r *rig) {
		q := r.queue("q", "classic", nil)
		_, err := r.ch.Consume(q, "", false, true, false, false, nil)
		r.must(err)
		r.wantError(r.refused(func(ch *amqp.Channel) error {
			_, err := ch.Consume(q, "", false, false, false, false, nil)
			return err
		}), 403, "ACCESS_REFUSED - queue '"+q+"' in vhost '/' in exclusive use")
	}},
	{"the server cancels consumers of a deleted queue", func(r *rig) {
		for _, kind := range kinds {
			q := r.queue(kind, kind, nil)
			ch := r.channel()
			cancelled := ch.NotifyCancel(make(chan string, 1))
			deliveries := r.consume(ch, q, "tag-"+kind)
			_, err := r.ch.QueueDelete(q, false, false, false)
			r.must(err)
			r.want("cancelled", receive(r, cancelled), "tag-"+kind)
			if d, open := <-deliveries; open {
				r.Errorf("got %+v", d)
			}
			r.must(ch.Qos(1, 0, false)) // the channel is open
		}
	}},
	{"cancel leaves deliveries unacked", func(r *rig) {
		for _, kind := range kinds {
			q := r.queue(kind, kind, nil)
			r.publish(q, "1")
			ch := r.channel()
			d := receive(r, r.consume(ch, q, "t"))
			r.must(ch.Cancel("t", false))
			r.awaitReady(q, 0)
			r.must(d.Ack(false))
			r.must(ch.Close())
			r.awaitReady(q, 0)
		}
	}},
	{"get counts what is left", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.publish(q, "1", "2")
		d, ok, err := r.ch.Get(q, false)
		r.must(err)
		r.want("first", []any{ok, string(d.Body), d.MessageCount, d.DeliveryTag, d.Redelivered}, []any{true, "1", uint32(1), uint64(1), false})
		_, ok, err = r.ch.Get(q, true)
		r.must(err)
		r.want("second", ok, true)
		_, ok, err = r.ch.Get(q, true)
		r.must(err)
		r.want("third", ok, false)
	}},
	{"without acks nothing is unacked", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.publish(q, "1", "2")
		deliveries, err := r.ch.Consume(q, "t", true, false, false, false, nil)
		r.must(err)
		r.receive(2, deliveries)
		r.wantError(r.refused(func(ch *amqp.Channel) error {
			r.publish(q, "3")
			if _, _, err := ch.Get(q, true); err != nil {
				return err
			}
			return ch.Ack(1, false)
		}), 406, "PRECONDITION_FAILED - unknown delivery tag 1")
	}},
	{"names are made by the server", func(r *rig) {
		q, err := r.ch.QueueDeclare("", false, false, true, false, nil)
		r.must(err)
		r.want("prefix", strings.HasPrefix(q.Name, "amq.gen-"), true)
		r.must(r.ch.Qos(1, 0, false))
		ch := r.channel()
		_ = ch.PublishWithContext(r.Context(), "", q.Name, false, false, amqp.Publishing{Body: []byte("x")})
		d := receive(r, r.consume(ch, q.Name, ""))
		r.want("tag given", d.ConsumerTag != "", true)
	}},
	{"an auto-delete queue goes with its last consumer", func(r *rig) {
		q, err := r.ch.QueueDeclare(r.name("q"), true, true, false, false, nil)
		r.must(err)
		r.consume(r.ch, q.Name, "a")
		r.consume(r.ch, q.Name, "b")
		r.must(r.ch.Cancel("a", false))
		_, err = r.ch.QueueDeclarePassive(q.Name, true, true, false, false, nil)
		r.must(err)
		r.must(r.ch.Cancel("b", false))
		r.wantError(r.refused(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(q.Name, true, true, false, false, nil)
			return err
		}), 404, "NOT_FOUND")
	}},
}
