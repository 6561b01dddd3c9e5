package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Target is one broker cluster that a QueuePolicy is for.
type Target struct {
	// Key of its entry in status.clusters.
	Key string
	// Cluster that Warren runs; nil for a connection Secret, and when it cannot be worked on.
	Cluster *v1alpha1.WorkloadCluster
	// Secret that says how to reach a RabbitMQ that Warren does not run; "" for a WorkloadCluster.
	Secret string
	// Reason and Message say why it cannot be worked on; "" if it can.
	Reason, Message string
}

// mostClusters is how many a status can tell of.
const mostClusters = 100

// Targets are the broker clusters that p is for, sorted by key, out of all WorkloadClusters. The Refusal says why there are
// none.
func Targets(p *v1alpha1.QueuePolicy, clusters []*v1alpha1.WorkloadCluster) ([]Target, *Refusal) {
	switch {
	case p.Spec.ConnectionSecretRef != nil:
		return []Target{{Key: SecretKey(p.Spec.ConnectionSecretRef.Name), Secret: p.Spec.ConnectionSecretRef.Name}}, nil
	case p.Spec.ClusterRef != nil:
		return []Target{named(p, clusters)}, nil
	}
	var out []Target
	for _, c := range clusters {
		if IsFor(p, c) {
			out = append(out, Target{Key: ClusterKey(c.Namespace, c.Name), Cluster: c})
		}
	}
	switch {
	case len(out) == 0:
		return nil, &Refusal{Reason: v1alpha1.ReasonClusterNotFound, Message: "clusterSelector matches no WorkloadCluster that this namespace may use"}
	case len(out) > mostClusters:
		return nil, invalid("clusterSelector matches %d WorkloadClusters, and one QueuePolicy can be in at most %d: use several", len(out), mostClusters)
	}
	slices.SortFunc(out, func(a, b Target) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

func named(p *v1alpha1.QueuePolicy, clusters []*v1alpha1.WorkloadCluster) Target {
	namespace, name := refOf(p)
	out := Target{Key: ClusterKey(namespace, name)}
	for _, c := range clusters {
		if c.Namespace == namespace && c.Name == name && IsFor(p, c) {
			out.Cluster = c
			return out
		}
	}
	out.Reason = v1alpha1.ReasonClusterNotFound
	if namespace == p.Namespace {
		out.Message = fmt.Sprintf("WorkloadCluster %s does not exist in this namespace, or is being deleted", name)
	} else { // not more: what is in other namespaces is not everybody's business
		out.Message = fmt.Sprintf("WorkloadCluster %s does not exist in namespace %s, or does not list namespace %s in spec.policyNamespaces", name, namespace, p.Namespace)
	}
	return out
}

// ClusterKey of a WorkloadCluster in status.clusters.
func ClusterKey(namespace, name string) string { return namespace + "/" + name }

// SecretKey of a connection Secret in status.clusters.
func SecretKey(name string) string { return "secret/" + name }

func refOf(p *v1alpha1.QueuePolicy) (namespace, name string) {
	namespace = p.Spec.ClusterRef.Namespace
	if namespace == "" {
		namespace = p.Namespace
	}
	return namespace, p.Spec.ClusterRef.Name
}

// IsFor tells whether p is for the WorkloadCluster c, which lives and lets it.
func IsFor(p *v1alpha1.QueuePolicy, c *v1alpha1.WorkloadCluster) bool {
	if !c.DeletionTimestamp.IsZero() || !grants(c, p.Namespace) {
		return false
	}
	switch {
	case p.Spec.ClusterRef != nil:
		namespace, name := refOf(p)
		return c.Namespace == namespace && c.Name == name
	case p.Spec.ClusterSelector != nil:
		return selects(p, *p.Spec.ClusterSelector, c)
	}
	return false
}

// grants tells whether QueuePolicies of a namespace may be in the cluster.
func grants(c *v1alpha1.WorkloadCluster, namespace string) bool {
	return c.Namespace == namespace || slices.Contains(c.Spec.PolicyNamespaces, namespace) || slices.Contains(c.Spec.PolicyNamespaces, "*")
}

func selects(p *v1alpha1.QueuePolicy, s v1alpha1.ClusterSelector, c *v1alpha1.WorkloadCluster) bool {
	namespaces := s.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{p.Namespace}
	}
	if !slices.Contains(namespaces, c.Namespace) || s.WorkloadClass != "" && c.Spec.WorkloadClass != s.WorkloadClass {
		return false
	}
	for key, value := range s.MatchLabels {
		if got, has := c.Labels[key]; !has || got != value {
			return false
		}
	}
	return s.WorkloadClass != "" || len(s.MatchLabels) > 0
}

// Owned is what the status records as made in the cluster with this key; nil for nothing.
func Owned(p *v1alpha1.QueuePolicy, key string) *v1alpha1.OwnedPolicy {
	for _, c := range p.Status.Clusters {
		if c.Cluster == key {
			return c.Owned
		}
	}
	return nil
}

// ExternalPrefix begins the UID of a broker that Warren does not run.
const ExternalPrefix = "external-"

// Leave is a cluster that the policy is not for any more, and is still recorded in.
type Leave struct {
	Target
	Owned v1alpha1.OwnedPolicy
}

// Leaving are the clusters that p has to leave. One that is gone, or that another object of the same name has taken the
// place of, needs nothing. A WorkloadCluster whose namespace takes its leave back still has to be left.
func Leaving(p *v1alpha1.QueuePolicy, clusters []*v1alpha1.WorkloadCluster) []Leave {
	byUID := map[string]*v1alpha1.WorkloadCluster{}
	for _, c := range clusters {
		if c.DeletionTimestamp.IsZero() {
			byUID[string(c.UID)] = c
		}
	}
	all := !p.DeletionTimestamp.IsZero()
	var out []Leave
	for _, entry := range p.Status.Clusters {
		if entry.Owned == nil {
			continue
		}
		leave := Leave{Target: Target{Key: entry.Cluster}, Owned: *entry.Owned}
		secret := strings.TrimPrefix(entry.Cluster, SecretKey(""))
		external := strings.HasPrefix(entry.Owned.ClusterUID, ExternalPrefix)
		if c := byUID[entry.Owned.ClusterUID]; c != nil {
			leave.Cluster = c
			if all || !IsFor(p, c) {
				out = append(out, leave)
			}
			continue
		}
		still := p.Spec.ConnectionSecretRef != nil && p.Spec.ConnectionSecretRef.Name == secret
		if external && (all || !still) {
			leave.Secret = secret
			out = append(out, leave)
		}
	}
	return out
}

// Aims tells whether p wants a policy in the broker of a target of a QueuePolicy in namespace.
func Aims(p *v1alpha1.QueuePolicy, t Target, namespace string) bool {
	if t.Cluster != nil {
		return IsFor(p, t.Cluster)
	}
	return p.Namespace == namespace && p.Spec.ConnectionSecretRef != nil && p.Spec.ConnectionSecretRef.Name == t.Secret
}

// ClaimAt is the claim of p in the broker with this UID, which is that of a target of a QueuePolicy in namespace.
func ClaimAt(p *v1alpha1.QueuePolicy, t Target, namespace, uid string) (Claim, bool) {
	claim := ClaimOf(p, uid)
	wants := Aims(p, t, namespace) || t.Cluster == nil && claim.Owns && p.Spec.ConnectionSecretRef != nil
	claim.Deleting = claim.Deleting || !wants
	return claim, wants || claim.Owns
}
