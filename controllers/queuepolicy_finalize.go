package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/policy/rollout"
	"github.com/warren-mq/warren/internal/status"
)

// finalize removes what this object owns from every broker, and lets the object go. It never waits for a cluster that is
// gone, and not for ever for one that does not answer.
func (r *QueuePolicyReconciler) finalize(ctx context.Context, p *v1alpha1.QueuePolicy, clusters []*v1alpha1.WorkloadCluster) (ctrl.Result, error) {
	left, err := r.leaveAll(ctx, p, clusters)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		return r.blocked(ctx, p, left)
	}
	if err := r.Writer.RemoveFinalizer(ctx, p, v1alpha1.FinalizerQueuePolicy); err != nil {
		return afterWrite(err)
	}
	r.memory.left(p, "")
	r.Metrics.forget(p.Namespace, p.Name)
	return ctrl.Result{}, nil
}

// leaveAll leaves every cluster that p is not for any more, and answers by key those in which something of it still is.
func (r *QueuePolicyReconciler) leaveAll(ctx context.Context, p *v1alpha1.QueuePolicy, clusters []*v1alpha1.WorkloadCluster) (map[string]status.PolicyOn, error) {
	left := map[string]status.PolicyOn{}
	for _, leave := range policy.Leaving(p, clusters) {
		why, err := r.leave(ctx, p, leave)
		if err != nil {
			return nil, err
		}
		if why != "" {
			left[leave.Key] = status.PolicyOn{
				Cluster: leave.Key, Owned: &leave.Owned, Leaving: true, Why: why, Rollout: policy.RolloutOf(p, leave.Key),
			}
		}
	}
	return left, nil
}

// leave removes from one cluster what p owns there; why says what is in the way, "" when it is done.
func (r *QueuePolicyReconciler) leave(ctx context.Context, p *v1alpha1.QueuePolicy, leave policy.Leave) (why string, err error) {
	uid := leave.Owned.ClusterUID
	rivals, err := r.Reader.Rivals(ctx, p, leave.Target, uid)
	if err != nil {
		return "", err
	}
	deleting := !p.DeletionTimestamp.IsZero()
	decision := policy.Depart(p, uid, rivals, r.memory.leavingSince(p, uid, r.Now()), r.Now())
	if decision.Verb == policy.RemovePolicy {
		if p.Spec.Paused && !deleting {
			return "spec.paused: nothing is written", nil
		}
		decision = policy.AfterRemoval(decision, r.remove(ctx, p, leave, decision.Keep))
	}
	if decision.Verb == policy.Wait {
		return decision.Why, nil
	}
	r.memory.left(p, uid)
	kind := corev1.EventTypeNormal
	if decision.Event == policy.EventOrphaned {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(p, nil, kind, decision.Event, "DeletePolicy", "%s", note(fmt.Sprintf("policy %q in vhost %q of %s: %s", leave.Owned.Name, leave.Owned.VHost, leave.Key, decision.Why)))
	return "", nil
}

// remove takes out of the broker what p owns there: its temporary policies and, unless it is to stay, the policy, the operator
// policy and what Warren made for dead letters. What is gone already is success.
func (r *QueuePolicyReconciler) remove(ctx context.Context, p *v1alpha1.QueuePolicy, leave policy.Leave, keep bool) error {
	api, err := r.Reader.Open(ctx, p.Namespace, leave.Target, true)
	if err != nil {
		return err
	}
	if api.UID != leave.Owned.ClusterUID {
		return fmt.Errorf("Secret %s names another RabbitMQ now", leave.Secret)
	}
	vhost := leave.Owned.VHost
	seen, err := api.Vhost(ctx, vhost, observe.Parts{Operators: leave.Owned.Operator}, r.Now())
	if err != nil {
		return unlessGone(err)
	}
	actions := rollout.Removals(rollout.Input{
		Object: p, Vhost: seen, State: policy.RolloutOf(p, leave.Key), OwnsOperator: leave.Owned.Operator, Now: r.Now(),
	}, keep)
	defer r.wrote(p, api.UID)
	for _, action := range actions {
		if err := send(ctx, api, action); err != nil {
			return err
		}
	}
	if keep || p.Spec.DeadLetter == nil {
		return nil
	}
	return r.removeDeadLetters(ctx, p, leave.Target.Cluster, api, vhost)
}

func (r *QueuePolicyReconciler) removeDeadLetters(ctx context.Context, p *v1alpha1.QueuePolicy, c *v1alpha1.WorkloadCluster, api observe.Broker, vhost string) error {
	dead, err := policy.DeadLetterOf(p)
	if err != nil || dead == nil {
		return nil // it was refused, and nothing made
	}
	if c != nil && policy.DefaultDeadLettersOf(c).Names(dead) {
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, "DeadLettersKept", "DeletePolicy", "%s",
			note(fmt.Sprintf("exchange and queue for dead letters stay: spec.defaults.deadLetter of WorkloadCluster %s names them", c.Name)))
		return nil
	}
	parts := observe.Parts{Needs: policy.Needs{Counts: true, Topology: true}}
	seen, err := api.Vhost(ctx, vhost, parts, r.Now())
	if err != nil {
		return unlessGone(err)
	}
	actions, kept := policy.DepartDeadLetters(dead, *seen)
	for _, action := range actions {
		if err := r.act(ctx, api, p, action); err != nil {
			return err
		}
	}
	if len(kept) > 0 {
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, "DeadLettersKept", "DeletePolicy", "%s", note(strings.Join(kept, "; ")))
	}
	return nil
}

// blocked reports why the object stays, and tries again later, less and less often.
func (r *QueuePolicyReconciler) blocked(ctx context.Context, p *v1alpha1.QueuePolicy, left map[string]status.PolicyOn) (ctrl.Result, error) {
	outcome := status.Policy{Object: p, Clusters: byKey(left)}
	why := outcome.Clusters[0].Why
	if len(left) > 1 {
		why = fmt.Sprintf("%s: %s (%d more clusters hold it)", outcome.Clusters[0].Cluster, why, len(left)-1)
	}
	outcome.DeletionBlocked = fmt.Sprintf("%s. To leave the broker's policy behind, set the annotation %s=true; that happens by itself %s after the deletion",
		why, v1alpha1.AnnotationOrphan, policy.OrphanAfter)
	if _, err := r.Writer.PolicyStatus(ctx, p, status.ForPolicy(outcome, r.Now())); err != nil {
		return afterWrite(err)
	}
	waited := r.Now().Sub(p.DeletionTimestamp.Time)
	return ctrl.Result{RequeueAfter: jitter(min(max(time.Second, waited/2), r.PollInterval))}, nil
}
