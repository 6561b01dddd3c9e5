//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/desired"
)

// allow plays the controller of disruption budgets.
func allow(t *testing.T, c *v1alpha1.WorkloadCluster, n int32) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	must(t, get(t, c.Namespace, c.Name, budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: n, CurrentHealthy: c.Spec.Replicas, DesiredHealthy: c.Spec.Replicas - n, ExpectedPods: c.Spec.Replicas,
	}
	must(t, kube.Status().Update(t.Context(), budget))
}

// seen plays the StatefulSet's controller: it has seen the template that is stored, as revision.
func seen(t *testing.T, c *v1alpha1.WorkloadCluster, revision string) *appsv1.StatefulSet {
	t.Helper()
	set := &appsv1.StatefulSet{}
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // Warren may write the spec meanwhile
		if err := get(t, c.Namespace, c.Name, set); err != nil {
			return err
		}
		set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, revision
		return kube.Status().Update(t.Context(), set)
	}))
	return set
}

// setCPU changes the template and waits until Warren has stored it.
func setCPU(t *testing.T, c *v1alpha1.WorkloadCluster, cpu string) {
	t.Helper()
	edit(t, c, func() { c.Spec.Resources.Limits.CPU = resource.MustParse(cpu) })
	eventually(t, "the template is stored", func() error {
		set := &appsv1.StatefulSet{}
		must(t, get(t, c.Namespace, c.Name, set))
		if limit := set.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]; limit.String() != cpu {
			return fmt.Errorf("limit %s", limit.String())
		}
		return nil
	})
}

// podUIDs by name, of pods that are there.
func podUIDs(t *testing.T, c *v1alpha1.WorkloadCluster) map[string]types.UID {
	t.Helper()
	list, out := &corev1.PodList{}, map[string]types.UID{}
	must(t, kube.List(t.Context(), list, clusterPods(c)...))
	for _, pod := range list.Items {
		out[pod.Name] = pod.UID
	}
	return out
}

func goes(t *testing.T, c *v1alpha1.WorkloadCluster, pod string, before map[string]types.UID) {
	t.Helper()
	eventually(t, "pod "+pod+" goes", func() error {
		if podUIDs(t, c)[pod] == before[pod] {
			must(t, get(t, c.Namespace, c.Name, c))
			return fmt.Errorf("it is there; %s", nodesReadySays(c))
		}
		return nil
	})
}

func nodesReadySays(c *v1alpha1.WorkloadCluster) string {
	if condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionNodesReady); condition != nil {
		return condition.Reason + ": " + condition.Message
	}
	return ""
}

func says(t *testing.T, c *v1alpha1.WorkloadCluster, reason, text string) {
	t.Helper()
	eventually(t, reason+" "+text, func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		if said := nodesReadySays(c); !strings.HasPrefix(said, reason+": ") || !strings.Contains(said, text) {
			return errors.New(said)
		}
		return nil
	})
}

func stay(t *testing.T, c *v1alpha1.WorkloadCluster, want map[string]types.UID) {
	t.Helper()
	throughout(t, "the pods stay", func() error {
		got := podUIDs(t, c)
		for name, uid := range want {
			if got[name] != uid {
				return fmt.Errorf("pod %s was replaced", name)
			}
		}
		return nil
	})
}

