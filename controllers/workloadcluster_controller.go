// Package controllers holds one reconciler for each Kind. A pass observes, decides by the pure packages, applies, and
// reports with one status write; nothing is computed here.
package controllers

import (
	"cmp"
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/apply"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
	"github.com/warren-mq/warren/internal/tuning"
)

// Options are what every reconciler is given.
type Options struct {
	Reader    observe.Reader
	Writer    apply.Writer
	Connector broker.Connector
	Events    events.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// PollInterval between two looks at a broker, which sends no events of its own.
	PollInterval time.Duration
	// Concurrency is how many objects of a Kind are reconciled at once.
	Concurrency int
	// ImageTemplate is the image that a version stands for, with {version} in it.
	ImageTemplate string
	// Build tells one build of Warren from another: what only another build changes in pods may wait for approval.
	Build string
}

// WorkloadClusterReconciler keeps RabbitMQ clusters as their specs say.
type WorkloadClusterReconciler struct {
	Options
	// Metrics may be nil.
	Metrics *ClusterMetrics
	// PassTimeout bounds one pass over one cluster, so that a broker that hangs takes a worker for no longer; 0 means no bound.
	PassTimeout time.Duration
}

// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=workloadclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=workloadclusters/status,verbs=patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=workloadclusters/finalizers,verbs=update

// Reconcile does one pass over one cluster.
func (r *WorkloadClusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster v1alpha1.WorkloadCluster
	if err := r.Reader.Cached.Get(ctx, request.NamespacedName, &cluster); err != nil {
		r.Metrics.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := r.Reader.Cluster(ctx, &cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &cluster, seen)
	}
	if err := r.Writer.AddFinalizer(ctx, &cluster, v1alpha1.FinalizerWorkloadCluster); err != nil {
		return afterWrite(err)
	}
	return r.pass(ctx, &cluster, seen)
}

// pass decides and applies, then reports.
func (r *WorkloadClusterReconciler) pass(ctx context.Context, cluster *v1alpha1.WorkloadCluster, seen observe.Cluster) (ctrl.Result, error) {
	volumes := desired.PlanVolumes(cluster, seen.StatefulSet, seen.Claims, seen.Live)
	settings := tuning.Decide(volumes.Spec)
	answered := r.Reader.Broker(ctx, cluster, seen)
	changed, update, problem, err := r.reconcileObjects(ctx, cluster, seen, settings, volumes, answered)
	if err != nil && problem == nil {
		problem = &status.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
	}
	runtime := r.Reader.Runtime(ctx, cluster, seen.Pods, answered)
	answered = observe.WithRuntime(cluster, seen.Pods, answered, runtime)
	held := problem != nil || cluster.Spec.Paused
	rollout, rollErr := r.roll(ctx, cluster, seen, answered, len(changed) > 0, held)
	scale, scaleErr := r.scale(ctx, cluster, seen, answered, rollout, held || len(changed) > 0)
	err = cmp.Or(err, rollErr, scaleErr)
	defaults := r.keepDefaults(ctx, cluster, answered, held)
	figures := observe.Tuning(cluster, seen.Pods, answered, runtime)
	next := status.ForCluster(status.Cluster{
		Object: cluster, Problem: problem,
		Tuning: settings, Checks: tuning.Verify(settings, int(cluster.Spec.Replicas), figures),
		StatefulSet: seen.StatefulSet, Pods: seen.Pods, Claims: seen.Claims, Growth: volumes.Growth.Waiting, Update: update, Broker: answered, Runtime: runtime,
		Rollout: rollout, Scale: scale, HaveNodes: observe.HaveNodes(cluster, seen), Defaults: defaults,
	}, r.Now())
	r.Metrics.show(cluster, seen, next)
	return r.report(ctx, cluster, next, changed, err)
}

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps;secrets;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch;delete

// What the Roles of clusters grant, Warren must have itself.
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create

