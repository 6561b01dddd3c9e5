// Package apply is the only writer to Kubernetes: server-side apply under one field manager, deletion of what is wanted
// no more, finalizers, and one status write for each pass.
package apply

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
)

// FieldManager is the name under which Warren owns fields.
const FieldManager = "warren"

// Writer writes to Kubernetes.
type Writer struct{ Client client.Client }

// Objects carries out a plan and returns what it changed, as "StatefulSet runtime". It stops at the first error.
func (w Writer) Objects(ctx context.Context, plan desired.Plan) (changed []string, err error) {
	for _, intent := range plan.Apply {
		u := &unstructured.Unstructured{Object: intent}
		err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
		if err != nil {
			return changed, fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		changed = append(changed, u.GetKind()+" "+u.GetName())
	}
	for _, object := range plan.Delete {
		if err := w.delete(ctx, object); err != nil {
			return changed, err
		}
		changed = append(changed, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	return changed, nil
}

// Delete deletes objects; those that are gone are no error.
func (w Writer) Delete(ctx context.Context, objects ...desired.Object) error {
	for _, object := range objects {
		if err := w.delete(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// delete an object, and what it owns: a Job would leave its pods behind by default.
func (w Writer) delete(ctx context.Context, object desired.Object) error {
	uid := object.GetUID()
	err := w.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}
	return nil
}

// Orphan deletes an object and leaves what it owns, which then belongs to nobody. Its version guards it: what was decided on
// another is void. One that is gone, or was changed meanwhile, is no error.
func (w Writer) Orphan(ctx context.Context, object client.Object) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	err := w.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %T %s without what it owns: %w", object, object.GetName(), err)
	}
	return nil
}

// AddFinalizer puts the finalizer on an object that does not have it. The object's version guards the write, so that
// nothing is added to an object that somebody began to delete.
func (w Writer) AddFinalizer(ctx context.Context, object client.Object, finalizer string) error {
	return w.patchMetadata(ctx, object, func(o client.Object) bool { return controllerutil.AddFinalizer(o, finalizer) })
}

// RemoveFinalizer takes the finalizer off an object that may be gone already.
func (w Writer) RemoveFinalizer(ctx context.Context, object client.Object, finalizer string) error {
	return client.IgnoreNotFound(w.patchMetadata(ctx, object, func(o client.Object) bool { return controllerutil.RemoveFinalizer(o, finalizer) }))
}

func (w Writer) patchMetadata(ctx context.Context, object client.Object, change func(client.Object) bool) error {
	before := object.DeepCopyObject().(client.Object)
	if !change(object) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return w.Client.Patch(ctx, object, patch, client.FieldOwner(FieldManager))
}

// ClusterStatus writes the status if it differs, and says whether it did.
func (w Writer) ClusterStatus(ctx context.Context, object *v1alpha1.WorkloadCluster, status v1alpha1.WorkloadClusterStatus) (written bool, err error) {
	if equality.Semantic.DeepEqual(object.Status, status) {
		return false, nil
	}
	before := object.DeepCopy()
	object.Status = status
	return true, w.patchStatus(ctx, object, before)
}

// PolicyStatus writes the status if it differs, and says whether it did.
func (w Writer) PolicyStatus(ctx context.Context, object *v1alpha1.QueuePolicy, status v1alpha1.QueuePolicyStatus) (written bool, err error) {
	if equality.Semantic.DeepEqual(object.Status, status) {
		return false, nil
	}
	before := object.DeepCopy()
	object.Status = status
	return true, w.patchStatus(ctx, object, before)
}

// BenchmarkStatus writes the status if it differs, and says whether it did.
func (w Writer) BenchmarkStatus(ctx context.Context, object *v1alpha1.Benchmark, status v1alpha1.BenchmarkStatus) (written bool, err error) {
	if equality.Semantic.DeepEqual(object.Status, status) {
		return false, nil
	}
	before := object.DeepCopy()
	object.Status = status
	return true, w.patchStatus(ctx, object, before)
}

// handBackManager owns what the pods of a run write.
const handBackManager = "warren-bench"

// HandBack adds to a ConfigMap that exists: what one pod of a run hands back under keys of its own.
func (w Writer) HandBack(ctx context.Context, namespace, name string, data map[string]string, binary map[string][]byte) error {
	patch, err := json.Marshal(map[string]any{"data": data, "binaryData": binary})
	if err != nil {
		return err
	}
	into := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return w.Client.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(handBackManager))
}

// patchStatus is guarded by the object's version: a leader that lost its lease, or a pass that read a stale cache, may
// not write over what a later one found.
func (w Writer) patchStatus(ctx context.Context, object, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return w.Client.Status().Patch(ctx, object, patch, client.FieldOwner(FieldManager))
}

// Edits carries out changes of objects that are there. Their versions guard them: what was decided on another is void.
func (w Writer) Edits(ctx context.Context, edits []desired.Edit) error {
	for _, edit := range edits {
		before, after := edit.Before.(client.Object), edit.After.(client.Object)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := w.Client.Patch(ctx, after, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("change %T %s: %w", after, after.GetName(), err)
		}
	}
	return nil
}

// StopNow tells pods not to wait for one another when they stop, and says how many had not been told before. One that
// cannot be told does not keep it from the others.
func (w Writer) StopNow(ctx context.Context, pods []corev1.Pod, now time.Time) (told int, err error) {
	var failures []error
	for i := range pods {
		pod := &pods[i]
		if pod.Annotations[v1alpha1.AnnotationStopNow] == "true" {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true",%q:%q}}}`,
			v1alpha1.AnnotationStopNow, v1alpha1.AnnotationStopNowSince, now.UTC().Format(time.RFC3339Nano)))
		if err := w.Client.Patch(ctx, pod, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("annotate pod %s: %w", pod.Name, err))
			continue
		}
		told++
	}
	return told, errors.Join(failures...)
}

// FreshSecrets are new random secrets for a new cluster, of letters and digits only: they stand in configuration files
// and addresses.
func FreshSecrets() desired.Secrets {
	return desired.Secrets{ErlangCookie: rand.Text(), AdminPassword: rand.Text()}
}
