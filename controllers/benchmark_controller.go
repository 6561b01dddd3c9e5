package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
)

// Channel is told of what happened. The address is a secret, and no error holds any of it.
type Channel interface {
	Post(ctx context.Context, address, text string, facts map[string]string) error
}

// BenchmarkReconciler runs Benchmarks, one at a time on each cluster.
type BenchmarkReconciler struct {
	Options
	// Image of Warren itself, which the pods of a run have; "" when it is not known.
	Image string
	// MayExec: the manager may let the pods of a run execute programs in those of the broker.
	MayExec bool
	// Channel of notifications.
	Channel Channel
	// Metrics of the newest results.
	Metrics *BenchmarkMetrics

	// starting is held from the look at who else runs until the start is recorded.
	starting sync.Mutex
}

// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=benchmarks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=benchmarks/status,verbs=patch
// +kubebuilder:rbac:groups=rabbitmq.warren.dev,resources=benchmarks/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete

// Reconcile does one pass over one Benchmark.
func (r *BenchmarkReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.Benchmark
	if err := r.Reader.Cached.Get(ctx, request.NamespacedName, &b); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.Metrics.forget(request.Namespace, request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := r.Reader.Benchmark(ctx, &b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !b.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &b, seen)
	}
	if b.Status.Active == nil && slices.Contains(b.Finalizers, v1alpha1.FinalizerBenchmark) {
		// The pass that ended the run did not come so far, or the next run is recorded a moment later.
		if err := r.Writer.RemoveFinalizer(ctx, &b, v1alpha1.FinalizerBenchmark); err != nil {
			return afterWrite(err)
		}
	}
	scenarios, faults := plan.Scenarios(b.Spec)
	faults = append(faults, plan.Unsupported(scenarios, seen.Cluster)...)
	outcome := status.Benchmark{Object: &b, Seen: seen.Observed(r.Image, r.MayExec, faults), Active: b.Status.Active.DeepCopy()}
	outcome.Decision = plan.Next(&b, outcome.Seen, r.Now())
	if outcome.Decision.Verb == plan.Start {
		r.starting.Lock()
		defer r.starting.Unlock()
	}
	failure := r.carryOut(ctx, seen, scenarios, &outcome)
	if failure != nil {
		outcome.Problem = &status.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: failure.Error()}
	}
	outcome.Told = r.notify(ctx, &b)
	return r.report(ctx, &b, outcome, failure)
}

// carryOut does what was decided.
func (r *BenchmarkReconciler) carryOut(ctx context.Context, seen observe.Benchmark, scenarios []bench.Scenario, outcome *status.Benchmark) error {
	b := outcome.Object
	switch outcome.Decision.Verb {
	case plan.Start:
		return r.start(ctx, outcome)
	case plan.Launch:
		return r.launch(ctx, seen, scenarios, outcome)
	case plan.Collect:
		return r.collect(ctx, seen, outcome)
	case plan.Stop:
		return r.Writer.Delete(ctx, seen.Job)
	case plan.CleanUp:
		return r.cleanUp(ctx, seen, outcome)
	}
	if b.Status.Active != nil {
		return nil
	}
	return r.Writer.Delete(ctx, job.Obsolete(b, seen.Live, "", plan.Trim(b.Status.History, b.Spec.History.Limit))...)
}

// start makes sure that nobody else runs on the cluster. The record of the run is the status that is written then.
func (r *BenchmarkReconciler) start(ctx context.Context, outcome *status.Benchmark) error {
	busy, err := r.Reader.Busy(ctx, outcome.Object)
	if err != nil {
		outcome.Decision.Verb = plan.Wait
		return err
	}
	if busy != "" {
		outcome.Seen.Busy = busy
		outcome.Decision = plan.Next(outcome.Object, outcome.Seen, r.Now())
		return nil
	}
	if err := r.Writer.AddFinalizer(ctx, outcome.Object, v1alpha1.FinalizerBenchmark); err != nil {
		outcome.Decision.Verb = plan.Wait
		return err
	}
	outcome.Active = outcome.Decision.Run
	return nil
}

