package clienttest_test

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deadLetters declares a source of a kind whose dead letters go to a classic queue.
func (r *rig) deadLetters(suffix, kind string, args amqp.Table) (source, target string) {
	r.Helper()
	target = r.queue(suffix+"-dead", "classic", nil)
	with := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
	for k, v := range args {
		with[k] = v
	}
	return r.queue(suffix, kind, with), target
}

// wantDeath checks the headers of a message that died once.
func (r *rig) wantDeath(d amqp.Delivery, source, reason string, more amqp.Table) {
	r.Helper()
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) != 1 {
		r.Fatalf("x-death is %#v", d.Headers)
	}
	death, _ := deaths[0].(amqp.Table)
	if at, ok := death["time"].(time.Time); !ok || time.Since(at).Abs() > time.Hour {
		r.Errorf("it died at %v", death["time"])
	}
	delete(death, "time")
	want := amqp.Table{"count": int64(1), "reason": reason, "queue": source, "exchange": "", "routing-keys": []any{source}}
	for k, v := range more {
		want[k] = v
	}
	r.want("x-death", death, want)
	for _, prefix := range line(r, []string{"x-first-death"}, []string{"x-first-death", "x-last-death"}) {
		r.want(prefix, []any{d.Headers[prefix+"-reason"], d.Headers[prefix+"-queue"], d.Headers[prefix+"-exchange"]}, []any{reason, source, ""})
	}
	_, last := d.Headers["x-last-death-reason"]
	r.want("x-last-death", last, !r.subject.old)
	r.want("routing", []any{d.Exchange, d.RoutingKey != source, d.Expiration}, []any{"", true, ""})
}

// deliveriesUntilDead settles each delivery with settle and counts them, until the dead letter comes or max is reached.
func (r *rig) deliveriesUntilDead(source, target string, max int, settle func(amqp.Delivery) error) (int, *amqp.Delivery) {
	r.Helper()
	ch := r.channel()
	defer ch.Close()
	r.must(ch.Qos(1, 0, false))
	alive, dead := r.consume(ch, source, ""), r.consume(ch, target, "")
	for n := 0; ; {
		select {
		case d := <-alive:
			if n++; n == max {
				r.must(d.Ack(false))
				r.must(ch.Qos(1, 0, false))
				return n, nil
			}
			r.must(settle(d))
		case d := <-dead:
			r.must(d.Ack(false))
			r.must(ch.Qos(1, 0, false))
			return n, &d
		case <-time.After(patience):
			r.Fatalf("neither another delivery nor a dead letter after %d", n)
		}
	}
}

func reject(d amqp.Delivery) error { return d.Reject(true) }
func nack(d amqp.Delivery) error   { return d.Nack(false, true) }

