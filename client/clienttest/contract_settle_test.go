package clienttest_test

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

var limited = amqp.Table{"x-delivery-limit": int64(50)}

// take gets the first n of six messages over a channel whose consumer is then cancelled.
func (r *rig) take(q string, n int) (*amqp.Channel, []amqp.Delivery) {
	r.Helper()
	r.publish(q, "1", "2", "3", "4", "5", "6")
	ch := r.channel()
	r.must(ch.Qos(n, 0, false))
	taken := r.receive(n, r.consume(ch, q, "t"))
	r.must(ch.Cancel("t", false))
	return ch, taken
}

// order requeues with do, in a new queue, and tells in what order the messages come then. left are ready after it.
func (r *rig) order(kind string, args amqp.Table, left int, do func(ch *amqp.Channel, taken []amqp.Delivery)) string {
	r.Helper()
	r.orders++
	q := r.queue(fmt.Sprint(kind, r.orders), kind, args)
	ch, taken := r.take(q, 4)
	do(ch, taken)
	return r.drain(q, left)
}

func (r *rig) nacks(tags ...int) func(*amqp.Channel, []amqp.Delivery) {
	return func(_ *amqp.Channel, taken []amqp.Delivery) {
		for _, tag := range tags {
			r.must(taken[tag-1].Nack(false, true))
		}
	}
}

func (r *rig) rejects(tags ...int) func(*amqp.Channel, []amqp.Delivery) {
	return func(_ *amqp.Channel, taken []amqp.Delivery) {
		for _, tag := range tags {
			r.must(taken[tag-1].Reject(true))
		}
	}
}

// counted is what a delivery tells of those before it.
type counted struct {
	redelivered         bool
	delivered, acquired any
}

// again closes the channel and tells which n messages come again.
func (r *rig) again(q string, ch *amqp.Channel, n int) string {
	r.Helper()
	r.must(ch.Qos(1, 0, false)) // the acks are in
	r.must(ch.Close())
	r.awaitReady(q, n)
	return r.drain(q, n)
}

