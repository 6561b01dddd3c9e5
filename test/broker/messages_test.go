package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// publish sends persistent messages to a queue, which may refuse some at its limit.
func (s *subject) publish(t *testing.T, vhost, queue string, n int) {
	t.Helper()
	body := fmt.Sprintf(`{"properties":{"delivery_mode":2},"routing_key":%q,"payload":"x","payload_encoding":"string"}`, queue)
	for range n {
		status, reply := s.raw(t, http.MethodPost, "/api/exchanges/"+url.PathEscape(vhost)+"/amq.default/publish", body)
		if reason, _ := reply["reason"].(string); status != http.StatusOK && !strings.Contains(reason, "Check queue limits") {
			t.Fatalf("publish: %d %v", status, reply)
		}
	}
}

// wantReady waits until queues hold so many messages.
func wantReady(t *testing.T, client broker.Client, vhost string, want map[string]int64) {
	t.Helper()
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(context.Background(), vhost)
		must(t, err)
		said := ""
		for _, q := range queues {
			n, asked := want[q.Name]
			switch {
			case !asked:
			case q.Ready == nil:
				said += fmt.Sprintf("%s is not counted; ", q.Name)
			case *q.Ready != n:
				said += fmt.Sprintf("%s holds %d, want %d; ", q.Name, *q.Ready, n)
			}
		}
		return said == "", said
	})
}

// stage is a vhost with queues of 30 messages, and the ways to bring limits to them.
type stage struct {
	t      *testing.T
	s      *subject
	client broker.Client
	vhost  string
}

func (g stage) queue(name string, kind broker.QueueType, messages int, arguments map[string]any) {
	g.t.Helper()
	must(g.t, g.client.PutQueue(context.Background(), broker.Queue{VHost: g.vhost, Name: name, Type: kind, Durable: true, Arguments: arguments}))
	g.s.publish(g.t, g.vhost, name, messages)
}

func (g stage) policy(name string, definition map[string]any) {
	g.t.Helper()
	must(g.t, g.client.PutPolicy(context.Background(), broker.Policy{VHost: g.vhost, Name: name, Pattern: "^" + name + "$", ApplyTo: broker.ApplyToQueues, Definition: definition}))
	eventually(g.t, func() (bool, string) {
		queues, err := g.client.Queues(context.Background(), g.vhost, broker.WithoutCounts)
		must(g.t, err)
		for _, q := range queues {
			if q.Name == name {
				return q.EffectiveDefinition != nil && broker.EqualDefinitions(q.EffectiveDefinition, definition), fmt.Sprintf("%+v", q)
			}
		}
		return false, name + " is missing"
	})
}

// taken waits until the queue's process itself says what is in force: before, it may not have come to the last change, and
// then it sees that one and the next as one.
func (g stage) taken(name string, definition map[string]any) {
	g.t.Helper()
	eventually(g.t, func() (bool, string) {
		queue, err := g.client.Queue(context.Background(), g.vhost, name)
		must(g.t, err)
		return queue.Taken != nil && broker.EqualDefinitions(queue.Taken, definition), fmt.Sprintf("%+v", queue)
	})
}

