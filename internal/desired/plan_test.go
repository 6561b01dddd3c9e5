package desired

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// stored are the objects as an informer has them after they were applied: typed, without their kind, with what the
// server adds.
func stored(t testing.TB, objects []Object) map[Key]Object {
	t.Helper()
	out := map[Key]Object{}
	for _, o := range objects {
		intent, err := intentOf(o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(intent)
		if err != nil {
			t.Fatal(err)
		}
		there := reflect.New(reflect.TypeOf(o).Elem()).Interface().(Object)
		if err := json.Unmarshal(text, there); err != nil {
			t.Fatal(err)
		}
		there.SetUID(types.UID("uid-of-" + o.GetName()))
		there.SetResourceVersion("1")
		there.SetCreationTimestamp(metav1.Unix(1_800_000_000, 0))
		there.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "warren"}})
		serverDefaults(there)
		out[KeyOf(o)] = there
		there.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	}
	return out
}

// serverDefaults adds what the API server and the controllers set by themselves.
func serverDefaults(o Object) {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		pod := &o.Spec.Template.Spec
		pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
		pod.DeprecatedServiceAccount = pod.ServiceAccountName
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range containers {
				containers[i].ImagePullPolicy = corev1.PullIfNotPresent
				containers[i].TerminationMessagePath = "/dev/termination-log"
				containers[i].TerminationMessagePolicy = corev1.TerminationMessageReadFile
			}
		}
		mode, block := int32(0o644), corev1.PersistentVolumeFilesystem
		for i := range pod.Volumes {
			if p := pod.Volumes[i].Projected; p != nil {
				p.DefaultMode = &mode
			}
			if c := pod.Volumes[i].ConfigMap; c != nil {
				c.DefaultMode = &mode
			}
		}
		partition := int32(0)
		o.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
		for i := range o.Spec.VolumeClaimTemplates {
			o.Spec.VolumeClaimTemplates[i].Spec.VolumeMode = &block
			o.Spec.VolumeClaimTemplates[i].Status.Phase = corev1.ClaimPending
		}
		o.Generation = 4
		o.Status = appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, CurrentRevision: "a", UpdateRevision: "a"}
	case *corev1.Service:
		policy := corev1.IPFamilyPolicySingleStack
		o.Spec.ClusterIPs, o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = []string{"10.0.0.7"}, []corev1.IPFamily{corev1.IPv4Protocol}, &policy
		if o.Spec.ClusterIP == "" {
			o.Spec.ClusterIP = "10.0.0.7"
		}
		o.Spec.SessionAffinity = corev1.ServiceAffinityNone
	case *policyv1.PodDisruptionBudget:
		o.Status.DisruptionsAllowed = 1
	}
}

// applied are the kinds and names that a plan applies.
func applied(p Plan) []string {
	var out []string
	for _, intent := range p.Apply {
		out = append(out, intent["kind"].(string)+" "+intent["metadata"].(map[string]any)["name"].(string))
	}
	return out
}

func deleted(p Plan) []string {
	var out []string
	for _, o := range p.Delete {
		out = append(out, KeyOf(o).Kind+" "+o.GetName())
	}
	return out
}

func plan(t testing.TB, c *v1alpha1.WorkloadCluster, wanted []Object, live map[Key]Object) Plan {
	t.Helper()
	p, err := PlanObjects(c, wanted, live, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func expect(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %q, want %q", what, got, want)
	}
}

func TestWhatIsAbsentIsApplied(t *testing.T) {
	c := read(t, "legacy")
	p := plan(t, c, Build(input(t, c)), nil)
	expect(t, "applied", applied(p), "ServiceAccount legacy-rabbitmq", "Role legacy-rabbitmq", "RoleBinding legacy-rabbitmq",
		"Secret legacy-erlang-cookie", "Secret legacy-admin", "ConfigMap legacy-config", "Service legacy-nodes", "Service legacy",
		"PodDisruptionBudget legacy", "StatefulSet legacy")
	for _, intent := range p.Apply {
		if _, has := intent["status"]; has {
			t.Errorf("%s has a status", intent["kind"])
		}
	}
	expect(t, "deleted", deleted(p))
}

// E6: a steady state writes nothing.
func TestEqualObjectsAreLeftAlone(t *testing.T) {
	for _, name := range examples {
		t.Run("E6: "+name, func(t *testing.T) {
			c := read(t, name)
			p := plan(t, c, Build(input(t, c)), stored(t, Build(input(t, c))))
			expect(t, "applied", applied(p))
			expect(t, "deleted", deleted(p))
			expect(t, "taken", p.Taken)
		})
	}
}

// E6: the same quantity in another notation is equal.
func TestNotationIsNoDifference(t *testing.T) {
	edit := func(cpu, memory string) func(*v1alpha1.WorkloadCluster) {
		return func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Limits = v1alpha1.ResourceLimits{CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory)}
		}
	}
	c := read(t, "minimal")
	p := plan(t, c, build(t, "minimal", edit("4000m", "4096Mi")), stored(t, build(t, "minimal", edit("4", "4Gi"))))
	expect(t, "applied", applied(p))
}

