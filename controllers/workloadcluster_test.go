//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/desired"
)

// children are all objects that a cluster consists of, by "Kind name", with their resource versions.
func children(t *testing.T, c *v1alpha1.WorkloadCluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"StatefulSet": &appsv1.StatefulSetList{}, "Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{},
		"Secret": &corev1.SecretList{}, "ServiceAccount": &corev1.ServiceAccountList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{}, "Role": &rbacv1.RoleList{}, "RoleBinding": &rbacv1.RoleBindingList{},
	} {
		must(t, kube.List(t.Context(), list, client.InNamespace(c.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: c.Name}))
		must(t, eachObject(list, func(o client.Object) { out[kind+" "+o.GetName()] = o.GetResourceVersion() }))
	}
	return out
}

func names(m map[string]string) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func TestClusterConsistsOf(t *testing.T) {
	for version, extra := range map[string][]string{
		brokertest.V4: nil,
		brokertest.V3: {"Role runtime-rabbitmq", "RoleBinding runtime-rabbitmq"},
	} {
		t.Run(version, func(t *testing.T) {
			c := newCluster(newNamespace(t), "runtime", version)
			startCluster(t, c, version)
			want := append([]string{
				"ConfigMap runtime-config", "PodDisruptionBudget runtime", "Secret runtime-admin", "Secret runtime-erlang-cookie",
				"Service runtime", "Service runtime-nodes", "ServiceAccount runtime-rabbitmq", "StatefulSet runtime",
			}, extra...)
			slices.Sort(want)
			if got := names(children(t, c)); !slices.Equal(got, want) {
				t.Errorf("objects are %v, want %v", got, want)
			}
			if got := c.Status.Version; got != version {
				t.Errorf("status.version is %q, want %q", got, version)
			}
			for _, value := range c.Status.Tuning {
				if value.Reason == "" || value.InForce == metav1.ConditionFalse {
					t.Errorf("tuned value %+v has no reason or is not in force", value)
				}
			}
		})
	}
}

// E6 and the figure "0 writes in steady state": nothing moves while nothing changes, and a second apply by another
// field manager meets no conflict.
func TestSteadyStateWritesNothing(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	before, cluster := children(t, c), c.ResourceVersion
	server.ForgetRequests()
	sent := len(writes.of(c.Namespace))
	throughout(t, "nothing is written", func() error {
		if all := writes.of(c.Namespace); len(all) > sent {
			return fmt.Errorf("writes sent: %v", all[sent:])
		}
		must(t, get(t, c.Namespace, c.Name, c))
		if c.ResourceVersion != cluster {
			return fmt.Errorf("the WorkloadCluster was written: %+v", c.Status)
		}
		for name, version := range children(t, c) {
			if before[name] != version {
				return fmt.Errorf("%s was written", name)
			}
		}
		return nil
	})
	if server.Reads() == 0 || server.Writes() != 0 {
		t.Errorf("the broker saw %d reads and %d writes, want some and none", server.Reads(), server.Writes())
	}
	for _, entry := range c.ManagedFields {
		if entry.Manager == "warren" && strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:spec"`) {
			t.Errorf("Warren owns fields of the spec: %s", entry.FieldsV1.GetRawBytes())
		}
	}
	again := newCluster(c.Namespace, c.Name, "4.3")
	again.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("WorkloadCluster"))
	//nolint:staticcheck // the typed object is what a user's manifest is
	if err := kube.Patch(t.Context(), again, client.Apply, client.FieldOwner("gitops")); err != nil {
		t.Errorf("apply by another field manager: %v", err)
	}
	if again.Generation != c.Generation {
		t.Errorf("generation went from %d to %d with nothing changed", c.Generation, again.Generation)
	}
}

