package observe

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/status"
)

// HaveNodes is how many nodes the StatefulSet has, or had, if it is being made anew.
func HaveNodes(c *v1alpha1.WorkloadCluster, seen Cluster) int {
	if seen.StatefulSet != nil && seen.StatefulSet.Spec.Replicas != nil {
		return int(*seen.StatefulSet.Spec.Replicas)
	}
	have := 0
	for _, pod := range seen.Pods {
		index := -1
		if _, err := fmt.Sscanf(pod.Name, desired.StatefulSetName(c.Name)+"-%d", &index); err == nil {
			have = max(have, index+1)
		}
	}
	return have
}

// ScaleIn is what package gate decides on fewer nodes by, but for the queues.
func ScaleIn(c *v1alpha1.WorkloadCluster, seen Cluster, b status.Broker, facts gate.Facts, rollout gate.Decision) gate.ScaleIn {
	have := HaveNodes(c, seen)
	recorded := c.Status.Scaling
	return gate.ScaleIn{
		Have: have, Want: int(c.Spec.Replicas), Rollout: rollout, Pods: facts.Pods,
		DryRun:       c.Spec.ScaleIn.Mode == v1alpha1.ScaleInDryRun,
		DropEmpty:    c.Spec.ScaleIn.EmptyClassicQueues == v1alpha1.EmptyQueuesDelete,
		Node:         func(i int) string { return desired.NodeName(c.Namespace, c.Name, desired.PodName(c.Name, i)) },
		BrokerSilent: facts.BrokerSilent, Nodes: b.Nodes,
		Begun:    recorded != nil && recorded.Verdict == v1alpha1.ScalingSafe,
		Recorded: recorded != nil && recorded.To == c.Spec.Replicas && recorded.Verdict == v1alpha1.ScalingSafe,
	}
}

// JobSays is why an action failed, in the words of its last pod.
func (r Reader) JobSays(ctx context.Context, job *batchv1.Job) (string, error) {
	var pods corev1.PodList
	if err := r.Cached.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return "", fmt.Errorf("list pods of Job %s: %w", job.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if ended := c.State.Terminated; ended != nil && ended.Message != "" {
				return ended.Message, nil
			}
		}
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			return c.Message, nil
		}
	}
	return "", nil
}

// LeftVolumes are the claims of nodes with an index from one number to below another, of which the cluster knows nothing any
// more. Such a node cannot come back with what its volume holds.
func LeftVolumes(c *v1alpha1.WorkloadCluster, seen Cluster, b status.Broker, from, to int) (out []corev1.PersistentVolumeClaim) {
	if !b.Asked || b.Err != nil {
		return nil
	}
	for i := from; i < to; i++ {
		node := desired.NodeName(c.Namespace, c.Name, desired.PodName(c.Name, i))
		member := slices.ContainsFunc(b.Nodes, func(n broker.Node) bool { return n.Name == node })
		for _, claim := range seen.Claims {
			if claim.Name == desired.ClaimName(c.Name, int32(i)) && !member {
				out = append(out, claim)
			}
		}
	}
	return out
}
