package status

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/tuning"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const gibi = int64(1) << 30

func ptr[T any](v T) *T { return &v }

// healthy is a cluster of three nodes in which all is well, changed by edits.
func healthy(edits ...func(*Cluster)) Cluster {
	object := &v1alpha1.WorkloadCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "runtime", Generation: 3},
		Spec: v1alpha1.WorkloadClusterSpec{
			WorkloadClass: "runtime", Replicas: 3, Version: "4.3",
			Resources: v1alpha1.ClusterResources{Limits: v1alpha1.ResourceLimits{CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")}},
			Storage:   v1alpha1.StorageSpec{Size: resource.MustParse("10Gi")},
			Memory:    v1alpha1.MemorySpec{HighWatermark: 0.6},
		},
	}
	in := Cluster{
		Object: object, Tuning: tuning.Decide(object.Spec),
		StatefulSet: &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, CurrentRevision: "r1", UpdateRevision: "r1"}},
		Broker:      Broker{Asked: true, Overview: broker.Overview{RabbitMQVersion: "4.3.6"}},
		Runtime:     map[string]broker.Runtime{},
	}
	in.StatefulSet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "rabbitmq", Image: "rabbitmq:4.3-management"}}
	var figures []tuning.Observed
	for i := range 3 {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: fmt.Sprintf("runtime-%d", i)}}
		pod.Spec.NodeName = fmt.Sprintf("host-%d", i)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		in.Pods = append(in.Pods, pod)
		in.Broker.Nodes = append(in.Broker.Nodes, broker.Node{
			Name: "rabbit@" + pod.Name + ".runtime-nodes.messaging", Running: true,
			MemoryUsed: ptr(gibi), MemoryLimit: in.Tuning.MemoryHighWatermark, MemoryAlarm: ptr(false), DiskAlarm: ptr(false),
		})
		in.Runtime[pod.Name] = broker.Runtime{Schedulers: ptr(2), SchedulersOnline: ptr(2)}
		figures = append(figures, tuning.Observed{Node: pod.Name, CPULimit: ptr(int64(2000)), MemoryLimit: ptr(4 * gibi), SchedulersOnline: ptr(2),
			MemoryHighWatermark: in.Tuning.MemoryHighWatermark, DiskFreeLimit: in.Tuning.DiskFreeLimit})
	}
	in.Checks = tuning.Verify(in.Tuning, 3, figures)
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func expectCondition(t testing.TB, conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason, says string) {
	t.Helper()
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		t.Errorf("no condition %s", kind)
		return
	}
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
		t.Errorf("%s is %s/%s %q; want %s/%s %q", kind, c.Status, c.Reason, c.Message, status, reason, says)
	}
}

func notReady(i int) func(*Cluster) {
	return func(in *Cluster) { in.Pods[i].Status.Conditions[1].Status = corev1.ConditionFalse }
}

