//go:build api

package controllers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/apply"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/desired"
)

var (
	channel       = fakeChannel{posts: map[string][]string{}, fail: map[string]int{}}
	metricsOfTest = prometheus.NewRegistry()
)

// fakeChannel remembers what was posted to each address.
type fakeChannel struct {
	mu    sync.Mutex
	posts map[string][]string
	fail  map[string]int
}

func (c *fakeChannel) Post(_ context.Context, address, text string, _ map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail[address] > 0 {
		c.fail[address]--
		return errors.New("the channel answered 500")
	}
	c.posts[address] = append(c.posts[address], text)
	return nil
}

func (c *fakeChannel) of(address string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.posts[address])
}

// newBenchmark runs one small scenario three times; edit makes it something else.
func newBenchmark(c *v1alpha1.WorkloadCluster, name string, edit ...func(*v1alpha1.Benchmark)) *v1alpha1.Benchmark {
	b := &v1alpha1.Benchmark{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
		Spec: v1alpha1.BenchmarkSpec{
			ClusterRef: v1alpha1.ClusterReference{Name: c.Name},
			Scenarios:  []v1alpha1.BuiltinScenario{"SmallConfirmed"},
		},
	}
	for _, f := range edit {
		f(b)
	}
	return b
}

// generator plays what the pods of a run do.
type generator struct {
	t      *testing.T
	b      *v1alpha1.Benchmark
	server *brokertest.Server
	// perSecond that all three runs measure, give or take one in a hundred.
	perSecond float64
}

// begun waits until the run with the number has its Job, and makes its vhost and user on the broker.
func (g generator) begun(number int64) *batchv1.Job {
	g.t.Helper()
	found := &batchv1.Job{}
	eventually(g.t, fmt.Sprintf("run %d of %s has a Job", number, g.b.Name), func() error {
		if err := get(g.t, g.b.Namespace, g.b.Name, g.b); err != nil {
			return err
		}
		if g.b.Status.Active == nil || g.b.Status.Started != number || g.b.Status.Active.Step != v1alpha1.RunRunning {
			return fmt.Errorf("started %d, active %+v, conditions %+v", g.b.Status.Started, g.b.Status.Active, g.b.Status.Conditions)
		}
		return get(g.t, g.b.Namespace, job.RunName(g.b.Name, g.b.Status.Active.ID), found)
	})
	guest := admin(g.t, g.server).(broker.Guest)
	name := plan.TenantName(g.b.Status.Active.ID)
	must(g.t, guest.PutDescribedVHost(g.t.Context(), broker.VHost{Name: name, Tags: []string{plan.TenantTag}}))
	must(g.t, guest.PutUser(g.t.Context(), broker.User{Name: name, Password: "x", Tags: []string{plan.TenantTag}}))
	g.server.AddQueue(broker.Queue{VHost: name, Name: name + "-0"})
	return found
}

// plan that the pods read.
func (g generator) plan() job.Plan {
	g.t.Helper()
	var made corev1.ConfigMap
	must(g.t, get(g.t, g.b.Namespace, job.PlanName(job.RunName(g.b.Name, g.b.Status.Active.ID)), &made))
	p, err := job.DecodePlan([]byte(made.Data[job.KeyPlan]))
	must(g.t, err)
	return p
}

// handBack writes the parts of all scenarios, as the pods would.
func (g generator) handBack() {
	g.t.Helper()
	p := g.plan()
	writer := apply.Writer{Client: kube}
	for i, s := range p.Scenarios {
		parts := map[string][]byte{}
		for run := 1; run <= s.Runs; run++ {
			for pod := range p.Pods {
				perSecond := g.perSecond * (1 + 0.005*float64(run-2)) / float64(p.Pods)
				packed, err := job.EncodePart(job.Part{Of: p.Pods, Fingerprint: p.Fingerprint, Part: bench.Part{Run: measuredRun(run, perSecond)}}, s.Runs)
				must(g.t, err)
				parts[job.PartKey(run, pod)] = packed
			}
		}
		must(g.t, writer.HandBack(g.t.Context(), p.Namespace, p.Parts[i], nil, parts))
	}
	g.end(job.Ending{Code: job.Done})
}

// end says how all pods ended.
func (g generator) end(ending job.Ending) {
	g.t.Helper()
	p := g.plan()
	text, err := json.Marshal(ending)
	must(g.t, err)
	data := map[string]string{}
	for pod := range p.Pods {
		data[job.EndingKey(pod)] = string(text)
	}
	must(g.t, apply.Writer{Client: kube}.HandBack(g.t.Context(), p.Namespace, p.Control, data, nil))
}

// finish lets the run with the number do well, and waits until it is judged and cleaned up.
func (g generator) finish(number int64, verdict v1alpha1.RunVerdict) {
	g.t.Helper()
	made := g.begun(number)
	g.handBack()
	endJob(g.t, made, batchv1.JobComplete)
	g.judged(number, verdict)
}

