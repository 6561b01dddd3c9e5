package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/tuning"
)

// Cluster is what one pass saw of a WorkloadCluster.
type Cluster struct {
	Object *v1alpha1.WorkloadCluster
	// Problem that kept the pass from doing what the spec says; nil if none.
	Problem *Problem
	// Tuning that was decided; Checks compare it with the running nodes.
	Tuning tuning.Settings
	Checks []tuning.Check
	// StatefulSet is nil when there is none (yet).
	StatefulSet *appsv1.StatefulSet
	Pods        []corev1.Pod
	Claims      []corev1.PersistentVolumeClaim
	// Growth says what the growth of the volumes waits for; "" if for nothing.
	Growth string
	// Update that waits.
	Update desired.Update
	Broker Broker
	// Rollout is what was decided on the pods, Scale on fewer nodes than there are.
	Rollout   gate.Decision
	Scale     gate.ScaleDecision
	HaveNodes int
	// Runtime figures by pod name.
	Runtime map[string]broker.Runtime
	// Defaults is what became of spec.defaults; nil when the broker could not be asked.
	Defaults *Defaults
}

// Defaults is what a pass did about spec.defaults.
type Defaults struct {
	// Problem in the way; nil if none.
	Problem *Problem
	// Written is how many writes this pass sent: the next one sees what became of them.
	Written  int
	Waits    string
	Warnings []string
}

// Broker is what the management API said.
type Broker struct {
	// Asked is false when there was nobody to ask yet.
	Asked    bool
	Err      error
	Overview broker.Overview
	Nodes    []broker.Node
}

// ForCluster is the status that follows from what a pass saw.
func ForCluster(in Cluster, now time.Time) v1alpha1.WorkloadClusterStatus {
	before := in.Object.Status
	out := v1alpha1.WorkloadClusterStatus{
		ObservedGeneration: in.Object.Generation,
		Conditions:         slices.Clone(before.Conditions),
		ReadyNodes:         fmt.Sprintf("%d/%d", readyPods(in.Pods), in.Object.Spec.Replicas),
		Version:            before.Version,
		Image:              image(in),
		Schedulers:         onlineSchedulers(in.Runtime),
		Memory:             memory(in, before.Memory),
		AdminSecret:        &corev1.LocalObjectReference{Name: desired.AdminSecretName(in.Object.Name)},
		Tuning:             tunedValues(in.Checks),
		Nodes:              nodes(in),
		Scaling:            scaling(in),
		Storage:            storage(in.Claims),
	}
	if v := in.Broker.Overview.RabbitMQVersion; v != "" {
		out.Version = v
	}
	s := setter{conditions: &out.Conditions, generation: in.Object.Generation, now: now}
	s.set(v1alpha1.ConditionReconciled, reconciled(in))
	s.set(v1alpha1.ConditionSchedulable, schedulable(in))
	s.set(v1alpha1.ConditionNodesReady, nodesReady(in))
	s.set(v1alpha1.ConditionBrokerReachable, brokerReachable(in))
	s.set(v1alpha1.ConditionAlarmsClear, alarmsClear(in.Broker))
	s.set(v1alpha1.ConditionTuned, tuned(in))
	s.set(v1alpha1.ConditionVolumesReady, volumesReady(in))
	s.set(v1alpha1.ConditionUpdatePending, updatePending(in))
	if in.Object.Spec.Defaults != nil {
		s.set(v1alpha1.ConditionDefaultsInForce, defaultsInForce(in))
	} else {
		s.drop(v1alpha1.ConditionDefaultsInForce)
	}
	s.summarize(yes(v1alpha1.ReasonReady, fmt.Sprintf("%d nodes of RabbitMQ %s run as tuned", in.Object.Spec.Replicas, out.Version)),
		v1alpha1.ConditionReconciled, v1alpha1.ConditionSchedulable, v1alpha1.ConditionNodesReady,
		v1alpha1.ConditionBrokerReachable, v1alpha1.ConditionAlarmsClear, v1alpha1.ConditionTuned, v1alpha1.ConditionVolumesReady,
		v1alpha1.ConditionDefaultsInForce)
	return out
}

