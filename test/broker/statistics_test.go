package broker_test

import (
	"context"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// testStatisticsOff is case G2: without statistics nothing becomes zero; what is in force and the totals stay known.
func testStatisticsOff(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := three(t, s, client)
	must(t, client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "p", Pattern: ".*", Definition: map[string]any{"max-length-bytes": 1000}}))
	s.setStatistics(t, false)
	t.Cleanup(func() { s.setStatistics(t, true) })

	t.Run("G2-consumers-and-stream-counts-are-unknown", func(t *testing.T) {
		queues, err := client.Queues(ctx, vhost, broker.WithStatistics)
		must(t, err)
		for _, queue := range queues {
			if queue.Consumers != nil {
				t.Errorf("queue %q has %d consumers, by nobody's word", queue.Name, *queue.Consumers)
			}
			if queue.Type == broker.Stream && queue.Messages != nil {
				t.Errorf("stream has %d messages, by nobody's word", *queue.Messages)
			}
		}
	})
	t.Run("G2-totals-and-policies-are-known", func(t *testing.T) {
		queues, err := client.Queues(ctx, vhost)
		must(t, err)
		for _, queue := range queues {
			if queue.Policy == nil || *queue.Policy != "p" || queue.EffectiveDefinition == nil {
				t.Errorf("queue %q: what is in force is not known: %+v", queue.Name, queue)
			}
			if queue.Type != broker.Stream && queue.Messages == nil {
				t.Errorf("queue %q: the total is not known", queue.Name)
			}
		}
	})
	t.Run("G2-node-figures-are-unknown", func(t *testing.T) {
		nodes, err := client.Nodes(ctx)
		must(t, err)
		for _, node := range nodes {
			if !node.Running || node.MemoryLimit != nil || node.DiskFreeLimit != nil || node.MemoryAlarm != nil {
				t.Errorf("got %+v", node)
			}
		}
	})
}