// judged waits for the verdict, and sees that nothing of the run is left.
func (g generator) judged(number int64, verdict v1alpha1.RunVerdict) {
	g.t.Helper()
	eventually(g.t, fmt.Sprintf("run %d of %s is over, %s", number, g.b.Name, verdict), func() error {
		if err := get(g.t, g.b.Namespace, g.b.Name, g.b); err != nil {
			return err
		}
		last := g.b.Status.LastRun
		if last == nil || last.Number != number || g.b.Status.Active != nil || last.Verdict != verdict {
			return fmt.Errorf("last %+v, active %+v, conditions %+v", last, g.b.Status.Active, g.b.Status.Conditions)
		}
		return nil
	})
	nothingLeft(g.t, g.b, g.server, g.b.Status.LastRun.ID)
}

// measuredRun is what a generator finds in twenty seconds.
func measuredRun(number int, perSecond float64) bench.Run {
	run := bench.Run{
		Number: number, Started: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		Phases:    []bench.Phase{{Name: bench.PhaseSteady, StartSeconds: 0, EndSeconds: 20}},
		Generator: bench.GeneratorFigures{Workers: 1},
	}
	for at := range 20 {
		n := int64(perSecond)
		run.Seconds = append(run.Seconds, bench.Second{AtSeconds: at, Published: n, Confirmed: n, Consumed: n, Acknowledged: n})
	}
	return run
}

// endJob plays the Job controller.
func endJob(t *testing.T, made *batchv1.Job, as batchv1.JobConditionType) {
	t.Helper()
	at := metav1.Now()
	made.Status.StartTime = &at
	condition := batchv1.JobCondition{Type: as, Status: corev1.ConditionTrue, LastTransitionTime: at}
	before := batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: at}
	if as == batchv1.JobFailed {
		condition.Reason, condition.Message = "BackoffLimitExceeded", "a pod failed"
		before.Type = batchv1.JobFailureTarget
	} else {
		made.Status.CompletionTime, made.Status.Succeeded = &at, *made.Spec.Completions
		made.Status.CompletedIndexes = "0"
		if n := *made.Spec.Completions; n > 1 {
			made.Status.CompletedIndexes = fmt.Sprintf("0-%d", n-1)
		}
	}
	made.Status.Conditions = []batchv1.JobCondition{before, condition}
	must(t, kube.Status().Update(t.Context(), made))
}

// objectsOf are the objects of a Benchmark's runs, as "ConfigMap a-plan".
func objectsOf(t *testing.T, b *v1alpha1.Benchmark, labels client.MatchingLabels) (names []string) {
	t.Helper()
	for kind, list := range map[string]client.ObjectList{
		"Job": &batchv1.JobList{}, "ConfigMap": &corev1.ConfigMapList{}, "ServiceAccount": &corev1.ServiceAccountList{},
		"Role": &rbacv1.RoleList{}, "RoleBinding": &rbacv1.RoleBindingList{},
	} {
		must(t, kube.List(t.Context(), list, client.InNamespace(b.Namespace), labels))
		must(t, eachObject(list, func(o client.Object) {
			if o.GetLabels()[v1alpha1.LabelBenchmark] == b.Name {
				names = append(names, kind+" "+o.GetName())
			}
		}))
	}
	slices.Sort(names)
	return names
}

// nothingLeft wants only results of the run in Kubernetes, and nothing on the broker.
func nothingLeft(t *testing.T, b *v1alpha1.Benchmark, server *brokertest.Server, runID string) {
	t.Helper()
	eventually(t, "nothing of the run is left", func() error {
		for _, name := range objectsOf(t, b, client.MatchingLabels{v1alpha1.LabelRun: runID}) {
			if !strings.Contains(name, "-result-") && !strings.HasSuffix(name, "-report") {
				return fmt.Errorf("%s is left", name)
			}
		}
		return nil
	})
	guest := admin(t, server).(broker.Guest)
	vhosts, err := guest.DescribedVHosts(t.Context())
	must(t, err)
	users, err := guest.Users(t.Context())
	must(t, err)
	if vhost, user := plan.Leftovers(runID, vhosts, users); vhost || user {
		t.Errorf("on the broker are left: vhost %v, user %v", vhost, user)
	}
}

func benchmarkIs(t *testing.T, b *v1alpha1.Benchmark, condition string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %s is %s, %s", b.Name, condition, status, reason), func() error {
		if err := get(t, b.Namespace, b.Name, b); err != nil {
			return err
		}
		return conditionIs(b.Status.Conditions, condition, status, reason)
	})
}

