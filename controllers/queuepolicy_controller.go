package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
type QueuePolicyReconciler struct {
	Options
	// Metrics may be nil.
	Metrics *PolicyMetrics

	memory policyMemory
}

// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=queuepolicies/status,verbs=patch

// Reconcile does one pass over one policy: over each cluster that it is for or has to leave, and one status write.
func (r *QueuePolicyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object v1alpha1.QueuePolicy
	if err := r.Reader.Cached.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	clusters, err := r.Reader.Clusters(ctx, &object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &object, clusters)
	}
	if err := r.Writer.AddFinalizer(ctx, &object, v1alpha1.FinalizerQueuePolicy); err != nil {
		return afterWrite(err)
	}
	outcome := status.Policy{Object: &object}
	targets, refusal := policy.Targets(&object, clusters)
	if refusal != nil {
		outcome.Problem = &status.Problem{Reason: refusal.Reason, Message: refusal.Message}
	}
	left, err := r.leaveAll(ctx, &object, clusters)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, target := range targets {
		if _, leaving := left[target.Key]; !leaving {
			outcome.Clusters = append(outcome.Clusters, r.visit(ctx, &object, target))
		}
	}
	for _, target := range outcome.Clusters {
		left[target.Cluster] = target
	}
	outcome.Clusters = byKey(left)
	return r.report(ctx, &object, outcome)
}

func byKey(clusters map[string]status.PolicyOn) []status.PolicyOn {
	return slices.SortedFunc(maps.Values(clusters), func(a, b status.PolicyOn) int { return strings.Compare(a.Cluster, b.Cluster) })
}

