package clienttest_test

import (
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// exchange declares one that goes with the test.
func (r *rig) exchange(suffix, kind string, args amqp.Table) string {
	r.Helper()
	name := r.name(suffix)
	r.must(r.ch.ExchangeDeclare(name, kind, true, false, false, false, args))
	r.forget(func(ch *amqp.Channel) { _ = ch.ExchangeDelete(name, false, false) })
	return name
}

// reached publishes and tells which of the queues, by suffix, got the message. A fence that is bound to nothing else
// tells when all are there.
func (r *rig) reached(x, key string, headers amqp.Table, queues map[string]string) string {
	r.Helper()
	r.must(r.ch.Confirm(false))
	d, err := r.ch.PublishWithDeferredConfirm(x, key, false, false, amqp.Publishing{Headers: headers})
	r.must(err)
	r.want("acked", r.confirmed(d), true)
	var got []string
	for suffix, q := range queues {
		for {
			_, ok, err := r.ch.Get(q, true)
			r.must(err)
			if !ok {
				break
			}
			got = append(got, suffix)
		}
	}
	slices.Sort(got)
	return strings.Join(got, " ")
}

// bound declares queues that are bound with the key of their name.
func (r *rig) bound(x string, keys map[string]string) map[string]string {
	r.Helper()
	queues := map[string]string{}
	for suffix, key := range keys {
		queues[suffix] = r.queue(suffix, "classic", nil)
		r.must(r.ch.QueueBind(queues[suffix], key, x, false, nil))
	}
	return queues
}

var routeClauses = []clause{
	{"direct", func(r *rig) {
		x := r.exchange("x", "direct", nil)
		queues := r.bound(x, map[string]string{"a": "k", "b": "k", "c": "other"})
		r.want("k", r.reached(x, "k", nil, queues), "a b")
		r.want("none", r.reached(x, "none", nil, queues), "")
		r.must(r.ch.QueueBind(queues["a"], "other", x, false, nil))
		r.must(r.ch.QueueUnbind(queues["a"], "k", x, nil))
		r.want("k after unbind", r.reached(x, "k", nil, queues), "b")
		r.want("other", r.reached(x, "other", nil, queues), "a c")
	}},
	{"fanout, and each queue once", func(r *rig) {
		x := r.exchange("x", "fanout", nil)
		queues := r.bound(x, map[string]string{"a": "1", "b": "2"})
		r.must(r.ch.QueueBind(queues["a"], "3", x, false, nil))
		r.want("any", r.reached(x, "whatever", nil, queues), "a b")
	}},
	{"topic", func(r *rig) {
		x := r.exchange("x", "topic", nil)
		queues := r.bound(x, map[string]string{
			"all": "#", "star": "*", "a-star": "a.*", "a-any": "a.#", "any-c": "#.c", "mid": "a.*.c", "wide": "a.#.c", "plain": "a.b",
		})
		for key, want := range map[string]string{
			"": "all", "a": "a-any all star", "a.b": "a-any a-star all plain", "a.b.c": "a-any all any-c mid wide",
			"a.c": "a-any a-star all any-c wide", "c": "all any-c star", "a.x.y.c": "a-any all any-c wide", "b.b": "all",
		} {
			r.want(key, r.reached(x, key, nil, queues), want)
		}
	}},
	{"headers", func(r *rig) {
		x := r.exchange("x", "headers", nil)
		queues := map[string]string{}
		for suffix, args := range map[string]amqp.Table{
			"all": {"x-match": "all", "a": "1", "b": int64(2)},
			"any": {"x-match": "any", "a": "1", "b": int64(2)},
			"has": {"a": nil},
		} {
			queues[suffix] = r.queue(suffix, "classic", nil)
			r.must(r.ch.QueueBind(queues[suffix], "", x, false, args))
		}
		r.want("both", r.reached(x, "", amqp.Table{"a": "1", "b": int64(2)}, queues), "all any has")
		r.want("one", r.reached(x, "", amqp.Table{"b": int64(2)}, queues), "any")
		r.want("other value", r.reached(x, "", amqp.Table{"a": "3"}, queues), "has")
		r.want("none", r.reached(x, "", nil, queues), "")
	}},
	{"exchange to exchange, and an alternate", func(r *rig) {
		last := r.exchange("last", "fanout", nil)
		middle := r.exchange("middle", "topic", nil)
		first := r.exchange("first", "direct", amqp.Table{"alternate-exchange": last})
		r.must(r.ch.ExchangeBind(middle, "k", first, false, nil))
		queues := r.bound(last, map[string]string{"last": ""})
		queues["middle"] = r.queue("middle", "classic", nil)
		r.must(r.ch.QueueBind(queues["middle"], "#", middle, false, nil))
		r.want("bound", r.reached(first, "k", nil, queues), "middle")
		r.want("alternate", r.reached(first, "other", nil, queues), "last")
		r.must(r.ch.ExchangeUnbind(middle, "k", first, false, nil))
		r.want("unbound", r.reached(first, "k", nil, queues), "last")
	}},
	{"an auto-delete exchange goes with its last binding", func(r *rig) {
		name := r.name("x")
		r.must(r.ch.ExchangeDeclare(name, "direct", true, true, false, false, nil))
		q := r.queue("q", "classic", nil)
		r.must(r.ch.QueueBind(q, "k", name, false, nil))
		r.must(r.ch.QueueUnbind(q, "k", name, nil))
		r.wantError(r.refused(func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(name, "direct", true, true, false, false, nil)
		}), 404, "NOT_FOUND")
	}},
}