// A first run is the baseline, an equal one passes, a slower one is a regression of which the channel, the events and the
// metrics know; of all three nothing but results is left, and when nothing is due nothing is written.
func TestBenchmarkFindsARegression(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	guest := admin(t, server).(broker.Guest)
	alike := plan.TenantName(strings.Repeat("0", 32))
	must(t, guest.PutDescribedVHost(t.Context(), broker.VHost{Name: alike})) // a user's: it has not the tag
	server.AddQueue(broker.Queue{VHost: "/", Name: "bench-report"})
	address := "https://hooks.example/T0KEN-" + c.Namespace
	must(t, kube.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "channel"}, StringData: map[string]string{"url": address},
	}))
	channel.mu.Lock()
	channel.fail[address] = 1
	channel.mu.Unlock()
	b := newBenchmark(c, "baseline", func(b *v1alpha1.Benchmark) {
		b.Spec.Scenarios = append(b.Spec.Scenarios, "SteadyRate")
		b.Spec.Generator.Pods = 2
		b.Spec.History.Limit = 2
		b.Spec.Notify = &v1alpha1.BenchmarkNotify{WebhookSecretRef: v1alpha1.SecretKeyReference{Name: "channel"}}
	})
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server, perSecond: 1000}
	g.finish(1, v1alpha1.VerdictBaseline)
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	benchmarkIs(t, b, v1alpha1.ConditionRegressed, metav1.ConditionUnknown, v1alpha1.ReasonNoHistory)
	if got := b.Status.LastRun.Headline; got != "SmallConfirmed 1.0k/s" || b.Status.LastRun.Trigger != v1alpha1.TriggerCreation {
		t.Errorf("headline %q of %+v", got, b.Status.LastRun)
	}

	version := b.ResourceVersion
	server.ForgetRequests()
	before := len(writes.of(c.Namespace))
	throughout(t, "nothing is written while no run is due", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if all := writes.of(c.Namespace); b.ResourceVersion != version || len(all) > before {
			return fmt.Errorf("writes: %v", all[before:])
		}
		if server.Writes() > 0 {
			return fmt.Errorf("the broker was written to: %+v", server.Requests())
		}
		return nil
	})

	again := func(value string) {
		edit(t, b, func() { b.Annotations = map[string]string{v1alpha1.AnnotationRun: value} })
	}
	again("second")
	g.perSecond = 1010
	g.finish(2, v1alpha1.VerdictPassed)
	benchmarkIs(t, b, v1alpha1.ConditionRegressed, metav1.ConditionFalse, v1alpha1.ReasonWithinGate)
	if got := b.Status.LastRun.Headline; got != "SmallConfirmed 1.0k/s (+1%)" || b.Status.LastRun.Trigger != v1alpha1.TriggerRequest {
		t.Errorf("headline %q of %+v", got, b.Status.LastRun)
	}
	if posts := channel.of(address); len(posts) > 0 {
		t.Errorf("the channel was told %q of runs that are well", posts)
	}

	again("third")
	g.perSecond = 700
	g.finish(3, v1alpha1.VerdictRegressed)
	benchmarkIs(t, b, v1alpha1.ConditionRegressed, metav1.ConditionTrue, v1alpha1.ReasonOutsideGate)
	eventually(t, "the first attempt to tell the channel fails", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if n := b.Status.LastRun.Notification; n == nil || n.Attempts != 1 || n.Sent || n.Message == "" {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	now.advance(t, 11*time.Second)
	eventually(t, "the second one does not", func() error {
		if posts := channel.of(address); len(posts) != 1 || !strings.Contains(posts[0], "throughput -3") {
			return fmt.Errorf("posts %q", posts)
		}
		must(t, get(t, b.Namespace, b.Name, b))
		if n := b.Status.LastRun.Notification; !n.Sent || n.Attempts != 2 {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	eventually(t, "metrics and events say so", func() error { return sayRegressed(t, b) })
	text, err := json.Marshal(b)
	must(t, err)
	if strings.Contains(string(text), "T0KEN") {
		t.Error("the object holds the channel's address")
	}

	// The history is bounded, and what is kept can be read.
	if len(b.Status.History) != 2 || b.Status.History[0].Number != 3 || b.Status.History[1].Number != 2 {
		t.Errorf("history %+v", b.Status.History)
	}
	eventually(t, "the results of the first run are gone", func() error {
		if kept := objectsOf(t, b, nil); len(kept) != 6 {
			return fmt.Errorf("kept %v", kept)
		}
		return nil
	})
	kept := &corev1.ConfigMap{}
	must(t, get(t, b.Namespace, b.Status.LastRun.Scenarios[0].ConfigMap, kept))
	unpacked, err := gzip.NewReader(bytes.NewReader(kept.BinaryData[job.KeyResult]))
	must(t, err)
	var result bench.Result
	must(t, json.NewDecoder(unpacked).Decode(&result))
	if len(result.Runs) != 3 || result.Runs[0].Generator.Workers != 2 || result.Summary.ValidRuns != 3 {
		t.Errorf("kept %d runs, summary %+v", len(result.Runs), result.Summary)
	}

	shows(t, b, "run 3: ", "Regressed", "×\u00a00.69", "SteadyRate", "<figure")

	vhosts, err := guest.DescribedVHosts(t.Context())
	must(t, err)
	if !slices.ContainsFunc(vhosts, func(v broker.VHost) bool { return v.Name == alike }) {
		t.Error("a vhost that only looks like a benchmark's was removed")
	}
	if !server.SetCounts("/", "bench-report", 0, 0, 0) {
		t.Error("a queue that only looks like a benchmark's was removed")
	}
}

// shows wants texts in the report of the newest run, which is read as docs/benchmark-kind.md says.
func shows(t *testing.T, b *v1alpha1.Benchmark, texts ...string) {
	t.Helper()
	kept := &corev1.ConfigMap{}
	must(t, get(t, b.Namespace, b.Status.LastRun.Report, kept))
	if owner := metav1.GetControllerOf(kept); owner == nil || owner.UID != b.UID || kept.Immutable == nil || !*kept.Immutable {
		t.Errorf("the report is not owned, or can be changed: %+v", kept.ObjectMeta)
	}
	packed, err := gzip.NewReader(bytes.NewReader(kept.BinaryData[job.KeyReport]))
	must(t, err)
	page, err := io.ReadAll(packed)
	must(t, err)
	for _, text := range texts {
		if !bytes.Contains(page, []byte(text)) {
			t.Errorf("the report has no %q", text)
		}
	}
}

// Results go to a volume only when its claim is there: without it nothing starts and nothing is made, and what became of
// the run's folder is said.
func TestBenchmarkKeepsRunsOnAVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "stored", func(b *v1alpha1.Benchmark) {
		b.Spec.History = v1alpha1.BenchmarkHistory{Limit: 3, VolumeClaimRef: &v1alpha1.VolumeClaimReference{Name: "results"}}
	})
	must(t, kube.Create(t.Context(), b))
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonClaimNotFound)
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonClaimNotFound)
	benchmarkIs(t, b, v1alpha1.ConditionRunning, metav1.ConditionFalse, v1alpha1.ReasonClaimNotFound)
	throughout(t, "nothing is made without the claim", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if made := objectsOf(t, b, nil); len(made) > 0 || b.Status.Started > 0 {
			return fmt.Errorf("made %v, %d runs started", made, b.Status.Started)
		}
		return nil
	})
	claim := func(name string, mode corev1.PersistentVolumeAccessMode) {
		must(t, kube.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{mode},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}))
	}
	claim("results", corev1.ReadWriteOnce)
	g := generator{t: t, b: b, server: server, perSecond: 100}
	made := g.begun(1)
	pod := made.Spec.Template.Spec
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "results"
	}) || pod.SecurityContext.FSGroup == nil {
		t.Errorf("the pods do not have the volume: %+v", pod)
	}
	g.handBack()
	g.end(job.Ending{Code: job.Done, Folder: "stored/" + g.plan().Store.Folder})
	endJob(t, made, batchv1.JobComplete)
	g.judged(1, v1alpha1.VerdictBaseline)
	benchmarkIs(t, b, v1alpha1.ConditionStored, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	if folder := b.Status.LastRun.Folder; !strings.HasPrefix(folder, "stored/20") || !strings.HasSuffix(folder, b.Status.LastRun.ID[:8]) {
		t.Errorf("folder %q", folder)
	}

	edit(t, b, func() { b.Annotations = map[string]string{v1alpha1.AnnotationRun: "full"} })
	made = g.begun(2)
	g.handBack()
	g.end(job.Ending{Code: job.Done, StoreFault: "no space left on device"})
	endJob(t, made, batchv1.JobComplete)
	g.judged(2, v1alpha1.VerdictPassed)
	benchmarkIs(t, b, v1alpha1.ConditionStored, metav1.ConditionFalse, v1alpha1.ReasonStoreFailed)
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)

	edit(t, b, func() { b.Spec.Generator.Pods = 2 })
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonClaimNotShared)
	claim("shared", corev1.ReadWriteMany)
	edit(t, b, func() { b.Spec.History.VolumeClaimRef.Name = "shared" })
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	edit(t, b, func() { b.Spec.Generator.BrokerCgroups = true })
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonBrokerCgroupsNotAllowed)
}

