package policy

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// GrowQueues adds members to quorum queues that have the policy want and fewer members than it asks for, one member a queue
// and at most so many: each new member copies what the queue holds. A queue with a member that is away is left alone: it needs
// that member, not more of them.
func GrowQueues(p *v1alpha1.QueuePolicy, want Rendered, v Vhost, most int) []Action {
	wanted := copies(p.Spec.Replication)
	if p.Spec.Replication.Mode != v1alpha1.ReplicationQuorum || !v.Capabilities.GrowsOnRequest {
		return nil
	}
	load := map[string]int{}
	for _, q := range v.Queues {
		for _, node := range q.Members {
			load[node]++
		}
	}
	var out []Action
	for _, q := range v.Queues {
		small := q.Type == broker.Quorum && q.Members != nil && len(q.Members) < wanted && len(q.Online) >= len(q.Members)
		if !small || q.Policy == nil || *q.Policy != want.Policy.Name {
			continue
		}
		node := ""
		for _, candidate := range v.Nodes {
			if !slices.Contains(q.Members, candidate) && (node == "" || load[candidate] < load[node]) {
				node = candidate
			}
		}
		if node == "" || len(out) == most {
			continue
		}
		load[node]++
		out = append(out, Action{Verb: GrowQueue, Queue: q, Node: node, Why: fmt.Sprintf("the queue has %d of %d members", len(q.Members), wanted)})
	}
	return out
}

// mostGrown is how many quorum queues get a member in one pass.
const mostGrown = 5

// Grow adds members to the quorum queues of the policy on brokers that do not do so by themselves.
func Grow(p *v1alpha1.QueuePolicy, want Rendered, v *Vhost) []Action {
	if v.Capabilities.MembershipReconciliation {
		return nil
	}
	return GrowQueues(p, want, *v, mostGrown)
}
