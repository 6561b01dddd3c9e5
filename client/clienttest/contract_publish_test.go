package clienttest_test

import (
	"bytes"
	"reflect"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var confirmClauses = []clause{
	{"confirm of routed and unroutable", func(r *rig) {
		r.want("acked", r.publish(r.queue("q", "classic", nil), "a", "b"), []bool{true, true})
		r.want("acked without a queue", r.publish(r.name("nowhere"), "a"), []bool{true})
	}},
	{"confirms count from 1 on each channel", func(r *rig) {
		for range 2 {
			ch := r.channel()
			r.must(ch.Confirm(false))
			confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 2))
			for want := uint64(1); want <= 2; want++ {
				r.must(ch.PublishWithContext(r.Context(), "", r.name("nowhere"), false, false, amqp.Publishing{}))
				r.want("confirm", receive(r, confirms), amqp.Confirmation{DeliveryTag: want, Ack: true})
			}
		}
	}},
	{"return comes before its confirm", func(r *rig) {
		r.must(r.ch.Confirm(false))
		const n = 50
		returns := r.ch.NotifyReturn(make(chan amqp.Return, n))
		confirms := r.ch.NotifyPublish(make(chan amqp.Confirmation, n))
		for i := range n {
			r.must(r.ch.PublishWithContext(r.Context(), "", r.name("nowhere"), true, false, amqp.Publishing{MessageId: strconv.Itoa(i + 1), Body: []byte("x")}))
		}
		seen := map[string]bool{}
		for range n {
			confirm := receive(r, confirms)
			for len(returns) > 0 {
				back := <-returns
				r.want("return", []any{back.ReplyCode, back.ReplyText, back.RoutingKey}, []any{uint16(312), "NO_ROUTE", r.name("nowhere")})
				seen[back.MessageId] = true
			}
			if !confirm.Ack || !seen[strconv.FormatUint(confirm.DeliveryTag, 10)] {
				r.Fatalf("confirm %+v, and its return has not come", confirm)
			}
		}
	}},
	{"mandatory and routed is not returned", func(r *rig) {
		q := r.queue("q", "classic", nil)
		r.must(r.ch.Confirm(false))
		returns := r.ch.NotifyReturn(make(chan amqp.Return, 1))
		d, err := r.ch.PublishWithDeferredConfirm("", q, true, false, amqp.Publishing{})
		r.must(err)
		r.want("acked", r.confirmed(d), true)
		r.want("returns", len(returns), 0)
	}},
	{"classic reject-publish nacks what is too much", func(r *rig) {
		q := r.queue("q", "classic", amqp.Table{"x-max-length": int64(2), "x-overflow": "reject-publish"})
		r.want("acked", r.publish(q, "1", "2", "3", "4"), []bool{true, true, false, false})
		r.want("kept", r.drain(q, 2), "1 2")
		r.want("acked after room", r.publish(q, "5"), []bool{true})
	}},
	{"quorum reject-publish nacks in the end", func(r *rig) {
		q := r.queue("q", "quorum", amqp.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
		for range 200 {
			if !r.publish(q, "x")[0] {
				return
			}
		}
		r.Error("no publish was nacked")
	}},
	{"drop-head drops the oldest", func(r *rig) {
		for _, kind := range []string{"classic", "quorum"} {
			q := r.queue(kind, kind, amqp.Table{"x-max-length": int64(2)})
			r.want("acked", r.publish(q, "1", "2", "3"), []bool{true, true, true})
			r.want(kind, r.drain(q, 2), "2 3")
		}
	}},
	{"drop-head by bytes", func(r *rig) {
		q := r.queue("q", "classic", amqp.Table{"x-max-length-bytes": int64(5)})
		r.publish(q, "aa", "bb", "cc")
		r.want("kept", r.drain(q, 2), "bb cc")
	}},
	{"all properties and kinds of headers", func(r *rig) {
		q := r.queue("q", "classic", nil)
		sent := amqp.Publishing{
			ContentType: "text/plain", ContentEncoding: "x", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r",
			Expiration: "600000", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t", AppId: "a", Body: []byte("b"),
			Headers: amqp.Table{
				"bool": true, "int8": int8(-1), "uint8": byte(200), "int16": int16(-300), "int32": int32(-70000), "int64": int64(-1 << 40),
				"float32": float32(1.5), "float64": 2.25, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "s",
				"bytes": []byte{0, 1}, "time": time.Unix(1600000000, 0), "nil": nil,
				"table": amqp.Table{"inner": amqp.Table{"x": int64(1)}}, "array": []any{int64(1), "two", amqp.Table{"three": int32(3)}},
			},
		}
		r.must(r.ch.PublishWithContext(r.Context(), "", q, false, false, sent))
		got := receive(r, r.consume(r.ch, q, ""))
		back := amqp.Publishing{
			ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, DeliveryMode: got.DeliveryMode, Priority: got.Priority,
			CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId,
			Timestamp: got.Timestamp, Type: got.Type, AppId: got.AppId, Body: got.Body, Headers: got.Headers,
		}
		if !reflect.DeepEqual(back, sent) {
			r.Errorf("got  %#v\nwant %#v", back, sent)
		}
		r.want("routing", []string{got.Exchange, got.RoutingKey}, []string{"", q})
	}},
	{"bodies of none, one and many frames", func(r *rig) {
		q := r.queue("q", "classic", nil)
		deliveries := r.consume(r.ch, q, "")
		max := r.conn.Config.FrameSize
		for _, size := range []int{0, 1, max - 8, max - 7, max, 3*max + 17} {
			body := bytes.Repeat([]byte{byte(size)}, size)
			r.must(r.ch.PublishWithContext(r.Context(), "", q, false, false, amqp.Publishing{Body: body}))
			if got := receive(r, deliveries); !bytes.Equal(got.Body, body) {
				r.Errorf("of %d bytes came %d", size, len(got.Body))
			}
		}
	}},
}
