package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

func TestQuorumQueuesGrowWhereTheBrokerCan(t *testing.T) {
	nodes := []string{"a", "b", "c"}
	members := func(online int, names ...string) func(*broker.Queue) {
		return func(q *broker.Queue) {
			under("orders", nil)(q)
			q.Members, q.Online = names, names[:online]
		}
	}
	small := held("orders.1", broker.Quorum, 0, members(1, "a"))
	for _, c := range []struct {
		name    string
		policy  *v1alpha1.QueuePolicy
		version string
		nodes   []string
		queues  []broker.Queue
		want    []string
	}{
		{"one member at a time, where the fewest are", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nodes,
			[]broker.Queue{small, held("orders.2", broker.Quorum, 0, members(1, "a")), held("orders.3", broker.Quorum, 0, members(2, "a", "b"))}, []string{"orders.1 on c", "orders.2 on b"}},
		{"as many as wanted", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nodes, []broker.Queue{held("orders.1", broker.Quorum, 0, members(3, "a", "b", "c"))}, nil},
		{"three of five nodes are asked for", queuePolicy(v1alpha1.ReplicationQuorum, size(5)), "4.3.6", nodes, []broker.Queue{held("orders.1", broker.Quorum, 0, members(3, "a", "b", "c"))}, nil},
		{"not while a member is away", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nodes, []broker.Queue{held("orders.1", broker.Quorum, 0, members(1, "a", "b"))}, nil},
		{"not when the members are not known", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nodes, []broker.Queue{held("orders.1", broker.Quorum, 0, under("orders", nil))}, nil},
		{"not queues that have another policy", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nodes, []broker.Queue{held("orders.1", broker.Quorum, 0, members(1, "a"), under("other", nil))}, nil},
		{"not where no such call exists", queuePolicy(v1alpha1.ReplicationQuorum), "3.10.8", nodes, []broker.Queue{small}, nil},
		{"not when the nodes are not known", queuePolicy(v1alpha1.ReplicationQuorum), "4.3.6", nil, []broker.Queue{small}, nil},
		{"not in other modes", queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`)), "4.3.6", nodes, []broker.Queue{small}, nil},
	} {
		v := vhostOf(t, c.version, c.queues...)
		v.Nodes = c.nodes
		want, err := Render(c.policy, v.Capabilities)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range GrowQueues(c.policy, want, v, 2) {
			got = append(got, fmt.Sprintf("%s on %s", a.Queue.Name, a.Node))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
