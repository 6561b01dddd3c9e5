package broker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

func testPolicies(t *testing.T, s *subject) {
	t.Run("put-read-change-delete", func(t *testing.T) { testPolicyLife(t, s) })
	t.Run("repeating-a-put-changes-nothing", func(t *testing.T) { testPolicyRepeated(t, s) })
	t.Run("list-is-sorted-by-name", func(t *testing.T) { testPoliciesSorted(t, s) })
	t.Run("empty-apply-to-means-all", func(t *testing.T) { testApplyToDefault(t, s) })
	t.Run("apply-to-values-are-those-of-the-table", func(t *testing.T) { testApplyToValues(t, s) })
	t.Run("C7-mirror-keys-exist-up-to-3.13", func(t *testing.T) { testMirrorKeys(t, s) })
	t.Run("C8-unlimited-delivery-since-4.0", func(t *testing.T) { testUnlimitedDelivery(t, s) })
	t.Run("C3-patterns", func(t *testing.T) { testPatterns(t, s) })
	t.Run("C11-exact-names", func(t *testing.T) { testExactNames(t, s) })
	t.Run("C13-all-but-one", func(t *testing.T) { testSparing(t, s) })
	t.Run("E1-deleting-an-absent-policy-is-not-found", func(t *testing.T) { testDeleteAbsent(t, s) })
}

func testPolicyLife(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	want := broker.Policy{
		VHost: vhost, Name: "limits", Pattern: "^orders", ApplyTo: broker.ApplyToQueues, Priority: -7,
		Definition: map[string]any{"max-length": int64(1000), "overflow": "reject-publish", "max-length-bytes": int64(1) << 40},
	}
	must(t, client.PutPolicy(ctx, want))
	wantPolicies(t, client, vhost, want)
	want.Definition, want.Priority = map[string]any{"message-ttl": int64(60000)}, 3
	must(t, client.PutPolicy(ctx, want))
	wantPolicies(t, client, vhost, want)
	must(t, client.DeletePolicy(ctx, vhost, "limits"))
	wantPolicies(t, client, vhost)
}

// wantPolicies compares the policies of a vhost, in order.
func wantPolicies(t *testing.T, client broker.Client, vhost string, want ...broker.Policy) {
	t.Helper()
	got, err := client.Policies(context.Background(), vhost)
	must(t, err)
	if len(got) != len(want) {
		t.Fatalf("got policies %v, want %v", got, want)
	}
	for i := range want {
		same := got[i].VHost == want[i].VHost && got[i].Name == want[i].Name && got[i].Pattern == want[i].Pattern &&
			got[i].ApplyTo == want[i].ApplyTo && got[i].Priority == want[i].Priority
		if !same || !broker.EqualDefinitions(got[i].Definition, want[i].Definition) {
			t.Errorf("got policy %+v, want %+v", got[i], want[i])
		}
	}
}

func testPolicyRepeated(t *testing.T, s *subject) {
	client := s.client(t)
	policy := broker.Policy{VHost: s.vhost(t, client, ""), Name: "p", Pattern: ".", ApplyTo: broker.ApplyToAll,
		Definition: map[string]any{"max-length": 5}}
	for range 3 {
		must(t, client.PutPolicy(context.Background(), policy))
		wantPolicies(t, client, policy.VHost, policy)
	}
}

func testPoliciesSorted(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for i, name := range []string{"zz", "B", "a", "ä", "a-b", "a.b"} {
		must(t, client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: name, Pattern: name, Priority: i,
			Definition: map[string]any{"max-length": i}}))
	}
	got, err := client.Policies(context.Background(), vhost)
	must(t, err)
	var names []string
	for _, policy := range got {
		names = append(names, policy.Name)
	}
	if want := []string{"B", "a", "a-b", "a.b", "zz", "ä"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func testApplyToDefault(t *testing.T, s *subject) {
	client := s.client(t)
	policy := broker.Policy{VHost: s.vhost(t, client, ""), Name: "p", Pattern: ".", Definition: map[string]any{"max-length": 5}}
	must(t, client.PutPolicy(context.Background(), policy))
	policy.ApplyTo = broker.ApplyToAll
	wantPolicies(t, client, policy.VHost, policy)
}

func testApplyToValues(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for _, value := range []broker.ApplyTo{
		broker.ApplyToAll, broker.ApplyToQueues, broker.ApplyToExchanges, broker.ApplyToClassicQueues,
		broker.ApplyToQuorumQueues, broker.ApplyToStreams, "queue", "exchange", "Queues",
	} {
		err := client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "p", Pattern: ".", ApplyTo: value,
			Definition: map[string]any{"max-length-bytes": 5}})
		if accepted := err == nil; accepted != s.caps.CanApplyTo(value) {
			t.Errorf("apply-to %q: the broker says %v, the table says %v", value, err, s.caps.CanApplyTo(value))
		}
		if err != nil {
			s.wantKind(t, err, broker.Invalid)
		}
	}
}