// act carries out one action, and says so.
func (r *QueuePolicyReconciler) act(ctx context.Context, api broker.Client, p *v1alpha1.QueuePolicy, action policy.Action) error {
	err := send(ctx, api, action)
	if removes(action.Verb) && broker.IsInvalid(err) { // it got a message or a user since it was looked at
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, "DeadLettersKept", string(action.Verb), "%s", note(subject(action)+" stays: "+err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	r.tell(p, action)
	return nil
}

// removes tells whether an action takes away what a dead message may be in or on its way through.
func removes(verb policy.ActionVerb) bool {
	return verb == policy.DeleteQueue || verb == policy.DeleteExchange
}

func send(ctx context.Context, api broker.Client, a policy.Action) error {
	switch a.Verb {
	case policy.PutPolicy:
		return api.PutPolicy(ctx, a.Policy)
	case policy.DeletePolicy:
		return unlessGone(api.DeletePolicy(ctx, a.Policy.VHost, a.Policy.Name))
	case policy.PutOperatorPolicy:
		return api.PutOperatorPolicy(ctx, a.Policy)
	case policy.DeleteOperatorPolicy:
		return unlessGone(api.DeleteOperatorPolicy(ctx, a.Policy.VHost, a.Policy.Name))
	case policy.DeclareExchange:
		return api.PutExchange(ctx, a.Exchange)
	case policy.DeclareQueue:
		return api.PutQueue(ctx, a.Queue)
	case policy.Bind:
		return api.PutBinding(ctx, a.Binding)
	case policy.GrowQueue:
		return api.GrowQueue(ctx, a.Queue.VHost, a.Queue.Name, a.Node)
	case policy.SetDefaultQueueType:
		return api.SetDefaultQueueType(ctx, a.Queue.VHost, a.Queue.Type)
	case policy.DeleteQueue:
		return unlessGone(api.DeleteEmptyQueue(ctx, a.Queue.VHost, a.Queue.Name))
	case policy.DeleteExchange:
		return unlessGone(api.DeleteUnusedExchange(ctx, a.Exchange.VHost, a.Exchange.Name))
	}
	return fmt.Errorf("nobody knows how to carry out %q", a.Verb)
}

func unlessGone(err error) error {
	if broker.IsNotFound(err) {
		return nil
	}
	return err
}

// tell says in an event what was done in a broker, at once: a status write that fails later must not swallow it.
func (r *QueuePolicyReconciler) tell(p *v1alpha1.QueuePolicy, action policy.Action) {
	reason, kind := "PolicyWritten", corev1.EventTypeNormal
	switch {
	case action.Drift:
		reason, kind = "DriftCorrected", corev1.EventTypeWarning
	case action.Verb == policy.DeletePolicy || action.Verb == policy.DeleteOperatorPolicy:
		reason = policy.EventRemoved
	case action.Verb == policy.GrowQueue:
		reason = "QueueGrown"
	case action.Verb != policy.PutPolicy && action.Verb != policy.PutOperatorPolicy:
		reason = "DeadLetters" + map[bool]string{true: "Removed", false: "Prepared"}[removes(action.Verb)]
	}
	// The action tells a policy that was gone from one that was edited: events that agree in reason and action are
	// counted as one, and only the first note is kept.
	verb := string(action.Verb)
	switch {
	case action.Verb == policy.PutPolicy && action.Absent:
		verb = "CreatePolicy"
	case action.Verb == policy.PutPolicy:
		verb = "UpdatePolicy"
	}
	r.Events.Eventf(p, nil, kind, reason, verb, "%s", note(subject(action)+": "+action.Why))
}

// tellLeftBehind says in an event what stays in a broker that Warren cannot reach any more, and what to do about it.
func (r *QueuePolicyReconciler) tellLeftBehind(p *v1alpha1.QueuePolicy, secret string, owned v1alpha1.OwnedPolicy) {
	r.Events.Eventf(p, nil, corev1.EventTypeWarning, policy.EventOrphaned, "LeaveBroker", "%s", note(fmt.Sprintf(
		"Secret %s names another RabbitMQ now: policy %q in vhost %q, and any called %q, stay in the one that it named before, whose credentials are gone. "+
			"Remove them there by hand, or name it in a Secret of its own and make and delete a QueuePolicy for it. Under another address it may be the same RabbitMQ: then nothing is to be done",
		secret, owned.Name, owned.VHost, owned.Name+"~…")))
}

// subject names what an action is about.
func subject(a policy.Action) string {
	what, name, vhost := "policy", a.Policy.Name, a.Policy.VHost
	switch a.Verb {
	case policy.PutOperatorPolicy, policy.DeleteOperatorPolicy:
		what = "operator policy"
	case policy.DeclareExchange, policy.DeleteExchange:
		what, name, vhost = "exchange", a.Exchange.Name, a.Exchange.VHost
	case policy.DeclareQueue, policy.DeleteQueue:
		what, name, vhost = "queue", a.Queue.Name, a.Queue.VHost
	case policy.GrowQueue:
		what, name, vhost = "member on "+a.Node+" of queue", a.Queue.Name, a.Queue.VHost
	case policy.SetDefaultQueueType:
		what, name, vhost = "default queue type", string(a.Queue.Type), a.Queue.VHost
	case policy.Bind:
		what, name, vhost = "binding of exchange "+a.Binding.Source+" to", a.Binding.Destination, a.Binding.VHost
	}
	return fmt.Sprintf("%s %q in vhost %q", what, name, vhost)
}

// report writes the status, says in events what happened, and comes back: soon after something was recorded or written,
// soon while queues are catching up, and else when what the broker said is a poll old.
func (r *QueuePolicyReconciler) report(ctx context.Context, p *v1alpha1.QueuePolicy, outcome status.Policy) (ctrl.Result, error) {
	wrote := slices.ContainsFunc(outcome.Clusters, func(c status.PolicyOn) bool { return c.Wrote && c.Done })
	if wrote && !r.memory.writes(p, true) {
		// What was written is looked at in a moment, and told then: one status write less for each. Not again and again.
		return ctrl.Result{RequeueAfter: jitter(settleInterval)}, nil
	}
	if !wrote {
		r.memory.writes(p, false)
	}
	before := p.Status.Conditions
	next := status.ForPolicy(outcome, r.Now())
	written, err := r.Writer.PolicyStatus(ctx, p, next)
	if err != nil {
		return afterWrite(err)
	}
	if written {
		announce(r.Events, p, before, next.Conditions)
		r.announceDecision(p, before, next.Conditions)
	}
	r.Metrics.show(p, outcome, next)
	soonest := refusedPolls * r.PollInterval
	if outcome.Problem != nil {
		soonest = r.PollInterval
	}
	for _, c := range outcome.Clusters {
		soonest = min(soonest, r.comeBack(c))
	}
	return ctrl.Result{RequeueAfter: later(soonest)}, nil
}

// announceDecision says in an event that the day of quorumDecision comes near or has passed.
func (r *QueuePolicyReconciler) announceDecision(p *v1alpha1.QueuePolicy, before, after []metav1.Condition) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionQuorumDecisionDue), meta.FindStatusCondition(after, v1alpha1.ConditionQuorumDecisionDue)
	if is == nil || is.Reason == v1alpha1.ReasonDateInFuture || was != nil && was.Reason == is.Reason {
		return
	}
	r.Events.Eventf(p, nil, corev1.EventTypeWarning, "QuorumDecision"+is.Reason, "Observe", "%s", note(is.Message))
}