func defaultsInForce(in Cluster) verdict {
	d := in.Defaults
	switch {
	case d == nil:
		return unknown(v1alpha1.ReasonUnknown, "the broker was not asked or did not answer")
	case d.Problem != nil:
		return no(d.Problem.Reason, d.Problem.Message)
	case d.Written > 0:
		return no(v1alpha1.ReasonNotInForce, "just written: the next look at the broker shows what became of it")
	case d.Waits != "":
		return unknown(v1alpha1.ReasonWaitingForNode, d.Waits)
	case len(d.Warnings) > 0:
		return yes(v1alpha1.ReasonAsExpected, strings.Join(d.Warnings, "; "))
	}
	return yes(v1alpha1.ReasonAsExpected, "the broker has what spec.defaults says")
}

func reconciled(in Cluster) verdict {
	switch {
	case in.Problem != nil:
		return no(in.Problem.Reason, in.Problem.Message)
	case in.Object.Spec.Paused:
		return yes(v1alpha1.ReasonPaused, "paused: changes of the spec wait until spec.paused is false")
	}
	return yes(v1alpha1.ReasonAsExpected, "every object of the cluster is as the spec says")
}

func schedulable(in Cluster) verdict {
	pool := ""
	if p := in.Object.Spec.Scheduling.DedicatedNodes; p != nil && p.Mode == v1alpha1.PlacementRequired {
		pool = fmt.Sprintf("; scheduling.dedicatedNodes requires nodes with the label %s=%s", p.Label.Key, p.Label.Value)
	}
	for _, pod := range in.Pods {
		for _, c := range pod.Status.Conditions {
			// Other reasons are the scheduler's own troubles, which it tries again by itself in a moment.
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return no(v1alpha1.ReasonUnschedulable, fmt.Sprintf("pod %s: %s", pod.Name, c.Message)+pool)
			}
		}
	}
	return yes(v1alpha1.ReasonAsExpected, "every pod has a place")
}

func nodesReady(in Cluster) verdict {
	set, wanted, next := in.StatefulSet, in.Object.Spec.Replicas, in.Rollout
	if set == nil {
		return no(v1alpha1.ReasonNodesStarting, "the nodes are not created yet")
	}
	ready := readyPods(in.Pods)
	unseen := set.Status.ObservedGeneration < set.Generation && set.Status.UpdateRevision != ""
	why, leaving := "", in.Scale.Verb != "" && in.Scale.Verb != gate.ScaleRest
	if next.Verb != gate.Rest && next.Why != "" {
		why = "; " + strings.TrimPrefix(fmt.Sprintf("pod %s: %s", next.Pod, next.Why), "pod : ")
	}
	switch waiting, silent := waitingContainers(in.Pods), silentHosts(in.Pods); {
	case silent != "":
		return no(v1alpha1.ReasonNodeDown, fmt.Sprintf("%d of %d nodes ready; %s", ready, wanted, silent)+why)
	case ready < wanted && waiting != "":
		return no(v1alpha1.ReasonNodeNotReady, fmt.Sprintf("%d of %d nodes ready; %s", ready, wanted, waiting)+why)
	case next.Rolling || unseen && !leaving:
		return no(v1alpha1.ReasonRollingUpdate, fmt.Sprintf("%d of %d nodes have the latest revision, %d ready", next.Latest, wanted, ready)+why)
	case slices.ContainsFunc(in.Pods, stopping) && !leaving:
		return no(v1alpha1.ReasonNodeStopping, fmt.Sprintf("%d of %d nodes ready", ready, wanted)+why)
	case ready < wanted:
		return no(v1alpha1.ReasonNodesStarting, fmt.Sprintf("%d of %d nodes ready", ready, wanted)+why)
	}
	return scaledIn(in, ready)
}

func stopping(p corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() }

