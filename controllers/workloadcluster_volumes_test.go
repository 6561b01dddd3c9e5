//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/desired"
)

// newClass makes a storage class whose volumes may grow or not.
func newClass(t *testing.T, grows bool) string {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"}, Provisioner: "test/none", AllowVolumeExpansion: &grows}
	must(t, kube.Create(t.Context(), class))
	return class.Name
}

// playVolumes makes the claims of a cluster as the StatefulSet controller does, and binds them as the storage does.
func playVolumes(t *testing.T, c *v1alpha1.WorkloadCluster, class string) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	for i := range c.Spec.Replicas {
		template := set.Spec.VolumeClaimTemplates[0]
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: desired.ClaimName(c.Name, i), Labels: template.Labels},
			Spec:       *template.Spec.DeepCopy(),
		}
		claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, fmt.Sprintf("volume-%s-%d", c.Namespace, i)
		must(t, kube.Create(t.Context(), claim))
		claim.Status.Phase = corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests
		must(t, kube.Status().Update(t.Context(), claim))
	}
}

func claimOf(t *testing.T, c *v1alpha1.WorkloadCluster, ordinal int32) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(t, get(t, c.Namespace, desired.ClaimName(c.Name, ordinal), claim))
	return claim
}

// playResize does what the storage does.
func playResize(t *testing.T, c *v1alpha1.WorkloadCluster) {
	t.Helper()
	for i := range c.Spec.Replicas {
		claim := claimOf(t, c, i)
		claim.Status.Capacity = claim.Spec.Resources.Requests
		must(t, kube.Status().Update(t.Context(), claim))
	}
}

// playOrphaning does what the garbage collector does with a StatefulSet that is deleted without its pods.
func playOrphaning(t *testing.T, c *v1alpha1.WorkloadCluster) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	eventually(t, "the StatefulSet is deleted without its pods", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if set.DeletionTimestamp.IsZero() || !slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents) {
			return errors.New("not yet")
		}
		return nil
	})
	for i := range c.Spec.Replicas {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: fmt.Sprintf("%s-%d", c.Name, i)}}
		edit(t, pod, func() { pod.OwnerReferences = nil })
	}
	edit(t, set, func() { set.Finalizers = nil })
}

// wantsSize checks what the StatefulSet says of volumes.
func wantsSize(t *testing.T, c *v1alpha1.WorkloadCluster, size string) error {
	t.Helper()
	set := &appsv1.StatefulSet{}
	if err := get(t, c.Namespace, c.Name, set); err != nil {
		return err
	}
	if got := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(resource.MustParse(size)) != 0 {
		return fmt.Errorf("the claim template says %s", &got)
	}
	return nil
}

func uidsOfPods(t *testing.T, c *v1alpha1.WorkloadCluster) (out []types.UID) {
	t.Helper()
	for i := range c.Spec.Replicas {
		pod := &corev1.Pod{}
		must(t, get(t, c.Namespace, fmt.Sprintf("%s-%d", c.Name, i), pod))
		out = append(out, pod.UID)
	}
	return out
}

// settleSet says what the StatefulSet controller says of a set that was made anew around its pods.
func settleSet(t *testing.T, c *v1alpha1.WorkloadCluster) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: c.Spec.Replicas, ReadyReplicas: c.Spec.Replicas,
		UpdatedReplicas: c.Spec.Replicas, CurrentRevision: "one", UpdateRevision: "one",
	}
	must(t, kube.Status().Update(t.Context(), set))
}

