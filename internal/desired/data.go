package desired

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// keepsData tells whether volumes, and the Secrets without which they are of no use, outlive the cluster.
func keepsData(c *v1alpha1.WorkloadCluster) bool {
	return c.Spec.Storage.DeletionPolicy != v1alpha1.DeleteOnDelete
}

func whenDeleted(c *v1alpha1.WorkloadCluster) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if keepsData(c) {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// Edit is a change of an object that is there.
type Edit struct{ Before, After Object }

// SettleData are the changes after which a cluster that is being deleted keeps or takes along its data as its spec
// says, and nothing else. Objects of others, and those that are absent (nil), are left out.
func SettleData(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, secrets ...*corev1.Secret) []Edit {
	var edits []Edit
	if set != nil && metav1.IsControlledBy(set, c) && retention(set) != whenDeleted(c) {
		after := set.DeepCopy()
		after.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted(c), WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
		edits = append(edits, Edit{Before: set, After: after})
	}
	for _, secret := range secrets {
		if secret == nil || taken(c, secret) != "" || metav1.IsControlledBy(secret, c) != keepsData(c) {
			continue
		}
		after := secret.DeepCopy()
		after.OwnerReferences = nil
		if !keepsData(c) {
			after.OwnerReferences = []metav1.OwnerReference{ownerReference(c)}
		}
		edits = append(edits, Edit{Before: secret, After: after})
	}
	return edits
}

// TakeOver are the changes of a StatefulSet that Kubernetes itself rolls, after which it can be applied: what Kubernetes filled
// in for its own way of rolling is refused together with another one, and an apply does not take it away.
func TakeOver(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet) []Edit {
	if set == nil || !metav1.IsControlledBy(set, c) || set.Spec.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	after := set.DeepCopy()
	after.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	return []Edit{{Before: set, After: after}}
}

func retention(set *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if set.Spec.PersistentVolumeClaimRetentionPolicy == nil {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted
}

// StopDelay is how long is left until every pod that was told to stop at once has had delay to learn of it.
func StopDelay(pods []corev1.Pod, now time.Time, delay time.Duration) time.Duration {
	var left time.Duration
	for _, pod := range pods {
		since, err := time.Parse(time.RFC3339Nano, pod.Annotations[v1alpha1.AnnotationStopNowSince])
		if passed := now.Sub(since).Abs(); err == nil && passed < delay { // Abs: the clock of another replica wrote it
			left = max(left, delay-passed)
		}
	}
	return left
}