func sayRegressed(t *testing.T, b *v1alpha1.Benchmark) error {
	families, err := metricsOfTest.Gather()
	must(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["namespace"] == b.Namespace && labels["scenario"] == "SmallConfirmed" {
				found[family.GetName()] = m.Gauge.GetValue()
			}
		}
	}
	if found["warren_benchmark_regressed"] != 1 || found["warren_benchmark_throughput"] != 700 {
		return fmt.Errorf("metrics %v", found)
	}
	var list eventsv1.EventList
	must(t, kube.List(t.Context(), &list, client.InNamespace(b.Namespace)))
	for _, e := range list.Items {
		if strings.Contains(e.Note, "T0KEN") {
			t.Errorf("an event holds the channel's address: %s", e.Note)
		}
		if e.Reason == "Regressed" && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "SmallConfirmed: throughput -30") {
			return nil
		}
	}
	return fmt.Errorf("no event of the regression among %d", len(list.Items))
}

// What a run consists of is as restricted as it can be, and holds no secret.
func TestBenchmarkObjectsAreRestricted(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "restricted", func(b *v1alpha1.Benchmark) {
		b.Spec.Generator.Pods = 3
		b.Spec.Caps = v1alpha1.BenchmarkCaps{Rate: 500, Disk: quantity("64Mi")}
	})
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server}
	made := g.begun(1)
	if p := g.plan(); p.Pods != 3 || p.Scenarios[0].Caps.Rate != 500 || p.Scenarios[0].Caps.Disk != 64<<20 || p.Scenarios[0].Runs != 3 {
		t.Errorf("plan %+v", p)
	}
	// A namespace that enforces the restricted standard takes the pods.
	labelled := &corev1.Namespace{}
	must(t, kube.Get(t.Context(), client.ObjectKey{Name: c.Namespace}, labelled))
	labelled.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	must(t, kube.Update(t.Context(), labelled))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "would-be"}, Spec: *made.Spec.Template.Spec.DeepCopy()}
	must(t, kube.Create(t.Context(), pod, client.DryRunAll))
	text, err := json.Marshal(made)
	must(t, err)
	var secret corev1.Secret
	must(t, get(t, c.Namespace, desired.AdminSecretName(c.Name), &secret))
	if strings.Contains(string(text), string(secret.Data[desired.KeyAdminPassword])) {
		t.Error("the Job holds the administrator's password")
	}
	role := &rbacv1.Role{}
	must(t, get(t, b.Namespace, made.Name, role))
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) == 0 || slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Verbs, "list") {
			t.Errorf("rule %+v", rule)
		}
	}
	if owner := metav1.GetControllerOf(made); owner == nil || owner.UID != b.UID {
		t.Errorf("owner %+v", owner)
	}
}