func testMirrorKeys(t *testing.T, s *subject) {
	client := s.client(t)
	policy := broker.Policy{VHost: s.vhost(t, client, ""), Name: "ha-two", Pattern: "^x", ApplyTo: broker.ApplyToQueues,
		Definition: map[string]any{"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}}
	err := client.PutPolicy(context.Background(), policy)
	if s.caps.MirroredQueues {
		must(t, err)
		wantPolicies(t, client, policy.VHost, policy)
		policy.Definition = map[string]any{"ha-mode": "nodes", "ha-params": []any{"rabbit@a", "rabbit@b"}}
		must(t, client.PutPolicy(context.Background(), policy))
		wantPolicies(t, client, policy.VHost, policy)
		return
	}
	s.wantKind(t, err, broker.Invalid)
	wantSentence(t, err, `<<"ha-mode">>`, "are not recognised policy settings")
	wantPolicies(t, client, policy.VHost)
}

func testUnlimitedDelivery(t *testing.T, s *subject) {
	client := s.client(t)
	policy := broker.Policy{VHost: s.vhost(t, client, ""), Name: "p", Pattern: ".", ApplyTo: broker.ApplyToAll,
		Definition: map[string]any{"delivery-limit": -1}}
	err := client.PutPolicy(context.Background(), policy)
	if s.caps.UnlimitedDelivery {
		must(t, err)
		wantPolicies(t, client, policy.VHost, policy)
		return
	}
	s.wantKind(t, err, broker.Invalid)
	wantPolicies(t, client, policy.VHost)
}

func testDeleteAbsent(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	s.wantKind(t, client.DeletePolicy(context.Background(), vhost, "absent"), broker.NotFound)
	s.wantKind(t, client.DeletePolicy(context.Background(), vhost, "absent/or%2Fnot"), broker.NotFound)
	s.wantKind(t, client.DeleteQueue(context.Background(), vhost, "absent"), broker.NotFound)
	s.wantKind(t, client.DeleteVHost(context.Background(), vhost+"/absent"), broker.NotFound)
}

// testPatterns: the broker's patterns are PCRE on bytes and unanchored (L6, L7).
func testPatterns(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for _, name := range []string{"billing", "billing.dlq", "prebilling", "日本語", "abc"} {
		must(t, client.PutQueue(context.Background(), broker.Queue{VHost: vhost, Name: name, Durable: true, Type: broker.Classic}))
	}
	for _, c := range []struct {
		name, pattern string
		want          []string
	}{
		{"unanchored", "billing", []string{"billing", "billing.dlq", "prebilling"}},
		{"anchored", `^billing$`, []string{"billing"}},
		{"three-dots-are-three-bytes", "^...$", []string{"abc"}},
		{"nine-dots-are-nine-bytes", "^.........$", []string{"日本語"}},
		{"literal-non-ASCII", "^日本語$", []string{"日本語"}},
		{"empty-matches-all", "", []string{"abc", "billing", "billing.dlq", "prebilling", "日本語"}},
		{"case-matters", "BILLING", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "p", Pattern: c.pattern,
				Definition: map[string]any{"max-length-bytes": 1000}}))
			queues, err := client.Queues(context.Background(), vhost, broker.WithoutCounts)
			must(t, err)
			var got []string
			for _, queue := range queues {
				if queue.Policy != nil && *queue.Policy == "p" {
					got = append(got, queue.Name)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("pattern %q is in force on %q, want %q", c.pattern, got, c.want)
			}
		})
	}
	t.Run("look-behind-is-accepted", func(t *testing.T) {
		must(t, client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "behind", Pattern: "^(.*(?<!err))?$",
			Priority: -1, Definition: map[string]any{"max-length-bytes": 1000}}))
	})
	t.Run("invalid-is-refused-with-its-position", func(t *testing.T) {
		err := client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "bad", Pattern: "^(unclosed",
			Definition: map[string]any{"max-length-bytes": 1000}})
		s.wantKind(t, err, broker.Invalid)
		wantSentence(t, err, "should be regular expression", "10")
	})
}
