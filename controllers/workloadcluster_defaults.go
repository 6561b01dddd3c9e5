package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/status"
)

// keepDefaults brings the broker to spec.defaults unless held; nil says that there is nothing to ask, or nobody.
func (r *WorkloadClusterReconciler) keepDefaults(ctx context.Context, c *v1alpha1.WorkloadCluster, answered status.Broker, held bool) *status.Defaults {
	if c.Spec.Defaults == nil || !answered.Asked || answered.Err != nil {
		return nil
	}
	plan, err := r.tryDefaults(ctx, c, answered, held)
	out := &status.Defaults{Written: len(plan.Actions), Waits: plan.Waits, Warnings: plan.Warnings}
	switch {
	case err != nil && !broker.IsInvalid(err):
		out.Problem = &status.Problem{Reason: v1alpha1.ReasonUnreachable, Message: err.Error()}
	case err != nil:
		out.Problem = &status.Problem{Reason: v1alpha1.ReasonRefusedByServer, Message: err.Error()}
	case len(plan.Refusals) > 0:
		out.Problem = &status.Problem{Reason: plan.Refusals[0].Reason, Message: plan.Refusals[0].Message}
	case held && len(plan.Actions) > 0:
		out.Problem = &status.Problem{Reason: v1alpha1.ReasonNotInForce, Message: "nothing is changed now; " + plan.Actions[0].Why}
	}
	return out
}

func (r *WorkloadClusterReconciler) tryDefaults(ctx context.Context, c *v1alpha1.WorkloadCluster, answered status.Broker, held bool) (policy.DefaultsPlan, error) {
	api, err := r.Reader.Connect(ctx, c)
	if err != nil {
		return policy.DefaultsPlan{}, err
	}
	seen, err := r.Reader.Defaults(ctx, c, api, answered)
	if err != nil {
		return policy.DefaultsPlan{}, err
	}
	plan := policy.PlanDefaults(c, seen)
	if held || len(plan.Refusals) > 0 {
		return plan, nil
	}
	for _, action := range plan.Actions {
		if err := send(ctx, api, action); err != nil {
			return plan, err
		}
		r.Events.Eventf(c, nil, corev1.EventTypeNormal, "DefaultsWritten", string(action.Verb), "%s", note(fmt.Sprintf("%s: %s", subject(action), action.Why)))
	}
	return plan, nil
}
