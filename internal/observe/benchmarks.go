package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/policy"
)

// IndexBenchmarkCluster is the name of the informer index of Benchmarks by their cluster's name.
const IndexBenchmarkCluster = "spec.clusterRef.name"

// Benchmark is what Kubernetes has of one Benchmark and its cluster.
type Benchmark struct {
	// Cluster is nil when there is none that lives.
	Cluster  *v1alpha1.WorkloadCluster
	Policies []v1alpha1.QueuePolicy
	// Claim of spec.history.volumeClaimRef; nil when there is none, or none is named.
	Claim *corev1.PersistentVolumeClaim
	// Job and pods of the active run.
	Job  *batchv1.Job
	Pods []corev1.Pod
	// Live objects of all its runs, without the data of ConfigMaps.
	Live map[desired.Key]desired.Object
}

// Benchmark reads what Kubernetes has of b.
func (r Reader) Benchmark(ctx context.Context, b *v1alpha1.Benchmark) (Benchmark, error) {
	out := Benchmark{Live: map[desired.Key]desired.Object{}}
	var cluster v1alpha1.WorkloadCluster
	err := r.Cached.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ClusterRef.Name}, &cluster)
	if client.IgnoreNotFound(err) != nil {
		return out, err
	}
	if err == nil && cluster.DeletionTimestamp.IsZero() {
		out.Cluster = &cluster
	}
	if out.Cluster != nil {
		all, err := r.PoliciesOf(ctx, out.Cluster)
		if err != nil {
			return out, err
		}
		for _, p := range all {
			if policy.IsFor(p, out.Cluster) {
				out.Policies = append(out.Policies, *p)
			}
		}
	}
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := r.live(ctx, b.Namespace, client.MatchingLabels{v1alpha1.LabelBenchmark: b.Name}, list, out.Live); err != nil {
			return out, err
		}
	}
	if out.Claim, err = r.claim(ctx, b); err != nil || b.Status.Active == nil {
		return out, err
	}
	return out, r.run(ctx, b, &out)
}

// claim that the spec names; nil when there is none. It is somebody's, and no informer has it.
func (r Reader) claim(ctx context.Context, b *v1alpha1.Benchmark) (*corev1.PersistentVolumeClaim, error) {
	ref := b.Spec.History.VolumeClaimRef
	if ref == nil {
		return nil, nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := r.Direct.List(ctx, &claims, client.InNamespace(b.Namespace), client.MatchingFields{"metadata.name": ref.Name})
	if err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	for i := range claims.Items {
		if claims.Items[i].Name == ref.Name {
			return &claims.Items[i], nil
		}
	}
	return nil, nil
}

// run adds the Job and the pods of the active run. A Job that the informers do not have may just have been made.
func (r Reader) run(ctx context.Context, b *v1alpha1.Benchmark, out *Benchmark) error {
	name := job.RunName(b.Name, b.Status.Active.ID)
	out.Job, _ = out.Live[desired.Key{Kind: "Job", Name: name}].(*batchv1.Job)
	if out.Job == nil && b.Status.Active.Step != v1alpha1.RunStarting {
		var there batchv1.Job
		found, err := r.direct(ctx, b.Namespace, name, &there)
		if err != nil {
			return err
		}
		if found && there.Labels[v1alpha1.LabelRun] == b.Status.Active.ID {
			there.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
			out.Job = &there
		}
	}
	var pods corev1.PodList
	err := r.Cached.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelRun: b.Status.Active.ID})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	out.Pods = pods.Items
	return nil
}

// Busy is another Benchmark that has a run on the same cluster; "" for none. The API server is asked and not the
// informers, since two Benchmarks may want to start at once.
func (r Reader) Busy(ctx context.Context, b *v1alpha1.Benchmark) (string, error) {
	var all v1alpha1.BenchmarkList
	if err := r.Direct.List(ctx, &all, client.InNamespace(b.Namespace)); err != nil {
		return "", fmt.Errorf("list Benchmarks: %w", err)
	}
	for _, other := range all.Items {
		if other.Name != b.Name && other.Spec.ClusterRef == b.Spec.ClusterRef && other.Status.Active != nil {
			return other.Name, nil
		}
	}
	return "", nil
}

