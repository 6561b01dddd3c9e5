package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
)

func testTable(t *testing.T, s *subject) {
	t.Run("every-key-and-value", func(t *testing.T) { testEveryValue(t, s) })
	t.Run("keys-together", func(t *testing.T) { testKeysTogether(t, s) })
	t.Run("every-key-on-every-queue-type", func(t *testing.T) { testEveryQueueType(t, s) })
}

// candidates are tried with every key: right for some, wrong for others.
var candidates = []any{
	-1, 0, 1, 2, 3, 15, 16, 255, 256, 1000, 3_000_000_000, 3_000_000_001, int64(1) << 53, 0.5, 1.5, -0.5, true, false, nil,
	"", "1", "text", "all", "exactly", "nodes", "manual", "automatic", "always", "when-synced", "default", "lazy",
	"drop-head", "reject-publish", "reject-publish-dlx", "at-most-once", "at-least-once", "client-local", "min-masters",
	"balanced", "random", "least-leaders", "failed", "returned", "disabled", "7D", "1Y", "2M", "5h", "5m", "5s", "0D", "00D", "07D",
	"D7", "7", "7d", "7DD", "7 D", []any{}, []any{"a"}, []any{1}, map[string]any{}, map[string]any{"a": 1},
}

// testEveryValue holds the table against the broker: same verdict for each key with each value.
func testEveryValue(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	keys := append(broker.AllPolicyKeys(), "max-lenght", "Max-Length", "x-max-length", "queue-type", "max-priority", "single-active-consumer")
	for _, key := range keys {
		for _, value := range candidates {
			compare(t, s, client, vhost, map[string]any{key: value})
		}
	}
}

// compare fails when the broker and the table do not agree on a definition.
func compare(t *testing.T, s *subject, client broker.Client, vhost string, definition map[string]any) {
	t.Helper()
	policy := broker.Policy{VHost: vhost, Name: "p", Pattern: "^$never", Definition: definition}
	faults := s.caps.ValidateDefinition(definition)
	var accepted bool
	var answer error
	if len(faults) == 0 {
		answer = client.PutPolicy(context.Background(), policy)
		accepted = answer == nil
	} else {
		accepted, answer = s.takes(t, client, policy)
	}
	if accepted != (len(faults) == 0) {
		text, _ := json.Marshal(definition)
		t.Errorf("%s: the broker says %v, the table says %q", text, answer, faults)
	}
}

// takes tells whether the broker takes a policy that the table expects it to refuse. 3.10 never answers to some that its
// validator does not foresee (a fraction or an object as queue-master-locator), so the wait is short, and then what is
// stored decides.
func (s *subject) takes(t *testing.T, client broker.Client, policy broker.Policy) (bool, error) {
	t.Helper()
	if s.hasty == nil {
		s.hasty = s.client(t, func(o *management.Options) { o.CallTimeout = 2 * time.Second })
	}
	err := s.hasty.PutPolicy(context.Background(), policy)
	if broker.KindOf(err) != broker.Unavailable {
		return err == nil, err
	}
	s.hasty = nil // it would answer for the broker for a while
	stored, listing := client.Policies(context.Background(), policy.VHost)
	if listing != nil {
		t.Fatal(listing)
	}
	return slices.ContainsFunc(stored, func(p broker.Policy) bool {
		return p.Name == policy.Name && broker.EqualDefinitions(p.Definition, policy.Definition)
	}), err
}

