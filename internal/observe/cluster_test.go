package observe

import (
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/status"
)

func clusterNamed(name string) *v1alpha1.WorkloadCluster {
	return &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: "one"}}
}

func inCluster(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: desired.SelectorLabels("runtime")}
}

func readerOf(cached, direct []client.Object) Reader {
	return Reader{
		Cached: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached...).Build(),
		Direct: fake.NewClientBuilder().WithScheme(scheme).WithObjects(direct...).Build(),
	}
}

// B11: a pass that comes before the informers have what the last one made must not take the Secrets for absent: new
// ones would give some pods another cookie than the others have.
func TestIdentityIsNotReadFromStaleInformersAlone(t *testing.T) {
	cookie := &corev1.Secret{ObjectMeta: inCluster("runtime-erlang-cookie"), Data: map[string][]byte{desired.KeyErlangCookie: []byte("A")}}
	admin := &corev1.Secret{ObjectMeta: inCluster("runtime-admin"), Data: map[string][]byte{desired.KeyAdminPassword: []byte("B")}}
	set := &appsv1.StatefulSet{ObjectMeta: inCluster("runtime")}
	for name, direct := range map[string][]client.Object{
		"secrets made":                   {cookie, admin},
		"secrets and StatefulSet made":   {cookie, admin, set},
		"one secret made":                {cookie},
		"StatefulSet made, secrets lost": {set},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := readerOf(nil, direct).Cluster(t.Context(), clusterNamed("runtime"))
			if err != nil {
				t.Fatal(err)
			}
			for _, there := range direct {
				switch there {
				case client.Object(cookie):
					if seen.Identity.Cookie == nil {
						t.Error("the cookie that exists is taken for absent")
					}
				case client.Object(admin):
					if seen.Identity.Admin == nil {
						t.Error("the credentials that exist are taken for absent")
					}
				case client.Object(set):
					if !seen.Identity.HasNodes {
						t.Error("the StatefulSet that exists is taken for absent")
					}
				}
			}
		})
	}
}

// A StatefulSet of somebody else's is a taken name, not a node that depends on lost Secrets.
func TestAnotherStatefulSetIsNoNode(t *testing.T) {
	theirs := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "runtime"}}
	seen, err := readerOf(nil, []client.Object{theirs}).Cluster(t.Context(), clusterNamed("runtime"))
	if err != nil || seen.Identity.HasNodes {
		t.Errorf("HasNodes is %t, error %v", seen.Identity.HasNodes, err)
	}
}

// A cluster that does not answer costs a pass one call, not one for each question.
func TestADeadBrokerIsAskedOnce(t *testing.T) {
	pods := []corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "runtime-0"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}}
	seen := Cluster{Pods: pods}
	seen.Identity.Admin = &corev1.Secret{Data: map[string][]byte{desired.KeyAdminUser: []byte("warren"), desired.KeyAdminPassword: []byte("B")}}
	var asked atomic.Int32
	reader := Reader{Connector: brokertest.Network(func(string) *brokertest.Server { return nil }, management.Options{
		OnRequest: func(string, string) { asked.Add(1) },
	})}
	c := clusterNamed("runtime")
	answered := reader.Broker(t.Context(), c, seen)
	figures := reader.Runtime(t.Context(), c, pods, answered)
	if !answered.Asked || broker.KindOf(answered.Err) != broker.Unavailable || len(figures) > 0 || asked.Load() != 1 {
		t.Errorf("%d calls, answer %+v, figures %v", asked.Load(), answered, figures)
	}
}

// What an earlier cluster left with deletionPolicy Delete is on its way out; volumes that are kept are not.
func TestVolumesThatAreLeaving(t *testing.T) {
	kept := &corev1.PersistentVolumeClaim{ObjectMeta: inCluster("data-runtime-0")}
	owned := &corev1.PersistentVolumeClaim{ObjectMeta: inCluster("data-runtime-1")}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "runtime", UID: "gone"}}
	terminating := &corev1.PersistentVolumeClaim{ObjectMeta: inCluster("data-runtime-2")}
	terminating.DeletionTimestamp, terminating.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kubernetes.io/pvc-protection"}
	earlier := &appsv1.StatefulSet{ObjectMeta: inCluster("runtime")}
	earlier.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(
		&metav1.ObjectMeta{Name: "runtime", UID: "earlier"}, v1alpha1.GroupVersion.WithKind("WorkloadCluster"))}
	for name, test := range map[string]struct {
		there   []client.Object
		leaving bool
	}{
		"kept":                       {[]client.Object{kept}, false},
		"owned and terminating":      {[]client.Object{owned, terminating}, true},
		"one of them kept":           {[]client.Object{owned, terminating, kept}, false},
		"an earlier StatefulSet":     {[]client.Object{earlier}, true},
		"and with volumes that stay": {[]client.Object{earlier, kept}, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := readerOf(nil, test.there).Cluster(t.Context(), clusterNamed("runtime"))
			if err != nil || !seen.Identity.HasNodes || seen.Identity.Leaving != test.leaving {
				t.Errorf("%+v, error %v", seen.Identity, err)
			}
		})
	}
}

// Until the management API has collected its first figures the node's own count; what it has said is not replaced.
func TestWithRuntime(t *testing.T) {
	c, ten, twenty, yes, no := clusterNamed("runtime"), int64(10), int64(20), true, false
	pods := []corev1.Pod{{ObjectMeta: inCluster("runtime-0")}, {ObjectMeta: inCluster("runtime-1")}, {ObjectMeta: inCluster("runtime-2")}}
	name := func(i int) string { return desired.NodeName(c.Namespace, c.Name, pods[i].Name) }
	own := broker.Runtime{MemoryUsed: &ten, MemoryLimit: &ten, DiskFreeLimit: &ten, MemoryAlarm: &no, DiskAlarm: &no}
	before := status.Broker{Nodes: []broker.Node{
		{Name: name(0), Running: true},
		{Name: name(1), Running: true, MemoryLimit: &twenty, DiskAlarm: &yes},
		{Name: name(2)},
	}}
	got := WithRuntime(c, pods, before, map[string]broker.Runtime{"runtime-0": own, "runtime-1": own, "runtime-2": own}).Nodes
	if n := got[0]; n.MemoryUsed != &ten || n.MemoryLimit != &ten || n.DiskFreeLimit != &ten || n.MemoryAlarm != &no || n.DiskAlarm != &no {
		t.Errorf("a node of which the API says nothing yet: %+v", n)
	}
	if n := got[1]; n.MemoryLimit != &twenty || n.DiskAlarm != &yes || n.MemoryAlarm != &no {
		t.Errorf("what the API says stays: %+v", n)
	}
	if n := got[2]; n.MemoryLimit != nil || n.MemoryAlarm != nil {
		t.Errorf("nothing is known of a node that does not run: %+v", n)
	}
	if before.Nodes[0].MemoryLimit != nil {
		t.Error("the argument was changed")
	}
	if got := WithRuntime(c, pods, before, nil).Nodes; got[0].MemoryAlarm != nil {
		t.Errorf("unknown stays unknown: %+v", got[0])
	}
}
