package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/status"
)

// PolicyMetrics are sums over all QueuePolicies by cluster: ten thousand policies are no ten thousand series.
type PolicyMetrics struct {
	policies, notInForce, due, rollouts, staged *prometheus.Desc

	mu     sync.Mutex
	shares map[string][]policyShare // by namespace/name
}

// policyShare is what one policy adds to the sums of one cluster.
type policyShare struct {
	cluster, ready string
	reasons        map[string]int
	due            string // "", "soon" or "passed"
	phase          string // of a rollout that is not over
	done, total    int
}

// NewPolicyMetrics registers the sums.
func NewPolicyMetrics(registry prometheus.Registerer) (*PolicyMetrics, error) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("warren_queuepolicy_"+name, help, labels, nil)
	}
	m := &PolicyMetrics{
		shares:     map[string][]policyShare{},
		policies:   desc("policies", "QueuePolicies that are for a cluster, by whether they are Ready.", "cluster", "ready"),
		notInForce: desc("queues_not_in_force", "Queues on which a policy that means them is not in force, by reason.", "cluster", "reason"),
		due:        desc("quorum_decisions_due", "Mirrored policies whose quorumDecision.by is less than 30 days away (soon) or has passed.", "cluster", "state"),
		rollouts:   desc("rollouts", "Rollouts that are under way, by phase.", "cluster", "phase"),
		staged:     desc("rollout_queues", "Queues of rollouts that are under way: those that have what is rolled out (done), and all (total).", "cluster", "state"),
	}
	return m, registry.Register(m)
}

// Describe implements prometheus.Collector.
func (m *PolicyMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.policies, m.notInForce, m.due, m.rollouts, m.staged} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *PolicyMetrics) Collect(out chan<- prometheus.Metric) {
	type series struct {
		desc           *prometheus.Desc
		cluster, label string
	}
	sums := map[series]int{}
	m.mu.Lock()
	for _, shares := range m.shares {
		for _, s := range shares {
			sums[series{m.policies, s.cluster, s.ready}]++
			for reason, n := range s.reasons {
				sums[series{m.notInForce, s.cluster, reason}] += n
			}
			if s.due != "" {
				sums[series{m.due, s.cluster, s.due}]++
			}
			if s.phase != "" {
				sums[series{m.rollouts, s.cluster, s.phase}]++
				sums[series{m.staged, s.cluster, "done"}] += s.done
				sums[series{m.staged, s.cluster, "total"}] += s.total
			}
		}
	}
	m.mu.Unlock()
	for s, n := range sums {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), s.cluster, s.label)
	}
}

// show makes the share of a policy what its last pass saw.
func (m *PolicyMetrics) show(p *v1alpha1.QueuePolicy, outcome status.Policy, next v1alpha1.QueuePolicyStatus) {
	if m == nil {
		return
	}
	due := ""
	if c := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionQuorumDecisionDue); c != nil {
		due = map[string]string{v1alpha1.ReasonDueSoon: "soon", v1alpha1.ReasonDatePassed: "passed"}[c.Reason]
	}
	var shares []policyShare
	for i, c := range outcome.Clusters {
		if c.Leaving {
			continue
		}
		s := policyShare{cluster: clusterLabel(p, c.Cluster), ready: string(metav1.ConditionFalse), due: due, reasons: map[string]int{}}
		if next.Clusters[i].Reason == v1alpha1.ReasonReady {
			s.ready = string(metav1.ConditionTrue)
		} else if c.Unasked != nil {
			s.ready = string(metav1.ConditionUnknown)
		}
		if c.Effect != nil {
			for _, g := range c.Effect.NotInForce {
				s.reasons[g.Reason] = len(g.Queues)
			}
		}
		if !policy.RolloutOver(c.Rollout) {
			s.phase, s.done, s.total = string(c.Rollout.Phase), int(c.Rollout.Done), int(c.Rollout.Total)
		}
		shares = append(shares, s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares[p.Namespace+"/"+p.Name] = shares
}

// clusterLabel names a cluster beyond the namespace of one policy.
func clusterLabel(p *v1alpha1.QueuePolicy, key string) string {
	if p.Spec.ConnectionSecretRef != nil {
		return p.Namespace + "/" + key
	}
	return key
}

// forget drops the share of a policy that is gone.
func (m *PolicyMetrics) forget(namespace, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.shares, namespace+"/"+name)
}