// HandedBack is what the pods of a run wrote.
type HandedBack struct {
	// Plan of the run; nil when there is none.
	Plan *job.Plan
	// Endings of the pods, by number.
	Endings map[int]job.Ending
	// Parts by scenario.
	Parts []map[string][]byte
}

// HandedBack reads what the pods of the active run wrote. What is not there is left out.
func (r Reader) HandedBack(ctx context.Context, b *v1alpha1.Benchmark) (HandedBack, error) {
	var out HandedBack
	run := job.RunName(b.Name, b.Status.Active.ID)
	var made corev1.ConfigMap
	found, err := r.direct(ctx, b.Namespace, job.PlanName(run), &made)
	if err != nil || !found {
		return out, err
	}
	p, err := job.DecodePlan([]byte(made.Data[job.KeyPlan]))
	if err != nil {
		return out, nil // somebody made it anew: nothing of the run can be told
	}
	out.Plan = &p
	var control corev1.ConfigMap
	if _, err := r.direct(ctx, b.Namespace, p.Control, &control); err != nil {
		return out, err
	}
	out.Endings = job.EndingsOf(control.Data, p.Pods)
	for _, name := range p.Parts {
		var part corev1.ConfigMap
		if _, err := r.direct(ctx, b.Namespace, name, &part); err != nil {
			return out, err
		}
		out.Parts = append(out.Parts, part.BinaryData)
	}
	return out, nil
}

// mostHistory is how many earlier results of a scenario are compared with.
const mostHistory = 10

// History are the newest results of a scenario that are kept, but for that of the active run, oldest first. What cannot be
// read is left out.
func (r Reader) History(ctx context.Context, b *v1alpha1.Benchmark, live map[desired.Key]desired.Object, scenario string) ([]bench.Result, error) {
	var kept []desired.Object
	for key, object := range live {
		labels := object.GetLabels()
		mine := metav1.IsControlledBy(object, b) // what somebody made that looks alike would decide what is a regression
		if key.Kind == "ConfigMap" && mine && labels[v1alpha1.LabelResult] == scenario && labels[v1alpha1.LabelRun] != b.Status.Active.ID {
			kept = append(kept, object)
		}
	}
	slices.SortFunc(kept, func(a, b desired.Object) int { return cmp.Compare(job.NumberOf(a), job.NumberOf(b)) })
	var out []bench.Result
	for _, object := range kept[max(0, len(kept)-mostHistory):] {
		var stored corev1.ConfigMap
		found, err := r.direct(ctx, b.Namespace, object.GetName(), &stored)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if result, err := bench.DecodeResult([]byte(stored.Data[job.KeyCompact])); err == nil {
			out = append(out, result)
		}
	}
	return out, nil
}

// Newest tells whether b is as the API server has it now. What cannot be taken back is not done on an older one.
func (r Reader) Newest(ctx context.Context, b *v1alpha1.Benchmark) (bool, error) {
	var now v1alpha1.Benchmark
	found, err := r.direct(ctx, b.Namespace, b.Name, &now)
	return found && now.ResourceVersion == b.ResourceVersion, err
}

// Secret reads a value of a Secret that is not Warren's. The error does not hold it.
func (r Reader) Secret(ctx context.Context, namespace string, ref v1alpha1.SecretKeyReference) (string, error) {
	var secret corev1.Secret
	found, err := r.direct(ctx, namespace, ref.Name, &secret)
	if err != nil {
		return "", err
	}
	value, has := secret.Data[ref.Key]
	if !found || !has {
		return "", fmt.Errorf("Secret %s with the key %s does not exist", ref.Name, ref.Key)
	}
	return string(value), nil
}

// Observed joins what was seen into the input of a decision.
func (s Benchmark) Observed(image string, mayExec bool, faults []string) plan.Observed {
	return plan.Observed{
		Cluster: s.Cluster, Policies: s.Policies, Job: s.Job, Pods: s.Pods, Claim: s.Claim, Image: image, MayExec: mayExec, Faults: faults,
	}
}