// E6: what others add is theirs.
func TestAdditionsOfOthersAreLeftAlone(t *testing.T) {
	c := read(t, "production")
	wanted := Build(input(t, c))
	live := stored(t, wanted)
	for _, o := range live {
		annotations := o.GetAnnotations()
		annotations["example.org/added"] = "by somebody"
		o.SetAnnotations(annotations)
		labels := o.GetLabels()
		labels["argocd.argoproj.io/instance"] = "apps"
		o.SetLabels(labels)
		o.SetFinalizers([]string{"example.org/keep"})
	}
	s := live[Key{"StatefulSet", "runtime"}].(*appsv1.StatefulSet)
	pod := &s.Spec.Template.Spec
	pod.Containers = append([]corev1.Container{{Name: "sidecar", Image: "mesh"}}, pod.Containers...)
	pod.Containers[1].Env = append([]corev1.EnvVar{{Name: "ADDED", Value: "1"}}, pod.Containers[1].Env...)
	pod.Containers[1].VolumeMounts = append(pod.Containers[1].VolumeMounts, corev1.VolumeMount{Name: "home", MountPath: "/second"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "mesh"})
	s.Spec.Template.Annotations["mesh/injected"] = "true"
	live[Key{"Secret", "runtime-admin"}].(*corev1.Secret).Data["extra"] = []byte("x")
	live[Key{"ServiceAccount", "runtime-rabbitmq"}].(*corev1.ServiceAccount).ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	expect(t, "applied", applied(plan(t, c, wanted, live)))
}

// E6: a field that differs from what is wanted is put back.
func TestDriftIsPutBack(t *testing.T) {
	statefulSet, client, nodes := Key{"StatefulSet", "runtime"}, Key{"Service", "runtime"}, Key{"Service", "runtime-nodes"}
	pod := func(o Object) *corev1.PodSpec { return &o.(*appsv1.StatefulSet).Spec.Template.Spec }
	for _, c := range []struct {
		name  string
		key   Key
		drift func(Object)
	}{
		{"B5: replicas scaled by hand", statefulSet, func(o Object) { n := int32(1); o.(*appsv1.StatefulSet).Spec.Replicas = &n }},
		{"an image", statefulSet, func(o Object) { pod(o).Containers[0].Image = "other" }},
		{"A1: a CPU limit taken off", statefulSet, func(o Object) { delete(pod(o).Containers[0].Resources.Limits, corev1.ResourceCPU) }},
		{"A1: Erlang flags", statefulSet, func(o Object) { pod(o).Containers[0].Env[6].Value = "+S 36" }},
		{"an environment variable taken off", statefulSet, func(o Object) { pod(o).Containers[0].Env = pod(o).Containers[0].Env[1:] }},
		{"another kind of volume", statefulSet, func(o Object) {
			pod(o).Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}
		}},
		{"a command", statefulSet, func(o Object) { pod(o).InitContainers[0].Command = append(pod(o).InitContainers[0].Command, "x") }},
		{"A6: tolerations taken off", statefulSet, func(o Object) { pod(o).Tolerations = nil }},
		{"A6: affinity taken off", statefulSet, func(o Object) { pod(o).Affinity = nil }},
		{"a grace period", statefulSet, func(o Object) { n := int64(1); pod(o).TerminationGracePeriodSeconds = &n }},
		{"B9: names before readiness switched off", nodes, func(o Object) { o.(*corev1.Service).Spec.PublishNotReadyAddresses = false }},
		{"B9: a selector", client, func(o Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"a": "b"} }},
		{"a port taken off", client, func(o Object) { o.(*corev1.Service).Spec.Ports = o.(*corev1.Service).Spec.Ports[1:] }},
		{"a port's number", client, func(o Object) { o.(*corev1.Service).Spec.Ports[0].Port = 1 }},
		{"a label taken off", client, func(o Object) { o.SetLabels(nil) }},
		{"the hash taken off", client, func(o Object) { o.SetAnnotations(nil) }},
		{"configuration", Key{"ConfigMap", "runtime-config"}, func(o Object) { o.(*corev1.ConfigMap).Data[keyConfig] = "" }},
		{"configuration taken off", Key{"ConfigMap", "runtime-config"}, func(o Object) { o.(*corev1.ConfigMap).Data = nil }},
		{"B8: a disruption budget", Key{"PodDisruptionBudget", "runtime"}, func(o Object) {
			o.(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable = nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := read(t, "production")
			wanted := Build(input(t, cluster))
			live := stored(t, wanted)
			c.drift(live[c.key])
			expect(t, "applied", applied(plan(t, cluster, wanted, live)), c.key.Kind+" "+c.key.Name)
		})
	}
}

