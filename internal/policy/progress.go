package policy

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// RolloutOf is how far a rollout is recorded to be in the cluster with this key; nil for none.
func RolloutOf(p *v1alpha1.QueuePolicy, key string) *v1alpha1.RolloutStatus {
	for _, c := range p.Status.Clusters {
		if c.Cluster == key {
			return c.Rollout
		}
	}
	return nil
}

// RolloutOver tells whether nothing of a rollout is left to do.
func RolloutOver(state *v1alpha1.RolloutStatus) bool {
	return state == nil || state.Phase == v1alpha1.RolloutDone || state.Phase == v1alpha1.RolloutRolledBack
}

// GoesBack tells whether a rollout is being taken back: what the spec says is not what is written then.
func GoesBack(p *v1alpha1.QueuePolicy, state *v1alpha1.RolloutStatus) bool {
	return state != nil && (state.Phase == v1alpha1.RolloutRollingBack || state.Phase == v1alpha1.RolloutRolledBack && p.Spec.Rollout != nil && p.Spec.Rollout.RollBack)
}

// In tells whether the broker has all of it just as it should be.
func (r Rendered) In(v *Vhost) bool {
	have := Find(v.Policies, r.Policy.Name)
	if len(r.Policy.Definition) > 0 && !Same(r.Policy, have) || len(r.Policy.Definition) == 0 && have != nil {
		return false
	}
	return r.Operator == nil || Same(*r.Operator, Find(v.OperatorPolicies, r.Operator.Name))
}

// EarlierWaves are those of others, by namespace and name in order, that are to be rolled out before p in the broker with this
// UID, which is that of the target t of p, and are not done there.
func EarlierWaves(p *v1alpha1.QueuePolicy, others []*v1alpha1.QueuePolicy, t Target, uid string) []string {
	if p.Spec.Rollout == nil {
		return nil
	}
	var out []string
	for _, other := range others {
		earlier := other.Spec.Rollout != nil && other.Spec.Rollout.Wave < p.Spec.Rollout.Wave && other.DeletionTimestamp.IsZero()
		entry := entryOf(other, uid)
		if !earlier || other.UID == p.UID || !Aims(other, t, p.Namespace) && (t.Cluster != nil || entry == nil) {
			continue
		}
		if entry == nil || !rolledOut(other, entry.Rollout) {
			out = append(out, other.Namespace+"/"+other.Name)
		}
	}
	slices.Sort(out)
	return out
}

// entryOf is what the status of p records of the broker with this UID; nil for nothing. What it says of another broker that
// the same name or Secret stood for is not about this one.
func entryOf(p *v1alpha1.QueuePolicy, uid string) *v1alpha1.ClusterPolicyStatus {
	for i := range p.Status.Clusters {
		if c := &p.Status.Clusters[i]; c.Owned != nil && c.Owned.ClusterUID == uid {
			return c
		}
	}
	return nil
}

// rolledOut tells whether the spec as it is now has reached all queues. What a broker that does not answer had of an earlier
// spec, or of one that is being taken back, is not that.
func rolledOut(p *v1alpha1.QueuePolicy, state *v1alpha1.RolloutStatus) bool {
	return state != nil && state.Phase == v1alpha1.RolloutDone && state.ObservedGeneration == p.Generation
}
