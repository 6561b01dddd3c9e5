package observe

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
)

// The informer indexes of QueuePolicies: what they are for, with the vhost, and with the policy's name too. With them a pass
// looks at the few that matter to it, however many there are.
const (
	IndexPolicyCluster = "policyCluster"
	IndexPolicyVHost   = "policyVHost"
	IndexPolicyClaim   = "policyClaim"
)

// Values of what a QueuePolicy is for that is no WorkloadCluster's name.
const (
	bySelector = "*"
	bySecret   = "secret"
)

// PolicyIndexes make the values of the indexes.
var PolicyIndexes = map[string]func(*v1alpha1.QueuePolicy) []string{
	IndexPolicyCluster: func(p *v1alpha1.QueuePolicy) []string { return []string{aim(p)} },
	IndexPolicyVHost:   func(p *v1alpha1.QueuePolicy) []string { return []string{joined(aim(p), p.Spec.VHost)} },
	IndexPolicyClaim: func(p *v1alpha1.QueuePolicy) []string {
		out := []string{joined(aim(p), p.Spec.VHost, p.BrokerPolicyName())}
		for _, c := range p.Status.Clusters {
			if c.Owned != nil {
				out = append(out, joined(c.Owned.ClusterUID, c.Owned.VHost, c.Owned.Name))
			}
		}
		return out
	},
}

// aim is what a QueuePolicy is for, as the indexes have it.
func aim(p *v1alpha1.QueuePolicy) string {
	switch {
	case p.Spec.ClusterRef != nil && p.Spec.ClusterRef.Namespace != "":
		return policy.ClusterKey(p.Spec.ClusterRef.Namespace, p.Spec.ClusterRef.Name)
	case p.Spec.ClusterRef != nil:
		return policy.ClusterKey(p.Namespace, p.Spec.ClusterRef.Name)
	case p.Spec.ConnectionSecretRef != nil:
		return bySecret
	}
	return bySelector
}

// joined cannot be taken for another list of words: none of them has a zero byte.
func joined(words ...string) string {
	out := words[0]
	for _, word := range words[1:] {
		out += "\x00" + word
	}
	return out
}

// indexed are the QueuePolicies under any of the values. They are the informer's own and must not be changed.
func (r Reader) indexed(ctx context.Context, index string, values ...string) ([]*v1alpha1.QueuePolicy, error) {
	var out []*v1alpha1.QueuePolicy
	seen := map[client.ObjectKey]bool{}
	for _, value := range values {
		var list v1alpha1.QueuePolicyList
		if err := r.Cached.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list QueuePolicies by %s: %w", index, err)
		}
		for i := range list.Items {
			if key := client.ObjectKeyFromObject(&list.Items[i]); !seen[key] {
				seen[key] = true
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// Clusters are the WorkloadClusters that p may be for. They must not be changed.
func (r Reader) Clusters(ctx context.Context, p *v1alpha1.QueuePolicy) ([]*v1alpha1.WorkloadCluster, error) {
	var list v1alpha1.WorkloadClusterList
	if err := r.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list WorkloadClusters: %w", err)
	}
	out := make([]*v1alpha1.WorkloadCluster, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// PoliciesOf are the QueuePolicies that are for the cluster c, or may be. They must not be changed.
func (r Reader) PoliciesOf(ctx context.Context, c *v1alpha1.WorkloadCluster) ([]*v1alpha1.QueuePolicy, error) {
	return r.indexed(ctx, IndexPolicyCluster, policy.ClusterKey(c.Namespace, c.Name), bySelector)
}

// PoliciesAt are the QueuePolicies that are for the broker of a target, or may be. They must not be changed.
func (r Reader) PoliciesAt(ctx context.Context, t policy.Target) ([]*v1alpha1.QueuePolicy, error) {
	if t.Cluster != nil {
		return r.PoliciesOf(ctx, t.Cluster)
	}
	return r.indexed(ctx, IndexPolicyCluster, bySecret)
}

// Neighbours are the other QueuePolicies of the vhost of p in the broker with this UID that a target names: those that want
// a policy there.
func (r Reader) Neighbours(ctx context.Context, p *v1alpha1.QueuePolicy, t policy.Target) ([]*v1alpha1.QueuePolicy, error) {
	values := []string{joined(bySecret, p.Spec.VHost)}
	if t.Cluster != nil {
		values = []string{joined(t.Key, p.Spec.VHost), joined(bySelector, p.Spec.VHost)}
	}
	all, err := r.indexed(ctx, IndexPolicyVHost, values...)
	var out []*v1alpha1.QueuePolicy
	for _, other := range all {
		if other.UID != p.UID && policy.Aims(other, t, p.Namespace) {
			out = append(out, other)
		}
	}
	return out, err
}

// Rivals are the claims of other QueuePolicies on the same policy of the broker with this UID. One that is not for it any more
// claims nothing, but may still own.
func (r Reader) Rivals(ctx context.Context, p *v1alpha1.QueuePolicy, t policy.Target, uid string) ([]policy.Claim, error) {
	name := p.BrokerPolicyName()
	values := []string{joined(uid, p.Spec.VHost, name)}
	if t.Cluster != nil {
		values = append(values, joined(t.Key, p.Spec.VHost, name), joined(bySelector, p.Spec.VHost, name))
	} else {
		values = append(values, joined(bySecret, p.Spec.VHost, name))
	}
	all, err := r.indexed(ctx, IndexPolicyClaim, values...)
	var out []policy.Claim
	for _, other := range all {
		if other.UID == p.UID {
			continue
		}
		if claim, is := policy.ClaimAt(other, t, p.Namespace, uid); is {
			out = append(out, claim)
		}
	}
	return out, err
}

// Siblings are the other QueuePolicies that may want a policy of the same name.
func (r Reader) Siblings(ctx context.Context, p *v1alpha1.QueuePolicy) ([]*v1alpha1.QueuePolicy, error) {
	values := PolicyIndexes[IndexPolicyClaim](p)
	values = append(values, joined(bySelector, p.Spec.VHost, p.BrokerPolicyName()))
	all, err := r.indexed(ctx, IndexPolicyClaim, values...)
	var out []*v1alpha1.QueuePolicy
	for _, other := range all {
		if other.UID != p.UID {
			out = append(out, other)
		}
	}
	return out, err
}
