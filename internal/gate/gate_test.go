package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/internal/broker"
)

func ptr[T any](v T) *T { return &v }

func nodes(names ...string) (out []broker.Node) {
	for _, name := range names {
		out = append(out, broker.Node{Name: name, Running: true, MemoryAlarm: ptr(false), DiskAlarm: ptr(false)})
	}
	return out
}

func quorum(name string, members, online []string) broker.Queue {
	return broker.Queue{VHost: "/", Name: name, Type: broker.Quorum, Members: members, Online: online}
}

// rolling are facts in which runtime-1 goes next, changed by edits.
func rolling(edits ...func(*Facts)) Facts {
	f := Facts{Wanted: 3, Settled: true, QueuesRead: true, Nodes: nodes("n0", "n1", "n2")}
	for i := range 3 {
		f.Pods = append(f.Pods, Pod{Name: fmt.Sprintf("runtime-%d", i), Node: fmt.Sprintf("n%d", i), Ready: true, Latest: i == 2})
	}
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func TestNext(t *testing.T) {
	all := []string{"n0", "n1", "n2"}
	for _, c := range []struct {
		name string
		edit func(*Facts)
		verb Verb
		pod  string
		says string
	}{
		{"the highest index of those that are left", func(*Facts) {}, Evict, "runtime-1", "no queue needs"},
		{"nothing to do", func(f *Facts) { f.Pods[0].Latest, f.Pods[1].Latest = true, true }, Rest, "", ""},
		{"nothing to do asks for no queues", func(f *Facts) { f.Pods[0].Latest, f.Pods[1].Latest, f.QueuesRead = true, true, false }, Rest, "", ""},
		{"a template that was not seen", func(f *Facts) { f.Settled = false }, Wait, "", "has not seen"},
		{"queues are read last", func(f *Facts) { f.QueuesRead = false }, AskQueues, "runtime-1", ""},
		{"queues that cannot be read", func(f *Facts) { f.QueuesRead, f.QueuesSilent = false, "timed out" }, Wait, "runtime-1", "timed out"},
		{"a node that is not back", func(f *Facts) { f.Pods[2].Ready = false }, Wait, "runtime-2", "not ready yet"},
		{"B1: a new pod that cannot run stops the rest and says what to do", func(f *Facts) { f.Pods[2].Ready, f.Pods[2].Broken = false, "ImagePullBackOff" },
			Wait, "runtime-2", "cannot run (ImagePullBackOff): the others keep theirs. Correct the spec"},
		{"B1: an old pod that cannot run waits for nobody", func(f *Facts) {
			f.Pods[0].Ready, f.Pods[0].Broken, f.Pods[2].Ready, f.BrokerSilent = false, "CrashLoopBackOff", false, "no node is ready"
		}, Replace, "runtime-0", "CrashLoopBackOff"},
		{"B1: nor does it when a pod is missing", func(f *Facts) { f.Pods[0].Broken, f.Pods = "CrashLoopBackOff", f.Pods[:2] }, Replace, "runtime-0", ""},
		{"one that stops already is not deleted again", func(f *Facts) { f.Pods[0].Broken, f.Pods[0].Stopping = "CrashLoopBackOff", true }, Wait, "runtime-0", "it stops"},
		{"a pod that is missing", func(f *Facts) { f.Pods, f.NotCreated = f.Pods[:2], "exceeded quota" }, Wait, "", "2 of 3 pods exist: the API server refuses to create them: exceeded quota"},
		{"a silent broker", func(f *Facts) { f.BrokerSilent = "timed out" }, Wait, "", "not known to be well: timed out"},
		{"a node apart", func(f *Facts) { f.Nodes = f.Nodes[:2] }, Wait, "", "n2 is not in the cluster"},
		{"a node down", func(f *Facts) { f.Nodes[0].Running = false }, Wait, "", "does not see node n0"},
		{"G2: an alarm that is not said is not clear", func(f *Facts) { f.Nodes[0].DiskAlarm = nil }, Wait, "", "does not say"},
		{"a new template with an alarm goes no further", func(f *Facts) { f.Nodes[2].MemoryAlarm = ptr(true) }, Wait, "", "n2, which has the latest template, has an alarm"},
		{"an old node with an alarm is helped first", func(f *Facts) { f.Nodes[0].MemoryAlarm = ptr(true) }, Evict, "runtime-0", ""},
		{"maintenance mode", func(f *Facts) { f.Nodes[0].BeingDrained = ptr(true) }, Wait, "", "maintenance"},
		{"a queue whose member is not back", func(f *Facts) { f.Queues = []broker.Queue{quorum("orders", all, []string{"n0", "n1"})} },
			Wait, "runtime-1", "queues need its node: orders (1 of 3 members would be left)"},
		{"a queue that can spare it", func(f *Facts) { f.Queues = []broker.Queue{quorum("orders", all, all)} }, Evict, "runtime-1", ""},
		{"a queue of other nodes", func(f *Facts) {
			f.Queues = []broker.Queue{quorum("orders", []string{"n0", "n2", "n3"}, []string{"n0"})}
		}, Evict, "runtime-1", ""},
		{"a queue that can never spare a node does not hold it", func(f *Facts) { f.Queues = []broker.Queue{quorum("small", []string{"n1"}, []string{"n1"})} }, Evict, "runtime-1", ""},
		{"G2: members that are not said", func(f *Facts) { f.Queues = []broker.Queue{quorum("orders", nil, nil)} }, Wait, "runtime-1", "members unknown"},
		{"a stream whose members are not said is left to its node", func(f *Facts) { f.Queues = []broker.Queue{{VHost: "/", Name: "log", Type: broker.Stream}} }, Evict, "runtime-1", ""},
		{"a mirror that is behind", func(f *Facts) {
			f.Queues = []broker.Queue{{VHost: "pay", Name: "orders", Type: broker.Classic, Node: "n1", Mirrors: []string{"n2"}, SynchronisedMirrors: []string{}}}
		}, Wait, "runtime-1", "pay/orders (no synchronised mirror)"},
		{"a mirror that is in step", func(f *Facts) {
			f.Queues = []broker.Queue{{VHost: "/", Type: broker.Classic, Node: "n1", Mirrors: []string{"n2"}, SynchronisedMirrors: []string{"n2"}}}
		}, Evict, "runtime-1", ""},
		{"an empty queue has nothing to synchronise", func(f *Facts) {
			f.Queues = []broker.Queue{{VHost: "/", Type: broker.Classic, Node: "n1", Mirrors: []string{"n2"}, Messages: ptr(int64(0))}}
		}, Evict, "runtime-1", ""},
		{"a queue without mirrors waits for its node anyway", func(f *Facts) {
			f.Queues = []broker.Queue{{VHost: "/", Type: broker.Classic, Node: "n1", Mirrors: []string{}}}
		}, Evict, "runtime-1", ""},
		{"the only node", func(f *Facts) { f.Wanted, f.Pods, f.Nodes = 1, f.Pods[:1], f.Nodes[:1] }, Evict, "runtime-0", "only node"},
		{"a stop of a few seconds", func(f *Facts) { f.Pods[1].Stopping, f.Pods[1].Ready, f.QueuesRead = true, false, false }, Wait, "runtime-1", "it stops"},
		{"a stop that takes long asks why", func(f *Facts) { f.Pods[1].Stopping, f.Pods[1].StoppingSeconds, f.QueuesRead = true, 40, false }, AskQueues, "runtime-1", ""},
		{"a stop that takes long names the queues", func(f *Facts) {
			f.Pods[1].Stopping, f.Pods[1].StoppingSeconds = true, 47
			f.Queues = []broker.Queue{quorum("orders", all, []string{"n0", "n1"})}
		}, Wait, "runtime-1", "stopping for 40 s and waits, at most 8 minutes, until these queues can do without its node: orders"},
		{"a stop is explained also when nothing rolls", func(f *Facts) {
			f.Pods[0].Latest, f.Pods[1].Latest, f.Pods[1].Stopping, f.Pods[1].StoppingSeconds = true, true, true, 60
			f.Queues = []broker.Queue{quorum("orders", all, []string{"n1"})}
		}, Wait, "runtime-1", "orders (0 of 3 members would be left)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Next(rolling(c.edit))
			if d.Verb != c.verb || d.Pod != c.pod || !strings.Contains(d.Why, c.says) {
				t.Errorf("got %s %s: %s; want %s %s: %s", d.Verb, d.Pod, d.Why, c.verb, c.pod, c.says)
			}
		})
	}
}