// launch makes the objects of the run that are not there yet.
func (r *BenchmarkReconciler) launch(ctx context.Context, seen observe.Benchmark, scenarios []bench.Scenario, outcome *status.Benchmark) error {
	b := outcome.Object
	if reason, message := plan.Unfit(b, outcome.Seen); reason != "" {
		r.giveUp(outcome, "before the run began it could not be run any more: "+message)
		return nil
	}
	wanted, err := job.Build(job.Input{Benchmark: b, Run: b.Status.Active, Cluster: seen.Cluster, Scenarios: scenarios, Image: r.Image})
	if err != nil {
		return err
	}
	if err := r.Reader.Unseen(ctx, b.Namespace, wanted, seen.Live); err != nil {
		return err
	}
	missing, err := job.Missing(b, wanted, seen.Live)
	if err != nil {
		return err
	}
	if len(missing.Taken) > 0 {
		return errors.New(strings.Join(missing.Taken, "; "))
	}
	if _, err := r.Writer.Objects(ctx, missing); err != nil {
		if b.Spec.Generator.BrokerCgroups && apierrors.IsForbidden(err) {
			r.giveUp(outcome, "the manager may not give the pods what spec.generator.brokerCgroups needs: "+err.Error())
			return nil
		}
		return err
	}
	outcome.Active.Step = v1alpha1.RunRunning
	return nil
}

// collect judges what the pods handed back, and keeps it.
func (r *BenchmarkReconciler) collect(ctx context.Context, seen observe.Benchmark, outcome *status.Benchmark) error {
	b := outcome.Object
	back, err := r.Reader.HandedBack(ctx, b)
	if err != nil {
		return err
	}
	var measured []plan.Measured
	for i, parts := range back.Parts {
		m := plan.Measured{}
		m.Result, m.Faults = job.Assemble(back.Plan.Scenarios[i], parts)
		if len(m.Result.Runs) == 0 && len(m.Faults) == 0 {
			continue // not begun
		}
		if m.History, err = r.Reader.History(ctx, b, seen.Live, m.Result.Scenario.Name); err != nil {
			return err
		}
		if len(m.Result.Runs) > 0 {
			object, err := job.Result(job.Input{Benchmark: b, Run: b.Status.Active}, i, m.Result)
			if err != nil {
				return err
			}
			if m.ConfigMap, err = r.keep(ctx, b, object); err != nil {
				return err
			}
		}
		measured = append(measured, m)
	}
	run := plan.Conclude(*outcome.Active, b.Spec.Gate, measured, job.EndingOf(back.Endings, back.Plan, seen.Job, outcome.Decision.Message), r.Now())
	if err := r.keepReport(ctx, b, &run, measured); err != nil {
		return err
	}
	finish(outcome, run)
	return nil
}