func testKeysTogether(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for _, text := range []string{
		`{"ha-params":2}`, `{"ha-sync-mode":"manual"}`, `{"ha-sync-batch-size":5}`, `{"ha-promote-on-failure":"always"}`,
		`{"ha-mode":"all"}`, `{"ha-mode":"all","ha-params":2}`, `{"ha-mode":"all","ha-sync-mode":"automatic","ha-sync-batch-size":5}`,
		`{"ha-mode":"all","ha-sync-mode":"maybe"}`, `{"ha-mode":"all","ha-sync-batch-size":0}`,
		`{"ha-mode":"all","ha-promote-on-shutdown":"always","ha-promote-on-failure":"when-synced"}`,
		`{"ha-mode":"all","ha-promote-on-shutdown":"never"}`, `{"ha-mode":"all","ha-params":null}`,
		`{"ha-mode":"exactly"}`, `{"ha-mode":"exactly","ha-params":2}`, `{"ha-mode":"exactly","ha-params":0}`,
		`{"ha-mode":"exactly","ha-params":"2"}`, `{"ha-mode":"exactly","ha-params":2.5}`, `{"ha-mode":"exactly","ha-params":[2]}`,
		`{"ha-mode":"nodes"}`, `{"ha-mode":"nodes","ha-params":["a","b"]}`, `{"ha-mode":"nodes","ha-params":[]}`,
		`{"ha-mode":"nodes","ha-params":["a",1]}`, `{"ha-mode":"nodes","ha-params":"a"}`, `{"ha-mode":"nodes","ha-params":2}`,
		`{"ha-mode":"exactly","ha-params":2,"max-length":5}`, `{"ha-mode":"exactly","ha-params":2,"max-length":"5"}`,
		`{"max-length":5,"max-lenght":5}`, `{"max-length":5,"overflow":"drop-head","message-ttl":0}`,
		`{"delayed-retry-type":"all"}`, `{"delayed-retry-type":"all","delayed-retry-min":5}`,
		`{"delayed-retry-type":"disabled"}`, `{"delayed-retry-type":"failed","delayed-retry-min":5,"delayed-retry-max":4}`,
		`{"delayed-retry-min":5,"delayed-retry-max":5}`, `{"delayed-retry-min":5,"delayed-retry-max":4}`,
		`{"routing-key":"x","shards-per-node":2}`, `{"routing-key":"x"}`, `{"routing-key":5,"shards-per-node":2}`,
		`{"federation-upstream":"a","federation-upstream-set":"all"}`, `{"federation-upstream":"a","federation-upstream-pattern":"^a"}`,
		`{"federation-upstream-set":"all","federation-upstream-pattern":"^a"}`, `{"federation-upstream-set":"all","max-length":5}`,
		`{"dead-letter-strategy":"at-least-once","overflow":"reject-publish","dead-letter-exchange":"x"}`,
	} {
		definition, err := broker.DecodeDefinition([]byte(text))
		must(t, err)
		compare(t, s, client, vhost, definition)
	}
}

// accepted is a harmless valid value for each key, with the keys that it needs beside it.
var accepted = map[string]string{
	"alternate-exchange": `"x"`, "dead-letter-exchange": `"x"`, "dead-letter-routing-key": `"x"`,
	"dead-letter-strategy": `"at-most-once"`, "message-ttl": `3600000`, "expires": `3600000`, "max-length": `1000`,
	"max-length-bytes": `1000000000`, "max-in-memory-length": `1000`, "max-in-memory-bytes": `1000000`,
	"queue-mode": `"lazy"`, "queue-version": `2`, "overflow": `"drop-head"`, "delivery-limit": `50`, "max-age": `"7D"`,
	"initial-cluster-size": `1`, "queue-leader-locator": `"balanced"`, "queue-master-locator": `"random"`,
	"consumer-timeout": `3600000`, "target-group-size": `1`, "stream-filter-size-bytes": `32`,
	"stream-max-segment-size-bytes": `500000000`, "consumer-disconnected-timeout": `60000`,
	"delayed-retry-type": `"all","delayed-retry-min":1000`, "delayed-retry-min": `1000`, "delayed-retry-max": `1000`,
	"ha-mode": `"all"`, "ha-params": `1,"ha-mode":"exactly"`, "ha-sync-mode": `"automatic","ha-mode":"all"`,
	"ha-sync-batch-size": `5,"ha-mode":"all"`, "ha-promote-on-shutdown": `"always","ha-mode":"all"`,
	"ha-promote-on-failure": `"always","ha-mode":"all"`, "federation-upstream": `"none"`, "federation-upstream-set": `"none"`,
	"federation-upstream-pattern": `"^none$"`, "shards-per-node": `1`, "routing-key": `"x","shards-per-node":1`,
}

// testEveryQueueType holds SupportsDefinition against what the broker puts in force on a queue of each type.
func testEveryQueueType(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	for _, key := range broker.AllPolicyKeys() {
		value, known := accepted[key]
		if !known {
			t.Errorf("the suite has no value for key %q", key)
			continue
		}
		definition, err := broker.DecodeDefinition([]byte(fmt.Sprintf(`{%q:%s}`, key, value)))
		must(t, err)
		if faults := s.caps.ValidateDefinition(definition); len(faults) > 0 {
			if !strings.Contains(faults[0], "is not a policy key") {
				t.Errorf("key %q: the suite's value is wrong: %q", key, faults)
			}
			continue
		}
		must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "p", Pattern: ".*", ApplyTo: broker.ApplyToQueues, Definition: definition}))
		queues, err := client.Queues(ctx, vhost, broker.WithoutCounts)
		must(t, err)
		for _, queue := range queues {
			want, because := s.caps.SupportsDefinition(queue.Type, definition)
			if got := queue.Policy != nil && *queue.Policy == "p"; got != want {
				t.Errorf("key %q on a %s queue: in force %v, the table says %v %s", key, queue.Type, got, want, because)
			}
		}
	}
}
