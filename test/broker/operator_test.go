package broker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

func testOperatorPolicies(t *testing.T, s *subject) {
	t.Run("put-list-delete", func(t *testing.T) { testOperatorLife(t, s) })
	t.Run("every-key", func(t *testing.T) { testOperatorKeys(t, s) })
	t.Run("merge", func(t *testing.T) { testOperatorMerge(t, s) })
}

func testOperatorLife(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "/a b")
	want := broker.Policy{VHost: vhost, Name: "hard/limits", Pattern: "^orders", ApplyTo: broker.ApplyToQueues, Priority: 3,
		Definition: map[string]any{"max-length": int64(1000), "expires": int64(3600000)}}
	for range 2 {
		must(t, client.PutOperatorPolicy(ctx, want))
	}
	got, err := client.OperatorPolicies(ctx, vhost)
	must(t, err)
	if len(got) != 1 || got[0].Name != want.Name || got[0].Pattern != want.Pattern || got[0].ApplyTo != want.ApplyTo ||
		got[0].Priority != want.Priority || !broker.EqualDefinitions(got[0].Definition, want.Definition) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	wantPolicies(t, client, vhost) // they are no policies
	must(t, client.DeleteOperatorPolicy(ctx, vhost, want.Name))
	s.wantKind(t, client.DeleteOperatorPolicy(ctx, vhost, want.Name), broker.NotFound)
	if got, err = client.OperatorPolicies(ctx, vhost); err != nil || len(got) != 0 {
		t.Errorf("left: %+v, %v", got, err)
	}
	_, err = client.OperatorPolicies(ctx, vhost+"-absent")
	s.wantKind(t, err, broker.NotFound)
}

// testOperatorKeys holds the table of keys that an operator policy may have against the broker.
func testOperatorKeys(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for _, key := range append(broker.AllPolicyKeys(), "max-lenght") {
		value, known := accepted[key]
		if !known {
			value = "1"
		}
		definition, err := broker.DecodeDefinition([]byte(fmt.Sprintf(`{%q:%s}`, key, value)))
		must(t, err)
		faults := s.caps.ValidateOperatorDefinition(definition)
		err = client.PutOperatorPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "p", Pattern: "^$never", Definition: definition})
		if (err == nil) != (len(faults) == 0) {
			t.Errorf("%v: the broker says %v, the table says %q", definition, err, faults)
		}
		if err != nil {
			s.wantKind(t, err, broker.Invalid)
		}
	}
}

// testOperatorMerge holds MergeOperator against the effective definitions of the broker.
func testOperatorMerge(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	cases := []struct{ policy, operator map[string]any }{
		{map[string]any{"max-length": 50, "message-ttl": 70000, "overflow": "reject-publish"}, map[string]any{"max-length": 10, "message-ttl": 90000}},
		{map[string]any{"max-length-bytes": 5, "expires": 3600000}, map[string]any{"max-length-bytes": 6, "expires": 3500000}},
		{map[string]any{"delivery-limit": 7}, map[string]any{"delivery-limit": 5}},
		{map[string]any{"dead-letter-exchange": "x"}, map[string]any{"delivery-limit": 5}},
	}
	if s.caps.UnlimitedDelivery {
		cases = append(cases, struct{ policy, operator map[string]any }{map[string]any{"delivery-limit": -1}, map[string]any{"delivery-limit": 5}},
			struct{ policy, operator map[string]any }{map[string]any{"delivery-limit": 5}, map[string]any{"delivery-limit": -1}})
	}
	if s.caps.KnowsOperatorKey("overflow") {
		cases = append(cases, struct{ policy, operator map[string]any }{map[string]any{"overflow": "drop-head"}, map[string]any{"overflow": "reject-publish", "max-length": 3}})
	}
	for i, c := range cases {
		name := fmt.Sprintf("q%d", i)
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name, Durable: true, Type: broker.Quorum}))
		must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: name, Pattern: "^" + name + "$", Definition: c.policy}))
		must(t, client.PutOperatorPolicy(ctx, broker.Policy{VHost: vhost, Name: name, Pattern: "^" + name + "$", Definition: c.operator}))
	}
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		must(t, err)
		for i, q := range queues {
			want := broker.MergeOperator(cases[i].policy, cases[i].operator)
			if q.EffectiveDefinition == nil || !broker.EqualDefinitions(q.EffectiveDefinition, want) {
				return false, fmt.Sprintf("%s has %v, want %v", q.Name, q.EffectiveDefinition, want)
			}
		}
		return len(queues) == len(cases), "queues are missing"
	})
}