// keepReport of a run in which something was measured. One that does not fit is not worth an endless attempt.
func (r *BenchmarkReconciler) keepReport(ctx context.Context, b *v1alpha1.Benchmark, run *v1alpha1.BenchmarkRun, measured []plan.Measured) error {
	title := fmt.Sprintf("%s/%s, run %d", b.Namespace, b.Name, run.Number)
	compare := func(m plan.Measured) bench.Comparison { return m.Compare(b.Spec.Gate) }
	page := job.PageOf(title, measured, compare, run.Finished.Time)
	if len(page.Results) == 0 {
		return nil
	}
	object, err := job.Report(job.Input{Benchmark: b, Run: b.Status.Active}, page)
	if errors.Is(err, job.ErrReportTooLarge) {
		run.Message += "; " + err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	run.Report, err = r.keep(ctx, b, object)
	return err
}

func (r *BenchmarkReconciler) keep(ctx context.Context, b *v1alpha1.Benchmark, object *corev1.ConfigMap) (name string, err error) {
	// What an earlier attempt at this pass kept is the same.
	live := map[desired.Key]desired.Object{}
	if err := r.Reader.Unseen(ctx, b.Namespace, []desired.Object{object}, live); err != nil {
		return "", err
	}
	missing, err := job.Missing(b, []desired.Object{object}, live)
	if err != nil {
		return "", err
	}
	if len(missing.Taken) > 0 {
		return "", errors.New(strings.Join(missing.Taken, "; "))
	}
	_, err = r.Writer.Objects(ctx, missing)
	return object.Name, err
}

// giveUp a run before its pods were made.
func (r *BenchmarkReconciler) giveUp(outcome *status.Benchmark, why string) {
	finish(outcome, plan.Conclude(*outcome.Active, outcome.Object.Spec.Gate, nil, plan.Ending{Failed: why}, r.Now()))
}

func finish(outcome *status.Benchmark, run v1alpha1.BenchmarkRun) {
	outcome.Finished = &run
	outcome.Active.Step = v1alpha1.RunCleaningUp
}

// cleanUp removes what the run left: on the broker first, since without the record nobody would know of it.
func (r *BenchmarkReconciler) cleanUp(ctx context.Context, seen observe.Benchmark, outcome *status.Benchmark) error {
	b := outcome.Object
	outcome.Tried = true
	if err := r.sweep(ctx, seen.Cluster, b.Status.Active); err != nil {
		outcome.Cleanup = "vhost and user " + plan.TenantName(b.Status.Active.ID) + " may be left on the broker: " + err.Error()
		return nil
	}
	if err := r.Writer.Delete(ctx, job.Obsolete(b, seen.Live, "", plan.Trim(b.Status.History, b.Spec.History.Limit))...); err != nil {
		return err
	}
	outcome.Active = nil
	return nil
}

// notify makes one attempt to tell the channel, if one is due. It takes no longer than a post may. What keeps it from the
// attempt is no failure: the next pass is soon.
func (r *BenchmarkReconciler) notify(ctx context.Context, b *v1alpha1.Benchmark) *v1alpha1.RunNotification {
	if b.Spec.Notify == nil || b.Status.LastRun == nil {
		return nil
	}
	pending := b.Status.LastRun.Notification
	at, due := plan.TellAt(pending)
	if !due || at.After(r.Now()) {
		return nil
	}
	// A pass that read an older status would tell it again, and could not record that it did.
	if newest, err := r.Reader.Newest(ctx, b); err != nil || !newest {
		return nil
	}
	fault := ""
	address, err := r.Reader.Secret(ctx, b.Namespace, b.Spec.Notify.WebhookSecretRef)
	if err == nil {
		run := *b.Status.LastRun
		err = r.Channel.Post(ctx, address, plan.Text(b, run), map[string]string{
			"benchmark": b.Namespace + "/" + b.Name, "cluster": b.Spec.ClusterRef.Name, "verdict": string(run.Verdict), "run": run.ID,
		})
	}
	if err != nil {
		fault = err.Error()
	}
	return plan.Told(*pending, fault, r.Now())
}

// report writes the status, says in events what happened, and comes back when there may be something to do.
func (r *BenchmarkReconciler) report(ctx context.Context, b *v1alpha1.Benchmark, outcome status.Benchmark, failure error) (ctrl.Result, error) {
	before := *b.Status.DeepCopy()
	next := status.ForBenchmark(outcome, r.Now())
	written, err := r.Writer.BenchmarkStatus(ctx, b, next)
	if err != nil {
		return afterWrite(err)
	}
	r.Metrics.show(b.Namespace, b.Name, next.LastRun)
	if written {
		r.tell(b, outcome, before)
	}
	if failure != nil {
		return afterWrite(failure)
	}
	if next.Active == nil && before.Active != nil {
		if err := r.Writer.RemoveFinalizer(ctx, b, v1alpha1.FinalizerBenchmark); err != nil {
			return afterWrite(err)
		}
	}
	return ctrl.Result{RequeueAfter: r.comeBack(outcome, next)}, nil
}

// tell says in events what happened.
func (r *BenchmarkReconciler) tell(b *v1alpha1.Benchmark, outcome status.Benchmark, before v1alpha1.BenchmarkStatus) {
	announce(r.Events, b, before.Conditions, b.Status.Conditions)
	if outcome.Decision.Verb == plan.Start && outcome.Active != nil {
		r.Events.Eventf(b, nil, corev1.EventTypeNormal, "RunStarted", "StartRun", "%s", note(outcome.Decision.Message))
	}
	if run := outcome.Finished; run != nil {
		kind := corev1.EventTypeNormal
		if run.Verdict == v1alpha1.VerdictRegressed || run.Verdict == v1alpha1.VerdictFailed || run.Verdict == v1alpha1.VerdictRefused {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(b, nil, kind, string(run.Verdict), "JudgeRun", "%s", note(run.Message))
	}
	if told := outcome.Told; told != nil && !told.Sent && told.Attempts >= plan.MostAttempts {
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, "NotifyFailed", "Notify", "%s", note("the channel was not told of the newest run: "+told.Message))
	}
}

const (
	// leavingInterval is how soon pods that are to end are looked at again.
	leavingInterval = time.Second
	// sweepInterval is how soon it is tried again to remove what could not be removed.
	sweepInterval = 10 * time.Second
)

func (r *BenchmarkReconciler) comeBack(outcome status.Benchmark, next v1alpha1.BenchmarkStatus) time.Duration {
	soonest := jitter(r.PollInterval)
	at := func(t time.Time) {
		soonest = min(soonest, max(t.Sub(r.Now()), cacheDelay))
	}
	switch {
	case outcome.Cleanup != "":
		soonest = min(soonest, jitter(sweepInterval))
	case next.Active != nil && (outcome.Decision.Verb == plan.Start || outcome.Decision.Verb == plan.Collect):
		return jitter(cacheDelay) // the record is written; once the informer has it, what it says is done
	case next.Active != nil && next.Active.Step == v1alpha1.RunCleaningUp:
		soonest = min(soonest, jitter(leavingInterval))
	}
	if next.NextRun != nil && next.NextRun.Time.After(r.Now()) {
		at(next.NextRun.Time)
	}
	if next.LastRun != nil {
		if t, due := plan.TellAt(next.LastRun.Notification); due {
			at(t)
		}
	}
	return soonest
}

// SetupWithManager registers the reconciler.
func (r *BenchmarkReconciler) SetupWithManager(manager ctrl.Manager) error {
	err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Benchmark{}, observe.IndexBenchmarkCluster,
		func(o client.Object) []string { return []string{o.(*v1alpha1.Benchmark).Spec.ClusterRef.Name} })
	if err != nil {
		return err
	}
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.Benchmark{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&batchv1.Job{}).
		Watches(&v1alpha1.Benchmark{}, handler.EnqueueRequestsFromMapFunc(r.othersOf), builder.WithPredicates(runEnded)).
		Watches(&v1alpha1.WorkloadCluster{}, handler.EnqueueRequestsFromMapFunc(r.benchmarksOf), builder.WithPredicates(readinessMoved)).
		WithOptions(r.controllerOptions()).
		Complete(r)
}

// runEnded lets through what may let another Benchmark of the same cluster start.
var runEnded = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.(*v1alpha1.Benchmark).Status.Active != nil && e.ObjectNew.(*v1alpha1.Benchmark).Status.Active == nil
	},
}

func (r *BenchmarkReconciler) othersOf(ctx context.Context, object client.Object) []reconcile.Request {
	b := object.(*v1alpha1.Benchmark)
	return r.ofCluster(ctx, b.Namespace, b.Spec.ClusterRef.Name, b.Name)
}

func (r *BenchmarkReconciler) benchmarksOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.ofCluster(ctx, cluster.GetNamespace(), cluster.GetName(), "")
}

func (r *BenchmarkReconciler) ofCluster(ctx context.Context, namespace, cluster, except string) []reconcile.Request {
	var list v1alpha1.BenchmarkList
	err := r.Reader.Cached.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{observe.IndexBenchmarkCluster: cluster})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Benchmarks are not told of a change; they learn of it at their next poll")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Name != except {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