const (
	// catchUpInterval is how soon queues are looked at again that have not got the policy yet.
	catchUpInterval = 3 * time.Second
	// refusedPolls is how many poll intervals pass before a policy that was refused is tried again unchanged.
	refusedPolls = 10
)

func (r *QueuePolicyReconciler) comeBack(c status.PolicyOn) time.Duration {
	soon := min(r.PollInterval, catchUpInterval)
	switch {
	case c.Refused != nil && c.Refused.Reason == v1alpha1.ReasonRefusedByServer:
		return refusedPolls * r.PollInterval
	case c.Refused != nil:
		return r.PollInterval
	case c.Unasked != nil && c.Unasked.Reason != v1alpha1.ReasonVHostNotFound:
		return r.PollInterval // the cluster's own passes look more often, and wake its policies when it is ready
	case c.Unasked != nil || c.Leaving:
		return soon
	case c.LookAgain > 0:
		return c.LookAgain
	case c.Wrote:
		return settleInterval
	case !c.Done && !c.Standing.Owner:
		return soon
	case c.Effect != nil && !c.Effect.All() && c.Effect.Matched != nil:
		return soon
	}
	return max(c.ReadAt.Add(r.PollInterval).Sub(r.Now()), r.PollInterval/10)
}

// later adds up to a tenth, so that passes spread, and none comes before what it shares is old enough to be read anew.
func later(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

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
	for name, values := range observe.PolicyIndexes {
		err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.QueuePolicy{}, name,
			func(o client.Object) []string { return values(o.(*v1alpha1.QueuePolicy)) })
		if err != nil {
			return err
		}
	}
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.QueuePolicy{}, builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.QueuePolicy{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf), builder.WithPredicates(ownershipMoved)).
		Watches(&v1alpha1.WorkloadCluster{}, handler.EnqueueRequestsFromMapFunc(r.policiesOf), builder.WithPredicates(predicate.Or(readinessMoved, grantsMoved))).
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

// grantsMoved lets through clusters that other QueuePolicies may be for now.
var grantsMoved = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*v1alpha1.WorkloadCluster), e.ObjectNew.(*v1alpha1.WorkloadCluster)
		return !maps.Equal(was.Labels, is.Labels) || !slices.Equal(was.Spec.PolicyNamespaces, is.Spec.PolicyNamespaces)
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

func requests(policies []*v1alpha1.QueuePolicy) []reconcile.Request {
	var out []reconcile.Request
	for i := range policies {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policies[i])})
	}
	return out
}
