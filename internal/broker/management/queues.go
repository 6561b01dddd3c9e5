package management

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// withTotals makes the broker ask every queue for its length. It gives up after one second of silence and answers
// 200 with the queues it has so far, so this listing may add counts but never decides which queues exist.
func withTotals() url.Values {
	return url.Values{"disable_stats": {"true"}, "enable_queue_totals": {"true"}}
}

// Queues implements broker.QueueReader.
func (c *client) Queues(ctx context.Context, vhost string, options ...broker.ListOption) ([]broker.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.ListTimeout)
	defer cancel()
	op := listOp(vhost)
	replies, err := c.completeListing(ctx, op, vhost)
	if err != nil {
		return nil, err
	}
	queues := make([]broker.Queue, len(replies))
	for i, reply := range replies {
		queues[i] = reply.described()
	}
	statistics := statistics{client: c, op: op, vhost: vhost}
	if err := c.explainPolicies(ctx, vhost, queues, &statistics); err != nil {
		return nil, err
	}
	if !slices.Contains(options, broker.WithoutCounts) {
		if err := c.addTotals(ctx, op, vhost, queues); err != nil {
			return nil, err
		}
	}
	if slices.Contains(options, broker.WithStatistics) {
		if err := statistics.addTo(ctx, queues); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(queues, func(a, b broker.Queue) int { return strings.Compare(a.Name, b.Name) })
	return queues, nil
}

func (c *client) addTotals(ctx context.Context, op, vhost string, queues []broker.Queue) error {
	if len(queues) == 0 {
		return nil
	}
	totals, err := c.auxiliary(ctx, op, vhost, withTotals())
	if err != nil {
		return err
	}
	for i := range queues {
		reply, found := totals[queues[i].Name]
		if !found {
			continue
		}
		reply.count(&queues[i])
		if reply.State != "" {
			queues[i].State = reply.state() // asked of the queue itself
		}
	}
	return nil
}

// statistics is the listing with the broker's statistics, read at most once.
type statistics struct {
	client *client
	op     string
	vhost  string
	read   map[string]queueReply
}

func (s *statistics) get(ctx context.Context) (map[string]queueReply, error) {
	if s.read == nil {
		read, err := s.client.auxiliary(ctx, s.op, s.vhost, nil)
		if err != nil {
			return nil, err
		}
		s.read = read
	}
	return s.read, nil
}

func (s *statistics) addTo(ctx context.Context, queues []broker.Queue) error {
	if len(queues) == 0 {
		return nil
	}
	read, err := s.get(ctx)
	if err != nil {
		return err
	}
	for i := range queues {
		if reply, found := read[queues[i].Name]; found {
			reply.count(&queues[i])
			queues[i].Taken = optionalTable(reply.EffectiveDefinition)
		}
	}
	return nil
}

// Queue implements broker.QueueInspector with three requests: the metadata, the length now (4.x), the statistics.
// Up to 4.1 the broker shows the policy of a single queue only in the statistics, up to 5 s late.
func (c *client) Queue(ctx context.Context, vhost, name string) (broker.Queue, error) {
	op := fmt.Sprintf("read queue %q of vhost %q", name, vhost)
	place := at("queues").named(vhost, name)
	var queue broker.Queue
	for i, query := range []url.Values{{"disable_stats": {"true"}}, withTotals(), nil} {
		var reply queueReply
		if err := c.get(ctx, op, place, query, &reply); err != nil {
			return broker.Queue{}, err
		}
		if reply.VHost != vhost || reply.Name != name {
			return broker.Queue{}, misdirected(op, reply.VHost)
		}
		if i == 0 {
			queue = reply.described()
			continue
		}
		reply.count(&queue)
		if query == nil {
			queue.Taken = optionalTable(reply.EffectiveDefinition)
		}
		if queue.EffectiveDefinition == nil && query == nil {
			queue.EffectiveDefinition = optionalTable(reply.EffectiveDefinition)
			queue.Policy, queue.OperatorPolicy = optionalName(reply.Policy), optionalName(reply.OperatorPolicy)
		}
	}
	return queue, nil
}
