//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// patience is how long three nodes may take to form or to roll on a busy machine.
const patience = 8 * time.Minute

// line is a version line of RabbitMQ, with the sample that most tests use.
type line struct {
	version   string
	namespace string
	// cluster and policy are the objects of the sample.
	cluster, policy string
	sample          string
	// queueType and prefix of queues that the policy is meant for.
	queueType, prefix string

	mu     sync.Mutex
	formed bool
}

var lines = []*line{
	{version: "4.3", namespace: "e2e-runtime", cluster: "runtime", policy: "runtime-ha",
		sample: "config/samples/demo/runtime.yaml", queueType: "quorum", prefix: "runtime."},
	{version: "3.10", namespace: "e2e-legacy", cluster: "legacy", policy: "payments-ha",
		sample: "config/samples/demo/legacy.yaml", queueType: "classic", prefix: "payments."},
}

// eachLine runs a test on both lines at the same time, each with its three nodes Ready.
func eachLine(t *testing.T, test func(t *testing.T, l *line)) {
	for _, l := range lines {
		t.Run("RabbitMQ "+l.version, func(t *testing.T) {
			t.Parallel()
			l.ready(t)
			test(t, l)
		})
	}
}

func (l *line) rabbit() *cluster.Rabbit { return k.Rabbit(l.namespace, l.cluster) }

// ready applies the sample, if no test before has done so, and waits until it is Ready.
func (l *line) ready(t *testing.T) {
	t.Helper()
	explainFailure(t, l.namespace)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.formed {
		return
	}
	makeNamespace(t, l.namespace)
	began := time.Now()
	l.apply(t)
	waitCluster(t, l.namespace, l.cluster)
	t.Logf("apply to Ready, %s, 3 nodes: %.0f s", l.version, time.Since(began).Seconds())
	waitPolicy(t, l.namespace, l.policy)
	l.formed = true
}

func (l *line) apply(t *testing.T) {
	t.Helper()
	if _, err := k.Kubectl(t.Context(), "apply", "-n", l.namespace, "-f", l.sample); err != nil {
		t.Fatal(err)
	}
}

// readiness says what keeps an object from being Ready for its latest spec.
func readiness(object client.Object, conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return "no status yet"
	case ready.ObservedGeneration != object.GetGeneration():
		return fmt.Sprintf("the status is of generation %d, the spec of %d", ready.ObservedGeneration, object.GetGeneration())
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason + ": " + ready.Message
	}
	return ""
}

func waitCluster(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, patience, "WorkloadCluster "+name+" Ready", func(ctx context.Context) (string, error) {
		object, err := k.Rabbit(namespace, name).Object(ctx)
		return readiness(object, object.Status.Conditions), err
	})
}

func waitPolicy(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, 2*time.Minute, "QueuePolicy "+name+" Ready", func(ctx context.Context) (string, error) {
		object, err := getPolicy(ctx, namespace, name)
		return readiness(object, object.Status.Conditions), err
	})
}

func getPolicy(ctx context.Context, namespace, name string) (*v1alpha1.QueuePolicy, error) {
	var object v1alpha1.QueuePolicy
	return &object, k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &object)
}

// patch merges JSON into the spec of a WorkloadCluster.
func patch(t *testing.T, namespace, name, format string, args ...any) {
	t.Helper()
	object := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	text := fmt.Appendf(nil, `{"spec":%s}`, fmt.Sprintf(format, args...))
	if err := k.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, text)); err != nil {
		t.Fatal(err)
	}
}

// condition answers status, reason and message in one line, and says so while there is none for the latest spec.
func condition(object client.Object, conditions []metav1.Condition, name string) string {
	c := meta.FindStatusCondition(conditions, name)
	if c == nil || c.ObservedGeneration != object.GetGeneration() {
		return "no condition " + name + " of the latest spec yet"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// single is a cluster of one node that leaves nothing behind.
func single(namespace, name, version string) *v1alpha1.WorkloadCluster {
	c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.WorkloadClass, c.Spec.Version, c.Spec.Replicas = name, version, 1
	c.Spec.Resources.Limits.CPU, c.Spec.Resources.Limits.Memory = quantity("1"), quantity("1Gi")
	cpu, memory := quantity("100m"), quantity("256Mi")
	c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{CPU: &cpu, Memory: &memory}
	c.Spec.Storage.Size, c.Spec.Storage.DeletionPolicy = quantity("1Gi"), v1alpha1.DeleteOnDelete
	return c
}
