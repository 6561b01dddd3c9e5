//go:build e2e

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/test/cluster"
)

const (
	// benchPods share the load of each run.
	benchPods = 2
	// runPatience is how long a run of a few seconds may take on a busy machine, Warren's restart included.
	runPatience = 4 * time.Minute
)

// TestBenchmarkOnARealCluster goes through the life of Benchmarks with real pods and a real RabbitMQ (H1): a run goes on
// while Warren is killed and ends once, one that is deleted in its middle leaves nothing, one whose pod is killed fails and
// is cleaned up, and a QueuePolicy that changes starts one that says so and has the policy on its queues.
func TestBenchmarkOnARealCluster(t *testing.T) {
	t.Run("pods keep off the broker", func(t *testing.T) {
		t.Parallel()
		testBenchmarkKeepsOff(t)
	})
	eachLine(t, func(t *testing.T, l *line) {
		kept := newBenchmark(l, "kept", l.scenario("Measured", "5s"), l.scenario("MeasuredAgain", "6s"))
		kept.Spec.Trigger.OnChange = true
		testRunOutlivesWarren(t, l, kept)
		policy := newPolicy(l, "bench-measured", `^bench\.`)
		policy.Spec.Definition = &runtime.RawExtension{Raw: []byte(`{"max-length":1000000,"overflow":"reject-publish"}`)}
		if err := k.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		// A run starts when the change has settled, which takes a minute. Meanwhile others run.
		testDeletedInMidRun(t, l)
		testPodKilled(t, l)
		testChangeIsMeasured(t, l, kept)
		if err := k.Client.Delete(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		deletePolicyObject(t, policy)
		l.nothingOf(t, "")
	})
}

// scenario is a short one with little load: what is seen here is not how fast the machine is. Its queues are named as
// those of an application, and have the policies that such queues have.
func (l *line) scenario(name, duration string) string {
	kind := map[string]string{"classic": "Classic", "quorum": "Quorum"}[l.queueType]
	return fmt.Sprintf(`{"name":%q,"publishers":{"count":2,"confirmWindow":50},"consumers":{"count":2},`+
		`"queues":{"count":2,"type":%q,"like":{"name":"bench.orders"}},"warmUp":"1s","duration":%q,"coolDown":"0s","caps":{"rate":400}}`, name, kind, duration)
}

func newBenchmark(l *line, name string, scenarios ...string) *v1alpha1.Benchmark {
	b := &v1alpha1.Benchmark{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	b.Spec.ClusterRef.Name, b.Spec.Runs, b.Spec.AllowProduction = l.cluster, 1, true // other tests' queues are there
	for _, s := range scenarios {
		b.Spec.Custom = append(b.Spec.Custom, runtime.RawExtension{Raw: []byte(s)})
	}
	b.Spec.Generator.Pods = benchPods
	b.Spec.Generator.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("50m"), corev1.ResourceMemory: quantity("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: quantity("1"), corev1.ResourceMemory: quantity("256Mi")},
	}
	return b
}

// waitBenchmark waits until nothing is missing of a Benchmark.
func waitBenchmark(t *testing.T, b *v1alpha1.Benchmark, what string, missing func(*v1alpha1.Benchmark) string) {
	t.Helper()
	eventually(t, runPatience, "Benchmark "+b.Name+" "+what, func(ctx context.Context) (string, error) {
		var now v1alpha1.Benchmark
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(b), &now); err != nil {
			return "", err
		}
		now.DeepCopyInto(b)
		said := ""
		for _, c := range now.Status.Conditions {
			said += fmt.Sprintf("; %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		if m := missing(b); m != "" {
			return m + said, nil
		}
		return "", nil
	})
}

// waitRun waits until a run of a Benchmark is over and nothing of it is under way any more.
func waitRun(t *testing.T, b *v1alpha1.Benchmark, number int64) v1alpha1.BenchmarkRun {
	t.Helper()
	waitBenchmark(t, b, fmt.Sprintf("ends run %d", number), func(b *v1alpha1.Benchmark) string {
		switch {
		case b.Status.LastRun == nil || b.Status.LastRun.Number < number:
			return fmt.Sprintf("run %d has not ended", number)
		case b.Status.Active != nil || len(b.Finalizers) > 0:
			return "it is not cleaned up"
		}
		return ""
	})
	return *b.Status.LastRun
}

// underLoad creates a Benchmark and waits until all pods of its run are there and load its vhost. It answers the pods.
func (l *line) underLoad(t *testing.T, b *v1alpha1.Benchmark) (pods []corev1.Pod) {
	t.Helper()
	if err := k.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitBenchmark(t, b, "is under way", func(b *v1alpha1.Benchmark) string {
		if b.Status.LastRun != nil {
			t.Fatalf("the run is over already: %+v", b.Status.LastRun)
		}
		if b.Status.Active == nil || b.Status.Active.Step != v1alpha1.RunRunning {
			return "no run is under way"
		}
		return ""
	})
	name := plan.TenantName(b.Status.Active.ID)
	eventually(t, runPatience, "the pods of "+b.Name+" load the broker", func(ctx context.Context) (string, error) {
		err := k.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
		if b.Status.Active == nil {
			t.Fatalf("the run is over already: %+v", b.Status.LastRun)
		}
		if err != nil {
			return "", err
		}
		if pods, err = runPods(ctx, b); err != nil {
			return "", err
		}
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running < benchPods {
			return fmt.Sprintf("%d of %d pods run", running, benchPods), nil
		}
		queues, err := l.queuesOf(ctx, name)
		if err != nil || len(queues) < 2 {
			return fmt.Sprintf("vhost %s has queues %v: %v", name, queues, err), nil
		}
		return "", nil
	})
	return pods
}

func runPods(ctx context.Context, b *v1alpha1.Benchmark) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := k.Client.List(ctx, &list, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelBenchmark: b.Name})
	return list.Items, err
}

