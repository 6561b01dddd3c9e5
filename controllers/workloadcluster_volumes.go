package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch;patch

// growVolumes takes the next step of a growth, after all else is as the spec says. The StatefulSet goes last, when every
// claim has been accepted by the API server: a refusal leaves the cluster as it was.
func (r *WorkloadClusterReconciler) growVolumes(ctx context.Context, seen observe.Cluster, growth desired.Growth) (changed []string, problem *status.Problem, err error) {
	for _, edit := range growth.Claims {
		err := r.Writer.Edits(ctx, []desired.Edit{edit})
		switch {
		case apierrors.IsConflict(err): // decided on what it is no more; the informer's event brings the next pass
			return changed, nil, nil
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			return changed, &status.Problem{Reason: v1alpha1.ReasonGrowthRefused, Message: fmt.Sprintf(
				"the volume claims cannot grow, and nothing else was changed for it: %v. Use a storage class with allowVolumeExpansion, or create a second WorkloadCluster and move the queues", err)}, nil
		case err != nil:
			return changed, nil, err
		}
		changed = append(changed, "PersistentVolumeClaim "+edit.After.GetName())
	}
	if !growth.Replace {
		return changed, nil, nil
	}
	if err := r.Writer.Orphan(ctx, seen.StatefulSet); err != nil {
		return changed, nil, err
	}
	return append(changed, "StatefulSet "+seen.StatefulSet.Name+" (to be made anew around its pods, which stay)"), nil, nil
}