var settleClauses = []clause{
	{"classic requeues near the old place", func(r *rig) {
		r.want("nack 3 1", r.order("classic", nil, 4, r.nacks(3, 1)), "1 3 5 6")
		r.want("reject 3 1", r.order("classic", nil, 4, r.rejects(3, 1)), "1 3 5 6")
	}},
	{"quorum with a limit requeues at the head", func(r *rig) {
		r.want("nack 3 1", r.order("quorum", limited, 4, r.nacks(3, 1)), "3 1 5 6")
		r.want("reject 3 1", r.order("quorum", limited, 4, r.rejects(3, 1)), "3 1 5 6")
	}},
	{"quorum without a limit requeues by line", func(r *rig) {
		r.want("nack 3 1", r.order("quorum", nil, 4, r.nacks(3, 1)), line(r, "5 6 3 1", "3 1 5 6"))
		r.want("reject 3 1", r.order("quorum", nil, 4, r.rejects(3, 1)), line(r, "5 6 3 1", "3 1 5 6"))
	}},
	{"nack multiple keeps the order", func(r *rig) {
		multiple := func(_ *amqp.Channel, taken []amqp.Delivery) { r.must(taken[2].Nack(true, true)) }
		r.want("classic", r.order("classic", nil, 5, multiple), "1 2 3 5 6")
		r.want("quorum", r.order("quorum", limited, 5, multiple), "1 2 3 5 6")
		r.want("quorum without a limit", r.order("quorum", nil, 5, multiple), line(r, "5 6 1 2 3", "1 2 3 5 6"))
	}},
	{"the end of a channel gives back in order", func(r *rig) {
		end := func(ch *amqp.Channel, _ []amqp.Delivery) { r.must(ch.Close()) }
		r.want("classic", r.order("classic", nil, 6, end), "1 2 3 4 5 6")
		r.want("quorum", r.order("quorum", limited, 6, end), "1 2 3 4 5 6")
		r.want("quorum without a limit", r.order("quorum", nil, 6, end), "1 2 3 4 5 6")
	}},
	{"redelivered, and the counters of quorum queues", func(r *rig) {
		for _, kind := range kinds {
			q := r.queue(kind, kind, nil)
			r.publish(q, "m")
			ch := r.channel()
			deliveries := r.consume(ch, q, "")
			var got []counted
			next := func() amqp.Delivery {
				d := receive(r, deliveries)
				got = append(got, counted{d.Redelivered, d.Headers["x-delivery-count"], d.Headers["x-acquired-count"]})
				return d
			}
			r.must(next().Nack(false, true))
			r.must(next().Nack(false, true))
			r.must(next().Reject(true))
			next()
			r.must(ch.Close())
			ch = r.channel()
			deliveries = r.consume(ch, q, "")
			next()
			r.must(ch.Close())
			r.want(kind, got, map[string][]counted{
				"classic": {{false, nil, nil}, {true, nil, nil}, {true, nil, nil}, {true, nil, nil}, {true, nil, nil}},
				"quorum": line(r,
					[]counted{{false, nil, nil}, {true, int64(1), nil}, {true, int64(2), nil}, {true, int64(3), nil}, {true, int64(4), nil}},
					[]counted{{false, nil, nil}, {true, nil, int64(1)}, {true, nil, int64(2)}, {true, int64(1), int64(3)}, {true, int64(2), int64(4)}}),
			}[kind])
		}
	}},
	{"get counts from zero by line", func(r *rig) {
		q := r.queue("q", "quorum", nil)
		r.publish(q, "m")
		d, ok, err := r.ch.Get(q, false)
		r.must(err)
		r.want("counters", []any{ok, d.Headers["x-delivery-count"], d.Headers["x-acquired-count"]}, []any{true, line[any](r, int64(0), nil), nil})
	}},
	{"a lost connection counts", func(r *rig) {
		q := r.queue("q", "quorum", nil)
		r.publish(q, "m")
		c := r.dial()
		ch, err := c.Channel()
		r.must(err)
		receive(r, r.consume(ch, q, ""))
		r.must(c.Close())
		d := receive(r, r.consume(r.ch, q, ""))
		r.want("counters", counted{d.Redelivered, d.Headers["x-delivery-count"], d.Headers["x-acquired-count"]},
			line(r, counted{true, int64(1), nil}, counted{true, int64(1), int64(1)}))
	}},
	{"ack multiple settles what is open below", func(r *rig) {
		for _, kind := range kinds {
			q := r.queue(kind, kind, nil)
			ch, taken := r.take(q, 6)
			r.must(taken[1].Ack(false))
			r.must(taken[3].Ack(true)) // passes over the second, which is settled
			r.want(kind, r.again(q, ch, 2), "5 6")
		}
	}},
	{"ack multiple of tag 0 settles all, also none", func(r *rig) {
		q := r.queue("q", "classic", nil)
		ch, _ := r.take(q, 6)
		r.must(ch.Ack(0, true))
		r.must(ch.Ack(0, true))
		r.must(ch.Qos(1, 0, false))
		r.must(ch.Close())
		r.awaitReady(q, 0)
	}},
	{"a tag is settled once", func(r *rig) {
		q := r.queue("q", "classic", nil)
		for name, again := range map[string]func(d amqp.Delivery) error{
			"ack":          func(d amqp.Delivery) error { return d.Ack(false) },
			"ack multiple": func(d amqp.Delivery) error { return d.Ack(true) },
			"nack":         func(d amqp.Delivery) error { return d.Nack(false, true) },
			"reject":       func(d amqp.Delivery) error { return d.Reject(true) },
		} {
			r.publish(q, name)
			r.wantError(r.refused(func(ch *amqp.Channel) error {
				d := receive(r, r.consume(ch, q, ""))
				r.must(d.Ack(false))
				return again(d)
			}), 406, "PRECONDITION_FAILED - unknown delivery tag 1")
		}
	}},
	{"recover gives all back", func(r *rig) {
		q := r.queue("q", "classic", nil)
		ch, _ := r.take(q, 3)
		r.must(ch.Recover(true)) //nolint:staticcheck // deprecated, and still answered
		r.want("order", r.drain(q, 6), "1 2 3 4 5 6")
	}},
	{"tags count from 1 on each channel, together for its consumers", func(r *rig) {
		a, b := r.queue("a", "classic", nil), r.queue("b", "classic", nil)
		for range 2 {
			r.publish(a, "x")
			r.publish(b, "x")
			ch := r.channel()
			one := receive(r, r.consume(ch, a, "")).DeliveryTag
			two := receive(r, r.consume(ch, b, "")).DeliveryTag
			r.want("tags", []uint64{one, two}, []uint64{1, 2})
			r.must(ch.Ack(0, true))
			r.must(ch.Qos(1, 0, false))
			r.must(ch.Close())
		}
	}},
	{"unknown tags close the channel", func(r *rig) {
		for name, do := range map[string]func(ch *amqp.Channel) error{
			"ack":          func(ch *amqp.Channel) error { return ch.Ack(7, false) },
			"ack multiple": func(ch *amqp.Channel) error { return ch.Ack(7, true) },
			"nack":         func(ch *amqp.Channel) error { return ch.Nack(7, false, true) },
			"reject":       func(ch *amqp.Channel) error { return ch.Reject(7, true) },
		} {
			r.Log(name)
			r.wantError(r.refused(do), 406, "PRECONDITION_FAILED - unknown delivery tag 7")
		}
		r.wantError(r.refused(func(ch *amqp.Channel) error { return ch.Ack(0, false) }), 406, "PRECONDITION_FAILED - unknown delivery tag 0")
	}},
}