// E6: a field that is wanted no more is not in the intent, so only the hash tells that it has to go.
func TestAnIntentThatShrankIsApplied(t *testing.T) {
	live := stored(t, build(t, "production"))
	c := read(t, "production", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Scheduling.DedicatedNodes, c.Spec.Scheduling.PriorityClassName = nil, ""
	})
	p := plan(t, c, Build(input(t, c)), live)
	expect(t, "applied", applied(p), "StatefulSet runtime")
	text := asJSON(t, p.Apply[0])
	if strings.Contains(text, "tolerations") || strings.Contains(text, "priorityClassName") {
		t.Error("the intent still has what is wanted no more")
	}
}

// D5: Secrets that were kept with their volumes are taken over by a new cluster of the same name.
func TestKeptSecretsAreAdopted(t *testing.T) {
	old := read(t, "minimal")
	kept := map[Key]Object{}
	for key, o := range stored(t, Build(input(t, old))) {
		if key.Kind == "Secret" {
			kept[key] = o
		}
	}
	c := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.UID = "another" })
	p := plan(t, c, Build(input(t, c)), kept)
	expect(t, "taken", p.Taken)
	for _, name := range applied(p) {
		if strings.HasPrefix(name, "Secret ") {
			t.Errorf("%s is written although it is equal", name)
		}
	}
	// With deletionPolicy Delete they get an owner.
	c.Spec.Storage.DeletionPolicy = v1alpha1.DeleteOnDelete
	got := applied(plan(t, c, Build(input(t, c)), kept))
	if !slices.Contains(got, "Secret runtime-admin") || !slices.Contains(got, "Secret runtime-erlang-cookie") {
		t.Errorf("applied %q", got)
	}
}

// What is left of a deleted cluster of the same name goes by itself: nobody is told to rename anything.
func TestWhatAnEarlierClusterLeftIsWaitedFor(t *testing.T) {
	earlier := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.UID = "earlier" })
	c := read(t, "minimal")
	left := stored(t, Build(input(t, earlier)))
	delete(left, Key{"ConfigMap", ConfigMapName(c.Name)})
	p := plan(t, c, Build(input(t, c)), left)
	expect(t, "taken", p.Taken)
	if len(p.Leaving) == 0 || !slices.Contains(p.Leaving, "StatefulSet runtime") || len(p.Apply)+len(p.Delete) > 0 {
		t.Errorf("leaving %q, applied %q", p.Leaving, applied(p))
	}
}

// The annotation of a Secret tells nothing about a password, which may be one that a person chose.
func TestTheHashOfASecretIsNotOfItsValues(t *testing.T) {
	in := input(t, read(t, "minimal"))
	hashes := map[string]bool{}
	for _, password := range []string{"rabbit", "sesame"} {
		in.Secrets.AdminPassword = password
		intent, err := intentOf(adminSecret(in))
		if err != nil {
			t.Fatal(err)
		}
		hashes[intent["metadata"].(map[string]any)["annotations"].(map[string]any)[v1alpha1.AnnotationApplied].(string)] = true
	}
	if len(hashes) != 1 {
		t.Error("the hash tells passwords apart")
	}
	live := stored(t, Build(in))
	in.Secrets.AdminPassword = "another"
	if got := applied(plan(t, in.Cluster, Build(in), live)); !slices.Contains(got, "Secret runtime-admin") {
		t.Errorf("another password is not applied: %q", got)
	}
}