// A1: limit and schedulers change together, in one revision.
func TestCPULimitAndSchedulersChangeInOneRevision(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Resources.Limits.CPU = resource.MustParse("4")
	})
	startCluster(t, c, brokertest.V4)
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	if got := flags(set); got != "+S 4:4 +stbt u" {
		t.Fatalf("flags are %q", got)
	}
	generation := set.Generation
	edit(t, c, func() { c.Spec.Resources.Limits.CPU = resource.MustParse("8") })
	eventually(t, "the pod template has 8 CPUs and 8 schedulers", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		limit := set.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]
		if flags(set) != "+S 8:8 +stbt u" || limit.String() != "8" {
			return fmt.Errorf("flags %q, limit %s", flags(set), limit.String())
		}
		return nil
	})
	if set.Generation != generation+1 {
		t.Errorf("the StatefulSet changed %d times, want once", set.Generation-generation)
	}
	eventually(t, "the nodes are reported as not yet tuned", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionTuned, metav1.ConditionFalse, v1alpha1.ReasonNotInForce)
	})
}

func flags(set *appsv1.StatefulSet) string {
	for _, variable := range set.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS" {
			return variable.Value
		}
	}
	return ""
}

// What users add is applied as a real API server takes it, and is at rest then.
func TestAdditionsAreAppliedOnce(t *testing.T) {
	c := newCluster(newNamespace(t), "edge", "4.3")
	text, err := os.ReadFile("../internal/desired/testdata/additions.in.yaml")
	must(t, err)
	from := &v1alpha1.WorkloadCluster{}
	must(t, yaml.UnmarshalStrict(text, from))
	c.Spec.Scheduling, c.Spec.Pod, c.Spec.Service = from.Spec.Scheduling, from.Spec.Pod, from.Spec.Service
	startCluster(t, c, brokertest.V4)
	eventually(t, "the cluster is ready", func() error { return ready(t, c) })
	set, service := &appsv1.StatefulSet{}, &corev1.Service{}
	must(t, get(t, c.Namespace, c.Name, set))
	must(t, get(t, c.Namespace, c.Name, service))
	if pod := set.Spec.Template.Spec; len(pod.Containers) != 2 || len(pod.ImagePullSecrets) != 1 || len(pod.Tolerations) != 2 {
		t.Errorf("the template lacks what was added: %+v", pod)
	}
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Annotations["example.com/internal"] != "true" {
		t.Errorf("the Service lacks what was added: %+v", service)
	}
	before := writes.of(c.Namespace)
	throughout(t, "nothing is written", func() error {
		if now := writes.of(c.Namespace); len(now) != len(before) {
			return fmt.Errorf("%v", now[len(before):])
		}
		return nil
	})
}

// A6: the scheduler's reason is in the status, and goes away by itself.
func TestUnschedulablePodIsExplained(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Scheduling.DedicatedNodes = &v1alpha1.DedicatedNodes{
			Mode: v1alpha1.PlacementRequired, Label: v1alpha1.NodeLabel{Key: "pool", Value: "runtime"},
		}
	})
	startCluster(t, c, brokertest.V4)
	pod := &corev1.Pod{}
	must(t, get(t, c.Namespace, "runtime-2", pod))
	ready := slices.Clone(pod.Status.Conditions)
	const reason = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: reason}}
	must(t, kube.Status().Update(t.Context(), pod))
	eventually(t, "the scheduler's reason is in the status", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		if err := conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable); err != nil {
			return err
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == v1alpha1.ConditionSchedulable && strings.Contains(condition.Message, reason) &&
				strings.Contains(condition.Message, "dedicatedNodes requires nodes with the label pool=runtime") {
				return nil
			}
		}
		return errors.New("the message is not copied")
	})
	must(t, get(t, c.Namespace, "runtime-2", pod))
	pod.Status.Conditions = ready
	must(t, kube.Status().Update(t.Context(), pod))
	eventually(t, "the cluster is ready again", func() error { return readyAgain(t, c) })
}

func readyAgain(t *testing.T, c *v1alpha1.WorkloadCluster) error { return ready(t, c) }

