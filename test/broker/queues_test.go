package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

func testQueues(t *testing.T, s *subject) {
	t.Run("properties", func(t *testing.T) { testQueueProperties(t, s) })
	t.Run("policy-and-effective-definition", func(t *testing.T) { testInForce(t, s) })
	t.Run("operator-policy-in-force", func(t *testing.T) { testOperatorPolicy(t, s) })
	t.Run("taken-by-the-process", func(t *testing.T) { testTaken(t, s) })
	t.Run("counts", func(t *testing.T) { testCounts(t, s) })
	t.Run("mirrors", func(t *testing.T) { testMirrors(t, s) })
}

// three is a vhost with a queue of each type, named as the type.
func three(t *testing.T, s *subject, client broker.Client) string {
	t.Helper()
	vhost := s.vhost(t, client, "")
	for _, kind := range []broker.QueueType{broker.Classic, broker.Quorum, broker.Stream} {
		must(t, client.PutQueue(context.Background(), broker.Queue{VHost: vhost, Name: string(kind), Type: kind, Durable: true}))
	}
	return vhost
}

func testQueueProperties(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "args", Durable: true, AutoDelete: true,
		Arguments: map[string]any{"x-max-length": 10, "x-dead-letter-exchange": "dlx"}}))
	queues, err := client.Queues(ctx, vhost)
	must(t, err)
	nodes, err := client.Nodes(ctx)
	must(t, err)
	if len(queues) != 4 {
		t.Fatalf("got %d queues", len(queues))
	}
	for _, queue := range queues {
		if queue.VHost != vhost || queue.State != "running" || queue.Exclusive || !queue.Durable {
			t.Errorf("got %+v", queue)
		}
		if queue.Node != nodes[0].Name {
			t.Errorf("queue %q is on %q, want %q", queue.Name, queue.Node, nodes[0].Name)
		}
	}
	args := queues[0]
	if args.Name != "args" || args.Type != broker.Classic || !args.AutoDelete {
		t.Errorf("got %+v", args)
	}
	if args.Arguments["x-max-length"] != int64(10) || args.Arguments["x-dead-letter-exchange"] != "dlx" {
		t.Errorf("got arguments %#v", args.Arguments)
	}
	for i, kind := range []broker.QueueType{broker.Classic, broker.Quorum, broker.Stream} {
		if queues[i+1].Type != kind {
			t.Errorf("queue %q has type %q", queues[i+1].Name, queues[i+1].Type)
		}
	}
	quorum := queues[2]
	if !slices.Equal(quorum.Members, []string{nodes[0].Name}) || !slices.Equal(quorum.Online, quorum.Members) {
		t.Errorf("quorum queue has members %v, online %v", quorum.Members, quorum.Online)
	}
	if queues[1].Members != nil || queues[1].Mirrors != nil {
		t.Errorf("classic queue has members %v, mirrors %v", queues[1].Members, queues[1].Mirrors)
	}
}

// testInForce: what the listing says right after a PUT, per queue type. There is no lag to wait for.
func testInForce(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	put := func(name string, priority int, definition map[string]any) {
		t.Helper()
		must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: name, Pattern: ".*", Priority: priority,
			ApplyTo: broker.ApplyToQueues, Definition: definition}))
	}
	bytes, length := map[string]any{"max-length-bytes": 1 << 20}, map[string]any{"max-length": 7, "max-length-bytes": 9}
	t.Run("none", func(t *testing.T) {
		wantInForce(t, client, vhost, map[string]inForce{"classic": {}, "quorum": {}, "stream": {}})
	})
	put("low", 1, bytes)
	t.Run("on-every-type", func(t *testing.T) {
		low := inForce{"low", bytes}
		wantInForce(t, client, vhost, map[string]inForce{"classic": low, "quorum": low, "stream": low})
	})
	put("high", 2, length)
	t.Run("C5-higher-priority-masks-and-one-unsupported-key-disables-the-whole-policy", func(t *testing.T) {
		high := inForce{"high", length}
		wantInForce(t, client, vhost, map[string]inForce{"classic": high, "quorum": high, "stream": {"low", bytes}})
	})
	put("high", 2, map[string]any{"queue-mode": "lazy", "max-length": 7})
	t.Run("key-of-one-type-only", func(t *testing.T) {
		low := inForce{"low", bytes}
		wantInForce(t, client, vhost, map[string]inForce{
			"classic": {"high", map[string]any{"queue-mode": "lazy", "max-length": 7}}, "quorum": low, "stream": low})
	})
	must(t, client.DeletePolicy(ctx, vhost, "low"))
	must(t, client.DeletePolicy(ctx, vhost, "high"))
	t.Run("none-again", func(t *testing.T) {
		wantInForce(t, client, vhost, map[string]inForce{"classic": {}, "quorum": {}, "stream": {}})
	})
}

type inForce struct {
	policy     string
	definition map[string]any
}