func waits(i int, reason, message string) func(*Cluster) {
	return func(in *Cluster) {
		in.Pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

// runs: the kubelet said last that the container of a pod runs and is ready.
func runs(i int) func(*Cluster) {
	return func(in *Cluster) {
		in.Pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
}

func problem(reason, message string) func(*Cluster) {
	return func(in *Cluster) { in.Problem = &Problem{Reason: reason, Message: message} }
}

func paused(in *Cluster) { in.Object.Spec.Paused = true }

func all(edits ...func(*Cluster)) func(*Cluster) {
	return func(in *Cluster) {
		for _, edit := range edits {
			edit(in)
		}
	}
}

func TestConditionsOfACluster(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	for _, c := range []struct {
		name      string
		edit      func(*Cluster)
		condition string
		status    metav1.ConditionStatus
		reason    string
		says      string
	}{
		{"all is well", all(), v1alpha1.ConditionReconciled, yes, v1alpha1.ReasonAsExpected, "as the spec says"},
		{"paused", paused, v1alpha1.ConditionReconciled, yes, v1alpha1.ReasonPaused, "spec.paused"},
		{"a name is taken", problem(v1alpha1.ReasonNameTaken, "Service x belongs to y"), v1alpha1.ConditionReconciled, no, v1alpha1.ReasonNameTaken, "Service x belongs to y"},
		{"B11: a Secret is missing", problem(v1alpha1.ReasonSecretMissing, "restore it"), v1alpha1.ConditionReconciled, no, v1alpha1.ReasonSecretMissing, "restore it"},
		{"a wrong spec is reported while paused", all(paused, problem(v1alpha1.ReasonInvalidSpec, "bad")), v1alpha1.ConditionReconciled, no, v1alpha1.ReasonInvalidSpec, "bad"},

		{"all have a place", all(), v1alpha1.ConditionSchedulable, yes, v1alpha1.ReasonAsExpected, ""},
		{"A6: the scheduler's words", func(in *Cluster) {
			in.Pods[1].Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 node(s) didn't match"}
		}, v1alpha1.ConditionSchedulable, no, v1alpha1.ReasonUnschedulable, "pod runtime-1: 0/3 nodes are available: 3 node(s) didn't match"},
		{"what the scheduler tries again by itself", func(in *Cluster) {
			in.Pods[1].Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulerError, Message: "the object has been modified"}
		}, v1alpha1.ConditionSchedulable, yes, v1alpha1.ReasonAsExpected, ""},

		{"all nodes are ready", all(), v1alpha1.ConditionNodesReady, yes, v1alpha1.ReasonAsExpected, "3 nodes ready"},
		{"not made yet", func(in *Cluster) { in.StatefulSet = nil }, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "not created yet"},
		{"the first start is no rolling update", func(in *Cluster) {
			in.Pods, in.StatefulSet.Status = nil, appsv1.StatefulSetStatus{CurrentRevision: "r1", UpdateRevision: "r1"}
		}, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "0 of 3"},
		{"the first start, not seen by its controller yet", func(in *Cluster) {
			in.Pods, in.StatefulSet.Status, in.StatefulSet.Generation = nil, appsv1.StatefulSetStatus{}, 1
		}, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "0 of 3"},
		{"more nodes start", all(notReady(2), func(in *Cluster) { in.StatefulSet.Status.UpdatedReplicas = 2 }), v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "2 of 3"},
		{"a rolling update", func(in *Cluster) {
			in.Rollout = gate.Decision{Verb: gate.Wait, Latest: 1, Rolling: true, Pod: "runtime-1", Why: "queues need its node: orders"}
		}, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonRollingUpdate, "1 of 3 nodes have the latest revision, 3 ready; pod runtime-1: queues need its node: orders"},
		{"a template that its controller has not seen", func(in *Cluster) { in.StatefulSet.Generation = 2 }, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonRollingUpdate, ""},
		{"B1: the broken node speaks before the update that it holds up", all(notReady(2), waits(2, "CrashLoopBackOff", "back-off 5m0s"), func(in *Cluster) { in.Rollout = gate.Decision{Verb: gate.Wait, Rolling: true} }),
			v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodeNotReady, "pod runtime-2: CrashLoopBackOff: back-off 5m0s"},
		{"B1: an image that does not exist, without a message", all(notReady(0), waits(0, "ImagePullBackOff", "")), v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodeNotReady, "pod runtime-0: ImagePullBackOff"},
		{"containers being made are no fault", all(notReady(0), waits(0, "ContainerCreating", "")), v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "2 of 3"},
		{"a pod that goes is not ready, and the queues that hold it are named", func(in *Cluster) {
			in.Pods[0].DeletionTimestamp = &metav1.Time{Time: noon}
			in.Rollout = gate.Decision{Verb: gate.Wait, Latest: 3, Pod: "runtime-0", Why: "it waits for orders"}
		}, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodeStopping, "2 of 3 nodes ready; pod runtime-0: it waits for orders"},
		{"a host that is silent", all(notReady(1), runs(1)), v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodeDown,
			"2 of 3 nodes ready; Kubernetes does not hear from node host-1, where pod runtime-1 is"},
		{"a host that is silent for so long that its pod is to go", all(notReady(1), runs(1), func(in *Cluster) {
			in.Pods[1].DeletionTimestamp = &metav1.Time{Time: noon}
		}), v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodeDown, "when its Node object is removed"},
		{"a pod that is not ready yet, on a host that speaks", all(notReady(1), runs(1), func(in *Cluster) { in.Pods[1].Status.ContainerStatuses[0].Ready = false }),
			v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "2 of 3"},
		{"pods that the API server refuses", func(in *Cluster) {
			in.Pods = in.Pods[:2]
			in.Rollout = gate.Decision{Verb: gate.Wait, Latest: 2, Why: "2 of 3 pods exist: exceeded quota"}
		}, v1alpha1.ConditionNodesReady, no, v1alpha1.ReasonNodesStarting, "2 of 3 nodes ready; 2 of 3 pods exist: exceeded quota"},

		{"one cluster", all(), v1alpha1.ConditionBrokerReachable, yes, v1alpha1.ReasonAsExpected, "3 nodes run"},
		{"nobody to ask", func(in *Cluster) { in.Broker = Broker{} }, v1alpha1.ConditionBrokerReachable, unknown, v1alpha1.ReasonWaitingForNode, ""},
		{"D5: 401", func(in *Cluster) {
			in.Broker = Broker{Asked: true, Err: fmt.Errorf("x: %w", &broker.Error{Kind: broker.Unauthorized, Op: "get overview", Reason: "401"})}
		}, v1alpha1.ConditionBrokerReachable, no, v1alpha1.ReasonAuthFailed, "Secret runtime-admin"},
		{"no answer", func(in *Cluster) {
			in.Broker = Broker{Asked: true, Err: &broker.Error{Kind: broker.Unavailable, Op: "get overview", Reason: "timed out"}}
		}, v1alpha1.ConditionBrokerReachable, no, v1alpha1.ReasonUnreachable, "timed out"},
		{"a node apart", func(in *Cluster) { in.Broker.Nodes = in.Broker.Nodes[:2] }, v1alpha1.ConditionBrokerReachable, no, v1alpha1.ReasonNotClustered, "2 of 3"},
		{"a node down", func(in *Cluster) { in.Broker.Nodes[1] = broker.Node{Name: "rabbit@b"} }, v1alpha1.ConditionBrokerReachable, no, v1alpha1.ReasonNodeDown, "rabbit@b"},

		{"no alarm", all(), v1alpha1.ConditionAlarmsClear, yes, v1alpha1.ReasonAsExpected, ""},
		{"A5: a disk alarm", func(in *Cluster) { in.Broker.Nodes[2].DiskAlarm = ptr(true) }, v1alpha1.ConditionAlarmsClear, no, v1alpha1.ReasonAlarm, "disk of rabbit@runtime-2"},
		{"A3: a memory alarm counts though another node is silent", func(in *Cluster) {
			in.Broker.Nodes[0].MemoryAlarm, in.Broker.Nodes[1].MemoryAlarm = ptr(true), nil
		}, v1alpha1.ConditionAlarmsClear, no, v1alpha1.ReasonAlarm, "memory of rabbit@runtime-0"},
		{"G2: an alarm that is not said is not clear", func(in *Cluster) { in.Broker.Nodes[1].DiskAlarm = nil }, v1alpha1.ConditionAlarmsClear, unknown, v1alpha1.ReasonUnknown, "rabbit@runtime-1"},
		{"G2: no node, no word", func(in *Cluster) { in.Broker.Nodes = nil }, v1alpha1.ConditionAlarmsClear, unknown, v1alpha1.ReasonUnknown, ""},
		{"not asked", func(in *Cluster) { in.Broker = Broker{} }, v1alpha1.ConditionAlarmsClear, unknown, v1alpha1.ReasonUnknown, ""},
		{"no answer about alarms", func(in *Cluster) { in.Broker.Err = fmt.Errorf("cut") }, v1alpha1.ConditionAlarmsClear, unknown, v1alpha1.ReasonUnknown, ""},

		{"as tuned", all(), v1alpha1.ConditionTuned, yes, v1alpha1.ReasonAsExpected, "every node"},
		{"A1: a node with the host's schedulers", func(in *Cluster) {
			in.Checks = tuning.Verify(in.Tuning, 3, []tuning.Observed{{SchedulersOnline: ptr(36)}})
		}, v1alpha1.ConditionTuned, no, v1alpha1.ReasonNotInForce, "schedulers is 36, wanted 2"},
		{"A1: silence is not agreement", func(in *Cluster) { in.Checks = tuning.Verify(in.Tuning, 3, nil) }, v1alpha1.ConditionTuned, unknown, v1alpha1.ReasonWaitingForNode, "schedulers"},
		{"A1: no CPU limit is warned of", func(in *Cluster) {
			in.Object.Spec.Resources.Unlimited = []v1alpha1.LimitedResource{v1alpha1.UnlimitedCPU}
			in.Tuning, in.Checks = tuning.Decide(in.Object.Spec), nil
		}, v1alpha1.ConditionTuned, yes, v1alpha1.ReasonNoLimit, "no CPU limit"},
		{"A3: a request below the limit is warned of, and is no missing limit", func(in *Cluster) {
			in.Object.Spec.Resources.Requests = &v1alpha1.ResourceRequests{Memory: ptr(resource.MustParse("2Gi"))}
			in.Tuning = tuning.Decide(in.Object.Spec)
		}, v1alpha1.ConditionTuned, yes, v1alpha1.ReasonAsExpected, "2Gi is less than the limit 4Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ForCluster(healthy(c.edit), noon)
			expectCondition(t, got.Conditions, c.condition, c.status, c.reason, c.says)
		})
	}
}

// Ready is the first condition that is False, else the first that is Unknown.
func TestReadyOfACluster(t *testing.T) {
	silent := func(in *Cluster) { in.Broker = Broker{} }
	alarm := func(in *Cluster) { in.Broker.Nodes[0].DiskAlarm = ptr(true) }
	untuned := func(in *Cluster) {
		in.Checks = tuning.Verify(in.Tuning, 3, []tuning.Observed{{SchedulersOnline: ptr(36)}})
	}
	for _, c := range []struct {
		name   string
		edit   func(*Cluster)
		status metav1.ConditionStatus
		reason string
	}{
		{"all is well", all(), metav1.ConditionTrue, v1alpha1.ReasonReady},
		{"paused and well", paused, metav1.ConditionTrue, v1alpha1.ReasonReady},
		{"the spec comes first", all(problem(v1alpha1.ReasonInvalidSpec, "x"), notReady(0), alarm, untuned), metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec},
		{"then the nodes", all(notReady(0), alarm, untuned), metav1.ConditionFalse, v1alpha1.ReasonNodesStarting},
		{"then alarms", all(alarm, untuned), metav1.ConditionFalse, v1alpha1.ReasonAlarm},
		{"then tuning", untuned, metav1.ConditionFalse, v1alpha1.ReasonNotInForce},
		{"False before Unknown", all(silent, untuned), metav1.ConditionFalse, v1alpha1.ReasonNotInForce},
		{"Unknown is not ready", silent, metav1.ConditionUnknown, v1alpha1.ReasonWaitingForNode},
	} {
		t.Run(c.name, func(t *testing.T) {
			expectCondition(t, ForCluster(healthy(c.edit), noon).Conditions, v1alpha1.ConditionReady, c.status, c.reason, "")
		})
	}
}

// E6: a pass that sees the same as before has nothing to write, whenever it is.
func TestTheSameObservationIsTheSameStatus(t *testing.T) {
	for name, edit := range map[string]func(*Cluster){
		"well": all(), "starting": all(notReady(1), func(in *Cluster) { in.Broker = Broker{} }), "paused": paused,
		"alarm": func(in *Cluster) { in.Broker.Nodes[0].DiskAlarm = ptr(true) },
	} {
		t.Run("E6: "+name, func(t *testing.T) {
			in := healthy(edit)
			first := ForCluster(in, noon)
			in.Object.Status = first
			before := in.Object.DeepCopy()
			second := ForCluster(in, noon.Add(time.Hour))
			if !reflect.DeepEqual(first, second) {
				t.Errorf("%+v\nbecame %+v", first, second)
			}
			if !reflect.DeepEqual(in.Object, before) {
				t.Error("the object was changed")
			}
		})
	}
}

func TestATransitionHasTheTimeOfItsPass(t *testing.T) {
	in := healthy()
	in.Object.Status = ForCluster(in, noon)
	in.Broker.Nodes[0].DiskAlarm = ptr(true)
	in.Object.Generation = 4
	got := ForCluster(in, noon.Add(time.Hour))
	for kind, want := range map[string]time.Time{
		v1alpha1.ConditionAlarmsClear: noon.Add(time.Hour), v1alpha1.ConditionReady: noon.Add(time.Hour), v1alpha1.ConditionTuned: noon,
	} {
		c := meta.FindStatusCondition(got.Conditions, kind)
		if !c.LastTransitionTime.Time.Equal(want) || c.ObservedGeneration != 4 {
			t.Errorf("%s moved at %s, generation %d; want %s, 4", kind, c.LastTransitionTime, c.ObservedGeneration, want)
		}
	}
}

// A status that moves with every reading is written with every reading.
func TestMemoryMovesInSteps(t *testing.T) {
	used := func(percent int64) func(*Cluster) {
		return func(in *Cluster) { in.Broker.Nodes[1].MemoryUsed = ptr((percent*4*gibi + 99) / 100) }
	}
	for _, c := range []struct {
		name, before string
		edit         func(*Cluster)
		want         string
	}{
		{"at first", "", used(41), "41%"},
		{"the fullest node counts", "", used(90), "90%"},
		{"four points more", "40%", used(44), "40%"},
		{"five points more", "40%", used(45), "45%"},
		{"four points less", "40%", used(36), "40%"},
		{"five points less", "40%", used(35), "35%"},
		{"nobody says", "40%", func(in *Cluster) { in.Broker = Broker{} }, ""},
		{"one does not say", "", func(in *Cluster) { in.Broker.Nodes[1].MemoryUsed = nil }, "25%"},
		{"what was there is no number", "high", used(26), "26%"},
		{"without a limit, of the alarm's", "", func(in *Cluster) {
			in.Tuning.MemoryLimit = nil
			in.Broker.Nodes[0].MemoryLimit, in.Broker.Nodes[0].MemoryUsed = ptr(2*gibi), ptr(gibi)
			in.Broker.Nodes = in.Broker.Nodes[:1]
		}, "50%"},
		{"a limit of nothing", "", func(in *Cluster) {
			in.Tuning.MemoryLimit = nil
			for i := range in.Broker.Nodes {
				in.Broker.Nodes[i].MemoryLimit = ptr(int64(0))
			}
		}, ""},
		{"A3: 100Ti", "", func(in *Cluster) {
			in.Tuning.MemoryLimit = ptr(resource.MustParse("100Ti"))
			in.Broker.Nodes[0].MemoryUsed = ptr(50 * 1024 * gibi)
		}, "50%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := healthy(c.edit)
			in.Object.Status.Memory = c.before
			if got := ForCluster(in, noon).Memory; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestFiguresOfACluster(t *testing.T) {
	got := ForCluster(healthy(notReady(2), func(in *Cluster) {
		in.Runtime["runtime-1"] = broker.Runtime{Schedulers: ptr(8), SchedulersOnline: ptr(8)}
		delete(in.Runtime, "runtime-2")
		in.Broker.Nodes[0].MemoryAlarm = ptr(true)
		in.Broker.Nodes[1].Running = false
		in.Broker.Nodes = in.Broker.Nodes[:2]
	}), noon)
	if got.ReadyNodes != "2/3" || got.Version != "4.3.6" || got.Image != "rabbitmq:4.3-management" || got.Schedulers != "2, 8" ||
		got.AdminSecret.Name != "runtime-admin" || got.ObservedGeneration != 3 {
		t.Errorf("%+v", got)
	}
	want := []v1alpha1.NodeStatus{
		{Name: "runtime-0", HostNode: "host-0", Ready: true, Running: ptr(true), Schedulers: ptr(int32(2)), SchedulersOnline: ptr(int32(2)), Alarms: []string{"memory"}},
		{Name: "runtime-1", HostNode: "host-1", Ready: true, Running: ptr(false), Schedulers: ptr(int32(8)), SchedulersOnline: ptr(int32(8))},
		{Name: "runtime-2", HostNode: "host-2"},
	}
	if !reflect.DeepEqual(got.Nodes, want) {
		t.Errorf("nodes %+v\nwant  %+v", got.Nodes, want)
	}
	if len(got.Tuning) != 7 {
		t.Errorf("%d tuned values, want all 7", len(got.Tuning))
	}
}

// A version that was seen stays while the broker is silent.
func TestTheVersionIsRemembered(t *testing.T) {
	in := healthy(func(in *Cluster) { in.Broker, in.Object.Status.Version = Broker{}, "4.3.6" })
	if got := ForCluster(in, noon).Version; got != "4.3.6" {
		t.Errorf("version %q", got)
	}
}

func TestNothingSeenIsNoPanic(t *testing.T) {
	got := ForCluster(Cluster{Object: &v1alpha1.WorkloadCluster{}}, noon)
	if meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) {
		t.Error("a cluster of which nothing is known is ready")
	}
}

func TestIsTrueOfTheCurrentGenerationOnly(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 2}, {Type: "Other", Status: metav1.ConditionUnknown, ObservedGeneration: 2}}
	for _, c := range []struct {
		condition  string
		generation int64
		want       bool
	}{{"Ready", 2, true}, {"Ready", 3, false}, {"Other", 2, false}, {"Absent", 2, false}} {
		if got := IsTrue(conditions, c.condition, c.generation); got != c.want {
			t.Errorf("%s of %d: %v", c.condition, c.generation, got)
		}
	}
}