// A run that fails, one that is refused and one whose Job is deleted leave nothing, and say why.
func TestBenchmarkThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "ending")
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server, perSecond: 100}
	again := func(value string) {
		edit(t, b, func() { b.Annotations = map[string]string{v1alpha1.AnnotationRun: value} })
	}

	endJob(t, g.begun(1), batchv1.JobFailed)
	g.judged(1, v1alpha1.VerdictFailed)
	if !strings.Contains(b.Status.LastRun.Message, "BackoffLimitExceeded") {
		t.Errorf("message %q", b.Status.LastRun.Message)
	}
	again("refused")
	made := g.begun(2)
	g.end(job.Ending{Code: job.Refused, Message: "12 connections are open, of user app"})
	endJob(t, made, batchv1.JobFailed)
	g.judged(2, v1alpha1.VerdictRefused)
	if !strings.Contains(b.Status.LastRun.Message, "12 connections") || len(b.Status.History) > 0 {
		t.Errorf("message %q, history %+v", b.Status.LastRun.Message, b.Status.History)
	}
	again("killed")
	must(t, kube.Delete(t.Context(), g.begun(3), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	g.judged(3, v1alpha1.VerdictFailed)

	// The broker does not let go: that is said, and tried again.
	again("stubborn")
	made = g.begun(4)
	g.handBack()
	server.Unavailable(true)
	endJob(t, made, batchv1.JobComplete)
	benchmarkIs(t, b, v1alpha1.ConditionCleanedUp, metav1.ConditionFalse, v1alpha1.ReasonCleanupFailed)
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCleanupFailed)
	server.Unavailable(false)
	g.judged(4, v1alpha1.VerdictBaseline)
	benchmarkIs(t, b, v1alpha1.ConditionCleanedUp, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
}

// A restart in the middle of a run goes on with it: all that is known of the run stands in the status, and what was made and
// not recorded is found.
func TestBenchmarkRunSurvivesARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "restarted")
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server, perSecond: 100}
	made := g.begun(1)
	lost := b.DeepCopy()
	lost.Status.Active.Step = v1alpha1.RunStarting // the Job was made, and the record that it was is lost
	must(t, kube.Status().Patch(t.Context(), lost, client.MergeFrom(b)))
	edit(t, b, func() { b.Annotations = map[string]string{"a": "pass"} })
	again := g.begun(1)
	if again.UID != made.UID {
		t.Error("the run has another Job")
	}
	var jobs batchv1.JobList
	must(t, kube.List(t.Context(), &jobs, client.InNamespace(b.Namespace)))
	if len(jobs.Items) != 1 {
		t.Errorf("%d Jobs", len(jobs.Items))
	}
	g.handBack()
	endJob(t, again, batchv1.JobComplete)
	g.judged(1, v1alpha1.VerdictBaseline)
}

// Deleted in the middle of a run, a Benchmark goes when its pods are gone and nothing of it is on the broker.
func TestBenchmarkDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "deleted")
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server}
	made := g.begun(1)
	id := b.Status.Active.ID
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: made.Name + "-0", Labels: made.Spec.Template.Labels},
		Spec:       *made.Spec.Template.Spec.DeepCopy(),
	}
	must(t, kube.Create(t.Context(), pod))
	must(t, kube.Delete(t.Context(), b))
	throughout(t, "it stays while a pod runs, which could make anew what is removed", func() error {
		return get(t, b.Namespace, b.Name, b)
	})
	must(t, kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	eventually(t, "it is gone", func() error {
		if err := get(t, b.Namespace, b.Name, b); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want not found, got %v: %+v", err, b.Status.Conditions)
		}
		return nil
	})
	guest := admin(t, server).(broker.Guest)
	vhosts, err := guest.DescribedVHosts(t.Context())
	must(t, err)
	users, err := guest.Users(t.Context())
	must(t, err)
	if vhost, user := plan.Leftovers(id, vhosts, users); vhost || user {
		t.Errorf("on the broker are left: vhost %v, user %v", vhost, user)
	}
	for _, name := range objectsOf(t, b, client.MatchingLabels{v1alpha1.LabelRun: id}) {
		if strings.HasPrefix(name, "Job ") {
			t.Errorf("%s is left", name)
		}
	}
}