// silentHosts names the hosts that Kubernetes does not hear from, and their pods. Such a pod is not ready while its containers
// are said to be: the kubelet writes both together, and only the node lifecycle controller one without the other.
func silentHosts(pods []corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		lost := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
		}
		quiet := func(c corev1.ContainerStatus) bool { return !c.Ready || c.State.Running == nil }
		if slices.ContainsFunc(pod.Status.Conditions, lost) && len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, quiet) {
			text := fmt.Sprintf("Kubernetes does not hear from node %s, where pod %s is", pod.Spec.NodeName, pod.Name)
			if !pod.DeletionTimestamp.IsZero() {
				text += "; the pod is replaced when the node is back or, if it never comes back, when its Node object is removed"
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// waitingContainers says why the first pod with a container that cannot run does not run.
func waitingContainers(pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			w := c.State.Waiting
			if w == nil || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
				continue
			}
			return strings.TrimSuffix(fmt.Sprintf("pod %s: %s: %s", pod.Name, w.Reason, w.Message), ": ")
		}
	}
	return ""
}

func brokerReachable(in Cluster) verdict {
	b, wanted := in.Broker, int(in.Object.Spec.Replicas)
	switch {
	case !b.Asked:
		return unknown(v1alpha1.ReasonWaitingForNode, "no node is ready to be asked yet")
	case broker.KindOf(b.Err) == broker.Unauthorized:
		return no(v1alpha1.ReasonAuthFailed, fmt.Sprintf("the broker refuses the credentials of Secret %s: %v",
			desired.AdminSecretName(in.Object.Name), b.Err))
	case b.Err != nil:
		return no(v1alpha1.ReasonUnreachable, b.Err.Error())
	case len(b.Nodes) < wanted:
		return no(v1alpha1.ReasonNotClustered, fmt.Sprintf("%d of %d nodes have joined the cluster", len(b.Nodes), wanted))
	}
	var down []string
	for _, node := range b.Nodes {
		if !node.Running {
			down = append(down, node.Name)
		}
	}
	if len(down) > 0 {
		return no(v1alpha1.ReasonNodeDown, "the cluster does not see "+strings.Join(down, ", "))
	}
	return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("%d nodes run in one cluster", len(b.Nodes)))
}

func alarmsClear(b Broker) verdict {
	if !b.Asked || b.Err != nil {
		return unknown(v1alpha1.ReasonUnknown, "the broker was not asked or did not answer")
	}
	var alarms, silent []string
	for _, node := range b.Nodes {
		for _, alarm := range alarmsOf(node) {
			alarms = append(alarms, alarm+" of "+node.Name)
		}
		if node.MemoryAlarm == nil || node.DiskAlarm == nil {
			silent = append(silent, node.Name)
		}
	}
	switch {
	case len(alarms) > 0:
		return no(v1alpha1.ReasonAlarm, "publishers to every node are blocked by an alarm: "+strings.Join(alarms, ", "))
	case len(b.Nodes) == 0:
		return unknown(v1alpha1.ReasonUnknown, "the broker names no node")
	case len(silent) > 0:
		return unknown(v1alpha1.ReasonUnknown, "the broker does not say whether there is an alarm of "+strings.Join(silent, ", "))
	}
	return yes(v1alpha1.ReasonAsExpected, "no memory or disk alarm")
}

func alarmsOf(node broker.Node) []string {
	var out []string
	if node.MemoryAlarm != nil && *node.MemoryAlarm {
		out = append(out, "memory")
	}
	if node.DiskAlarm != nil && *node.DiskAlarm {
		out = append(out, "disk")
	}
	return out
}

func tuned(in Cluster) verdict {
	var wrong, silent []string
	for _, check := range in.Checks {
		switch {
		case check.InForce == metav1.ConditionFalse:
			wrong = append(wrong, check.Describe())
		case check.InForce == metav1.ConditionUnknown && check.Verifiable:
			silent = append(silent, check.Name)
		}
	}
	switch {
	case len(wrong) > 0 && in.Update.Pending != "":
		return yes(v1alpha1.ConditionUpdatePending, "the nodes have the values of before the update that waits: "+strings.Join(wrong, "; "))
	case len(wrong) > 0:
		return no(v1alpha1.ReasonNotInForce, strings.Join(wrong, "; "))
	case len(silent) > 0:
		return unknown(v1alpha1.ReasonWaitingForNode, "not every node reports "+strings.Join(silent, ", "))
	case len(in.Tuning.Warnings) > 0 && (in.Tuning.CPULimit == nil || in.Tuning.MemoryLimit == nil):
		return yes(v1alpha1.ReasonNoLimit, strings.Join(in.Tuning.Warnings, "; "))
	case len(in.Tuning.Warnings) > 0:
		return yes(v1alpha1.ReasonAsExpected, strings.Join(in.Tuning.Warnings, "; "))
	}
	return yes(v1alpha1.ReasonAsExpected, "every node has the values of status.tuning")
}