// A rolling update goes one pod at a time, and only while budgets, the broker's nodes and its queues can spare it.
func TestPodsGoOneAtATimeWhenTheBrokerCanSpareThem(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	before := podUIDs(t, c)
	allow(t, c, 0)
	node := func(pod string) string { return desired.NodeName(c.Namespace, c.Name, pod) }
	server.AddQueue(broker.Queue{VHost: "/", Name: "orders", Type: broker.Quorum, Durable: true,
		Members: []string{node("runtime-1"), node("runtime-2"), "rabbit@elsewhere"}})
	setCPU(t, c, "4")
	stay(t, c, before) // Kubernetes has not seen the template yet
	seen(t, c, "two")
	says(t, c, v1alpha1.ReasonRollingUpdate, "0 of 3 nodes have the latest revision, 3 ready; pod runtime-2: queues need its node: orders (1 of 3 members would be left)")
	server.AddQueue(broker.Queue{VHost: "/", Name: "orders", Type: broker.Quorum, Durable: true,
		Members: []string{node("runtime-0"), node("runtime-1"), node("runtime-2")}})
	says(t, c, v1alpha1.ReasonRollingUpdate, "it may not be evicted now")
	stay(t, c, before)
	allow(t, c, 1)
	goes(t, c, "runtime-2", before)
	says(t, c, v1alpha1.ReasonRollingUpdate, "2 of 3 pods exist")
	delete(before, "runtime-2")
	stay(t, c, before)

	pod := podOf(seen(t, c, "two"), "runtime-2")
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "two"
	createPod(t, pod)
	allow(t, c, 1)
	goes(t, c, "runtime-1", before)
	if got := podUIDs(t, c)["runtime-0"]; got != before["runtime-0"] {
		t.Error("two pods went at once")
	}
}

// B1: a template that cannot run costs one pod; the corrected one replaces it without asking anybody.
func TestABrokenPodIsReplacedByTheCorrectedTemplate(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	before := podUIDs(t, c)
	allow(t, c, 1)
	setCPU(t, c, "4")
	seen(t, c, "two")
	goes(t, c, "runtime-2", before)
	pod := podOf(seen(t, c, "two"), "runtime-2")
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "two"
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.ContainerStatuses[0].Ready = false
	pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}
	createPod(t, pod)
	allow(t, c, 0)
	says(t, c, v1alpha1.ReasonNodeNotReady, "CrashLoopBackOff: back-off; pod runtime-2: it has the latest template and cannot run (CrashLoopBackOff): the others keep theirs")
	broken := podUIDs(t, c)
	stay(t, c, broken)
	setCPU(t, c, "3")
	seen(t, c, "three")
	goes(t, c, "runtime-2", broken)
	delete(before, "runtime-2")
	stay(t, c, before)
}

// While a cluster is paused no pod goes, not even a broken one.
func TestAPausedClusterRollsNothing(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	before := podUIDs(t, c)
	allow(t, c, 1)
	setCPU(t, c, "4")
	edit(t, c, func() { c.Spec.Paused = true })
	seen(t, c, "two")
	says(t, c, v1alpha1.ReasonRollingUpdate, "nothing is changed now")
	stay(t, c, before)
	edit(t, c, func() { c.Spec.Paused = false })
	goes(t, c, "runtime-2", before)
}

// Pods that the API server refuses to create are explained in the words of the StatefulSet's controller.
func TestPodsThatCannotBeCreatedAreExplained(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	must(t, kube.Create(t.Context(), c))
	set := &appsv1.StatefulSet{}
	eventually(t, "the StatefulSet exists", func() error { return get(t, c.Namespace, c.Name, set) })
	seen(t, c, firstRevision)
	const why = `create Pod runtime-0 in StatefulSet runtime failed error: pods "runtime-0" is forbidden: exceeded quota: small`
	must(t, kube.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: c.Namespace, Name: "runtime.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: c.Namespace, Name: c.Name, UID: set.UID},
		Reason:         "FailedCreate", Message: why, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}))
	says(t, c, v1alpha1.ReasonNodesStarting, "0 of 3 pods exist: the API server refuses to create them: "+why)
}

// A StatefulSet that Kubernetes rolled by itself until now is taken over as it is.
func TestAStatefulSetOfAnOlderWarrenIsTakenOver(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	set, zero := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}, int32(0)
	edit(t, set, func() {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &zero},
		}
	})
	eventually(t, "Warren rolls it itself", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			must(t, get(t, c.Namespace, c.Name, c))
			return fmt.Errorf("%s: %v", set.Spec.UpdateStrategy.Type, meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReconciled))
		}
		return nil
	})
}

func clusterPods(c *v1alpha1.WorkloadCluster) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.Namespace), client.MatchingLabels(desired.SelectorLabels(c.Name))}
}