// queuesOf a vhost with the policy that each has.
func (l *line) queuesOf(ctx context.Context, vhost string) (map[string]string, error) {
	var queues []cluster.Queue
	if err := l.rabbit().Call(ctx, http.MethodGet, "queues/"+vhost, nil, &queues); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, q := range queues {
		out[q.Name] = q.Policy
	}
	return out, nil
}

// tenants are the vhosts and users of benchmarks that the broker has.
func (l *line) tenants(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, what := range []string{"vhosts", "users"} {
		var found []struct{ Name string }
		if err := l.rabbit().Call(t.Context(), http.MethodGet, what+"?columns=name", nil, &found); err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.HasPrefix(f.Name, plan.TenantTag) {
				out = append(out, what+" "+f.Name)
			}
		}
	}
	return out
}

// nothingOf waits until Kubernetes has nothing of a Benchmark (or, with "", of any), and fails if the broker has.
func (l *line) nothingOf(t *testing.T, benchmark string) {
	t.Helper()
	if left := l.tenants(t); benchmark == "" && len(left) > 0 {
		t.Errorf("the broker still has %v", left)
	}
	eventually(t, goneLimit, "no object of benchmark "+benchmark, func(ctx context.Context) (string, error) {
		left, err := benchObjects(ctx, l.namespace, benchmark)
		return strings.Join(left, ", "), err
	})
}

// benchObjects lists what Kubernetes has of a Benchmark's runs, or with "" of all.
func benchObjects(ctx context.Context, namespace, benchmark string) ([]string, error) {
	found, err := objects(ctx, namespace, "")
	maps.DeleteFunc(found, func(_ string, o client.Object) bool {
		of, is := o.GetLabels()[v1alpha1.LabelBenchmark]
		return !is || benchmark != "" && of != benchmark
	})
	return names(found), err
}

// killOne lets one test at a time kill Warren.
var killOne sync.Mutex

func killLivingWarren(t *testing.T) {
	t.Helper()
	killOne.Lock()
	defer killOne.Unlock()
	eventually(t, time.Minute, "Warren runs", func(ctx context.Context) (string, error) {
		pods, err := warrenPods(ctx)
		if err != nil || len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%d pods", len(pods)), err
		}
		return "", nil
	})
	killWarren(t)
}

