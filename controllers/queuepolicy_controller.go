package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// QueuePolicyReconciler keeps the brokers' policies as the QueuePolicies say.
type QueuePolicyReconciler struct{ Options }

// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies/status,verbs=patch

// Reconcile does one pass over one policy: over each cluster that it is for or has to leave, and one status write.
func (r *QueuePolicyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object v1alpha1.QueuePolicy
	if err := r.Reader.Cached.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	targets, refusal, err := r.Reader.Targets(ctx, &object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &object, targets)
	}
	if err := r.Writer.AddFinalizer(ctx, &object, v1alpha1.FinalizerQueuePolicy); err != nil {
		return afterWrite(err)
	}
	outcome := status.Policy{Object: &object}
	if refusal != nil {
		outcome.Problem = &status.Problem{Reason: refusal.Reason, Message: refusal.Message}
	}
	for _, target := range targets {
		outcome.Clusters = append(outcome.Clusters, r.visit(ctx, &object, target))
	}
	return r.report(ctx, &object, outcome)
}

// visit does the pass over one cluster. What goes wrong there is said there: the others go on.
func (r *QueuePolicyReconciler) visit(ctx context.Context, p *v1alpha1.QueuePolicy, target policy.Target) status.PolicyOn {
	outcome := status.PolicyOn{Cluster: target.Key, Owned: policy.Owned(p, target.Key)}
	if target.Reason != "" {
		outcome.Unasked = &status.Problem{Reason: target.Reason, Message: target.Message}
		return outcome
	}
	if err := r.pass(ctx, p, target, &outcome); err != nil {
		outcome.Unasked = problemOf(err, p)
	}
	return outcome
}

// pass looks at the broker, decides, and carries the decision out if the status already records that the policy is
// ours: a crash after the record repeats the write, a crash before it has written nothing.
func (r *QueuePolicyReconciler) pass(ctx context.Context, p *v1alpha1.QueuePolicy, target policy.Target, outcome *status.PolicyOn) error {
	api, err := r.Reader.Connect(ctx, target.Cluster)
	if err != nil {
		return err
	}
	seen, err := r.Reader.Vhost(ctx, api, p.Spec.VHost)
	if err != nil {
		return err
	}
	rivals, err := r.Reader.Rivals(ctx, p, target.Cluster)
	if err != nil {
		return err
	}
	uid := string(target.Cluster.UID)
	mine := policy.ClaimOf(p, uid)
	have := policy.Find(seen.Policies, p.BrokerPolicyName())
	rendered, err := policy.Render(p, seen.Capabilities)
	if err != nil {
		outcome.Refused = problemOf(err, p)
		return nil
	}
	want := rendered.Policy
	outcome.Standing = policy.Judge(mine, rivals, have, p.Spec.Adopt || policy.Same(want, have))
	if !outcome.Standing.Owner {
		outcome.Owned = nil
		return nil
	}
	outcome.Owned = &v1alpha1.OwnedPolicy{ClusterUID: uid, VHost: p.Spec.VHost, Name: p.BrokerPolicyName()}
	settled := status.IsTrue(p.Status.Conditions, v1alpha1.ConditionInSync, p.Generation)
	if !mine.Owns {
		outcome.Why = "about to be written: ownership is recorded first"
		return nil
	}
	outcome.Actions = decide(want, have, settled)
	if err := r.carryOut(ctx, api, p, outcome); err != nil || outcome.Refused != nil {
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

// decide what to write: the policy as it should be, if the broker's differs.
func decide(want broker.Policy, have *broker.Policy, settled bool) []policy.Action {
	change := policy.Plan(&want, have, true, settled)
	if change.Verb != policy.Put {
		return nil
	}
	return []policy.Action{{Verb: policy.PutPolicy, Policy: change.Policy, Why: change.Why, Drift: change.Drift, Absent: change.Absent}}
}

// carryOut does what was decided, in its order. What the broker refuses ends it.
func (r *QueuePolicyReconciler) carryOut(ctx context.Context, api broker.Client, p *v1alpha1.QueuePolicy, outcome *status.PolicyOn) error {
	for _, action := range outcome.Actions {
		err := r.act(ctx, api, p, action)
		if broker.IsInvalid(err) {
			outcome.Refused = problemOf(err, p)
			return nil
		}
		if err != nil {
			return err
		}
	}
	outcome.Done = true
	return nil
}

func (r *QueuePolicyReconciler) act(ctx context.Context, api broker.Client, p *v1alpha1.QueuePolicy, action policy.Action) error {
	switch action.Verb {
	case policy.PutPolicy:
		if err := api.PutPolicy(ctx, action.Policy); err != nil {
			return err
		}
	case policy.DeletePolicy:
		if err := api.DeletePolicy(ctx, action.Policy.VHost, action.Policy.Name); err != nil && !broker.IsNotFound(err) {
			return err
		}
	}
	r.tell(p, action)
	return nil
}

// tell says in an event what was done in a broker, at once: a status write that fails later must not swallow it.
func (r *QueuePolicyReconciler) tell(p *v1alpha1.QueuePolicy, action policy.Action) {
	reason, kind := "PolicyWritten", corev1.EventTypeNormal
	if action.Drift {
		reason, kind = "DriftCorrected", corev1.EventTypeWarning
	}
	// The action tells a policy that was gone from one that was edited: events that agree in reason and action are
	// counted as one, and only the first note is kept.
	verb := "UpdatePolicy"
	if action.Absent {
		verb = "CreatePolicy"
	}
	r.Events.Eventf(p, nil, kind, reason, verb, "%s", note(about(p, action.Why)))
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
	if written {
		announce(r.Events, p, before, next.Conditions)
	}
	soonest := refusedPolls * r.PollInterval
	if outcome.Problem != nil {
		soonest = r.PollInterval
	}
	for _, c := range outcome.Clusters {
		soonest = min(soonest, r.comeBack(c))
	}
	return ctrl.Result{RequeueAfter: jitter(soonest)}, nil
}

const (
	// catchUpInterval is how soon queues are looked at again that have not got the policy yet.
	catchUpInterval = 3 * time.Second
	// refusedPolls is how many poll intervals pass before a policy that was refused is tried again unchanged.
	refusedPolls = 10
)

func (r *QueuePolicyReconciler) comeBack(c status.PolicyOn) time.Duration {
	switch {
	case c.Refused != nil:
		return refusedPolls * r.PollInterval
	case c.Unasked != nil && c.Unasked.Reason != v1alpha1.ReasonVHostNotFound:
		return r.PollInterval // the cluster's own passes look more often, and wake its policies when it is ready
	case c.Standing.Owner && !c.Done:
		return cacheDelay // the record is written; once the informer has it, the policy
	case c.Effect != nil && c.Effect.All():
		return r.PollInterval
	}
	return min(r.PollInterval, catchUpInterval)
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
		func(o client.Object) []string { return observe.PolicyIndex(o.(*v1alpha1.QueuePolicy)) })
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
		return was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || owns(was) != owns(is)
	},
}

// owns counts the clusters in which a policy is recorded as ours.
func owns(p *v1alpha1.QueuePolicy) int {
	n := 0
	for _, c := range p.Status.Clusters {
		if c.Owned != nil {
			n++
		}
	}
	return n
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
	list, err := r.Reader.PoliciesOf(ctx, cluster.(*v1alpha1.WorkloadCluster))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "QueuePolicies are not told of their cluster's change; they learn of it at their next poll")
		return nil
	}
	return requests(list)
}

func requests(policies []v1alpha1.QueuePolicy) []reconcile.Request {
	var out []reconcile.Request
	for i := range policies {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies[i])})
	}
	return out
}
