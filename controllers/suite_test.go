//go:build api

package controllers_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/controllers"
	"github.com/warren-mq/warren/internal/apply"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/tuning"
)

const (
	pollInterval = time.Second
	patience     = 30 * time.Second
)

var (
	kube    client.Client
	brokers = fakeNetwork{servers: map[string]*brokertest.Server{}}
	writes  = writeLog{byNamespace: map[string][]string{}, refused: map[string]string{}}
	now     = clock{}
)

// TestMain runs every test of this package against one real API server and one manager. What no API server does (the
// StatefulSet controller, the kubelet) the tests do themselves.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	flag.Parse()
	log := io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(log)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd")}, ErrorIfCRDPathMissing: true}
	dir, err := os.MkdirTemp("", "warren-api-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	audit, err := audited(environment, dir)
	if err != nil {
		return 1, err
	}
	config, err := environment.Start()
	if err != nil {
		return 1, fmt.Errorf("start the API server (KUBEBUILDER_ASSETS names its folder): %w", err)
	}
	defer func() { _ = environment.Stop() }()
	if kube, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	if config, err = asWarren(environment); err != nil {
		return 1, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Cache: controllers.CacheOptions(nil), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return 1, err
	}
	writer, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return 1, err
	}
	connector := brokertest.Network(brokers.route, management.Options{CallTimeout: 2 * time.Second})
	options := controllers.Options{
		Reader:        observe.Reader{Cached: manager.GetClient(), Direct: manager.GetAPIReader(), Connector: connector, Snapshots: observe.NewSnapshots(now.get, pollInterval)},
		Writer:        apply.Writer{Client: writes.watch(writer)},
		Connector:     connector,
		Events:        manager.GetEventRecorder("warren"),
		Now:           now.get,
		PollInterval:  pollInterval,
		Concurrency:   4,
		ImageTemplate: "rabbitmq:{version}",
		Build:         "suite",
	}
	clusters, err := controllers.NewClusterMetrics(metricsOfTest)
	if err != nil {
		return 1, err
	}
	if err := (&controllers.WorkloadClusterReconciler{Options: options, Metrics: clusters, PassTimeout: 20 * time.Second}).SetupWithManager(manager); err != nil {
		return 1, err
	}
	sums, err := controllers.NewPolicyMetrics(metricsOfTest)
	if err != nil {
		return 1, err
	}
	if err := (&controllers.QueuePolicyReconciler{Options: options, Metrics: sums}).SetupWithManager(manager); err != nil {
		return 1, err
	}
	gauges, err := controllers.NewBenchmarkMetrics(metricsOfTest)
	if err != nil {
		return 1, err
	}
	benchmarks := &controllers.BenchmarkReconciler{Options: options, Image: "warren:test", Channel: &channel, Metrics: gauges}
	if err := benchmarks.SetupWithManager(manager); err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	code := m.Run()
	stop()
	if err := <-ended; err != nil || code != 0 {
		return code, err
	}
	return code, superfluous(audit)
}

// clock is the time that the reconcilers see: the real one, moved by what a test adds.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) get() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(t *testing.T, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ahead -= d
	})
}

// fakeNetwork finds the fake broker of a cluster by the host names that Warren builds.
type fakeNetwork struct {
	mu      sync.Mutex
	servers map[string]*brokertest.Server // by namespace/cluster
}

func (n *fakeNetwork) route(host string) *brokertest.Server {
	name, _, _ := strings.Cut(host, ":")
	parts := strings.Split(strings.TrimSuffix(name, ".svc"), ".")
	if len(parts) == 3 { // pod.cluster-nodes.namespace
		parts = []string{strings.TrimSuffix(parts[1], "-nodes"), parts[2]}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.servers[parts[1]+"/"+parts[0]]
}

func (n *fakeNetwork) set(namespace, cluster string, server *brokertest.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[namespace+"/"+cluster] = server
}

// writeLog remembers every write that the reconcilers send, whether it changes anything or not.
type writeLog struct {
	mu          sync.Mutex
	byNamespace map[string][]string
	refused     map[string]string // by namespace
}

// refuse lets no write of a verb to a kind in a namespace through any more, as if Warren were gone before it.
func (l *writeLog) refuse(verb, kind, namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[namespace] = verb + " " + kind
}

// allow ends refuse.
func (l *writeLog) allow(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refused, namespace)
}

func (l *writeLog) mayApply(object interface{ GetNamespace() string }) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, ok := object.(interface{ GetKind() string })
	if ok && l.refused[object.GetNamespace()] == "apply "+kind.GetKind() {
		return errors.New("the test lets this write not through")
	}
	return nil
}

func (l *writeLog) add(verb string, object interface{ GetNamespace() string }) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byNamespace[object.GetNamespace()] = append(l.byNamespace[object.GetNamespace()], fmt.Sprintf("%s %T", verb, object))
}

func (l *writeLog) of(namespace string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byNamespace[namespace])
}

func (l *writeLog) watch(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			l.add("apply", object.(interface{ GetNamespace() string }))
			if err := l.mayApply(object.(interface{ GetNamespace() string })); err != nil {
				return err
			}
			return c.Apply(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			l.add("patch", object)
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			l.add("delete", object)
			return c.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			l.add("patch "+name, object)
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
}

// newNamespace makes a namespace of the test's own.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(t, kube.Create(t.Context(), namespace))
	return namespace.Name
}

