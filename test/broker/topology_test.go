package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

func testTopology(t *testing.T, s *subject) {
	t.Run("exchanges", func(t *testing.T) { testExchanges(t, s) })
	t.Run("bindings", func(t *testing.T) { testBindings(t, s) })
	t.Run("unknown-arguments-are-kept-and-not-compared", func(t *testing.T) { testMarks(t, s) })
	t.Run("C13-only-empty-and-unused-things-are-deleted", func(t *testing.T) { testDeleteUnused(t, s) })
	t.Run("growing", func(t *testing.T) { testGrow(t, s) })
}

func testExchanges(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "/x")
	made := broker.Exchange{VHost: vhost, Name: "dlx/ö %2F", Type: "topic", Durable: true, Arguments: map[string]any{"x-mark": "a"}}
	must(t, client.PutExchange(ctx, made))
	must(t, client.PutExchange(ctx, made))
	// 4.3 has no answer (500) when the name is not ASCII.
	s.wantKind(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "amq.topic", Type: "direct", Durable: true}), broker.Invalid)
	s.wantKind(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "amq.mine", Type: "direct", Durable: true}), broker.Unauthorized)
	s.wantKind(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost + "-absent", Name: "a", Type: "direct", Durable: true}), broker.NotFound)
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "a", Type: "fanout", AutoDelete: true, Internal: true}))
	must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "rest", Pattern: "^a$", ApplyTo: broker.ApplyToExchanges, Definition: map[string]any{"alternate-exchange": "amq.fanout"}}))

	got, err := client.Exchanges(ctx, vhost)
	must(t, err)
	var names []string
	byName := map[string]broker.Exchange{}
	for _, e := range got {
		names = append(names, e.Name)
		byName[e.Name] = e
	}
	want := []string{"", "a", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic", made.Name}
	if !slices.Equal(names, want) {
		t.Errorf("exchanges %q, want %q", names, want)
	}
	if e := byName[made.Name]; e.Type != "topic" || !e.Durable || e.AutoDelete || e.Internal || e.Arguments["x-mark"] != "a" || e.Policy == nil || *e.Policy != "" {
		t.Errorf("got %+v", e)
	}
	if e := byName["a"]; e.Type != "fanout" || e.Durable || !e.AutoDelete || !e.Internal || e.Policy == nil || *e.Policy != "rest" {
		t.Errorf("got %+v", e)
	}
	_, err = client.Exchanges(ctx, vhost+"-absent")
	s.wantKind(t, err, broker.NotFound)
}

func testBindings(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "from/here", Type: "topic", Durable: true}))
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "to", Type: "fanout", Durable: true}))
	must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "q/ö", Durable: true}))
	want := []broker.Binding{
		{VHost: vhost, Source: "from/here", Destination: "q/ö", RoutingKey: ""},
		{VHost: vhost, Source: "from/here", Destination: "q/ö", RoutingKey: "a.#", Arguments: map[string]any{"z": int64(1)}},
		{VHost: vhost, Source: "from/here", Destination: "to", ToExchange: true, RoutingKey: "k"},
	}
	for _, b := range append(slices.Clone(want), want...) {
		must(t, client.PutBinding(ctx, b))
	}
	got, err := client.Bindings(ctx, vhost)
	must(t, err)
	if len(got) != len(want) {
		t.Fatalf("bindings %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i].Source != want[i].Source || got[i].Destination != want[i].Destination || got[i].ToExchange != want[i].ToExchange ||
			got[i].RoutingKey != want[i].RoutingKey || !broker.EqualDefinitions(got[i].Arguments, want[i].Arguments) {
			t.Errorf("binding %+v, want %+v", got[i], want[i])
		}
	}
	s.wantKind(t, client.PutBinding(ctx, broker.Binding{VHost: vhost, Source: "to", Destination: "absent"}), broker.NotFound)
	s.wantKind(t, client.PutBinding(ctx, broker.Binding{VHost: vhost, Source: "absent", Destination: "q/ö"}), broker.NotFound)
	must(t, client.DeleteQueue(ctx, vhost, "q/ö"))
	if got, err = client.Bindings(ctx, vhost); err != nil || len(got) != 1 {
		t.Errorf("bindings of a queue that is gone: %+v, %v", got, err)
	}
}

