package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/observe"
)

const (
	// kubeletDelay is how long the kubelet may take to show a pod its new annotations.
	kubeletDelay = 4 * time.Second
	// stopPatience is how long pods that cannot be told hold the cluster; they then stop by themselves, only later.
	stopPatience = time.Minute
)

// finalize lets a cluster go once two things are as the spec says: what becomes of its data, and that the pods of a
// cluster that goes as a whole stop without waiting for one another.
func (r *WorkloadClusterReconciler) finalize(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster) (ctrl.Result, error) {
	settled, err := r.settleData(ctx, c, seen)
	if err != nil {
		return afterWrite(err)
	}
	if err := r.tellNodes(ctx, c, seen); err != nil {
		ctrl.LoggerFrom(ctx).Info("the nodes are told by their pods' annotations alone not to wait for one another", "because", err.Error())
	}
	told, err := r.Writer.StopNow(ctx, seen.Pods, r.Now())
	if err != nil && r.Now().Sub(c.DeletionTimestamp.Time) < stopPatience {
		return ctrl.Result{}, err
	}
	if err != nil {
		r.Events.Eventf(c, nil, corev1.EventTypeWarning, "PodsNotTold", "DeleteCluster", "%s", note(
			"the nodes may take up to 10 minutes to stop, since they could not be told not to wait for one another: "+err.Error()))
	}
	if left := desired.StopDelay(seen.Pods, r.Now(), kubeletDelay); !settled || told > 0 || left > 0 {
		return ctrl.Result{RequeueAfter: max(left, time.Second)}, nil
	}
	r.Connector.Forget(string(c.UID))
	return afterWrite(r.Writer.RemoveFinalizer(ctx, c, v1alpha1.FinalizerWorkloadCluster))
}

// tellNodes tells the nodes through the broker what the annotations of their pods say as well: a kubelet may be late, and
// tells a pod that is stopping already nothing at all.
func (r *WorkloadClusterReconciler) tellNodes(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster) error {
	if answered := r.Reader.Broker(ctx, c, seen); !answered.Asked || answered.Err != nil {
		return answered.Err
	}
	target, err := observe.Target(c, seen.Identity.Admin)
	if err != nil {
		return err
	}
	api, err := r.Connector.Connect(target)
	if err != nil {
		return err
	}
	return api.PutGlobalParameter(ctx, desired.StopNowParameter, string(c.UID))
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;patch

// settleData makes the deletion policy that the spec has now the one that is carried out: the spec may have changed
// a moment before the deletion, and what is deleted then does not come back. Volumes are let go of by the StatefulSet's
// controller, which takes a moment.
func (r *WorkloadClusterReconciler) settleData(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster) (settled bool, err error) {
	edits := desired.SettleData(c, seen.StatefulSet, seen.Identity.Cookie, seen.Identity.Admin)
	if err := r.Writer.Edits(ctx, edits); err != nil {
		return false, err
	}
	if len(edits) > 0 {
		return false, nil
	}
	doomed, err := r.Reader.DoomedVolumes(ctx, c, seen.StatefulSet)
	if err != nil || c.Spec.Storage.DeletionPolicy == v1alpha1.DeleteOnDelete {
		return err == nil, err
	}
	if len(doomed) > 0 {
		ctrl.LoggerFrom(ctx).Info("deletion waits until the volumes that are to stay do not belong to the StatefulSet any more", "volumeClaims", doomed)
	}
	return len(doomed) == 0, nil
}
