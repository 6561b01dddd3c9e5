package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/test/cluster"
)

const (
	// formLimit is how long nodes may take to form a cluster or to roll, runLimit how long a Benchmark may take to start and
	// to end a run of scenarios that last seconds; settled changes are waited for a minute of it.
	formLimit = 6 * time.Minute
	runLimit  = 15 * time.Minute
	goneLimit = 3 * time.Minute
)

func (j *job) makeNamespace(ctx context.Context) error {
	return j.k.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
}

// removeNamespace removes the Benchmarks first: they have something on the brokers.
func (j *job) removeNamespace(ctx context.Context) error {
	err := j.k.Client.DeleteAllOf(ctx, &v1alpha1.Benchmark{}, client.InNamespace(namespace))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = cluster.Wait(ctx, goneLimit, func(ctx context.Context) (string, error) {
		var left v1alpha1.BenchmarkList
		err := j.k.Client.List(ctx, &left, client.InNamespace(namespace))
		if len(left.Items) > 0 {
			return fmt.Sprintf("%d Benchmarks are still there", len(left.Items)), err
		}
		return "", err
	})
	if err != nil {
		return err
	}
	return j.k.RemoveNamespaces(ctx, namespace)
}

// rabbit makes a cluster of nodes with one CPU each and waits until it is ready.
func (j *job) rabbit(ctx context.Context, name, version string, nodes int32, edit func(*v1alpha1.WorkloadClusterSpec)) (*cluster.Rabbit, error) {
	c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.WorkloadClass, c.Spec.Version, c.Spec.Replicas = name, version, nodes
	c.Spec.Resources.Limits.CPU, c.Spec.Resources.Limits.Memory = resource.MustParse("1"), resource.MustParse("1Gi")
	cpu, memory := resource.MustParse("50m"), resource.MustParse("256Mi") // they and the generator share a small machine
	c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{CPU: &cpu, Memory: &memory}
	c.Spec.Storage.Size, c.Spec.Storage.DeletionPolicy = resource.MustParse("4Gi"), v1alpha1.DeleteOnDelete
	if edit != nil {
		edit(&c.Spec)
	}
	if err := j.k.Client.Create(ctx, c); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("form a cluster of %d nodes of RabbitMQ %s", nodes, version)
	return j.k.Rabbit(namespace, name), progress.Step(what, func() error { return j.waitRabbit(ctx, name) })
}

func (j *job) waitRabbit(ctx context.Context, name string) error {
	return cluster.Wait(ctx, formLimit, func(ctx context.Context) (string, error) {
		object, err := j.k.Rabbit(namespace, name).Object(ctx)
		return unready(object, object.Status.Conditions), err
	})
}

// unready says why an object is not Ready for its latest spec.
func unready(object client.Object, conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration != object.GetGeneration():
		return "no status of the latest spec yet"
	case c.Status != metav1.ConditionTrue:
		return c.Reason + ": " + c.Message
	}
	return ""
}

// patch merges JSON into the spec of an object.
func (j *job) patch(ctx context.Context, object client.Object, spec string) error {
	return j.k.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":%s}`, spec)))
}

// benchmark of scenarios on a cluster. It needs no permission: nobody else is there.
func benchmark(name, of string, pods, runs int32, scenarios ...bench.Scenario) (*v1alpha1.Benchmark, error) {
	b := &v1alpha1.Benchmark{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.ClusterRef.Name, b.Spec.Runs, b.Spec.Generator.Pods = of, runs, pods
	b.Spec.Generator.BrokerCgroups = true // without them a verdict knows nothing of throttling
	b.Spec.Generator.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi")},
	}
	for _, s := range scenarios {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		b.Spec.Custom = append(b.Spec.Custom, runtime.RawExtension{Raw: text})
	}
	return b, nil
}

// refusedError is why a Benchmark is not accepted.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// waitRun waits until a run is over and cleaned up.
func (j *job) waitRun(ctx context.Context, name string, number int64) (*v1alpha1.BenchmarkRun, error) {
	var b v1alpha1.Benchmark
	key := client.ObjectKey{Namespace: namespace, Name: name}
	var refused refusedError
	told, since := "", time.Now()
	err := cluster.Wait(ctx, runLimit, func(ctx context.Context) (string, error) {
		if err := j.k.Client.Get(ctx, key, &b); err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
			refused = refusedError(c.Reason + ": " + c.Message)
			return "", nil
		}
		if last := b.Status.LastRun; last != nil && last.Number >= number && b.Status.Active == nil {
			return "", nil
		}
		said := "no status yet"
		if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionRunning); c != nil {
			said = c.Reason + ": " + c.Message
		}
		if said != told || time.Since(since) > time.Minute {
			progress.Say("Benchmark %s: %s", name, said)
			told, since = said, time.Now()
		}
		return "run " + fmt.Sprint(number) + " has not ended; " + said, nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("Benchmark %s: %w", name, err)
	case refused != "":
		return nil, refused
	}
	progress.Say("Benchmark %s: run %d is %s: %s", name, number, b.Status.LastRun.Verdict, b.Status.LastRun.Message)
	return b.Status.LastRun, nil
}

// result reads the whole result of a scenario of a run.
func (j *job) result(ctx context.Context, s v1alpha1.ScenarioResult) (bench.Result, error) {
	if s.ConfigMap == "" {
		return bench.Result{}, errors.New("nothing was measured: " + strings.Join(s.InvalidReasons, "; "))
	}
	var stored corev1.ConfigMap
	if err := j.k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.ConfigMap}, &stored); err != nil {
		return bench.Result{}, err
	}
	packed, whole := stored.BinaryData["result.json.gz"]
	if !whole {
		return bench.DecodeResult([]byte(stored.Data["compact.json"]))
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return bench.Result{}, err
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return bench.Result{}, err
	}
	return bench.DecodeResult(text)
}

// results of all scenarios of a run; those of which nothing was measured are left out.
func (j *job) results(ctx context.Context, run *v1alpha1.BenchmarkRun) (map[string]bench.Result, error) {
	out := map[string]bench.Result{}
	for _, s := range run.Scenarios {
		if s.ConfigMap == "" {
			continue
		}
		r, err := j.result(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		out[s.Name] = r
	}
	return out, nil
}