// A run keeps to the spec with which it began, whatever is edited meanwhile. What people do to the results that are kept breaks
// nothing: those that are gone are not compared with, and those that somebody else made do not count.
func TestBenchmarkInHandsOfPeople(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "handled", func(b *v1alpha1.Benchmark) {
		b.Spec.Notify = &v1alpha1.BenchmarkNotify{WebhookSecretRef: v1alpha1.SecretKeyReference{Name: "absent"}}
	})
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server, perSecond: 1000}
	made := g.begun(1)
	edit(t, b, func() {
		b.Spec.Scenarios = []v1alpha1.BuiltinScenario{"SteadyRate"}
		b.Spec.Custom = []runtime.RawExtension{{Raw: []byte(`{"name": "SteadyRate", "publishers": 7}`)}}
		b.Spec.Generator.Pods, b.Spec.Runs = 2, 1
	})
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	if p := g.plan(); p.Pods != 1 || p.Scenarios[0].Name != "SmallConfirmed" || p.Scenarios[0].Runs != 3 {
		t.Errorf("the plan of the run is another: %+v", p)
	}
	g.handBack()
	endJob(t, made, batchv1.JobComplete)
	g.judged(1, v1alpha1.VerdictBaseline)
	if got := b.Status.LastRun.Scenarios; len(got) != 1 || got[0].Name != "SmallConfirmed" || got[0].Runs != "3/3" {
		t.Errorf("scenarios %+v", got)
	}

	again := func(value string) {
		edit(t, b, func() {
			b.Spec.Scenarios, b.Spec.Custom = []v1alpha1.BuiltinScenario{"SmallConfirmed"}, nil
			b.Spec.Generator.Pods, b.Spec.Runs = 1, 3
			b.Annotations = map[string]string{v1alpha1.AnnotationRun: value}
		})
	}
	kept := &corev1.ConfigMap{}
	must(t, get(t, b.Namespace, b.Status.LastRun.Scenarios[0].ConfigMap, kept))
	forged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "forged", Labels: kept.Labels, Annotations: kept.Annotations},
		Data:       kept.Data,
	}
	must(t, kube.Create(t.Context(), forged))
	must(t, kube.Delete(t.Context(), kept))
	g.perSecond = 500
	again(strings.Repeat("x", 100_000))
	g.finish(2, v1alpha1.VerdictBaseline) // and no regression against what nobody knows whose it is
	if reason := b.Status.LastRun.Reason; len(reason) > 300 {
		t.Errorf("a reason of %d bytes", len(reason))
	}

	must(t, get(t, b.Namespace, b.Status.LastRun.Scenarios[0].ConfigMap, kept))
	garbled := kept.DeepCopy()
	garbled.ResourceVersion, garbled.UID = "", ""
	garbled.Data, garbled.BinaryData = map[string]string{job.KeyCompact: `{"schemaVersion": 1, "scenario": {"name": `}, nil
	must(t, kube.Delete(t.Context(), kept))
	must(t, kube.Create(t.Context(), garbled))
	again("garbled")
	g.finish(3, v1alpha1.VerdictBaseline)
	g.perSecond = 100
	again("worse")
	g.finish(4, v1alpha1.VerdictRegressed)
	eventually(t, "the channel's Secret is not there, which is said", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if n := b.Status.LastRun.Notification; n == nil || n.Attempts != 1 || n.Sent || n.Message != "Secret absent with the key url does not exist" {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
}

// Two Benchmarks of one cluster run one after the other. One that is idle goes at once.
func TestTwoBenchmarksOneCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	both := []*v1alpha1.Benchmark{newBenchmark(c, "one"), newBenchmark(c, "two")}
	for _, b := range both {
		must(t, kube.Create(t.Context(), b))
	}
	eventually(t, "one runs and the other waits", func() error {
		for _, b := range both {
			must(t, get(t, b.Namespace, b.Name, b))
		}
		if both[0].Status.Active == nil {
			slices.Reverse(both)
		}
		if both[0].Status.Active == nil || both[1].Status.Active != nil {
			return fmt.Errorf("active: %+v and %+v", both[0].Status.Active, both[1].Status.Active)
		}
		return conditionIs(both[1].Status.Conditions, v1alpha1.ConditionRunning, metav1.ConditionFalse, v1alpha1.ReasonQueued)
	})
	for _, b := range both {
		generator{t: t, b: b, server: server, perSecond: 100}.finish(1, v1alpha1.VerdictBaseline)
	}
	server.Unavailable(true)
	must(t, kube.Delete(t.Context(), both[0]))
	eventually(t, "an idle one goes without the broker", func() error {
		if err := get(t, c.Namespace, both[0].Name, both[0]); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	server.Unavailable(false)
}

// A change of the cluster starts a run once it has settled, and so does the clock; both once.
func TestBenchmarkTriggers(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "triggers", func(b *v1alpha1.Benchmark) {
		b.Spec.Trigger = v1alpha1.BenchmarkTrigger{OnChange: true, Cron: "0 4 * * SUN"}
	})
	must(t, kube.Create(t.Context(), b))
	g := generator{t: t, b: b, server: server, perSecond: 100}
	g.finish(1, v1alpha1.VerdictBaseline)

	must(t, kube.Create(t.Context(), newPolicy(c, "limits")))
	benchmarkIs(t, b, v1alpha1.ConditionRunning, metav1.ConditionFalse, v1alpha1.ReasonChangeSettling)
	now.advance(t, time.Minute+time.Second)
	g.finish(2, v1alpha1.VerdictPassed)
	if last := b.Status.LastRun; last.Trigger != v1alpha1.TriggerChange || !strings.Contains(last.Reason, "policy.limits: none → ") {
		t.Errorf("run %+v", last)
	}
	if b.Status.NextRun == nil || b.Status.NextRun.UTC().Weekday() != time.Sunday || b.Status.NextRun.UTC().Hour() != 4 {
		t.Fatalf("next run at %v", b.Status.NextRun)
	}
	now.advance(t, time.Until(b.Status.NextRun.Time)+time.Minute)
	g.finish(3, v1alpha1.VerdictPassed)
	if last := b.Status.LastRun; last.Trigger != v1alpha1.TriggerSchedule {
		t.Errorf("run %+v", last)
	}
	throughout(t, "no further run starts", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if b.Status.Started != 3 {
			return fmt.Errorf("run %d has started", b.Status.Started)
		}
		return nil
	})
}