func TestListIsShort(t *testing.T) {
	if got := List([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
	if got := List([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
}

func TestPodOf(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) metav1.Time { return metav1.Time{Time: noon.Add(-ago)} }
	unready := func(ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(ago)}
	}
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	ended := func(times int32, ago time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "rabbitmq", RestartCount: times, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: at(ago)},
		}}
	}
	for _, c := range []struct {
		name   string
		edit   func(*corev1.Pod)
		broken string
	}{
		{"starts", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, waiting("ContainerCreating"))
		}, ""},
		{"no such image", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, waiting("ErrImagePull"))
		}, "ErrImagePull"},
		{"no place", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		}, "Unschedulable"},
		{"crashes", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, ended(3, time.Minute))
		}, "ended 3 times"},
		{"restarted once", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, ended(1, time.Minute))
		}, ""},
		{"crashed long ago", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, ended(3, time.Hour))
		}, ""},
		{"repairs its files", func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, unready(9*time.Minute)) }, ""},
		{"takes too long", func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, unready(11*time.Minute)) }, "more than 10 minutes"},
		{"has ended", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }, "Failed Evicted"},
		{"a ready one is never broken", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, ended(9, time.Second))
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			c.edit(pod)
			got := PodOf(pod, "n0", "two", noon)
			if c.broken == "" && got.Broken != "" || !strings.Contains(got.Broken, c.broken) {
				t.Errorf("broken is %q, want %q", got.Broken, c.broken)
			}
		})
	}
	grace := int64(600)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "runtime-0", DeletionTimestamp: &metav1.Time{Time: noon.Add(9 * time.Minute)}, DeletionGracePeriodSeconds: &grace,
		Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "two"},
	}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if got := PodOf(pod, "n0", "two", noon); !got.Latest || got.Ready || !got.Stopping || got.StoppingSeconds != 60 {
		t.Errorf("got %+v", got)
	}
}

// Lists of facts stay as they were given.
func TestNextChangesNothing(t *testing.T) {
	f := rolling()
	before := slices.Clone(f.Pods)
	Next(f)
	if !slices.Equal(before, f.Pods) {
		t.Error("the pods were changed")
	}
}