// newCluster is a WorkloadCluster as small as it can be written, changed by edit.
func newCluster(namespace, name, version string, edit ...func(*v1alpha1.WorkloadCluster)) *v1alpha1.WorkloadCluster {
	c := &v1alpha1.WorkloadCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.WorkloadClusterSpec{WorkloadClass: "runtime", Version: version},
	}
	for _, f := range edit {
		f(c)
	}
	return c
}

// startCluster creates a WorkloadCluster with a fake broker behind it and plays the StatefulSet controller and the
// kubelet until the cluster is ready.
func startCluster(t *testing.T, c *v1alpha1.WorkloadCluster, version string) *brokertest.Server {
	t.Helper()
	must(t, kube.Create(t.Context(), c))
	server := brokertest.New(t, version)
	brokers.set(c.Namespace, c.Name, server)
	playKubelet(t, c, server)
	eventually(t, "the cluster is ready", func() error { return ready(t, c) })
	return server
}

// playKubelet makes the pods of a cluster, ready, and the broker's nodes that would run in them, as tuned.
func playKubelet(t *testing.T, c *v1alpha1.WorkloadCluster, server *brokertest.Server) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	eventually(t, "the StatefulSet exists", func() error { return get(t, c.Namespace, c.Name, set) })
	must(t, get(t, c.Namespace, c.Name, c))
	settings := tuning.Decide(c.Spec)
	var nodes []broker.Node
	for i := range c.Spec.Replicas {
		pod := podOf(set, fmt.Sprintf("%s-%d", c.Name, i))
		createPod(t, pod)
		node := brokertest.Node(desired.NodeName(c.Namespace, c.Name, pod.Name))
		node.MemoryLimit, node.DiskFreeLimit = settings.MemoryHighWatermark, settings.DiskFreeLimit
		nodes = append(nodes, node)
	}
	server.SetNodes(nodes...)
	if settings.Schedulers != nil {
		n := int(*settings.Schedulers)
		server.SetRuntime(broker.Runtime{Schedulers: &n, SchedulersOnline: &n})
	}
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: c.Spec.Replicas, ReadyReplicas: c.Spec.Replicas,
		UpdatedReplicas: c.Spec.Replicas, CurrentRevision: firstRevision, UpdateRevision: firstRevision,
	}
	must(t, kube.Status().Update(t.Context(), set))
}

// firstRevision of every StatefulSet's template.
const firstRevision = "one"

func createPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	status := pod.Status
	must(t, kube.Create(t.Context(), pod))
	pod.Status = status
	must(t, kube.Status().Update(t.Context(), pod))
}

func podOf(set *appsv1.StatefulSet, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = firstRevision
	pod.Spec.PriorityClassName = ""
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name},
	}})
	limits := set.Spec.Template.Spec.Containers[0].Resources
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: desired.ContainerName, Ready: true, Image: "rabbitmq", ImageID: "rabbitmq", Resources: &limits,
		}},
	}
	return pod
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, namespace, name string, into client.Object) error {
	t.Helper()
	return kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
}

// edit changes an object as a person would who tries again when somebody else was faster.
func edit(t *testing.T, object client.Object, change func()) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := get(t, object.GetNamespace(), object.GetName(), object); err != nil {
			return err
		}
		change()
		return kube.Update(t.Context(), object)
	}))
}

// eventually repeats a check until it holds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s: %v", patience, what, last)
	}
}

// throughout repeats a check for as long as several polls take and wants it to hold each time.
func throughout(t *testing.T, what string, check func() error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 4*pollInterval, true, func(context.Context) (bool, error) {
		return false, check()
	})
	if err != nil && !wait.Interrupted(err) {
		t.Fatalf("%s: %v", what, err)
	}
}

// conditionIs checks one condition.
func conditionIs(conditions []metav1.Condition, condition string, status metav1.ConditionStatus, reason string) error {
	for _, c := range conditions {
		if c.Type != condition {
			continue
		}
		if c.Status == status && c.Reason == reason {
			return nil
		}
		return fmt.Errorf("condition %s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return fmt.Errorf("condition %s is absent", condition)
}

func ready(t *testing.T, c *v1alpha1.WorkloadCluster) error {
	if err := get(t, c.Namespace, c.Name, c); err != nil {
		return err
	}
	return conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// eachObject calls f with every item of a list.
func eachObject(list client.ObjectList, f func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		f(o.(client.Object))
		return nil
	})
}

// nodesOf are running broker nodes in the named pods, as tuned.
func nodesOf(c *v1alpha1.WorkloadCluster, pods []string) []broker.Node {
	settings := tuning.Decide(c.Spec)
	var out []broker.Node
	for _, pod := range pods {
		node := brokertest.Node(desired.NodeName(c.Namespace, c.Name, pod))
		node.MemoryLimit, node.DiskFreeLimit = settings.MemoryHighWatermark, settings.DiskFreeLimit
		out = append(out, node)
	}
	return out
}