var limitClauses = []clause{
	{"delivery limit counts rejects", func(r *rig) {
		source, target := r.deadLetters("q", "quorum", amqp.Table{"x-delivery-limit": int64(2)})
		r.publish(source, "m")
		n, dead := r.deliveriesUntilDead(source, target, 10, reject)
		r.want("deliveries", n, 3)
		if dead == nil {
			r.Fatal("not dead-lettered")
		}
		r.wantDeath(*dead, source, "delivery_limit", nil)
	}},
	{"delivery limit counts nacks by line", func(r *rig) {
		source, target := r.deadLetters("q", "quorum", amqp.Table{"x-delivery-limit": int64(2)})
		r.publish(source, "m")
		n, dead := r.deliveriesUntilDead(source, target, 10, nack)
		r.want("deliveries", n, line(r, 3, 10))
		r.want("dead", dead != nil, r.subject.old)
	}},
	{"the default delivery limit is none or 20 by line", func(r *rig) {
		source, target := r.deadLetters("q", "quorum", nil)
		r.publish(source, "m")
		n, dead := r.deliveriesUntilDead(source, target, 30, reject)
		r.want("deliveries", n, line(r, 30, 21))
		r.want("dead", dead != nil, !r.subject.old)
	}},
	{"without a dead letter exchange the limit drops", func(r *rig) {
		q := r.queue("q", "quorum", amqp.Table{"x-delivery-limit": int64(1)})
		r.publish(q, "m", "n")
		r.must(r.ch.Qos(1, 0, false))
		deliveries := r.consume(r.ch, q, "")
		var got []amqp.Delivery
		for range 3 {
			d := receive(r, deliveries)
			got = append(got, d)
			if string(d.Body) == "m" {
				r.must(d.Reject(true))
			}
		}
		r.want("deliveries", bodies(got), "m m n")
	}},
	{"rejects for good die", func(r *rig) {
		for _, kind := range kinds {
			source, target := r.deadLetters(kind, kind, nil)
			r.publish(source, "a", "b")
			ch := r.channel()
			taken := r.receive(2, r.consume(ch, source, ""))
			r.must(taken[0].Reject(false))
			r.must(taken[1].Nack(false, false))
			r.awaitReady(target, 2)
			for _, d := range r.receive(2, r.consume(ch, target, "")) {
				r.wantDeath(d, source, "rejected", nil)
				if r.subject.old { // 4.3 sets the flag for some and not for others
					r.want("redelivered", d.Redelivered, false)
				}
			}
			r.must(ch.Close())
		}
	}},
	{"dead letters to waiting consumers are redelivered by kind of queue", func(r *rig) {
		for _, kind := range kinds {
			target := r.queue(kind+"-dead", kind, nil)
			source := r.queue(kind, "classic", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target})
			dead := r.consume(r.ch, target, "")
			r.publish(source, "a")
			r.must(receive(r, r.consume(r.ch, source, "")).Reject(false))
			r.want(kind, receive(r, dead).Redelivered, !r.subject.old && kind == "quorum")
		}
	}},
	{"a second death of the same kind is counted", func(r *rig) {
		source, target := r.deadLetters("q", "classic", nil)
		r.publish(source, "a")
		from, to := r.consume(r.ch, source, ""), r.consume(r.ch, target, "")
		r.must(receive(r, from).Reject(false))
		d := receive(r, to)
		r.must(r.ch.PublishWithContext(r.Context(), "", source, false, false, amqp.Publishing{Headers: d.Headers, Body: d.Body}))
		r.must(receive(r, from).Reject(false))
		death := receive(r, to).Headers["x-death"].([]any)[0].(amqp.Table)
		// 4.x does not believe what a client says of deaths
		r.want("count", death["count"], line(r, int64(2), int64(1)))
	}},
	{"what expires dies", func(r *rig) {
		for _, kind := range kinds {
			source, target := r.deadLetters(kind, kind, nil)
			dead := r.consume(r.ch, target, "")
			r.must(r.ch.PublishWithContext(r.Context(), "", source, false, false, amqp.Publishing{Expiration: "20", Body: []byte("x")}))
			r.wantDeath(receive(r, dead), source, "expired", amqp.Table{"original-expiration": "20"})
			source, target = r.deadLetters(kind+"-ttl", kind, amqp.Table{"x-message-ttl": int64(20)})
			dead = r.consume(r.ch, target, "")
			r.publish(source, "y")
			d := receive(r, dead)
			r.wantDeath(d, source, "expired", nil)
			r.want("redelivered", d.Redelivered, false)
		}
	}},
	{"what does not fit dies", func(r *rig) {
		for _, kind := range kinds {
			source, target := r.deadLetters(kind, kind, amqp.Table{"x-max-length": int64(1)})
			r.publish(source, "a", "b")
			d := receive(r, r.consume(r.ch, target, ""))
			r.want("body", string(d.Body), "a")
			r.wantDeath(d, source, "maxlen", nil)
		}
	}},
	{"a cycle without a reject drops the message", func(r *rig) {
		q := r.name("q")
		_, err := r.ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-message-ttl": int64(10), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": q})
		r.must(err)
		r.forget(func(ch *amqp.Channel) { _, _ = ch.QueueDelete(q, false, false, false) })
		r.publish(q, "x")
		r.awaitReady(q, 0)
	}},
	{"a time to live of zero delivers or drops", func(r *rig) {
		q := r.queue("q", "classic", amqp.Table{"x-message-ttl": int64(0)})
		r.publish(q, "lost")
		deliveries := r.consume(r.ch, q, "")
		r.publish(q, "kept")
		r.want("body", string(receive(r, deliveries).Body), "kept")
	}},
	{"the consumer timeout closes the channel or cancels, by line", func(r *rig) {
		r.subject.timeout(r.T, time.Second)
		q := r.queue("q", "quorum", nil)
		r.publish(q, "1", "2", "3")
		ch := r.channel()
		r.must(ch.Qos(2, 0, false))
		closed, cancelled := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
		late := r.receive(2, r.consume(ch, q, "t"))
		if r.subject.old {
			r.wantError(receive(r, closed), 406, "timed out. Timeout value used: 1000 ms.")
			r.awaitReady(q, 3)
			return
		}
		r.want("cancelled", receive(r, cancelled), "t")
		r.awaitReady(q, 3)
		r.must(late[0].Ack(false)) // too late, and no error
		r.must(ch.Qos(0, 0, false))
		again := r.receive(3, r.consume(r.ch, q, ""))
		r.want("again", bodies(again), "1 2 3")
		r.want("counters", []any{again[0].Headers["x-delivery-count"], again[0].Headers["x-acquired-count"]}, []any{nil, int64(1)})
	}},
	{"a classic queue knows a consumer timeout by line", func(r *rig) {
		if !r.subject.old {
			return // nothing comes, for ever
		}
		r.subject.timeout(r.T, time.Second)
		q := r.queue("q", "classic", nil)
		r.publish(q, "1")
		ch := r.channel()
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		r.receive(1, r.consume(ch, q, ""))
		r.wantError(receive(r, closed), 406, "PRECONDITION_FAILED - delivery acknowledgement on channel ")
		r.awaitReady(q, 1)
	}},
}
