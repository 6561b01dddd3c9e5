package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/status"
)

// QueuePolicyReconciler keeps the broker's policies as the QueuePolicies say.
type QueuePolicyReconciler struct{ Options }

// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies/status,verbs=patch

// Reconcile does one pass over one policy.
func (r *QueuePolicyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object v1alpha1.QueuePolicy
	if err := r.Reader.Cached.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := r.cluster(ctx, &object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &object, cluster)
	}
	if err := r.Writer.AddFinalizer(ctx, &object, v1alpha1.FinalizerQueuePolicy); err != nil {
		return afterWrite(err)
	}
	outcome := status.Policy{Object: &object, Owned: object.Status.Owned}
	if cluster == nil {
		outcome.Unasked = &status.Problem{Reason: v1alpha1.ReasonClusterNotFound, Message: "WorkloadCluster " + object.Spec.ClusterRef.Name + " does not exist in this namespace, or is being deleted"}
		return r.report(ctx, &object, outcome)
	}
	if err := r.pass(ctx, &object, cluster, &outcome); err != nil {
		outcome.Unasked = problemOf(err, &object)
	}
	return r.report(ctx, &object, outcome)
}

// cluster is the WorkloadCluster that the policy names, or nil if there is none that lives.
func (r *QueuePolicyReconciler) cluster(ctx context.Context, p *v1alpha1.QueuePolicy) (*v1alpha1.WorkloadCluster, error) {
	var cluster v1alpha1.WorkloadCluster
	err := r.Reader.Cached.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.ClusterRef.Name}, &cluster)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !cluster.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return &cluster, nil
}

// pass looks at the broker, decides, and carries the decision out if the status already records that the policy is
// ours: a crash after the record repeats the write, a crash before it has written nothing.
func (r *QueuePolicyReconciler) pass(ctx context.Context, p *v1alpha1.QueuePolicy, cluster *v1alpha1.WorkloadCluster, outcome *status.Policy) error {
	api, err := r.Reader.Connect(ctx, cluster)
	if err != nil {
		return err
	}
	seen, err := r.Reader.Vhost(ctx, api, p.Spec.VHost)
	if err != nil {
		return err
	}
	rivals, err := r.Reader.Rivals(ctx, p, string(cluster.UID))
	if err != nil {
		return err
	}
	mine := policy.ClaimOf(p, string(cluster.UID))
	have := policy.Find(seen.Policies, p.BrokerPolicyName())
	want, err := policy.Render(p, seen.Capabilities)
	if err != nil {
		outcome.Refused = problemOf(err, p)
		return nil
	}
	outcome.Standing = policy.Judge(mine, rivals, have, p.Spec.Adopt || policy.Same(want, have))
	if !outcome.Standing.Owner {
		outcome.Owned = nil
		return nil
	}
	outcome.Owned = &v1alpha1.OwnedPolicy{ClusterUID: string(cluster.UID), VHost: p.Spec.VHost, Name: p.BrokerPolicyName()}
	settled := status.IsTrue(p.Status.Conditions, v1alpha1.ConditionInSync, p.Generation)
	outcome.Change = policy.Plan(&want, have, true, mine.Owns && settled)
	if !mine.Owns {
		outcome.Change.Why = "about to be written: ownership is recorded first"
		return nil
	}
	if err := r.carryOut(ctx, api, outcome); err != nil || outcome.Refused != nil {
		return err
	}
	queues, err := api.Queues(ctx, p.Spec.VHost, broker.WithoutCounts)
	if err != nil {
		return err
	}
	effect := policy.EffectOf(p, want, seen.Policies, queues, seen.Capabilities, seen.RunningNodes)
	outcome.Effect = &effect
	return nil
}

func (r *QueuePolicyReconciler) carryOut(ctx context.Context, api broker.PolicyStore, outcome *status.Policy) error {
	if outcome.Change.Verb == policy.Put {
		err := api.PutPolicy(ctx, outcome.Change.Policy)
		if broker.IsInvalid(err) {
			outcome.Refused = problemOf(err, outcome.Object)
			return nil
		}
		if err != nil {
			return err
		}
	}
	outcome.Done = true
	return nil
}

// report writes the status, says in events what happened, and comes back: soon after the ownership was recorded,
// soon while queues are catching up, and else at the next poll.
func (r *QueuePolicyReconciler) report(ctx context.Context, p *v1alpha1.QueuePolicy, outcome status.Policy) (ctrl.Result, error) {
	before := p.Status.Conditions
	next := status.ForPolicy(outcome, r.Now())
	written, err := r.Writer.PolicyStatus(ctx, p, next)
	if err != nil {
		return afterWrite(err)
	}
	if outcome.Done && outcome.Change.Verb == policy.Put {
		reason, kind := "PolicyWritten", corev1.EventTypeNormal
		if outcome.Change.Drift {
			reason, kind = "DriftCorrected", corev1.EventTypeWarning
		}
		// The action tells a policy that was gone from one that was edited: events that agree in reason and action are
		// counted as one, and only the first note is kept.
		r.Events.Eventf(p, nil, kind, reason, actionOf(outcome.Change), "%s", note(about(p, outcome.Change.Why)))
	}
	if written {
		announce(r.Events, p, before, next.Conditions)
	}
	return ctrl.Result{RequeueAfter: r.comeBack(outcome, next)}, nil
}

