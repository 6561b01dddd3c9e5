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
	for i := range v.Queues {
		q := &v.Queues[i]
		if len(out) >= most || !mayGrow(q, want.Policy.Name, wanted) {
			continue
		}
		node := leastLoaded(v.Nodes, q.Members, load)
		if node == "" {
			continue
		}
		load[node]++
		out = append(out, Action{Verb: GrowQueue, Queue: *q, Node: node, Why: fmt.Sprintf("the queue has %d of %d members", len(q.Members), wanted)})
	}
	return out
}

func mayGrow(q *broker.Queue, policy string, wanted int) bool {
	hasPolicy := q.Policy != nil && *q.Policy == policy
	whole := len(q.Members) > 0 && len(q.Online) >= len(q.Members)
	return q.Type == broker.Quorum && hasPolicy && whole && len(q.Members) < wanted
}

// leastLoaded is the node with the fewest members of queues that has none of this one; "" if there is none.
func leastLoaded(nodes, members []string, load map[string]int) string {
	best := ""
	for _, node := range nodes {
		if !slices.Contains(members, node) && (best == "" || load[node] < load[best]) {
			best = node
		}
	}
	return best
}
