package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
)

// finalize lets a Benchmark go once nothing of its run is left on the broker. Its objects are collected by Kubernetes.
func (r *BenchmarkReconciler) finalize(ctx context.Context, b *v1alpha1.Benchmark, seen observe.Benchmark) (ctrl.Result, error) {
	r.Metrics.forget(b.Namespace, b.Name)
	if !slices.Contains(b.Finalizers, v1alpha1.FinalizerBenchmark) {
		return ctrl.Result{}, nil
	}
	observed := seen.Observed(r.Image, r.MayExec, nil)
	decision, letGo, orphaned := plan.Depart(b, observed, r.Now())
	outcome := status.Benchmark{Object: b, Seen: observed, Decision: decision, Active: b.Status.Active.DeepCopy()}
	switch {
	case letGo && !orphaned:
		return afterWrite(r.Writer.RemoveFinalizer(ctx, b, v1alpha1.FinalizerBenchmark))
	case letGo:
		return r.orphan(ctx, b, decision.Message)
	case decision.Verb == plan.Stop:
		if err := r.Writer.Delete(ctx, seen.Job); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: jitter(leavingInterval)}, nil
	case decision.Verb == plan.Wait:
		return ctrl.Result{RequeueAfter: jitter(leavingInterval)}, nil
	}
	err := r.sweep(ctx, seen.Cluster, b.Status.Active)
	if err == nil {
		return afterWrite(r.Writer.RemoveFinalizer(ctx, b, v1alpha1.FinalizerBenchmark))
	}
	if orphaned {
		return r.orphan(ctx, b, err.Error())
	}
	outcome.Tried = true
	outcome.Cleanup = fmt.Sprintf("vhost and user %s may be left on the broker: %v. In %s the object goes all the same; annotation %s: \"true\" lets it go at once",
		plan.TenantName(b.Status.Active.ID), err, plan.LetGoAfter, v1alpha1.AnnotationOrphan)
	return r.report(ctx, b, outcome, nil)
}

// orphan lets the object go although something may be left on the broker, and says so.
func (r *BenchmarkReconciler) orphan(ctx context.Context, b *v1alpha1.Benchmark, why string) (ctrl.Result, error) {
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, "Orphaned", "DeleteBenchmark", "%s", note(fmt.Sprintf(
		"vhost and user %s may be left on the broker, and `warren bench sweep` removes them: %s", plan.TenantName(b.Status.Active.ID), why)))
	return afterWrite(r.Writer.RemoveFinalizer(ctx, b, v1alpha1.FinalizerBenchmark))
}

// landlord is what is asked of a broker to remove a tenant.
type landlord interface {
	broker.Guest
	DeleteVHost(ctx context.Context, name string) error
}

// sweepTimeout bounds a sweep: a vhost with full queues takes a while to go.
const sweepTimeout = 30 * time.Second

// sweep removes the run's vhost and user from the broker, and reads that they are gone. Without the cluster there is
// nothing to remove.
func (r *BenchmarkReconciler) sweep(ctx context.Context, cluster *v1alpha1.WorkloadCluster, run *v1alpha1.ActiveRun) error {
	if cluster == nil || string(cluster.UID) != run.ClusterUID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	client, err := r.Reader.Connect(ctx, cluster)
	if err != nil {
		return err
	}
	api, ok := client.(landlord)
	if !ok {
		return errors.New("the adapter of the management API cannot remove users")
	}
	vhost, user, err := leftovers(ctx, api, run.ID)
	if err != nil || !vhost && !user {
		return err
	}
	if err := evict(ctx, api, plan.TenantName(run.ID), vhost, user); err != nil {
		return err
	}
	if vhost, user, err = leftovers(ctx, api, run.ID); err == nil && (vhost || user) {
		err = errors.New("the broker said that they are deleted, and lists them still")
	}
	return err
}

// evict removes the user first: without it nothing can come into the vhost any more.
func evict(ctx context.Context, api landlord, name string, vhost, user bool) error {
	if user {
		if err := api.DeleteUser(ctx, name); err != nil && !broker.IsNotFound(err) {
			return err
		}
	}
	if vhost {
		if err := api.DeleteVHost(ctx, name); err != nil && !broker.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func leftovers(ctx context.Context, api landlord, runID string) (vhost, user bool, err error) {
	vhosts, err := api.DescribedVHosts(ctx)
	if err != nil {
		return false, false, err
	}
	users, err := api.Users(ctx)
	if err != nil {
		return false, false, err
	}
	vhost, user = plan.Leftovers(runID, vhosts, users)
	return vhost, user, nil
}
