package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/status"
)

// finalize removes the broker's policy if this object owns it, and lets the object go. It never waits for a cluster
// that is gone, and not for ever for one that does not answer.
func (r *QueuePolicyReconciler) finalize(ctx context.Context, p *v1alpha1.QueuePolicy, targets []policy.Target) (ctrl.Result, error) {
	var cluster *v1alpha1.WorkloadCluster
	if len(targets) > 0 {
		cluster = targets[0].Cluster
	}
	decision, err := r.departure(ctx, p, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	var failure error
	if decision.Verb == policy.RemovePolicy {
		failure = r.remove(ctx, p, cluster)
		decision = policy.AfterRemoval(decision, failure)
	}
	if decision.Verb == policy.Wait {
		return r.blocked(ctx, p, decision.Why)
	}
	if err := r.Writer.RemoveFinalizer(ctx, p, v1alpha1.FinalizerQueuePolicy); err != nil {
		return afterWrite(err)
	}
	r.Events.Eventf(p, nil, eventTypeOf(decision), decision.Event, "DeletePolicy", "%s", note(about(p, decision.Why)))
	return ctrl.Result{}, nil
}

func (r *QueuePolicyReconciler) departure(ctx context.Context, p *v1alpha1.QueuePolicy, cluster *v1alpha1.WorkloadCluster) (policy.Departure, error) {
	if cluster == nil {
		return policy.Depart(p, "", nil, r.Now()), nil
	}
	rivals, err := r.Reader.Rivals(ctx, p, cluster)
	if err != nil {
		return policy.Departure{}, err
	}
	return policy.Depart(p, string(cluster.UID), rivals, r.Now()), nil
}

// remove deletes the broker's policy; one that is gone already is success.
func (r *QueuePolicyReconciler) remove(ctx context.Context, p *v1alpha1.QueuePolicy, cluster *v1alpha1.WorkloadCluster) error {
	api, err := r.Reader.Connect(ctx, cluster)
	if err != nil {
		return err
	}
	err = api.DeletePolicy(ctx, p.Spec.VHost, p.BrokerPolicyName())
	if broker.IsNotFound(err) {
		return nil
	}
	return err
}

// blocked reports why the object stays, and tries again later, less and less often.
func (r *QueuePolicyReconciler) blocked(ctx context.Context, p *v1alpha1.QueuePolicy, why string) (ctrl.Result, error) {
	message := fmt.Sprintf("%s. To leave the broker's policy behind, set the annotation %s=true; that happens by itself %s after the deletion",
		why, v1alpha1.AnnotationOrphan, policy.OrphanAfter)
	next := status.ForPolicy(status.Policy{
		Object: p, Clusters: kept(p, why), DeletionBlocked: message,
	}, r.Now())
	if _, err := r.Writer.PolicyStatus(ctx, p, next); err != nil {
		return afterWrite(err)
	}
	waited := r.Now().Sub(p.DeletionTimestamp.Time)
	return ctrl.Result{RequeueAfter: jitter(min(max(time.Second, waited/2), r.PollInterval))}, nil
}

// kept are the entries of what is still in the brokers.
func kept(p *v1alpha1.QueuePolicy, why string) []status.PolicyOn {
	var out []status.PolicyOn
	for _, c := range p.Status.Clusters {
		out = append(out, status.PolicyOn{Cluster: c.Cluster, Owned: c.Owned, Leaving: true, Why: why})
	}
	return out
}

func eventTypeOf(d policy.Departure) string {
	if d.Event == policy.EventOrphaned {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// about begins an event's text with the policy that it is about.
func about(p *v1alpha1.QueuePolicy, what string) string {
	return fmt.Sprintf("policy %q in vhost %q: %s", p.BrokerPolicyName(), p.Spec.VHost, what)
}
