package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// testExactNames: the pattern of a temporary policy is in force on the queue that it names, and on no other.
func testExactNames(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	names := []string{
		"orders", "orders.eu|x", `a\E`, `\E`, `\E\E`, `a\\E`, `a\`, `\Q`, `\Qa\E`, `\E|\Q`, `\E)\z`, "ünï→", `"quoted" 'too'`, "^(?:", "(", "[", "$", "x#y z",
		strings.Repeat(`\E`, 120),
	}
	for i, name := range names {
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name, Durable: true}))
		must(t, client.PutPolicy(ctx, broker.Policy{
			VHost: vhost, Name: fmt.Sprintf("exact~%d", i), Pattern: policy.ExactPatterns([]string{name})[0], Priority: 1,
			ApplyTo: broker.ApplyToQueues, Definition: map[string]any{"max-length": int64(i + 1)},
		}))
	}
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		if err != nil {
			return false, err.Error()
		}
		found := map[string]string{}
		for _, q := range queues {
			if q.Policy != nil {
				found[q.Name] = *q.Policy
			}
		}
		for i, name := range names {
			if found[name] != fmt.Sprintf("exact~%d", i) {
				return false, fmt.Sprintf("queue %q has policy %q, want exact~%d", name, found[name], i)
			}
		}
		return true, ""
	})
}

// testSparing: a pattern that leaves out one queue is in force on all others that it matches.
func testSparing(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "-sparing")
	const spared = `runtime.dead|ünï\E`
	must(t, client.PutPolicy(ctx, broker.Policy{
		VHost: vhost, Name: "sparing", Pattern: policy.Sparing(`^(runtime\.|worker\.).*`, spared), Priority: 1,
		ApplyTo: broker.ApplyToQueues, Definition: map[string]any{"max-length": int64(5)},
	}))
	want := map[string]string{spared: "", spared + "x": "sparing", "runtime.a": "sparing", "worker.b": "sparing", "x.runtime.a": "", "dead": ""}
	for name := range want {
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name, Durable: true}))
	}
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		if err != nil {
			return false, err.Error()
		}
		for _, q := range queues {
			if q.Policy == nil || *q.Policy != want[q.Name] {
				return false, fmt.Sprintf("queue %q has not the policy %q", q.Name, want[q.Name])
			}
		}
		return len(queues) == len(want), fmt.Sprintf("%d queues", len(queues))
	})
}