// Nothing is half applied when a name belongs to somebody else.
func TestNameOfAnotherOwnerIsNotTaken(t *testing.T) {
	namespace := newNamespace(t)
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runtime"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	must(t, kube.Create(t.Context(), theirs))
	c := newCluster(namespace, "runtime", "4.3")
	must(t, kube.Create(t.Context(), c))
	eventually(t, "the conflict is reported", func() error {
		must(t, get(t, namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	})
	if got := names(children(t, c)); len(got) > 0 {
		t.Errorf("half applied: %v", got)
	}
	version := theirs.ResourceVersion
	must(t, get(t, namespace, "runtime", theirs))
	if theirs.ResourceVersion != version {
		t.Error("the other's Service was written")
	}
	must(t, kube.Delete(t.Context(), theirs))
	eventually(t, "the cluster is made once the name is free", func() error {
		return get(t, namespace, "runtime", &appsv1.StatefulSet{})
	})
}

// B11, D5: secrets are made once; nodes that depend on a lost one are not touched.
func TestSecretsAreMadeOnceAndNeverReplaced(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	set, cookie := &appsv1.StatefulSet{}, &corev1.Secret{}
	must(t, get(t, c.Namespace, c.Name, set))
	must(t, get(t, c.Namespace, desired.CookieSecretName(c.Name), cookie))
	if len(cookie.Data[desired.KeyErlangCookie]) < 20 {
		t.Fatal("the cookie is short")
	}

	t.Run("an edited one causes no rollout", func(t *testing.T) {
		cookie.Data[desired.KeyErlangCookie] = []byte("edited")
		must(t, kube.Update(t.Context(), cookie))
		throughout(t, "neither the StatefulSet nor the edit is written over", func() error {
			now := &appsv1.StatefulSet{}
			must(t, get(t, c.Namespace, c.Name, now))
			must(t, get(t, c.Namespace, cookie.Name, cookie))
			if now.Generation != set.Generation || string(cookie.Data[desired.KeyErlangCookie]) != "edited" {
				return errors.New("written")
			}
			return nil
		})
	})
	t.Run("a lost one is not made anew", func(t *testing.T) {
		kept := cookie.DeepCopy()
		must(t, kube.Delete(t.Context(), cookie))
		eventually(t, "the loss is reported", func() error {
			must(t, get(t, c.Namespace, c.Name, c))
			return conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
		})
		throughout(t, "no new one is made", func() error {
			if err := get(t, c.Namespace, kept.Name, &corev1.Secret{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("want not found, got %v", err)
			}
			return nil
		})
		kept.ResourceVersion, kept.UID = "", ""
		must(t, kube.Create(t.Context(), kept))
		eventually(t, "the cluster is ready again", func() error { return readyAgain(t, c) })
	})
}

// What the broker does not say is reported as such, and an alarm is not hidden by ready pods.
func TestBrokerFactsAreInTheStatus(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	is := func(condition string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		eventually(t, condition+" "+reason, func() error {
			must(t, get(t, c.Namespace, c.Name, c))
			return conditionIs(c.Status.Conditions, condition, status, reason)
		})
	}
	server.Unavailable(true)
	is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	is(v1alpha1.ConditionAlarmsClear, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)
	server.Unavailable(false)
	server.Unauthorized(true)
	is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAuthFailed)
	server.Unauthorized(false)
	is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	yes := true
	nodes := []string{"runtime-0", "runtime-1", "runtime-2"}
	all := nodesOf(c, nodes)
	all[1].MemoryAlarm = &yes
	server.SetNodes(all...)
	is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAlarm)
	all = nodesOf(c, nodes)
	all[2].Running = false
	server.SetNodes(all...)
	is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeDown)
	server.SetNodes(nodesOf(c, nodes[:2])...)
	is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotClustered)
}