// What keeps a run from starting is said, and it starts when that is gone.
func TestBenchmarkWaits(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	c := newCluster(namespace, "runtime", "4.3")
	b := newBenchmark(c, "waiting", func(b *v1alpha1.Benchmark) {
		b.Spec.Custom = []runtime.RawExtension{{Raw: []byte(`{"name": "Mine", "publishers": {"cuont": 3}}`)}}
	})
	must(t, kube.Create(t.Context(), b))
	benchmarkIs(t, b, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	edit(t, b, func() { b.Spec.Custom[0].Raw = []byte(`{"name": "Mine", "publishers": {"count": 3}}`) })
	benchmarkIs(t, b, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonClusterNotFound)
	server := startCluster(t, c, brokertest.V4)
	nodes := nodesOf(c, []string{"runtime-0", "runtime-1", "runtime-2"})
	ringing := slices.Clone(nodes)
	on := true
	ringing[0].MemoryAlarm = &on
	g := generator{t: t, b: b, server: server, perSecond: 100}
	g.finish(1, v1alpha1.VerdictBaseline)
	if got := len(b.Status.LastRun.Scenarios); got != 2 {
		t.Errorf("%d scenarios, want the built-in one and the custom one", got)
	}
	server.SetNodes(ringing...)
	benchmarkIs(t, b, v1alpha1.ConditionTargetReady, metav1.ConditionFalse, v1alpha1.ReasonAlarm)
	edit(t, b, func() { b.Annotations = map[string]string{v1alpha1.AnnotationRun: "alarmed"} })
	benchmarkIs(t, b, v1alpha1.ConditionRunning, metav1.ConditionFalse, v1alpha1.ReasonAlarm)
	edit(t, b, func() { b.Spec.Paused = true })
	server.SetNodes(nodes...)
	benchmarkIs(t, b, v1alpha1.ConditionRunning, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	edit(t, b, func() { b.Spec.Paused = false })
	g.begun(2)
}

func TestBenchmarkSchema(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	cluster := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runtime"}}
	for _, c := range []refusal[*v1alpha1.Benchmark]{
		{"minimal", func(*v1alpha1.Benchmark) {}, ""},
		{"no scenario", func(b *v1alpha1.Benchmark) { b.Spec.Scenarios = nil }, "name at least one of the scenarios"},
		{"a custom one alone", func(b *v1alpha1.Benchmark) {
			b.Spec.Scenarios, b.Spec.Custom = nil, []runtime.RawExtension{{Raw: []byte(`{"name": "Mine"}`)}}
		}, ""},
		{"a custom one that is a word", func(b *v1alpha1.Benchmark) { b.Spec.Custom = []runtime.RawExtension{{Raw: []byte(`"Mine"`)}} }, "custom"},
		{"unknown scenario", func(b *v1alpha1.Benchmark) { b.Spec.Scenarios = append(b.Spec.Scenarios, "Huge") }, "spec.scenarios"},
		{"scenario twice", func(b *v1alpha1.Benchmark) { b.Spec.Scenarios = append(b.Spec.Scenarios, "SmallConfirmed") }, "Duplicate value"},
		{"no cluster", func(b *v1alpha1.Benchmark) { b.Spec.ClusterRef.Name = "" }, "clusterRef.name"},
		{"long name", func(b *v1alpha1.Benchmark) { b.Name = strings.Repeat("a", 41) }, "at most 40 characters"},
		{"name with a dot", func(b *v1alpha1.Benchmark) { b.Name = "a.b" }, "DNS label"},
		{"too many runs", func(b *v1alpha1.Benchmark) { b.Spec.Runs = 21 }, "spec.runs"},
		{"negative runs", func(b *v1alpha1.Benchmark) { b.Spec.Runs = -1 }, "spec.runs"},
		{"cron", func(b *v1alpha1.Benchmark) { b.Spec.Trigger.Cron = "*/5 0-3 * * MON-FRI" }, ""},
		{"cron of four fields", func(b *v1alpha1.Benchmark) { b.Spec.Trigger.Cron = "0 4 * *" }, "trigger.cron"},
		{"cron in a word", func(b *v1alpha1.Benchmark) { b.Spec.Trigger.Cron = "@every 1h" }, "trigger.cron"},
		{"cron with a zone", func(b *v1alpha1.Benchmark) { b.Spec.Trigger.Cron = "TZ=UTC 4 * * *" }, "trigger.cron"},
		{"gate of a half percent", func(b *v1alpha1.Benchmark) { b.Spec.Gate.MaxRegression = "0.5%" }, ""},
		{"gate without percent", func(b *v1alpha1.Benchmark) { b.Spec.Gate.MaxRegression = "10" }, "maxRegression"},
		{"gate of nothing", func(b *v1alpha1.Benchmark) { b.Spec.Gate.MaxRegression = "0%" }, "maxRegression"},
		{"gate of all", func(b *v1alpha1.Benchmark) { b.Spec.Gate.MaxRegression = "100%" }, "maxRegression"},
		{"channel without a Secret", func(b *v1alpha1.Benchmark) { b.Spec.Notify = &v1alpha1.BenchmarkNotify{} }, "webhookSecretRef.name"},
		{"no history", func(b *v1alpha1.Benchmark) { b.Spec.History.Limit = -1 }, "history.limit"},
		{"a volume", func(b *v1alpha1.Benchmark) {
			b.Spec.History.VolumeClaimRef = &v1alpha1.VolumeClaimReference{Name: "results"}
		}, ""},
		{"a volume without a name", func(b *v1alpha1.Benchmark) {
			b.Spec.History.VolumeClaimRef = &v1alpha1.VolumeClaimReference{}
		}, "volumeClaimRef.name"},
		{"too many pods", func(b *v1alpha1.Benchmark) { b.Spec.Generator.Pods = 9 }, "generator.pods"},
		{"negative rate", func(b *v1alpha1.Benchmark) { b.Spec.Caps.Rate = -1 }, "caps.rate"},
		{"negative connections", func(b *v1alpha1.Benchmark) { b.Spec.Caps.Connections = -1 }, "caps.connections"},
		{"tiny disk", func(b *v1alpha1.Benchmark) { b.Spec.Caps.Disk = quantity("1k") }, "caps.disk is less than 1Mi"},
		{"caps", func(b *v1alpha1.Benchmark) {
			b.Spec.Caps = v1alpha1.BenchmarkCaps{Rate: 1, Connections: 1, Disk: quantity("1Gi")}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.says, kube.Create(t.Context(), newBenchmark(cluster, "schema", c.edit), client.DryRunAll))
		})
	}
	made := newBenchmark(cluster, "made", func(b *v1alpha1.Benchmark) { b.Spec.Paused = true })
	must(t, kube.Create(t.Context(), made))
	s := made.Spec
	cpu, memory := s.Generator.Resources.Limits[corev1.ResourceCPU], s.Generator.Resources.Limits[corev1.ResourceMemory]
	for name, holds := range map[string]bool{
		"runs":      s.Runs == 3,
		"gate":      s.Gate.MaxRegression == "10%",
		"history":   s.History.Limit == 10,
		"pods":      s.Generator.Pods == 1,
		"resources": cpu.Equal(resource.MustParse("2")) && memory.Equal(resource.MustParse("1Gi")),
	} {
		if !holds {
			t.Errorf("default of %s is not stored: %+v", name, s)
		}
	}
	for _, c := range []refusal[*v1alpha1.Benchmark]{
		{"other scenarios", func(b *v1alpha1.Benchmark) { b.Spec.Scenarios = []v1alpha1.BuiltinScenario{"Backlog"} }, ""},
		{"another cluster", func(b *v1alpha1.Benchmark) { b.Spec.ClusterRef.Name = "other" }, "clusterRef cannot change"},
	} {
		t.Run("transition: "+c.name, func(t *testing.T) {
			must(t, get(t, namespace, made.Name, made))
			edited := made.DeepCopy()
			c.edit(edited)
			check(t, c.says, kube.Patch(t.Context(), edited, client.MergeFrom(made), client.DryRunAll))
		})
	}
}

// A Benchmark whose cluster is deleted in the middle of a run does not wait for a broker that is gone.
func TestBenchmarkOfAClusterThatGoes(t *testing.T) {
	t.Parallel()
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	b := newBenchmark(c, "stranded")
	must(t, kube.Create(t.Context(), b))
	generator{t: t, b: b, server: server}.begun(1)
	server.FailNext(1000, http.StatusServiceUnavailable)
	must(t, kube.Delete(t.Context(), c))
	eventually(t, "the run is over", func() error {
		must(t, get(t, b.Namespace, b.Name, b))
		if b.Status.Active != nil || b.Status.LastRun == nil || b.Status.LastRun.Verdict != v1alpha1.VerdictFailed {
			return fmt.Errorf("active %+v, last %+v", b.Status.Active, b.Status.LastRun)
		}
		return nil
	})
}