func testMarks(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	mark := map[string]any{"x-warren-made-for": "ns/name"}
	for _, kind := range []broker.QueueType{broker.Classic, broker.Quorum} {
		q := broker.Queue{VHost: vhost, Name: string(kind), Type: kind, Durable: true, Arguments: mark}
		must(t, client.PutQueue(ctx, q))
		q.Arguments = nil
		must(t, client.PutQueue(ctx, q)) // as an application that does not know of the mark
	}
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "x", Type: "direct", Durable: true, Arguments: mark}))
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "x", Type: "direct", Durable: true}))
	queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
	must(t, err)
	for _, q := range queues {
		if q.Arguments["x-warren-made-for"] != "ns/name" {
			t.Errorf("queue %q has arguments %v", q.Name, q.Arguments)
		}
	}
	exchanges, err := client.Exchanges(ctx, vhost)
	must(t, err)
	if last := exchanges[len(exchanges)-1]; last.Name != "x" || last.Arguments["x-warren-made-for"] != "ns/name" {
		t.Errorf("exchange %+v", last)
	}
}

func testDeleteUnused(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	must(t, client.PutExchange(ctx, broker.Exchange{VHost: vhost, Name: "x", Type: "direct", Durable: true}))
	for _, kind := range []broker.QueueType{broker.Classic, broker.Quorum} {
		name := string(kind)
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name, Type: kind, Durable: true}))
		must(t, client.PutBinding(ctx, broker.Binding{VHost: vhost, Source: "x", Destination: name, RoutingKey: name}))
	}
	s.wantKind(t, client.DeleteUnusedExchange(ctx, vhost, "x"), broker.Invalid)
	for _, kind := range []string{"classic", "quorum"} {
		eventually(t, func() (bool, string) { // statistics of a new queue come late
			queue, err := client.Queue(ctx, vhost, kind)
			must(t, err)
			return queue.Messages != nil && queue.Consumers != nil, fmt.Sprintf("%+v", queue)
		})
		s.publish(t, vhost, kind, 1)
		// At once, while the counts of a quorum queue may still say zero.
		s.wantKind(t, client.DeleteEmptyQueue(ctx, vhost, kind), broker.Invalid)
		if _, err := client.Queue(ctx, vhost, kind); err != nil {
			t.Fatalf("a %s queue with a message is gone: %v", kind, err)
		}
		must(t, client.DeleteQueue(ctx, vhost, kind))
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: kind, Type: broker.QueueType(kind), Durable: true}))
		eventually(t, func() (bool, string) {
			err := client.DeleteEmptyQueue(ctx, vhost, kind)
			return err == nil, fmt.Sprint(err)
		})
		s.wantKind(t, client.DeleteEmptyQueue(ctx, vhost, kind), broker.NotFound)
	}
	must(t, client.DeleteUnusedExchange(ctx, vhost, "x"))
	s.wantKind(t, client.DeleteUnusedExchange(ctx, vhost, "x"), broker.NotFound)
}

func testGrow(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "/g")
	must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "q/ö", Type: broker.Quorum, Durable: true}))
	nodes, err := client.Nodes(ctx)
	must(t, err)
	if !s.caps.GrowsOnRequest {
		if err := client.GrowQueue(ctx, vhost, "q/ö", nodes[0].Name); err == nil {
			t.Error("a broker without the call took it: the table of capabilities is wrong")
		}
		if err := client.ShrinkQueue(ctx, vhost, "q/ö", nodes[0].Name); err == nil {
			t.Error("a broker without the call removed a member: the table of capabilities is wrong")
		}
		return
	}
	must(t, client.GrowQueue(ctx, vhost, "q/ö", nodes[0].Name)) // it is there already
	s.wantKind(t, client.GrowQueue(ctx, vhost, "q/ö", "rabbit@absent"), broker.Invalid)
	if err := client.GrowQueue(ctx, vhost, "absent", nodes[0].Name); err == nil {
		t.Error("a queue that is not there grew")
	}
	if err := client.ShrinkQueue(ctx, vhost, "q/ö", nodes[0].Name); err == nil {
		t.Error("the last member of a queue was removed")
	}
	s.wantKind(t, client.ShrinkQueue(ctx, vhost, "q/ö", "rabbit@absent"), broker.Invalid)
	s.wantKind(t, client.ShrinkQueue(ctx, vhost, "absent", nodes[0].Name), broker.NotFound)
}
