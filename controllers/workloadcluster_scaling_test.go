//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/desired"
)

func replicasAre(t *testing.T, c *v1alpha1.WorkloadCluster, want int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("the StatefulSet has %d replicas", want), func() error {
		set := &appsv1.StatefulSet{}
		must(t, get(t, c.Namespace, c.Name, set))
		if *set.Spec.Replicas != want {
			must(t, get(t, c.Namespace, c.Name, c))
			return fmt.Errorf("it has %d; %s", *set.Spec.Replicas, nodesReadySays(c))
		}
		return nil
	})
}

func scalingIs(t *testing.T, c *v1alpha1.WorkloadCluster, verdict v1alpha1.ScalingVerdict, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("status.scaling is %s: %s", verdict, text), func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		if s := c.Status.Scaling; s == nil || s.Verdict != verdict || !strings.Contains(s.Message, text) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// podGoes plays the StatefulSet's controller and the broker: the pod is gone, its node is down.
func podGoes(t *testing.T, c *v1alpha1.WorkloadCluster, server *brokertest.Server, index, members int) {
	t.Helper()
	var pods []string
	for i := range members {
		pods = append(pods, desired.PodName(c.Name, i))
	}
	nodes := nodesOf(c, pods)
	nodes[index].Running = false
	server.SetNodes(nodes...)
	must(t, kube.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: desired.PodName(c.Name, index)}},
		client.GracePeriodSeconds(0)))
	seen(t, c, firstRevision)
}

// forgets plays the Job by which a node is forgotten, after it was looked at.
func forgets(t *testing.T, c *v1alpha1.WorkloadCluster, server *brokertest.Server, index int) {
	t.Helper()
	eventually(t, "a Job forgets the node", func() error {
		var jobs batchv1.JobList
		must(t, kube.List(t.Context(), &jobs, client.InNamespace(c.Namespace), client.MatchingLabels(desired.ActionLabels(c.Name))))
		for _, job := range jobs.Items {
			script := strings.Join(job.Spec.Template.Spec.Containers[0].Command, " ")
			if strings.Contains(script, "'forget_cluster_node' '"+desired.NodeName(c.Namespace, c.Name, desired.PodName(c.Name, index))+"'") {
				return kube.Delete(t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground)) // nobody runs it here
			}
		}
		must(t, get(t, c.Namespace, c.Name, c))
		return fmt.Errorf("there is none: %+v; %s", c.Status.Scaling, nodesReadySays(c))
	})
	var pods []string
	for i := range index {
		pods = append(pods, desired.PodName(c.Name, i))
	}
	server.SetNodes(nodesOf(c, pods)...)
}

// Nodes leave one by one: members of quorum queues move first, then the node stops, then the others forget it; volumes go when
// that is asked for, and at the end only.
func TestScaleIn(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Replicas, c.Spec.ScaleIn.Mode, c.Spec.ScaleIn.Volumes = 5, v1alpha1.ScaleInDryRun, v1alpha1.DeleteOnDelete
	})
	server := startCluster(t, c, brokertest.V4)
	node := func(i int) string { return desired.NodeName(c.Namespace, c.Name, desired.PodName(c.Name, i)) }
	server.AddQueue(broker.Queue{VHost: "/", Name: "orders", Type: broker.Quorum, Durable: true, Members: []string{node(0), node(3), node(4)}})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: desired.ClaimName(c.Name, 4), Labels: map[string]string{desired.LabelManagedBy: desired.ManagedBy}}}
	for k, v := range desired.SelectorLabels(c.Name) {
		claim.Labels[k] = v
	}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: c.Spec.Storage.Size}
	must(t, kube.Create(t.Context(), claim))

	edit(t, c, func() { c.Spec.Replicas = 3 })
	scalingIs(t, c, v1alpha1.ScalingSafe, "nothing would be lost")
	replicasAre(t, c, 5)
	edit(t, c, func() { c.Spec.ScaleIn.Mode = v1alpha1.ScaleInRun })
	replicasAre(t, c, 4)
	podGoes(t, c, server, 4, 5)
	forgets(t, c, server, 4)
	replicasAre(t, c, 3)
	podGoes(t, c, server, 3, 4)
	must(t, get(t, c.Namespace, claim.Name, claim))
	if !claim.DeletionTimestamp.IsZero() {
		t.Error("a volume went before all nodes had left")
	}
	forgets(t, c, server, 3)
	eventually(t, "the volume of the node that has left goes", func() error {
		err := get(t, c.Namespace, claim.Name, claim)
		if err == nil && claim.DeletionTimestamp.IsZero() {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	eventually(t, "the cluster is ready with three nodes", func() error { return ready(t, c) })
	if c.Status.Scaling != nil {
		t.Errorf("scaling: %+v", c.Status.Scaling)
	}
	api, err := server.Connector().Connect(broker.Target{Key: t.Name(), URL: server.URL()})
	must(t, err)
	queue, err := api.Queue(t.Context(), "/", "orders")
	must(t, err)
	if slices.Sort(queue.Members); !slices.Equal(queue.Members, []string{node(0), node(1), node(2)}) {
		t.Errorf("members %v", queue.Members)
	}
}

// What would be lost keeps all nodes: the verdict says what it is.
func TestScaleInIsRefused(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 4 })
	server := startCluster(t, c, brokertest.V4)
	node := desired.NodeName(c.Namespace, c.Name, "runtime-3")
	server.AddQueue(broker.Queue{VHost: "/", Name: "old", Type: broker.Classic, Durable: true, Node: node})
	server.Publish("/", "old", 7)
	edit(t, c, func() { c.Spec.Replicas = 3 })
	scalingIs(t, c, v1alpha1.ScalingRefused, "classic queue old with 7 messages")
	says(t, c, v1alpha1.ReasonScaleInRefused, "classic queue old with 7 messages")
	throughout(t, "all nodes stay", func() error {
		set := &appsv1.StatefulSet{}
		must(t, get(t, c.Namespace, c.Name, set))
		if *set.Spec.Replicas != 4 {
			return fmt.Errorf("%d replicas", *set.Spec.Replicas)
		}
		return nil
	})
	edit(t, c, func() { c.Spec.Replicas = 4 })
	eventually(t, "the cluster is ready", func() error { return ready(t, c) })
}