// B2: volumes grow; the StatefulSet, whose claim template nobody can change, is made anew around its pods; Warren cannot
// write for a while between the two.
func TestVolumesGrow(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	class := newClass(t, true)
	playVolumes(t, c, class)
	before := uidsOfPods(t, c)
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	template := set.Spec.Template
	edit(t, c, func() { c.Spec.Storage.Size = resource.MustParse("20Gi") })
	eventually(t, "every claim asks for more", func() error {
		for i := range c.Spec.Replicas {
			if size := claimOf(t, c, i).Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "20Gi" {
				return fmt.Errorf("claim %d asks for %s", i, &size)
			}
		}
		return nil
	})
	eventually(t, "the growth is reported", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonGrowing)
	})
	writes.refuse("apply", "StatefulSet", c.Namespace)
	playOrphaning(t, c)
	throughout(t, "pods and claims stay while there is no StatefulSet", func() error {
		if got := uidsOfPods(t, c); !slices.Equal(got, before) {
			return errors.New("pods were replaced")
		}
		return nil
	})
	writes.allow(c.Namespace)
	eventually(t, "there is a StatefulSet again", func() error { return wantsSize(t, c, "20Gi") })
	must(t, get(t, c.Namespace, c.Name, set))
	if got, want := set.Spec.Template.Annotations, template.Annotations; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pods would restart: annotations %v, were %v", got, want)
	}
	settleSet(t, c)
	playResize(t, c)
	eventually(t, "the cluster is ready", func() error { return ready(t, c) })
	if got := uidsOfPods(t, c); !slices.Equal(got, before) {
		t.Error("pods were replaced")
	}
	if s := c.Status.Storage; s == nil || s.ClassName != class || len(s.Volumes) != 3 || s.Volumes[0].Capacity.String() != "20Gi" {
		t.Errorf("status.storage is %+v", s)
	}

	t.Run("one that somebody grew by hand stays larger", func(t *testing.T) {
		claim := claimOf(t, c, 1)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("30Gi")
		must(t, kube.Update(t.Context(), claim))
		playResize(t, c)
		eventually(t, "it is shown", func() error {
			must(t, get(t, c.Namespace, c.Name, c))
			if got := c.Status.Storage.Volumes[1].Requested.String(); got != "30Gi" {
				return fmt.Errorf("requested %s", got)
			}
			return ready(t, c)
		})
		throughout(t, "it is not put back", func() error {
			if size := claimOf(t, c, 1).Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "30Gi" {
				return fmt.Errorf("the claim asks for %s", &size)
			}
			return wantsSize(t, c, "20Gi")
		})
	})
	t.Run("a second growth waits for the first", func(t *testing.T) {
		edit(t, c, func() { c.Spec.Storage.Size = resource.MustParse("40Gi") })
		playOrphaning(t, c)
		eventually(t, "there is a StatefulSet again", func() error { return wantsSize(t, c, "40Gi") })
		edit(t, c, func() { c.Spec.Storage.Size = resource.MustParse("50Gi") })
		throughout(t, "nothing more is asked for", func() error {
			if size := claimOf(t, c, 0).Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "40Gi" {
				return fmt.Errorf("the claim asks for %s", &size)
			}
			return nil
		})
		playResize(t, c)
		eventually(t, "it goes on", func() error {
			if size := claimOf(t, c, 0).Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "50Gi" {
				return fmt.Errorf("the claim asks for %s", &size)
			}
			return nil
		})
	})
	t.Run("it does not shrink", func(t *testing.T) {
		smaller := c.DeepCopy()
		smaller.Spec.Storage.Size = resource.MustParse("45Gi")
		check(t, "storage.size cannot shrink", kube.Patch(t.Context(), smaller, client.MergeFrom(c)))
	})
}

// A storage class that lets no volume grow leaves the cluster as it is.
func TestVolumesThatCannotGrow(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	playVolumes(t, c, newClass(t, false))
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	edit(t, c, func() { c.Spec.Storage.Size = resource.MustParse("20Gi") })
	eventually(t, "the refusal is reported", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonGrowthRefused)
	})
	throughout(t, "the StatefulSet stays", func() error {
		now := &appsv1.StatefulSet{}
		if err := get(t, c.Namespace, c.Name, now); err != nil || now.UID != set.UID || !now.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is %s %v, %v", now.UID, now.DeletionTimestamp, err)
		}
		return wantsSize(t, c, "10Gi")
	})
	edit(t, c, func() { c.Spec.Resources.Limits.CPU = resource.MustParse("3") })
	eventually(t, "other changes go on", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if got := flags(set); got != "+S 3:3 +stbt u" {
			return fmt.Errorf("flags are %q", got)
		}
		return nil
	})
}

// B4: the class that the volumes have may be written down; any other is refused with what to do instead.
func TestStorageClassCanOnlyBecomeWhatTheVolumesHave(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	class := newClass(t, true)
	playVolumes(t, c, class)
	eventually(t, "the class is in the status", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		if c.Status.Storage == nil || c.Status.Storage.ClassName != class {
			return errors.New("not yet")
		}
		return nil
	})
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	other := c.DeepCopy()
	other.Spec.Storage.ClassName = "fast"
	check(t, "create a second WorkloadCluster", kube.Patch(t.Context(), other, client.MergeFrom(c)))
	edit(t, c, func() { c.Spec.Storage.ClassName = class })
	eventually(t, "it is accepted", func() error { return ready(t, c) })
	throughout(t, "and changes nothing", func() error {
		now := &appsv1.StatefulSet{}
		must(t, get(t, c.Namespace, c.Name, now))
		if now.UID != set.UID || now.Generation != set.Generation {
			return errors.New("the StatefulSet was written")
		}
		return nil
	})
	must(t, get(t, c.Namespace, c.Name, c))
	other = c.DeepCopy()
	other.Spec.Storage.ClassName = "fast"
	check(t, "create a second WorkloadCluster", kube.Patch(t.Context(), other, client.MergeFrom(c)))
}
