package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/policy"
)

// IndexPolicyCluster is the name of the informer index of QueuePolicies by what they are for: PolicyIndex makes its values.
const IndexPolicyCluster = "policyTarget"

// Connect hands out a client of the cluster's broker, with the credentials that are in force now.
func (r Reader) Connect(ctx context.Context, c *v1alpha1.WorkloadCluster) (broker.Client, error) {
	var admin corev1.Secret
	key := client.ObjectKey{Namespace: c.Namespace, Name: desired.AdminSecretName(c.Name)}
	if err := r.Cached.Get(ctx, key, &admin); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key.Name, err)
	}
	target, err := Target(c, &admin)
	if err != nil {
		return nil, err
	}
	return r.Connector.Connect(target)
}

// Vhost is what the broker has in one vhost.
type Vhost struct {
	Capabilities broker.Capabilities
	Policies     []broker.Policy
	RunningNodes int
}

// Vhost reads the broker's version, its nodes and the policies of vhost.
func (r Reader) Vhost(ctx context.Context, api broker.Client, vhost string) (Vhost, error) {
	overview, err := api.Overview(ctx)
	if err != nil {
		return Vhost{}, err
	}
	version, err := broker.ParseVersion(overview.RabbitMQVersion)
	if err != nil {
		return Vhost{}, err
	}
	capabilities, err := broker.CapabilitiesOf(version)
	if err != nil {
		return Vhost{}, err
	}
	policies, err := api.Policies(ctx, vhost)
	if err != nil {
		return Vhost{}, err
	}
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return Vhost{}, err
	}
	out := Vhost{Capabilities: capabilities, Policies: policies}
	for _, node := range nodes {
		if node.Running {
			out.RunningNodes++
		}
	}
	return out, nil
}

// bySelector is the value of IndexPolicyCluster of QueuePolicies that name no cluster but select some.
const bySelector = "*"

// PolicyIndex are the values of IndexPolicyCluster of p.
func PolicyIndex(p *v1alpha1.QueuePolicy) []string {
	if p.Spec.ClusterRef != nil {
		namespace := p.Spec.ClusterRef.Namespace
		if namespace == "" {
			namespace = p.Namespace
		}
		return []string{policy.ClusterKey(namespace, p.Spec.ClusterRef.Name)}
	}
	return []string{bySelector}
}

// Targets are the broker clusters that p is for.
func (r Reader) Targets(ctx context.Context, p *v1alpha1.QueuePolicy) ([]policy.Target, *policy.Refusal, error) {
	var list v1alpha1.WorkloadClusterList
	if err := r.Cached.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list WorkloadClusters: %w", err)
	}
	clusters := make([]*v1alpha1.WorkloadCluster, len(list.Items))
	for i := range list.Items {
		clusters[i] = &list.Items[i]
	}
	targets, refusal := policy.Targets(p, clusters)
	return targets, refusal, nil
}

// PoliciesOf are the QueuePolicies that are for the cluster c, or may be.
func (r Reader) PoliciesOf(ctx context.Context, c *v1alpha1.WorkloadCluster) ([]v1alpha1.QueuePolicy, error) {
	var out []v1alpha1.QueuePolicy
	for _, value := range []string{policy.ClusterKey(c.Namespace, c.Name), bySelector} {
		var list v1alpha1.QueuePolicyList
		if err := r.Cached.List(ctx, &list, client.MatchingFields{IndexPolicyCluster: value}); err != nil {
			return nil, fmt.Errorf("list QueuePolicies of cluster %s: %w", c.Name, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// Rivals are the claims of other QueuePolicies on the same policy of the same cluster.
func (r Reader) Rivals(ctx context.Context, p *v1alpha1.QueuePolicy, c *v1alpha1.WorkloadCluster) ([]policy.Claim, error) {
	all, err := r.PoliciesOf(ctx, c)
	if err != nil {
		return nil, err
	}
	var out []policy.Claim
	for i := range all {
		other := &all[i]
		if other.UID != p.UID && other.Spec.VHost == p.Spec.VHost && other.BrokerPolicyName() == p.BrokerPolicyName() && policy.IsFor(other, c) {
			out = append(out, policy.ClaimOf(other, string(c.UID)))
		}
	}
	return out, nil
}

// Siblings are the other QueuePolicies that may want the same policy of the same cluster.
func (r Reader) Siblings(ctx context.Context, p *v1alpha1.QueuePolicy) ([]v1alpha1.QueuePolicy, error) {
	var out []v1alpha1.QueuePolicy
	for _, value := range PolicyIndex(p) {
		var list v1alpha1.QueuePolicyList
		if err := r.Cached.List(ctx, &list, client.MatchingFields{IndexPolicyCluster: value}); err != nil {
			return nil, fmt.Errorf("list QueuePolicies: %w", err)
		}
		for _, other := range list.Items {
			if other.UID != p.UID && other.Spec.VHost == p.Spec.VHost && other.BrokerPolicyName() == p.BrokerPolicyName() {
				out = append(out, other)
			}
		}
	}
	return out, nil
}