// testRunOutlivesWarren: two restricted pods with Warren's own image measure, Warren is killed meanwhile, and the run ends
// once: results in the status, in ConfigMaps and in the columns, and nothing else is left.
func testRunOutlivesWarren(t *testing.T, l *line, b *v1alpha1.Benchmark) {
	pods := l.underLoad(t, b)
	warren, err := warrenPods(t.Context())
	if err != nil || len(warren) == 0 {
		t.Fatalf("Warren's pods: %d, %v", len(warren), err)
	}
	image, id := warren[0].Spec.Containers[0].Image, b.Status.Active.ID
	if got := l.tenants(t); len(got) != 2 {
		t.Errorf("during the run the broker has %v, wanted a vhost and a user", got)
	}
	killLivingWarren(t)
	for _, pod := range pods {
		if got := pod.Spec.Containers[0].Image; got != image {
			t.Errorf("pod %s has image %s, Warren has %s", pod.Name, got, image)
		}
	}
	run := waitRun(t, b, 1)
	t.Logf("%+v", run)
	if b.Status.Started != 1 || run.ID != id || run.Verdict != v1alpha1.VerdictBaseline || len(run.Scenarios) != 2 {
		t.Errorf("%d runs were started, the last is %+v, wanted one with id %s and a baseline of two scenarios", b.Status.Started, run, id)
	}
	var said eventsv1.EventList
	if err := k.Client.List(t.Context(), &said, client.InNamespace(l.namespace)); err != nil {
		t.Fatal(err)
	}
	ofOthers := func(e eventsv1.Event) bool { return e.Reason != "RunStarted" || e.Regarding.UID != b.UID }
	if n := len(slices.DeleteFunc(said.Items, ofOthers)); n != 1 {
		t.Errorf("%d events RunStarted", n)
	}
	if left := l.tenants(t); len(left) > 0 {
		t.Errorf("the broker still has %v", left)
	}
	wanted := []string{"ConfigMap " + run.Report}
	for _, s := range run.Scenarios {
		wanted = append(wanted, "ConfigMap "+s.ConfigMap)
	}
	eventually(t, goneLimit, "only results and their report are left", func(ctx context.Context) (string, error) {
		left, err := benchObjects(ctx, l.namespace, b.Name)
		if slices.Equal(left, wanted) {
			return "", err
		}
		return fmt.Sprintf("left: %v, wanted %v", left, wanted), err
	})
	l.checkResults(t, run, pods)
	l.checkColumns(t, b)
}

// checkResults reads the ConfigMaps of a run: all messages are accounted for, by both pods, and whether a pod was on a node
// of the broker is as Kubernetes has it.
func (l *line) checkResults(t *testing.T, run v1alpha1.BenchmarkRun, pods []corev1.Pod) {
	t.Helper()
	brokers, err := l.rabbit().Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shared := sharesNode(pods, brokers)
	for _, s := range run.Scenarios {
		r := storedResult(t, l.namespace, s.ConfigMap)
		if r.Scenario.Name != s.Name || len(r.Runs) != 1 || r.Summary.ValidRuns != 1 {
			t.Errorf("ConfigMap %s: scenario %s, %d runs, %d valid: %v", s.ConfigMap, r.Scenario.Name, len(r.Runs), r.Summary.ValidRuns, s.InvalidReasons)
			continue
		}
		if r.Fingerprint.SharedHost != shared {
			t.Errorf("%s: shared host %v, wanted %v", s.Name, r.Fingerprint.SharedHost, shared)
		}
		if !strings.HasPrefix(r.Fingerprint.BrokerVersion, l.version+".") || r.Fingerprint.Nodes != 3 {
			t.Errorf("%s: measured on %+v", s.Name, r.Fingerprint)
		}
		if r.Runs[0].Generator.Workers != benchPods {
			t.Errorf("%s: %d pods made it, wanted %d", s.Name, r.Runs[0].Generator.Workers, benchPods)
		}
		if len(r.Runs[0].Queues) != 2 || len(r.Runs[0].Broker) == 0 {
			t.Errorf("%s: %d queues and %d samples of the broker", s.Name, len(r.Runs[0].Queues), len(r.Runs[0].Broker))
		}
		for _, q := range r.Runs[0].Queues {
			if q.Published == 0 || q.Published != q.Confirmed || q.Consumed != q.Confirmed || q.Lost+q.Duplicated+q.Foreign > 0 {
				t.Errorf("%s: the account of a queue is %+v", s.Name, q)
			}
		}
	}
}