func TestPausedClusterIsLeftAlone(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	edit(t, c, func() {
		c.Spec.Paused = true
		c.Spec.Resources.Limits.CPU = resource.MustParse("8")
	})
	set := &appsv1.StatefulSet{}
	eventually(t, "the pause is reported", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionReconciled, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	})
	throughout(t, "the StatefulSet stays", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if flags(set) != "+S 2:2 +stbt u" {
			return fmt.Errorf("flags are %q", flags(set))
		}
		return nil
	})
}

// Deleting a cluster tells its pods to stop without waiting for one another, then lets it go.
func TestDeletedClusterTellsItsPodsToStopAtOnce(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	asked := time.Now()
	must(t, kube.Delete(t.Context(), c))
	eventually(t, "the cluster is gone", func() error {
		if err := get(t, c.Namespace, c.Name, c); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want not found, got %v", err)
		}
		return nil
	})
	if held := time.Since(asked); held < 3*time.Second {
		t.Errorf("the cluster went after %s: the kubelet had no time to show the pods", held)
	}
	for i := range 3 {
		pod := &corev1.Pod{}
		must(t, get(t, c.Namespace, fmt.Sprintf("runtime-%d", i), pod))
		if pod.Annotations[v1alpha1.AnnotationStopNow] != "true" {
			t.Errorf("pod %s was not told", pod.Name)
		}
	}
}

// Secrets that kept volumes depend on have no owner; with deletionPolicy Delete they go with the cluster.
func TestDeletionPolicyDecidesWhoOwnsTheSecrets(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	secret := &corev1.Secret{}
	must(t, get(t, c.Namespace, desired.AdminSecretName(c.Name), secret))
	if len(secret.OwnerReferences) != 0 {
		t.Errorf("with Retain the Secret has owners: %v", secret.OwnerReferences)
	}
	password := string(secret.Data[desired.KeyAdminPassword])
	edit(t, c, func() { c.Spec.Storage.DeletionPolicy = v1alpha1.DeleteOnDelete })
	eventually(t, "with Delete the Secret belongs to the cluster", func() error {
		must(t, get(t, c.Namespace, secret.Name, secret))
		if !metav1.IsControlledBy(secret, c) {
			return errors.New("no owner")
		}
		return nil
	})
	edit(t, c, func() { c.Spec.Storage.DeletionPolicy = v1alpha1.RetainOnDelete })
	eventually(t, "with Retain again it belongs to nobody", func() error {
		must(t, get(t, c.Namespace, secret.Name, secret))
		if len(secret.OwnerReferences) != 0 {
			return errors.New("still owned")
		}
		return nil
	})
	if got := string(secret.Data[desired.KeyAdminPassword]); got != password {
		t.Error("the password changed")
	}
}

// What somebody changes by hand comes back.
func TestDriftOfObjectsIsRepaired(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	set, five := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}, int32(5)
	edit(t, set, func() { set.Spec.Replicas = &five })
	eventually(t, "the replicas are put back", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if *set.Spec.Replicas != 3 {
			return fmt.Errorf("replicas are %d", *set.Spec.Replicas)
		}
		return nil
	})
	must(t, kube.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: desired.ConfigMapName(c.Name)}}))
	eventually(t, "the ConfigMap is made again", func() error {
		return get(t, c.Namespace, desired.ConfigMapName(c.Name), &corev1.ConfigMap{})
	})
}

// The pods have their time to learn that they need not wait also when the deletion itself was long ago, as after
// Warren was down.
func TestPodsOfAClusterDeletedLongAgoAreGivenTime(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	now.advance(t, time.Hour)
	asked := time.Now()
	must(t, kube.Delete(t.Context(), c))
	eventually(t, "the cluster is gone", func() error { return gone(t, c) })
	if held := time.Since(asked); held < 3*time.Second {
		t.Errorf("the cluster went after %s: the kubelet had no time to show the pods", held)
	}
}

