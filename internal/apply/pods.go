package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/desired"
)

// evictTime is how long one attempt to evict may take.
const evictTime = 3 * time.Second

// Evict asks for the eviction of exactly this pod, so that disruption budgets count. refused says why it may not go now.
func (w Writer) Evict(ctx context.Context, pod *corev1.Pod) (refused string, err error) {
	uid := pod.UID
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	}
	// The client itself tries again for as long as budgets that nobody has looked at yet are in the way.
	limited, cancel := context.WithTimeout(ctx, evictTime)
	defer cancel()
	err = w.Client.SubResource("eviction").Create(limited, pod, eviction)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return "the API server did not decide in time", nil
	case apierrors.IsTooManyRequests(err):
		return err.Error(), nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another pod has its name by now
		return "", nil
	case err != nil:
		return "", fmt.Errorf("evict pod %s: %w", pod.Name, err)
	}
	return "", nil
}

// Make applies one object that Warren makes for a while.
func (w Writer) Make(ctx context.Context, object desired.Object) error {
	intent, err := desired.Intent(object)
	if err != nil {
		return err
	}
	_, err = w.Objects(ctx, desired.Plan{Apply: []map[string]any{intent}})
	return err
}

// Replace deletes exactly this pod, unless it has changed since it was seen.
func (w Writer) Replace(ctx context.Context, pod *corev1.Pod) error {
	uid, version := pod.UID, pod.ResourceVersion
	err := w.Client.Delete(ctx, pod, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}