// testBacklogs is what becomes of messages above a limit; brokertest imitates it, and this holds it to that.
func testBacklogs(t *testing.T, s *subject) {
	client := s.client(t)
	g := stage{t, s, client, s.vhost(t, client, "")}
	overflow := map[string]any{"overflow": "reject-publish"}
	limit := map[string]any{"max-length": 10, "overflow": "reject-publish"}
	belt := map[string]any{"max-length": 10, "overflow": "reject-publish", "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}

	g.queue("dead", broker.Classic, 0, nil)
	g.queue("free", broker.Classic, 30, nil)
	g.queue("one-step", broker.Classic, 30, nil)
	g.policy("one-step", limit)
	g.queue("two-steps", broker.Classic, 30, nil)
	g.policy("two-steps", overflow)
	g.taken("two-steps", overflow)
	g.policy("two-steps", limit)
	g.queue("below", broker.Classic, 5, nil)
	g.policy("below", limit)
	g.queue("belt", broker.Classic, 30, nil)
	g.policy("belt", belt)
	g.queue("quorum", broker.Quorum, 30, nil)
	g.policy("quorum", limit)
	g.queue("head", broker.Quorum, 30, nil)
	g.policy("head", map[string]any{"max-length": 10})
	g.queue("arg-classic", broker.Classic, 30, map[string]any{"x-overflow": "drop-head"})
	g.policy("arg-classic", overflow)
	g.taken("arg-classic", overflow)
	g.policy("arg-classic", limit)
	g.queue("arg-quorum", broker.Quorum, 30, map[string]any{"x-overflow": "drop-head"})
	g.policy("arg-quorum", limit)
	g.queue("arg-rejects", broker.Classic, 30, map[string]any{"x-overflow": "reject-publish"})
	g.policy("arg-rejects", map[string]any{"max-length": 10, "overflow": "drop-head"})
	g.queue("removed", broker.Classic, 30, nil)
	g.policy("removed", overflow)
	g.taken("removed", overflow)
	must(t, client.DeletePolicy(context.Background(), g.vhost, "removed"))
	g.taken("removed", map[string]any{})
	g.policy("removed", map[string]any{"max-length": 10})
	g.queue("own-dlx", broker.Classic, 30, map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead-own"})
	g.queue("dead-own", broker.Classic, 0, nil)
	g.policy("own-dlx", belt)
	g.queue("less", broker.Classic, 0, map[string]any{"x-max-length": 4})
	g.policy("less", limit)
	g.s.publish(t, g.vhost, "less", 8)
	g.s.publish(t, g.vhost, "below", 12)
	g.queue("below-quorum", broker.Quorum, 0, nil)
	g.policy("below-quorum", limit)
	g.s.publish(t, g.vhost, "below-quorum", 20)
	g.queue("hard", broker.Classic, 30, nil)
	must(t, client.PutOperatorPolicy(context.Background(), broker.Policy{VHost: g.vhost, Name: "hard", Pattern: "^hard", ApplyTo: broker.ApplyToQueues, Definition: map[string]any{"max-length": 10}}))
	g.queue("held", broker.Classic, 0, nil)
	g.policy("held", limit)
	g.s.publish(t, g.vhost, "held", 10)
	s.hold(t, g.vhost, "held", 6)
	g.s.publish(t, g.vhost, "held", 6)
	g.queue("held-quorum", broker.Quorum, 0, nil)
	g.policy("held-quorum", limit)
	g.s.publish(t, g.vhost, "held-quorum", 10)
	s.hold(t, g.vhost, "held-quorum", 6)
	g.s.publish(t, g.vhost, "held-quorum", 6)

	t.Run("F0.1-F0.5-after-the-policies", func(t *testing.T) {
		wantReady(t, client, g.vhost, map[string]int64{
			"free": 30, "one-step": 10, "two-steps": 30, "below": 10, "belt": 10, "dead": 20, "quorum": 30, "head": 10, "arg-classic": 10, "arg-quorum": 30,
			"arg-rejects": 30, "removed": 10, "own-dlx": 10, "dead-own": 20, "less": 4, "below-quorum": 11, "hard": 10,
			"held": 10, "held-quorum": 10,
		})
	})
	s.restart(t)
	t.Run("F0.2-after-a-restart", func(t *testing.T) {
		wantReady(t, s.client(t), g.vhost, map[string]int64{
			"free": 30, "two-steps": 10, "below": 10, "quorum": 30, "arg-quorum": 30, "removed": 10, "dead": 20, "belt": 10, "held": 10, "held-quorum": 16,
		})
	})
}

// testSizes: the size of messages comes with the statistics.
func testSizes(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	g := stage{t, s, client, s.vhost(t, client, "")}
	g.queue("classic", broker.Classic, 3, nil)
	eventually(t, func() (bool, string) {
		queues, err := client.Queues(ctx, g.vhost, broker.WithStatistics)
		must(t, err)
		bytes := queues[0].MessageBytes
		return bytes != nil && *bytes == 3, fmt.Sprintf("%+v", queues[0])
	})
	queues, err := client.Queues(ctx, g.vhost)
	must(t, err)
	if queues[0].MessageBytes != nil {
		t.Errorf("a size that was not asked for: %d", *queues[0].MessageBytes)
	}
}