func sharesNode(pods, brokers []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return slices.ContainsFunc(brokers, func(b corev1.Pod) bool { return p.Spec.NodeName == b.Spec.NodeName })
	})
}

// storedResult reads the whole result of a scenario.
func storedResult(t *testing.T, namespace, configMap string) bench.Result {
	t.Helper()
	var stored corev1.ConfigMap
	if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: configMap}, &stored); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(stored.BinaryData["result.json.gz"]))
	if err != nil {
		t.Fatalf("ConfigMap %s: %v", configMap, err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.DecodeResult(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkColumns: what `kubectl get qbench` shows.
func (l *line) checkColumns(t *testing.T, b *v1alpha1.Benchmark) {
	t.Helper()
	out, err := k.Kubectl(t.Context(), "get", "qbench", b.Name, "-n", l.namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("$ kubectl get qbench\n%s", out)
	heading, row, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if got := strings.Join(strings.Fields(heading), " "); got != "NAME CLUSTER LAST RUN HEADLINE P99 BOTTLENECK VERDICT" {
		t.Errorf("the columns are %s", got)
	}
	for _, want := range []string{b.Name, l.cluster, b.Status.LastRun.Headline, b.Status.LastRun.P99, b.Status.LastRun.Bottleneck, "Baseline"} {
		if !strings.Contains(row, want) {
			t.Errorf("%q is not in %q", want, row)
		}
	}
}

// testDeletedInMidRun: a Benchmark that is deleted while its pods load the broker goes when nothing of it is left there.
func testDeletedInMidRun(t *testing.T, l *line) {
	b := newBenchmark(l, "deleted", l.scenario("Long", "10m"))
	l.underLoad(t, b)
	tenant, began := plan.TenantName(b.Status.Active.ID), time.Now()
	if err := k.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	l.waitGone(t, b)
	t.Logf("deleted in the middle of a run: gone after %.0f s", time.Since(began).Seconds())
	for _, left := range l.tenants(t) {
		if strings.HasSuffix(left, tenant) {
			t.Errorf("the Benchmark is gone, and the broker has %s", left)
		}
	}
	l.nothingOf(t, b.Name)
}

func (l *line) waitGone(t *testing.T, b *v1alpha1.Benchmark) {
	t.Helper()
	eventually(t, goneLimit, "Benchmark "+b.Name+" goes", func(ctx context.Context) (string, error) {
		var left v1alpha1.Benchmark
		err := k.Client.Get(ctx, client.ObjectKeyFromObject(b), &left)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return fmt.Sprintf("still there: %+v", left.Status.Conditions), err
	})
}

// testPodKilled: one pod of a run is killed. The others end, the run is Failed and cleaned up, and the Benchmark, which
// has no run now, goes at once when it is deleted.
func testPodKilled(t *testing.T, l *line) {
	b := newBenchmark(l, "killed", l.scenario("Long", "10m"))
	pods := l.underLoad(t, b)
	if err := k.Client.Delete(t.Context(), &pods[1], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	run := waitRun(t, b, 1)
	t.Logf("%s: %s", run.Verdict, run.Message)
	// Whether the pod could still say that it was told to stop is a matter of moments; the Job says why the run is over.
	if run.Verdict != v1alpha1.VerdictFailed || !strings.HasPrefix(run.Message, "generator pod ") || !strings.Contains(run.Message, "BackoffLimitExceeded") {
		t.Errorf("the run is %s: %s", run.Verdict, run.Message)
	}
	for _, left := range l.tenants(t) {
		if strings.HasSuffix(left, plan.TenantName(run.ID)) {
			t.Errorf("the run is cleaned up, and the broker has %s", left)
		}
	}
	var jobs batchv1.JobList
	if err := k.Client.List(t.Context(), &jobs, client.InNamespace(l.namespace), client.MatchingLabels{v1alpha1.LabelBenchmark: b.Name}); err != nil || len(jobs.Items) > 0 {
		t.Errorf("%d Jobs, %v", len(jobs.Items), err)
	}
	if err := k.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var left v1alpha1.Benchmark
	if err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(b), &left); !apierrors.IsNotFound(err) {
		t.Errorf("an idle Benchmark is still there after its deletion, with finalizers %v: %v", left.Finalizers, err)
	}
	l.nothingOf(t, b.Name)
}

// testChangeIsMeasured: the QueuePolicy that is new starts a run that says so, with the policy on the queues it loads.
func testChangeIsMeasured(t *testing.T, l *line, b *v1alpha1.Benchmark) {
	waitBenchmark(t, b, "measures the change", func(b *v1alpha1.Benchmark) string {
		if b.Status.Started < 2 || b.Status.Active != nil && b.Status.Active.Step == v1alpha1.RunStarting {
			return fmt.Sprintf("%d runs were started, pending is %+v", b.Status.Started, b.Status.Pending)
		}
		return ""
	})
	if b.Status.Active == nil {
		t.Fatalf("the run ended before it could be looked at: %+v", b.Status.LastRun)
	}
	tenant := plan.TenantName(b.Status.Active.ID)
	eventually(t, runPatience, "the queues of the run have the policy", func(ctx context.Context) (string, error) {
		queues, err := l.queuesOf(ctx, tenant)
		if len(queues) == 0 {
			return "no queues yet", err
		}
		for name, policy := range queues {
			if policy != "bench-measured" || !strings.HasPrefix(name, "bench.orders") {
				return fmt.Sprintf("queue %s has policy %q", name, policy), nil
			}
		}
		return "", nil
	})
	run := waitRun(t, b, 2)
	t.Logf("%+v", run)
	if run.Trigger != v1alpha1.TriggerChange || !strings.Contains(run.Reason, "policy.bench-measured: none → ") {
		t.Errorf("run 2 was started by %s: %s", run.Trigger, run.Reason)
	}
	if run.Verdict == v1alpha1.VerdictFailed || run.Verdict == v1alpha1.VerdictRefused || run.Verdict == v1alpha1.VerdictBaseline {
		t.Errorf("run 2 is %s: %s", run.Verdict, run.Message)
	}
}

// testBenchmarkKeepsOff: where there are nodes without broker, pods go there, and the result says that they share no host.
func testBenchmarkKeepsOff(t *testing.T) {
	l := &line{namespace: "e2e-bench", cluster: "lone", version: "4.3", queueType: "classic"}
	makeNamespace(t, l.namespace)
	explainFailure(t, l.namespace)
	object := single(l.namespace, l.cluster, l.version)
	if err := k.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	waitCluster(t, l.namespace, l.cluster)
	b := newBenchmark(l, "apart", l.scenario("Measured", "5s"))
	pods := l.underLoad(t, b)
	brokers, err := l.rabbit().Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := k.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	free := slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) == 0 && n.Name != brokers[0].Spec.NodeName })
	if shared := sharesNode(pods, brokers); shared == free {
		t.Errorf("a node without broker is free: %v; a pod shares the broker's: %v", free, shared)
	}
	run := waitRun(t, b, 1)
	if len(run.Scenarios) != 1 {
		t.Fatalf("%+v", run)
	}
	if r := storedResult(t, l.namespace, run.Scenarios[0].ConfigMap); r.Fingerprint.SharedHost == free {
		t.Errorf("a node without broker is free: %v, and the result says that the host is shared: %v", free, r.Fingerprint.SharedHost)
	}
	deleteCluster(t, object)
	if err := k.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	leaves(t, l.namespace, "")
}
