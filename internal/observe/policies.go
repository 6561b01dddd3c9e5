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

// IndexPolicyCluster is the name of the informer index of QueuePolicies by their cluster's name.
const IndexPolicyCluster = "spec.clusterRef.name"

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

// Rivals are the claims of other QueuePolicies on the same policy of the same cluster.
func (r Reader) Rivals(ctx context.Context, p *v1alpha1.QueuePolicy, clusterUID string) ([]policy.Claim, error) {
	siblings, err := r.Siblings(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []policy.Claim
	for i := range siblings {
		out = append(out, policy.ClaimOf(&siblings[i], clusterUID))
	}
	return out, nil
}

// Siblings are the other QueuePolicies that name the same policy of the same cluster.
func (r Reader) Siblings(ctx context.Context, p *v1alpha1.QueuePolicy) ([]v1alpha1.QueuePolicy, error) {
	var list v1alpha1.QueuePolicyList
	err := r.Cached.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{IndexPolicyCluster: p.Spec.ClusterRef.Name})
	if err != nil {
		return nil, fmt.Errorf("list QueuePolicies of cluster %s: %w", p.Spec.ClusterRef.Name, err)
	}
	var out []v1alpha1.QueuePolicy
	for _, other := range list.Items {
		if other.Name != p.Name && other.Spec.VHost == p.Spec.VHost && other.BrokerPolicyName() == p.BrokerPolicyName() {
			out = append(out, other)
		}
	}
	return out, nil
}