// E4 in Kubernetes: an object of somebody else's is not touched, and then nothing is.
func TestAnObjectOfSomebodyElsesStopsEverything(t *testing.T) {
	c := read(t, "minimal")
	ours := Build(input(t, c))
	for _, test := range []struct {
		name   string
		change func(Object)
		says   string
	}{
		{"made by nobody we know", func(o Object) { o.SetOwnerReferences(nil); o.SetLabels(nil) }, "exists and was not made by Warren"},
		{"only the cluster's label", func(o Object) {
			o.SetOwnerReferences(nil)
			o.SetLabels(map[string]string{v1alpha1.LabelCluster: "runtime"})
		}, "exists and was not made by Warren"},
		{"of another cluster", func(o Object) {
			o.SetOwnerReferences(nil)
			o.SetLabels(map[string]string{v1alpha1.LabelCluster: "other", LabelManagedBy: ManagedBy})
		}, "exists and was not made by Warren"},
		{"controlled by a chart's object", func(o Object) {
			yes := true
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Release", Name: "mine", UID: "x", Controller: &yes}})
		}, "belongs to Release mine (UID x)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := stored(t, ours[:3])
			key := Key{"Service", "runtime"}
			live[key] = stored(t, ours)[key]
			test.change(live[key])
			live[Key{"Role", "old"}] = controlled(c, &rbacv1.Role{}, "Role", "old")
			p := plan(t, c, ours, live)
			if len(p.Taken) != 1 || !strings.Contains(p.Taken[0], "Service runtime "+test.says) {
				t.Errorf("taken %q, want %q", p.Taken, test.says)
			}
			expect(t, "applied", applied(p))
			expect(t, "deleted", deleted(p))
		})
	}
}

// Two clusters whose names make one name of a Service cannot both have it.
func TestClustersWhoseNamesCollide(t *testing.T) {
	first := read(t, "minimal")
	second := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Name, c.UID = "runtime-nodes", "second" })
	p := plan(t, second, Build(input(t, second)), stored(t, Build(input(t, first))))
	if len(p.Taken) != 1 || !strings.HasPrefix(p.Taken[0], "Service runtime-nodes belongs to WorkloadCluster runtime") {
		t.Errorf("taken %q", p.Taken)
	}
}

func controlled[T Object](c *v1alpha1.WorkloadCluster, o T, kind, name string) T {
	o.SetName(name)
	o.SetOwnerReferences([]metav1.OwnerReference{ownerReference(c)})
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

func TestWhatIsWantedNoMoreIsDeleted(t *testing.T) {
	t.Run("a Role after an upgrade", func(t *testing.T) {
		live := stored(t, build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "4.0" }))
		c := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "4.1" })
		expect(t, "deleted", deleted(plan(t, c, Build(input(t, c)), live)), "Role runtime-rabbitmq", "RoleBinding runtime-rabbitmq")
	})
	t.Run("B8: the budget of a cluster that has one node now", func(t *testing.T) {
		live := stored(t, build(t, "minimal"))
		c := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 1 })
		expect(t, "deleted", deleted(plan(t, c, Build(input(t, c)), live)), "PodDisruptionBudget runtime")
	})
	t.Run("nothing that this cluster does not control", func(t *testing.T) {
		c := read(t, "minimal")
		other := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.UID = "another" })
		live := stored(t, Build(input(t, c)))
		live[Key{"Secret", "by-hand"}] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Labels: labels(c)}}
		live[Key{"PersistentVolumeClaim", "data-runtime-0"}] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-runtime-0", Labels: labels(c)}}
		live[Key{"Role", "of-another"}] = controlled(other, &rbacv1.Role{}, "Role", "of-another")
		expect(t, "deleted", deleted(plan(t, c, Build(input(t, c)), live)))
	})
	t.Run("in one order, also when names are equal", func(t *testing.T) {
		c := read(t, "minimal")
		live := map[Key]Object{}
		for _, name := range []string{"b", "a"} {
			live[Key{"RoleBinding", name}] = controlled(c, &rbacv1.RoleBinding{}, "RoleBinding", name)
			live[Key{"Role", name}] = controlled(c, &rbacv1.Role{}, "Role", name)
			live[Key{"Service", name}] = controlled(c, &corev1.Service{}, "Service", name)
		}
		for range 20 {
			expect(t, "deleted", deleted(plan(t, c, nil, live)),
				"Role a", "RoleBinding a", "Service a", "Role b", "RoleBinding b", "Service b")
		}
	})
}