func gone(t *testing.T, object client.Object) error {
	if err := get(t, object.GetNamespace(), object.GetName(), object); !apierrors.IsNotFound(err) {
		return fmt.Errorf("want not found, got %v", err)
	}
	return nil
}

// E5: volumes that the spec says are to stay, stay, even if it said otherwise until just before the deletion and Warren
// has not carried that out (as here, where it is paused).
func TestRetainedAtTheLastMoment(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Storage.DeletionPolicy = v1alpha1.DeleteOnDelete
	})
	startCluster(t, c, brokertest.V4)
	set, secret := &appsv1.StatefulSet{}, &corev1.Secret{}
	must(t, get(t, c.Namespace, c.Name, set))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: "data-runtime-0", Labels: set.Spec.VolumeClaimTemplates[0].Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: set.Spec.VolumeClaimTemplates[0].Spec,
	}
	must(t, kube.Create(t.Context(), claim))
	edit(t, c, func() { c.Spec.Paused, c.Spec.Storage.DeletionPolicy = true, v1alpha1.RetainOnDelete })
	must(t, kube.Delete(t.Context(), c))
	eventually(t, "neither volumes nor Secrets go with the cluster", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		must(t, get(t, c.Namespace, desired.CookieSecretName(c.Name), secret))
		if got := set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted; got != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			return fmt.Errorf("whenDeleted is %s", got)
		}
		if len(secret.OwnerReferences) > 0 {
			return errors.New("the cookie is still owned")
		}
		return nil
	})
	now.advance(t, 10*time.Second) // longer than the pods need to be told
	throughout(t, "the cluster stays while a volume would go with it", func() error { return get(t, c.Namespace, c.Name, c) })
	edit(t, claim, func() { claim.OwnerReferences = nil }) // as the StatefulSet's controller does
	eventually(t, "the cluster goes once its volumes are let go of", func() error { return gone(t, c) })
}

// A cluster that is created again at once finds the objects of the one before, which nobody has to remove.
func TestCreatedAgainAtOnce(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Storage.DeletionPolicy = v1alpha1.DeleteOnDelete
	})
	startCluster(t, c, brokertest.V4)
	must(t, kube.Delete(t.Context(), c))
	eventually(t, "the cluster is gone", func() error { return gone(t, c) })
	again := newCluster(c.Namespace, c.Name, "4.3")
	must(t, kube.Create(t.Context(), again))
	eventually(t, "it waits for the collector", func() error {
		must(t, get(t, again.Namespace, again.Name, again))
		return conditionIs(again.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending)
	})
	// As the garbage collector does, Secrets first: nodes that are still there are no reason to ask for a backup.
	remove := func(objects ...client.Object) {
		for _, o := range objects {
			o.SetNamespace(c.Namespace)
			must(t, kube.Delete(t.Context(), o))
		}
	}
	name := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	remove(&corev1.Secret{ObjectMeta: name("runtime-admin")}, &corev1.Secret{ObjectMeta: name("runtime-erlang-cookie")})
	throughout(t, "it still waits", func() error {
		must(t, get(t, again.Namespace, again.Name, again))
		return conditionIs(again.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending)
	})
	remove(&appsv1.StatefulSet{ObjectMeta: name("runtime")}, &corev1.Service{ObjectMeta: name("runtime")}, &corev1.Service{ObjectMeta: name("runtime-nodes")},
		&corev1.ConfigMap{ObjectMeta: name("runtime-config")}, &corev1.ServiceAccount{ObjectMeta: name("runtime-rabbitmq")},
		&policyv1.PodDisruptionBudget{ObjectMeta: name("runtime")})
	eventually(t, "the new one is made", func() error {
		set := &appsv1.StatefulSet{}
		if err := get(t, c.Namespace, c.Name, set); err != nil {
			return err
		}
		if !metav1.IsControlledBy(set, again) {
			return errors.New("of another cluster")
		}
		return nil
	})
}
