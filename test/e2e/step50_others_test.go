//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// TestMoreClustersBesideTheFirst runs what needs clusters of its own, at the same time.
func TestMoreClustersBesideTheFirst(t *testing.T) {
	t.Run("second cluster in the namespace, Warren killed while it is made", func(t *testing.T) {
		t.Parallel()
		testSecondCluster(t)
	})
	t.Run("no node for the pods", func(t *testing.T) {
		t.Parallel()
		testUnschedulable(t)
	})
}

// testSecondCluster: two clusters in one namespace share nothing, and the second comes to be although Warren is killed
// when it has made the first of its objects. Deleting it leaves nothing, and the first as it was.
func testSecondCluster(t *testing.T) {
	first := lines[0]
	first.ready(t)
	before, pods := specs(t, first), uids(t, first.rabbit())
	second := single(first.namespace, "worker", "4.3")
	if err := k.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the first object of the cluster", func(ctx context.Context) (string, error) {
		found, err := objects(ctx, first.namespace, second.Name)
		if len(found) == 0 {
			return "none yet", err
		}
		return "", err
	})
	killWarren(t)
	waitCluster(t, first.namespace, second.Name)
	for _, name := range []string{first.cluster, second.Name} {
		served(t, first.namespace, name)
	}
	deleteCluster(t, second)
	leaves(t, first.namespace, second.Name)
	if after := specs(t, first); !maps.Equal(before, after) {
		t.Errorf("objects of %s changed:\nbefore %v\nafter  %v", first.cluster, before, after)
	}
	if after := uids(t, first.rabbit()); !maps.Equal(pods, after) {
		t.Errorf("pods of %s were replaced", first.cluster)
	}
	waitCluster(t, first.namespace, first.cluster)
}

// specs are UID and generation of all that a line's cluster consists of; of Secrets and ConfigMaps, which have no
// generation, the version.
func specs(t *testing.T, l *line) map[string]string {
	t.Helper()
	found, err := objects(t.Context(), l.namespace, l.cluster)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, object := range found {
		switch strings.Fields(name)[0] {
		case "Pod", "EndpointSlice":
		case "Secret", "ConfigMap":
			out[name] = string(object.GetUID()) + " " + object.GetResourceVersion()
		default:
			out[name] = fmt.Sprint(object.GetUID(), " ", object.GetGeneration())
		}
	}
	return out
}

// served fails if the Services of a cluster lead to any pod that is not its own.
func served(t *testing.T, namespace, name string) {
	t.Helper()
	for _, service := range []string{name, name + "-nodes"} {
		var slices discoveryv1.EndpointSliceList
		err := k.Client.List(t.Context(), &slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				n++
				if endpoint.TargetRef == nil || !strings.HasPrefix(endpoint.TargetRef.Name, name+"-") {
					t.Errorf("Service %s leads to %v", service, endpoint.TargetRef)
				}
			}
		}
		if n == 0 {
			t.Errorf("Service %s leads nowhere", service)
		}
	}
}

// testUnschedulable: pods that may run only on a pool that does not exist wait, the status says what the scheduler says,
// and it clears by itself when a node gets the label (A6).
func testUnschedulable(t *testing.T) {
	const namespace, key = "e2e-placement", "rabbitmq.warren.dev/e2e-pool"
	makeNamespace(t, namespace)
	explainFailure(t, namespace)
	object := single(namespace, "placed", "4.3")
	object.Spec.Scheduling.DedicatedNodes = &v1alpha1.DedicatedNodes{
		Mode: v1alpha1.PlacementRequired, Label: v1alpha1.NodeLabel{Key: key, Value: "placed"},
	}
	if err := k.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	said := ""
	eventually(t, time.Minute, "Schedulable=False", func(ctx context.Context) (string, error) {
		got, err := k.Rabbit(namespace, object.Name).Object(ctx)
		said = condition(got, got.Status.Conditions, v1alpha1.ConditionSchedulable)
		if !strings.HasPrefix(said, "False "+v1alpha1.ReasonUnschedulable) || !strings.Contains(said, "affinity") {
			return said, err
		}
		return "", err
	})
	t.Log(said)
	node := labelNode(t, key, "placed")
	waitCluster(t, namespace, object.Name)
	got, err := k.Rabbit(namespace, object.Name).Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Nodes) != 1 || got.Status.Nodes[0].HostNode != node {
		t.Errorf("status.nodes is %+v, wanted one on %s", got.Status.Nodes, node)
	}
	deleteCluster(t, object)
	leaves(t, namespace, "")
}

// labelNode labels the first node that takes pods, until the end of the test.
func labelNode(t *testing.T, key, value string) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := k.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) == 0 })
	if i < 0 {
		t.Fatal("no node without taints")
	}
	label := func(ctx context.Context, value string) error {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value))
		return k.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes.Items[i].Name}}, patch)
	}
	if err := label(t.Context(), fmt.Sprintf("%q", value)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := label(context.Background(), "null"); err != nil {
			t.Error(err)
		}
	})
	return nodes.Items[i].Name
}

// goneLimit is how long a deleted cluster may take to leave nothing: a node may be told a minute late, and has a minute then.
const goneLimit = 3 * time.Minute

// deleteCluster deletes a WorkloadCluster and waits until the object is gone.
func deleteCluster(t *testing.T, object *v1alpha1.WorkloadCluster) {
	t.Helper()
	began := time.Now()
	if err := k.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	eventually(t, goneLimit, "WorkloadCluster "+object.Name+" goes", func(ctx context.Context) (string, error) {
		_, err := k.Rabbit(object.Namespace, object.Name).Object(ctx)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "still there", err
	})
	t.Logf("WorkloadCluster %s is gone after %.0f s", object.Name, time.Since(began).Seconds())
}

// leaves waits until nothing of a cluster (or, with "", of anything) is left in a namespace but what is named.
func leaves(t *testing.T, namespace, of string, kept ...string) {
	t.Helper()
	began := time.Now()
	slices.Sort(kept)
	eventually(t, goneLimit, fmt.Sprintf("only %v is left", kept), func(ctx context.Context) (string, error) {
		found, err := objects(ctx, namespace, of)
		if left := names(found); err != nil || !slices.Equal(left, kept) {
			return "left: " + strings.Join(left, ", "), err
		}
		return "", nil
	})
	t.Logf("and all its objects after another %.0f s; left: %v", time.Since(began).Seconds(), kept)
}
