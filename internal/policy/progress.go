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

// EarlierWaves are those of others, by namespace and name in order, that are to be rolled out before p in the cluster with this
// key and are not done.
func EarlierWaves(p *v1alpha1.QueuePolicy, others []*v1alpha1.QueuePolicy, key string) []string {
	if p.Spec.Rollout == nil {
		return nil
	}
	var out []string
	for _, other := range others {
		if other.Spec.Rollout == nil || other.Spec.Rollout.Wave >= p.Spec.Rollout.Wave || !other.DeletionTimestamp.IsZero() {
			continue
		}
		state := RolloutOf(other, key)
		if other.Status.ObservedGeneration != other.Generation || state == nil || state.Phase != v1alpha1.RolloutDone {
			out = append(out, other.Namespace+"/"+other.Name)
		}
	}
	slices.Sort(out)
	return out
}
