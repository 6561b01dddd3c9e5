//go:build broker

package policy_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/bench/figures"
)

// B6: quorum queues that were declared on three nodes have members on five once the policy asks for them, and the status
// tells the way. It leaves the messages to bereaved.
func proveGrowth(t *testing.T, c *cluster) (s *scene, l *ledger) {
	queues, messages := size(6, 40), size(100, 500)
	s, l = newScene(t, c, "grown"), newLedger()
	var names []string
	for i := range queues {
		names = append(names, fmt.Sprintf("orders.%02d", i))
	}
	for i, name := range names {
		declare(t, c.amqp(i, s.vhost), "quorum", name)
	}
	p := publisher{ledger: l, address: func(int) string { return c.amqp(0, s.vhost) }, queues: names, window: 500, body: body(messageBytes), most: queues * messages}
	p.run(t.Context())
	if members := s.members(); !slices.Equal(slices.Compact(slices.Sorted(members)), []int{3}) {
		t.Fatalf("the queues have %v members, want 3 each", slices.Collect(members))
	}
	for len(c.nodes) < 5 {
		c.join(t, newVersion)
	}
	s.policy("orders", `^orders\.`, v1alpha1.ReplicationQuorum, func(spec *v1alpha1.QueuePolicySpec) { spec.Replication.Size = ptr(int32(5)) })
	began := time.Now()
	s.warren()
	said := false
	eventually(t, 10*time.Minute, func() error {
		for _, entry := range s.get("orders").Status.Clusters {
			said = said || entry.Reason == v1alpha1.ReasonBelowTargetSize && entry.Queues != nil
		}
		for n := range s.members() {
			if n < 5 {
				return fmt.Errorf("members: %v", slices.Collect(s.members()))
			}
		}
		return nil
	})
	s.ready(time.Minute, queues, "orders")
	found.add(t, "quorum: until all queues have 5 members", time.Since(began).Seconds(), "s", figures.NoGoal, true,
		fmt.Sprintf("%d quorum queues of %d messages on %s; the broker gets two minutes to do it itself", queues, messages, newVersion))
	if !said {
		t.Errorf("the status never said %s", v1alpha1.ReasonBelowTargetSize)
	}
	if !s.event("orders", "QueueGrown") {
		t.Error("no event told of a new member")
	}
	return s, l
}

// members that are online, of each queue, as the broker tells.
func (s *scene) members() func(func(int) bool) {
	s.t.Helper()
	var queues []struct {
		Members []string `json:"members"`
		Online  []string `json:"online"`
	}
	must(s.t, s.cluster.ask(s.t.Context(), 0, "/queues/"+url.PathEscape(s.vhost)+"?disable_stats=true&enable_queue_totals=true", &queues))
	return func(yield func(int) bool) {
		for _, q := range queues {
			if !yield(min(len(q.Members), len(q.Online))) {
				return
			}
		}
	}
}

// bereaved: two of the three nodes that the queues began on die, and every message is there: the new members are real.
func bereaved(t *testing.T, s *scene, l *ledger) {
	c := s.cluster
	for _, node := range c.nodes[:2] {
		must(t, node.Kill())
	}
	alive := cluster{nodes: c.nodes[2:]}
	confirmed, _, _, _ := l.counts()
	eventually(t, 3*time.Minute, func() error {
		for _, name := range l.queues() {
			got, err := drain(alive.amqp(0, s.vhost), name)
			for _, d := range got {
				l.take(d.MessageId)
			}
			if err != nil {
				return err
			}
		}
		if left := l.left(); len(left) > 0 {
			return fmt.Errorf("%d of %d messages are missing", len(left), confirmed)
		}
		return nil
	})
	found.add(t, "quorum: confirmed messages lost", float64(len(l.left())), "messages", "0", len(l.left()) == 0 && confirmed > 0,
		fmt.Sprintf("%d confirmed; two of the three first nodes were killed before they were read", confirmed))
}
