package observe

import (
	"context"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/status"
)

// Defaults asks the broker for what spec.defaults is about, and for no more.
func (r Reader) Defaults(ctx context.Context, c *v1alpha1.WorkloadCluster, api broker.Client, answered status.Broker) (policy.DefaultsSeen, error) {
	out := policy.DefaultsSeen{
		Complete: len(answered.Nodes) >= int(c.Spec.Replicas) && !slices.ContainsFunc(answered.Nodes, func(n broker.Node) bool { return !n.Running }),
		Vhost:    policy.Vhost{Name: policy.DefaultVHost},
	}
	var err error
	if out.QueueType, err = api.DefaultQueueType(ctx, policy.DefaultVHost); err != nil {
		return out, err
	}
	dead := policy.DefaultDeadLettersOf(c)
	if dead == nil || !out.Complete {
		return out, nil
	}
	switch queue, err := api.Queue(ctx, policy.DefaultVHost, dead.Queue.Name); {
	case err == nil:
		out.Vhost.Queues = []broker.Queue{queue}
	case !broker.IsNotFound(err):
		return out, err
	}
	if out.Vhost.Exchanges, err = api.Exchanges(ctx, policy.DefaultVHost); err != nil {
		return out, err
	}
	out.Vhost.Bindings, err = api.Bindings(ctx, policy.DefaultVHost)
	return out, err
}