// updatePending is True when something waits. It does not make a cluster unready: the nodes run as they did.
func updatePending(in Cluster) verdict {
	u := in.Update
	if u.Pending == "" {
		return no(v1alpha1.ReasonAsExpected, "no restart waits for approval")
	}
	message := fmt.Sprintf("this version of Warren makes the pods in another way, and they keep theirs until they may restart: kubectl annotate -n %s workloadcluster %s --overwrite %s=%s",
		in.Object.Namespace, in.Object.Name, v1alpha1.AnnotationApproveUpdate, u.Pending)
	if u.Window != "" {
		message += "; or by itself in the window " + u.Window
	}
	return yes(v1alpha1.ReasonWaitingForApproval, message)
}

func tunedValues(checks []tuning.Check) []v1alpha1.TunedValue {
	out := make([]v1alpha1.TunedValue, 0, len(checks))
	for _, c := range checks {
		out = append(out, v1alpha1.TunedValue{Name: c.Name, Value: c.Text, Reason: c.Reason, Observed: c.Observed, InForce: c.InForce})
	}
	return out
}

func nodes(in Cluster) []v1alpha1.NodeStatus {
	byName := map[string]broker.Node{}
	for _, node := range in.Broker.Nodes {
		byName[node.Name] = node
	}
	out := make([]v1alpha1.NodeStatus, 0, len(in.Pods))
	for _, pod := range in.Pods {
		s := v1alpha1.NodeStatus{Name: pod.Name, HostNode: pod.Spec.NodeName, Ready: podReady(pod)}
		if node, ok := byName[desired.NodeName(pod.Namespace, in.Object.Name, pod.Name)]; ok {
			running := node.Running
			s.Running, s.Alarms = &running, alarmsOf(node)
		}
		runtime := in.Runtime[pod.Name]
		s.Schedulers, s.SchedulersOnline = narrow(runtime.Schedulers), narrow(runtime.SchedulersOnline)
		out = append(out, s)
	}
	return out
}

func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	m := int32(*n)
	return &m
}

func readyPods(pods []corev1.Pod) int32 {
	n := int32(0)
	for _, pod := range pods {
		if podReady(pod) {
			n++
		}
	}
	return n
}

func podReady(pod corev1.Pod) bool {
	if !pod.DeletionTimestamp.IsZero() {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func image(in Cluster) string {
	if in.StatefulSet == nil {
		return ""
	}
	for _, c := range in.StatefulSet.Spec.Template.Spec.Containers {
		if c.Name == desired.ContainerName {
			return c.Image
		}
	}
	return ""
}

func onlineSchedulers(runtimes map[string]broker.Runtime) string {
	var counts []int
	for _, r := range runtimes {
		if r.SchedulersOnline != nil {
			counts = append(counts, *r.SchedulersOnline)
		}
	}
	slices.Sort(counts)
	words := []string{}
	for _, n := range slices.Compact(counts) {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// memoryStep is how many points the figure must move before it is written again: a status that changes with every
// reading would be written with every reading.
const memoryStep = 5

// memory is the use of the fullest node, of the container's limit or else of the alarm's.
func memory(in Cluster, before string) string {
	fullest := -1
	for _, node := range in.Broker.Nodes {
		limit := node.MemoryLimit
		if q := in.Tuning.MemoryLimit; q != nil {
			n := q.Value()
			limit = &n
		}
		if node.MemoryUsed != nil && limit != nil && *limit > 0 {
			fullest = max(fullest, int(100**node.MemoryUsed / *limit))
		}
	}
	if fullest < 0 {
		return ""
	}
	if was, err := strconv.Atoi(strings.TrimSuffix(before, "%")); err == nil && max(was-fullest, fullest-was) < memoryStep {
		return before
	}
	return fmt.Sprintf("%d%%", fullest)
}