// reconcileObjects brings the objects to what the spec says, or answers what is in the way. Nothing is applied then. An update
// that is answered waits, and what it would change stays.
func (r *WorkloadClusterReconciler) reconcileObjects(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, settings tuning.Settings, volumes desired.Volumes, answered status.Broker) (changed []string, update desired.Update, problem *status.Problem, err error) {
	resolved, faults := desired.Resolve(c, r.ImageTemplate)
	if faults = append(faults, volumes.Faults...); len(faults) > 0 {
		return nil, update, &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: strings.Join(faults, "; ")}, nil
	}
	if c.Spec.Paused {
		return nil, update, nil, nil
	}
	secrets, missing := seen.Identity.CarryOver(c.Name, apply.FreshSecrets())
	if missing != "" {
		reason := v1alpha1.ReasonSecretMissing
		if seen.Identity.Leaving {
			reason = v1alpha1.ReasonPending
		}
		return nil, update, &status.Problem{Reason: reason, Message: missing}, nil
	}
	nodes, inTheWay := nodesNow(c, seen, answered)
	wanted := desired.Build(desired.Input{
		Cluster: c, Capabilities: resolved.Capabilities, Image: resolved.Image, Tuning: settings, Secrets: secrets,
		Claims: &volumes.Growth.Template, SizeAsMade: &volumes.Spec.Storage.Size, Build: r.Build, Nodes: nodes,
	})
	if err := r.Reader.Unseen(ctx, c.Namespace, wanted, seen.Live); err != nil {
		return nil, update, nil, err
	}
	update = desired.PlanUpdate(c, wanted, seen.StatefulSet, r.Now())
	plan, err := desired.PlanObjects(c, wanted, seen.Live, update.Holds(c))
	if err != nil {
		return nil, update, nil, err
	}
	if len(plan.Taken) > 0 {
		return nil, update, &status.Problem{Reason: v1alpha1.ReasonNameTaken, Message: strings.Join(plan.Taken, "; ") +
			": give the WorkloadCluster another name, remove the object if nobody needs it, or label it if it is this cluster's own"}, nil
	}
	if len(plan.Leaving) > 0 {
		return nil, update, &status.Problem{Reason: v1alpha1.ReasonPending, Message: "waiting until what an earlier WorkloadCluster of this name left is collected: " +
			strings.Join(plan.Leaving, ", ")}, nil
	}
	if err := r.Writer.Edits(ctx, desired.TakeOver(c, seen.StatefulSet)); err != nil {
		return nil, update, nil, err
	}
	if changed, err = r.Writer.Objects(ctx, plan); err != nil {
		return changed, update, nil, err
	}
	if update.Pending != "" {
		volumes.Growth.Replace = false // the StatefulSet would be made anew with the update
	}
	grown, problem, err := r.growVolumes(ctx, seen, volumes.Growth)
	if problem == nil {
		problem = inTheWay
	}
	return append(changed, grown...), update, problem, err
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// report writes the status, then says in events what happened, and comes back in time for the next look.
func (r *WorkloadClusterReconciler) report(ctx context.Context, c *v1alpha1.WorkloadCluster, next v1alpha1.WorkloadClusterStatus, changed []string, failure error) (ctrl.Result, error) {
	before := c.Status.Conditions
	written, err := r.Writer.ClusterStatus(ctx, c, next)
	if err != nil {
		return afterWrite(err)
	}
	if len(changed) > 0 {
		r.Events.Eventf(c, nil, corev1.EventTypeNormal, "Applied", "Apply", "%s", note("applied "+strings.Join(changed, ", ")))
	}
	if written {
		announce(r.Events, c, before, next.Conditions)
	}
	if failure != nil {
		return ctrl.Result{}, failure
	}
	if status.IsTrue(next.Conditions, v1alpha1.ConditionReady, c.Generation) {
		return ctrl.Result{RequeueAfter: jitter(r.PollInterval)}, nil
	}
	return ctrl.Result{RequeueAfter: jitter(min(r.PollInterval, unreadyInterval))}, nil
}

// unreadyInterval is how soon a cluster that is not ready is looked at again.
const unreadyInterval = 3 * time.Second

// SetupWithManager registers the reconciler.
func (r *WorkloadClusterReconciler) SetupWithManager(manager ctrl.Manager) error {
	options := r.controllerOptions()
	options.ReconciliationTimeout = r.PassTimeout
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.WorkloadCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&appsv1.StatefulSet{}).
		Owns(&batchv1.Job{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(clusterOfLabel)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(clusterOfLabel)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOfLabel)).
		WithOptions(options).
		Complete(r)
}

// clusterOfLabel asks for the cluster that an object without an owner belongs to.
func clusterOfLabel(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[v1alpha1.LabelCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}
