package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
)

const (
	// growPatience is how long brokers that grow quorum queues by themselves get to begin.
	growPatience = 2 * time.Minute
	// mostGrown is how many quorum queues get a member in one pass: each new one copies the queue's messages.
	mostGrown = 5
)

// grow adds members to quorum queues that have the policy, or a temporary one, and fewer members than it asks for.
func (f *facts) grow() []policy.Action {
	if len(f.Vhost.Alarms) > 0 || !f.Vhost.AlarmsKnown || f.Vhost.Capabilities.MembershipReconciliation && !f.growsLate() {
		return nil
	}
	out := policy.GrowQueues(f.Object, f.Rendered, *f.Vhost, mostGrown)
	for _, t := range f.temps {
		if len(out) < mostGrown && t.id == f.id {
			out = append(out, policy.GrowQueues(f.Object, policy.Rendered{Policy: t.policy}, *f.Vhost, mostGrown-len(out))...)
		}
	}
	return out
}

// growsLate tells whether the broker had its time to grow them itself.
func (f *facts) growsLate() bool {
	if f.state != nil && unfinished(f.state.Phase) {
		return f.state.Since != nil && f.Now.Sub(f.state.Since.Time) >= growPatience
	}
	for _, c := range f.Object.Status.Conditions {
		if c.Type == v1alpha1.ConditionInForce {
			return c.Status == metav1.ConditionFalse && f.Now.Sub(c.LastTransitionTime.Time) >= growPatience
		}
	}
	return false
}