func actionOf(change policy.Change) string {
	if change.Absent {
		return "CreatePolicy"
	}
	return "UpdatePolicy"
}

const (
	// catchUpInterval is how soon queues are looked at again that have not got the policy yet.
	catchUpInterval = 3 * time.Second
	// refusedPolls is how many poll intervals pass before a policy that was refused is tried again unchanged.
	refusedPolls = 10
)

func (r *QueuePolicyReconciler) comeBack(outcome status.Policy, next v1alpha1.QueuePolicyStatus) time.Duration {
	switch {
	case outcome.Refused != nil:
		return jitter(refusedPolls * r.PollInterval)
	case outcome.Standing.Owner && outcome.Unasked == nil && !outcome.Done:
		return jitter(cacheDelay) // the record is written; once the informer has it, the policy
	case outcome.Unasked != nil && outcome.Unasked.Reason != v1alpha1.ReasonVHostNotFound:
		return jitter(r.PollInterval) // the cluster's own passes look more often, and wake its policies when it is ready
	case meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionReady):
		return jitter(r.PollInterval)
	}
	return jitter(min(r.PollInterval, catchUpInterval))
}

// problemOf says what an error means for the policy.
func problemOf(err error, p *v1alpha1.QueuePolicy) *status.Problem {
	var refusal *policy.Refusal
	if errors.As(err, &refusal) {
		return &status.Problem{Reason: refusal.Reason, Message: refusal.Message}
	}
	reason := v1alpha1.ReasonUnreachable
	switch broker.KindOf(err) {
	case broker.NotFound:
		return &status.Problem{Reason: v1alpha1.ReasonVHostNotFound, Message: "the broker has no vhost " + p.Spec.VHost}
	case broker.Unauthorized:
		reason = v1alpha1.ReasonAuthFailed
	case broker.Invalid:
		reason = v1alpha1.ReasonRefusedByServer
	case "":
		reason = v1alpha1.ReasonClusterNotReady
	}
	return &status.Problem{Reason: reason, Message: err.Error()}
}

// SetupWithManager registers the reconciler.
func (r *QueuePolicyReconciler) SetupWithManager(manager ctrl.Manager) error {
	err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.QueuePolicy{}, observe.IndexPolicyCluster,
		func(o client.Object) []string { return []string{o.(*v1alpha1.QueuePolicy).Spec.ClusterRef.Name} })
	if err != nil {
		return err
	}
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.QueuePolicy{}, builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.QueuePolicy{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf), builder.WithPredicates(ownershipMoved)).
		Watches(&v1alpha1.WorkloadCluster{}, handler.EnqueueRequestsFromMapFunc(r.policiesOf), builder.WithPredicates(readinessMoved)).
		WithOptions(r.controllerOptions()).
		Complete(r)
}

// ownershipMoved lets through what may make another QueuePolicy the owner of the same broker policy.
var ownershipMoved = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*v1alpha1.QueuePolicy), e.ObjectNew.(*v1alpha1.QueuePolicy)
		return was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || (was.Status.Owned == nil) != (is.Status.Owned == nil)
	},
}

// readinessMoved lets through clusters that appear, vanish, or change their readiness.
var readinessMoved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*v1alpha1.WorkloadCluster), e.ObjectNew.(*v1alpha1.WorkloadCluster)
		ready := func(c *v1alpha1.WorkloadCluster) bool {
			return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
		}
		return was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || ready(was) != ready(is)
	},
}

func (r *QueuePolicyReconciler) rivalsOf(ctx context.Context, object client.Object) []reconcile.Request {
	siblings, err := r.Reader.Siblings(ctx, object.(*v1alpha1.QueuePolicy))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "rivals of a QueuePolicy are not told of its change; they learn of it at their next poll")
		return nil
	}
	return requests(siblings)
}

func (r *QueuePolicyReconciler) policiesOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	var list v1alpha1.QueuePolicyList
	err := r.Reader.Cached.List(ctx, &list, client.InNamespace(cluster.GetNamespace()), client.MatchingFields{observe.IndexPolicyCluster: cluster.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "QueuePolicies are not told of their cluster's change; they learn of it at their next poll")
		return nil
	}
	return requests(list.Items)
}

func requests(policies []v1alpha1.QueuePolicy) []reconcile.Request {
	var out []reconcile.Request
	for i := range policies {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies[i])})
	}
	return out
}