func wantInForce(t *testing.T, client broker.Client, vhost string, want map[string]inForce) {
	t.Helper()
	queues, err := client.Queues(context.Background(), vhost, broker.WithoutCounts)
	must(t, err)
	if len(queues) != len(want) {
		t.Fatalf("got %d queues, want %d", len(queues), len(want))
	}
	for _, queue := range queues {
		switch {
		case queue.Policy == nil || queue.OperatorPolicy == nil || queue.EffectiveDefinition == nil:
			t.Errorf("queue %q: the broker did not say what is in force: %+v", queue.Name, queue)
		case *queue.Policy != want[queue.Name].policy || *queue.OperatorPolicy != "":
			t.Errorf("queue %q: policy %q, operator policy %q, want %q", queue.Name, *queue.Policy, *queue.OperatorPolicy, want[queue.Name].policy)
		case !broker.EqualDefinitions(queue.EffectiveDefinition, want[queue.Name].definition):
			t.Errorf("queue %q: effective definition %v, want %v", queue.Name, queue.EffectiveDefinition, want[queue.Name].definition)
		}
	}
}

// testOperatorPolicy: an operator policy is merged into the user's. Before 4.2 only the statistics tell, late.
func testOperatorPolicy(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "user", Pattern: "^classic", Definition: map[string]any{"max-length": 50, "overflow": "drop-head"}}))
	if status, reply := s.raw(t, "PUT", "/api/operator-policies/"+vhost+"/op", `{"pattern":".*","definition":{"max-length":10}}`); status/100 != 2 {
		t.Fatalf("put operator policy: %d %v", status, reply)
	}
	want := map[string]any{"max-length": 10, "overflow": "drop-head"}
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		must(t, err)
		q := queues[0]
		if q.Name != "classic" || q.Policy == nil || *q.Policy != "user" {
			t.Fatalf("the user's policy is not said to be in force: %+v", q)
		}
		ok := q.OperatorPolicy != nil && *q.OperatorPolicy == "op" && q.EffectiveDefinition != nil && broker.EqualDefinitions(q.EffectiveDefinition, want)
		return ok, fmt.Sprintf("%+v", q)
	})
}

// testTaken: what is stored is in force in the listing at once; a queue that has no time for it says so.
func testTaken(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "q", Durable: true, Type: broker.Classic}))
	taken := func(want map[string]any) func() (bool, string) {
		return func() (bool, string) {
			queues, err := client.Queues(ctx, vhost, broker.WithStatistics)
			must(t, err)
			return queues[0].Taken != nil && broker.EqualDefinitions(queues[0].Taken, want), fmt.Sprintf("%+v", queues[0])
		}
	}
	eventually(t, taken(map[string]any{}))
	s.suspend(t, vhost, "q", true)
	definition := map[string]any{"overflow": "reject-publish"}
	must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "p", Pattern: "^q$", Definition: definition}))
	queues, err := client.Queues(ctx, vhost, broker.WithoutCounts, broker.WithStatistics)
	must(t, err)
	if q := queues[0]; !broker.EqualDefinitions(q.EffectiveDefinition, definition) || q.Taken == nil || len(q.Taken) > 0 {
		t.Errorf("a process that does nothing has taken %v, and in force is %v", q.Taken, q.EffectiveDefinition)
	}
	s.suspend(t, vhost, "q", false)
	eventually(t, taken(definition))
}

// testCounts: a listing has the counts of classic and quorum queues now, and all of them, with consumers, from the
// statistics.
func testCounts(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	plain, err := client.Queues(ctx, vhost)
	must(t, err)
	for _, queue := range plain[:2] {
		if queue.Messages == nil || queue.Ready == nil || queue.Unacknowledged == nil || *queue.Messages != 0 {
			t.Errorf("queue %q has no counts: %+v", queue.Name, queue)
		}
	}
	if plain[2].Messages != nil {
		t.Errorf("a stream's count comes without statistics: this exception can go: %d", *plain[2].Messages)
	}
	without, err := client.Queues(ctx, vhost, broker.WithoutCounts)
	must(t, err)
	for _, queue := range without {
		if queue.Messages != nil || queue.Ready != nil || queue.Unacknowledged != nil || queue.Consumers != nil {
			t.Errorf("counts that were not asked for: %+v", queue)
		}
	}
	eventually(t, func() (bool, string) {
		all, err := client.Queues(ctx, vhost, broker.WithStatistics)
		must(t, err)
		for _, queue := range all {
			if queue.Messages == nil || queue.Ready == nil || queue.Consumers == nil || *queue.Consumers != 0 {
				return false, fmt.Sprintf("%+v", queue)
			}
		}
		return true, ""
	})
	eventually(t, func() (bool, string) {
		queue, err := client.Queue(ctx, vhost, "classic")
		must(t, err)
		said := queue.Messages != nil && queue.Consumers != nil && queue.EffectiveDefinition != nil && queue.Policy != nil
		return said && *queue.Policy == "", fmt.Sprintf("%+v", queue)
	})
}

// testMirrors needs one node only: a mirrored queue without a second node has an empty list of mirrors, any other
// queue has none.
func testMirrors(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	if !s.caps.MirroredQueues {
		queues, err := client.Queues(ctx, vhost)
		must(t, err)
		for _, queue := range queues {
			if queue.Mirrors != nil || queue.SynchronisedMirrors != nil {
				t.Errorf("mirrors on %s: %+v", s.version, queue)
			}
		}
		return
	}
	must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "ha", Pattern: ".*", Definition: map[string]any{"ha-mode": "all"}}))
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		must(t, err)
		ok := queues[0].Mirrors != nil && len(queues[0].Mirrors) == 0 && queues[0].SynchronisedMirrors != nil
		return ok && queues[1].Mirrors == nil && queues[2].Mirrors == nil, fmt.Sprintf("%+v", queues)
	})
}
