package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/golden"
	"github.com/warren-mq/warren/internal/tuning"
)

const (
	crd      = "../../config/crd/rabbitmq.warren.dev_workloadclusters.yaml"
	template = "rabbitmq:{version}-management"
)

var secrets = Secrets{ErlangCookie: "COOKIE-SECRET", AdminPassword: "ADMIN-SECRET"}

// read is a manifest of testdata as the API server stores it, changed by edits.
func read(t testing.TB, name string, edits ...func(*v1alpha1.WorkloadCluster)) *v1alpha1.WorkloadCluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".in.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.WorkloadCluster{}
	golden.Stored(t, text, crd, c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// input is all that Build needs for c.
func input(t testing.TB, c *v1alpha1.WorkloadCluster) Input {
	t.Helper()
	resolved, faults := Resolve(c, template)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return Input{Cluster: c, Image: resolved.Image, Capabilities: resolved.Capabilities, Tuning: tuning.Decide(c.Spec), Secrets: secrets}
}

func build(t testing.TB, name string, edits ...func(*v1alpha1.WorkloadCluster)) []Object {
	t.Helper()
	return Build(input(t, read(t, name, edits...)))
}

// find is the one object of a type with a name.
func find[T Object](t testing.TB, objects []Object, name string) T {
	t.Helper()
	for _, o := range objects {
		if typed, ok := o.(T); ok && o.GetName() == name {
			return typed
		}
	}
	var none T
	t.Fatalf("no %T %s", none, name)
	return none
}

func set(t testing.TB, objects []Object) *appsv1.StatefulSet {
	t.Helper()
	for _, o := range objects {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			return s
		}
	}
	t.Fatal("no StatefulSet")
	return nil
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var examples = []string{"minimal", "legacy", "production", "single", "delete-volumes", "unlimited", "additions"}

// TestObjects holds every object of every example: what changes here changes running clusters.
func TestObjects(t *testing.T) {
	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			for _, o := range build(t, name) {
				data, err := plain(o)
				if err != nil {
					t.Fatal(err)
				}
				text, err := yaml.Marshal(data)
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString("---\n")
				out.Write(text)
			}
			golden.Equal(t, filepath.Join("testdata", name+".out.yaml"), out.Bytes())
		})
	}
}

func TestEqualInputGivesEqualObjects(t *testing.T) {
	for _, name := range examples {
		if a, b := asJSON(t, build(t, name)), asJSON(t, build(t, name)); a != b {
			t.Errorf("%s differs from itself", name)
		}
	}
}

func TestBuildLeavesItsInputAlone(t *testing.T) {
	in := input(t, read(t, "production"))
	before := asJSON(t, in)
	Build(in)
	if after := asJSON(t, in); after != before {
		t.Errorf("the input became %s", after)
	}
}

// B9: nodes must find each other before they are ready.
func TestNodesHaveNamesBeforeTheyAreReady(t *testing.T) {
	for _, name := range examples {
		t.Run("B9: "+name, func(t *testing.T) {
			objects := build(t, name)
			s := set(t, objects)
			nodes := find[*corev1.Service](t, objects, s.Spec.ServiceName)
			if !nodes.Spec.PublishNotReadyAddresses || nodes.Spec.ClusterIP != corev1.ClusterIPNone {
				t.Errorf("the nodes' Service: publishNotReadyAddresses %v, clusterIP %q", nodes.Spec.PublishNotReadyAddresses, nodes.Spec.ClusterIP)
			}
			clients := find[*corev1.Service](t, objects, ClientServiceName(s.Name))
			if clients.Spec.PublishNotReadyAddresses || clients.Spec.ClusterIP == corev1.ClusterIPNone {
				t.Errorf("the clients' Service: publishNotReadyAddresses %v, clusterIP %q", clients.Spec.PublishNotReadyAddresses, clients.Spec.ClusterIP)
			}
		})
	}
}

// B9: selectors pick the pods of one cluster, and no label of the user's enters them.
func TestSelectorsPickThePodsOfOneCluster(t *testing.T) {
	for _, name := range examples {
		t.Run("B9: "+name, func(t *testing.T) {
			objects := build(t, name)
			s := set(t, objects)
			want := map[string]string{"rabbitmq.warren.dev/cluster": s.Name, "app.kubernetes.io/component": "rabbitmq"}
			pods := s.Spec.Template.Labels
			for key, value := range want {
				if pods[key] != value {
					t.Errorf("pods have %s=%q, want %q", key, pods[key], value)
				}
			}
			if got := pods["app.kubernetes.io/name"]; got != "rabbitmq" {
				t.Errorf("the user's label became the pods': %q", got)
			}
			selectors := []map[string]string{s.Spec.Selector.MatchLabels}
			for _, o := range objects {
				switch o := o.(type) {
				case *corev1.Service:
					selectors = append(selectors, o.Spec.Selector)
				case *policyv1.PodDisruptionBudget:
					selectors = append(selectors, o.Spec.Selector.MatchLabels)
				}
			}
			for _, got := range selectors {
				if !reflect.DeepEqual(got, want) {
					t.Errorf("selector %v, want %v", got, want)
				}
			}
		})
	}
}

// B9: the resolver's search list knows the cluster domain, nobody else does.
func TestNoClusterDomainIsHardCoded(t *testing.T) {
	for _, name := range examples {
		if text := asJSON(t, build(t, name)); strings.Contains(text, "cluster.local") {
			t.Errorf("%s has cluster.local in it", name)
		}
	}
}

func environmentOf(s *appsv1.StatefulSet) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, c := range slices.Concat(s.Spec.Template.Spec.InitContainers, s.Spec.Template.Spec.Containers) {
		out = append(out, c.Env...)
	}
	return out
}

// A3, B11: newer images refuse to start with the variables that older ones needed.
func TestNoDeprecatedVariables(t *testing.T) {
	for _, name := range examples {
		for _, env := range environmentOf(set(t, build(t, name))) {
			for _, bad := range []string{"RABBITMQ_VM_MEMORY", "RABBITMQ_ERLANG_COOKIE", "RABBITMQ_DEFAULT_", "RABBITMQ_SERVER_ERL_ARGS"} {
				if strings.HasPrefix(env.Name, bad) {
					t.Errorf("%s has %s", name, env.Name)
				}
			}
		}
	}
}

// A1: the flag is in one place, once.
func TestSchedulersAreGivenOnce(t *testing.T) {
	for name, want := range map[string]string{
		"minimal": "+S 2:2 +stbt u", "legacy": "+S 4:4 +stbt u", "single": "+S 1:1 +stbt u",
		"production": "+S 12:12 +stbt tnnps", "unlimited": "+stbt u",
	} {
		t.Run("A1: "+name, func(t *testing.T) {
			objects := build(t, name)
			i := slices.IndexFunc(environmentOf(set(t, objects)), func(e corev1.EnvVar) bool { return e.Name == "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS" })
			if got := environmentOf(set(t, objects))[i].Value; got != want {
				t.Errorf("flags %q, want %q", got, want)
			}
			if got, want := strings.Count(asJSON(t, objects), "+S "), strings.Count(want, "+S "); got != want {
				t.Errorf("+S occurs %d times, want %d", got, want)
			}
		})
	}
}

// A1: the limit and the schedulers change together, so one rollout brings both.
func TestALimitAndItsSchedulersAreOneRevision(t *testing.T) {
	s := set(t, build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.CPU = resource.MustParse("8") }))
	container := s.Spec.Template.Spec.Containers[0]
	if got := container.Resources.Limits.Cpu().String(); got != "8" {
		t.Errorf("limit %s", got)
	}
	if text := asJSON(t, s.Spec.Template); !strings.Contains(text, "+S 8:8") {
		t.Error("the same template does not have +S 8:8")
	}
}

// A3: a rollout happens for the configuration that nodes read at their start, and for nothing else.
func TestTheConfigHashFollowsWhatNodesReadAtTheirStart(t *testing.T) {
	hash := func(edits ...func(*v1alpha1.WorkloadCluster)) string {
		return set(t, build(t, "minimal", edits...)).Spec.Template.Annotations[annotationConfig]
	}
	before := hash()
	if got := hash(func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.Memory = resource.MustParse("6Gi") }); got == before {
		t.Error("another memory alarm does not roll the nodes")
	}
	if got := hash(func(c *v1alpha1.WorkloadCluster) { q := resource.MustParse("2Gi"); c.Spec.Disk.FreeLimit = &q }); got == before {
		t.Error("another disk alarm does not roll the nodes")
	}
	if got := hash(func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 5 }); got != before {
		t.Error("more nodes roll those that run")
	}
}

func TestMoreNodesDoNotChangeThePodTemplate(t *testing.T) {
	for _, name := range examples {
		few, many := build(t, name), build(t, name, func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 7 })
		if a, b := asJSON(t, set(t, few).Spec.Template), asJSON(t, set(t, many).Spec.Template); a != b {
			t.Errorf("%s: %s\nbecame %s", name, a, b)
		}
		config := find[*corev1.ConfigMap](t, many, ConfigMapName(set(t, many).Name))
		if got := config.Data[keySizeHint]; got != "cluster_formation.target_cluster_size_hint = 7\n" {
			t.Errorf("%s: size hint %q", name, got)
		}
	}
}

// The one that is left of two nodes is a minority: it must not pause while the other restarts.
func TestTwoNodesDoNotPauseForOneAnother(t *testing.T) {
	for nodes, want := range map[int32]string{1: "pause_minority", 2: "autoheal", 3: "pause_minority", 4: "pause_minority"} {
		objects := build(t, "legacy", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = nodes })
		config := find[*corev1.ConfigMap](t, objects, "legacy-config").Data[keyConfig]
		if !strings.Contains(config, "cluster_partition_handling = "+want+"\n") {
			t.Errorf("%d nodes, want %s:\n%s", nodes, want, config)
		}
	}
}

// One node of two can never spare the other, so waiting until it can would cost the whole grace period at each restart.
func TestTwoNodesDoNotWaitForAMajorityToSpare(t *testing.T) {
	for nodes, want := range map[int32]string{1: "+ 480 ", 2: "+ 30 ", 3: "+ 480 "} {
		objects := build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = nodes })
		script := set(t, objects).Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Exec.Command[2]
		if !strings.Contains(script, want) {
			t.Errorf("%d nodes, want %q in\n%s", nodes, want, script)
		}
	}
}

// The templates of claims cannot change after the StatefulSet was made: neither what they hold, nor a later Warren's mind.
func TestClaimLabelsNeverChange(t *testing.T) {
	claim := set(t, build(t, "minimal")).Spec.VolumeClaimTemplates[0]
	want := map[string]string{
		"rabbitmq.warren.dev/cluster": "runtime", "app.kubernetes.io/component": "rabbitmq", "app.kubernetes.io/managed-by": "warren",
	}
	if !maps.Equal(claim.Labels, want) {
		t.Errorf("labels are %v, want %v", claim.Labels, want)
	}
}

// B11: the cookie is a file of its own, for its owner only.
func TestTheCookieIsAFile(t *testing.T) {
	pod := set(t, build(t, "minimal")).Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "runtime-erlang-cookie" })
	if i < 0 {
		t.Fatal("no volume of the cookie's Secret")
	}
	if mode := pod.Volumes[i].Secret.DefaultMode; mode == nil || *mode != 0o400 {
		t.Errorf("mode %v, want 0400", mode)
	}
	script := strings.Join(pod.InitContainers[0].Command, " ")
	if !strings.Contains(script, "umask 077") || !strings.Contains(script, "/var/lib/rabbitmq/.erlang.cookie") {
		t.Errorf("the cookie is copied by %q", script)
	}
}

// B11, D4: what the Secrets hold does not enter anything else, so an edited Secret rolls no node.
func TestSecretsStayInSecrets(t *testing.T) {
	in := input(t, read(t, "production"))
	other := in
	other.Secrets = Secrets{ErlangCookie: "another", AdminPassword: "another"}
	first, second := Build(in), Build(other)
	for i, o := range first {
		_, secret := o.(*corev1.Secret)
		text := asJSON(t, o)
		if !secret && (strings.Contains(text, "COOKIE-SECRET") || strings.Contains(text, "ADMIN-SECRET")) {
			t.Errorf("%s %s holds a secret", KeyOf(o).Kind, o.GetName())
		}
		if same := text == asJSON(t, second[i]); same == secret {
			t.Errorf("%s %s: equal with other secrets: %v", KeyOf(o).Kind, o.GetName(), same)
		}
	}
}

func TestTheAdminSecretIsAServiceBinding(t *testing.T) {
	for password, address := range map[string]string{
		"plain":    "amqp://warren:plain@runtime.messaging.svc:5672/",
		"p@s/w#rd": "amqp://warren:p%40s%2Fw%23rd@runtime.messaging.svc:5672/",
	} {
		in := input(t, read(t, "minimal"))
		in.Secrets.AdminPassword = password
		s := find[*corev1.Secret](t, Build(in), "runtime-admin")
		for key, want := range map[string]string{
			"type": "rabbitmq", "provider": "warren", "host": "runtime.messaging.svc", "port": "5672",
			"username": "warren", "password": password, "connection_string": address,
		} {
			if got := string(s.Data[key]); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
}

// Pods pass the restricted Pod Security Standard.
func TestPodsAreRestricted(t *testing.T) {
	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			pod := set(t, build(t, name)).Spec.Template.Spec
			if pod.HostNetwork || pod.HostPID || pod.HostIPC {
				t.Error("the pod shares the host's namespaces")
			}
			s := pod.SecurityContext
			if s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 {
				t.Error("the pod may run as root")
			}
			if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Error("the pod has no seccomp profile")
			}
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					t.Errorf("volume %s is of the host", v.Name)
				}
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				s := c.SecurityContext
				if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
					t.Errorf("%s may gain privileges", c.Name)
				}
				if s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
					t.Errorf("%s has capabilities", c.Name)
				}
				if s.Privileged != nil || s.RunAsUser != nil || s.RunAsNonRoot != nil || s.SeccompProfile != nil {
					t.Errorf("%s overrides the pod's security", c.Name)
				}
				for _, p := range c.Ports {
					if p.HostPort != 0 {
						t.Errorf("%s takes a port of the host", c.Name)
					}
				}
			}
		})
	}
}

// Only versions that discover their peers through the API server get a token and a Role.
func TestAccessToTheAPIServerIsOnlyGivenWhereItIsNeeded(t *testing.T) {
	for version, needed := range map[string]bool{"3.10": true, "3.13": true, "4.0": true, "4.1": false, "4.3": false} {
		objects := build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = version })
		roles := slices.ContainsFunc(objects, func(o Object) bool { return KeyOf(o).Kind == "Role" })
		token := *set(t, objects).Spec.Template.Spec.AutomountServiceAccountToken
		if roles != needed || token != needed {
			t.Errorf("%s: Role %v, token %v, want %v", version, roles, token, needed)
		}
	}
}

// B8: one node at a time; a single node has no budget, which could only forbid every eviction.
func TestDisruptionBudgets(t *testing.T) {
	for replicas, want := range map[int32]bool{1: false, 2: true, 3: true, 5: true} {
		objects := build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = replicas })
		if got := slices.ContainsFunc(objects, func(o Object) bool { return KeyOf(o).Kind == "PodDisruptionBudget" }); got != want {
			t.Errorf("B8: %d nodes: budget %v, want %v", replicas, got, want)
		}
	}
}

// Kept volumes are of no use without the Secrets they were made with; both stay, or both go.
func TestSecretsGoWithTheVolumes(t *testing.T) {
	for policy, kept := range map[v1alpha1.DeletionPolicy]bool{"": true, v1alpha1.RetainOnDelete: true, v1alpha1.DeleteOnDelete: false} {
		t.Run("D5: policy "+string(policy), func(t *testing.T) {
			objects := build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.DeletionPolicy = policy })
			volumes := set(t, objects).Spec.PersistentVolumeClaimRetentionPolicy
			if got := volumes.WhenDeleted == appsv1.RetainPersistentVolumeClaimRetentionPolicyType; got != kept {
				t.Errorf("volumes kept: %v, want %v", got, kept)
			}
			if volumes.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
				t.Errorf("a scaled-in volume is %s", volumes.WhenScaled)
			}
			for _, name := range []string{"runtime-admin", "runtime-erlang-cookie"} {
				s := find[*corev1.Secret](t, objects, name)
				if got := len(s.OwnerReferences) == 0; got != kept {
					t.Errorf("%s kept: %v, want %v", name, got, kept)
				}
			}
		})
	}
}

// Every object but kept Secrets is controlled by its cluster, or nobody would remove it.
func TestEveryOtherObjectBelongsToItsCluster(t *testing.T) {
	for _, name := range examples {
		c := read(t, name)
		for _, o := range Build(input(t, c)) {
			if _, secret := o.(*corev1.Secret); secret {
				continue
			}
			owners := o.GetOwnerReferences()
			if len(owners) != 1 || owners[0].UID != c.UID || owners[0].Controller == nil || !*owners[0].Controller {
				t.Errorf("%s: %s %s has owners %v", name, KeyOf(o).Kind, o.GetName(), owners)
			}
		}
	}
}

// What pods need comes before the pods.
func TestTheStatefulSetComesLast(t *testing.T) {
	for _, name := range examples {
		objects := build(t, name)
		if kind := KeyOf(objects[len(objects)-1]).Kind; kind != "StatefulSet" {
			t.Errorf("%s ends with a %s", name, kind)
		}
	}
}

// knownConfig are the rabbitmq.conf keys that Warren uses, with the first line whose schema has them: a node with an
// unknown key refuses to boot. They were looked up in the schemas of every line from 3.10 to 4.3.
var knownConfig = map[string]string{
	"cluster_name": "3.10",
	"cluster_formation.peer_discovery_backend":   "3.10",
	"cluster_formation.target_cluster_size_hint": "3.10",
	"cluster_formation.k8s.host":                 "3.10",
	"cluster_formation.k8s.address_type":         "3.10",
	"cluster_formation.k8s.service_name":         "3.10",
	"cluster_formation.k8s.hostname_suffix":      "3.10",
	"cluster_partition_handling":                 "3.10",
	"queue_leader_locator":                       "3.10",
	"queue_master_locator":                       "3.10",
	"log.console":                                "3.10",
	"vm_memory_high_watermark.absolute":          "3.10",
	"disk_free_limit.absolute":                   "3.10",
	"default_user":                               "3.10",
	"default_pass":                               "3.10",

	"quorum_queue.continuous_membership_reconciliation.enabled": "3.13",
}

var versionLines = []string{"3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3"}

// B1: a key that a version does not know keeps its nodes from booting (L38).
func TestEveryVersionKnowsItsConfigKeys(t *testing.T) {
	key := regexp.MustCompile(`^([a-z0-9_.]+) = \S`)
	for at, version := range versionLines {
		t.Run("B1: "+version, func(t *testing.T) {
			objects := build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = version })
			config := find[*corev1.ConfigMap](t, objects, "runtime-config")
			admin := find[*corev1.Secret](t, objects, "runtime-admin")
			seen := map[string]bool{}
			for _, line := range strings.Split(strings.TrimSpace(config.Data[keySizeHint]+config.Data[keyConfig]+string(admin.Data[keyDefaultUser])), "\n") {
				match := key.FindStringSubmatch(line)
				if match == nil {
					t.Fatalf("%q is no key and value", line)
				}
				since, known := knownConfig[match[1]]
				if !known || slices.Index(versionLines, since) > at {
					t.Errorf("%s does not know %s", version, match[1])
				}
				if seen[match[1]] {
					t.Errorf("%s is there twice", match[1])
				}
				seen[match[1]] = true
			}
			// 4.3 denies queue_master_locator, and up to 3.13 queue_leader_locator leaves classic queues alone.
			mirrored := at < slices.Index(versionLines, "4.0")
			if seen["queue_master_locator"] != mirrored || seen["queue_leader_locator"] == mirrored {
				t.Errorf("master locator %v, leader locator %v", seen["queue_master_locator"], seen["queue_leader_locator"])
			}
		})
	}
}

// A3: what the configuration says is what status.tuning shows.
func TestTheConfigurationHasTheChosenNumbers(t *testing.T) {
	objects := build(t, "legacy")
	config := find[*corev1.ConfigMap](t, objects, "legacy-config").Data[keyConfig]
	for _, line := range []string{"vm_memory_high_watermark.absolute = 3607772529\n", "disk_free_limit.absolute = 1073741824\n"} {
		if !strings.Contains(config, line) {
			t.Errorf("%q is not in\n%s", line, config)
		}
	}
	free := find[*corev1.ConfigMap](t, build(t, "unlimited"), "free-config").Data[keyConfig]
	if strings.Contains(free, "vm_memory_high_watermark") {
		t.Errorf("a number was invented:\n%s", free)
	}
}

// Mirrors exist up to 3.13; a node that waits for them on a newer version waits for an unknown command.
func TestTheStopScriptWaitsForMirrorsWhereThereAreAny(t *testing.T) {
	for version, mirrors := range map[string]bool{"3.10": true, "3.13": true, "4.0": false, "4.3": false} {
		s := set(t, build(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = version }))
		script := s.Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Exec.Command[2]
		if got := strings.Contains(script, "await_online_synchronized_mirror"); got != mirrors {
			t.Errorf("%s waits for mirrors: %v, want %v", version, got, mirrors)
		}
		if !strings.Contains(script, "await_online_quorum_plus_one") || !strings.Contains(script, "drain") {
			t.Errorf("%s: %s", version, script)
		}
	}
}

// A node that does not run stops at once; one that runs, or is too busy to say so, waits and hands over.
func TestTheStopScriptWaitsUnlessTheNodeIsDown(t *testing.T) {
	const uid = "11111111-2222-3333-4444-555555555555"
	for _, c := range []struct {
		name       string
		sample     string
		status     int
		parameters string
		want       string
	}{
		{"it runs", "minimal", 0, "cluster_name\tx", "await_online_quorum_plus_one drain "},
		{"it is too busy to say so", "minimal", 75, "", "await_online_quorum_plus_one drain "},
		{"no such node, or it is booting", "minimal", 69, "", ""},
		{"its cluster is being deleted", "minimal", 0, "warren-stop-now\t\"" + uid + "\"", ""},
		{"so is one that would pause in a minority", "legacy", 0, "warren-stop-now\t\"" + uid + "\"", "eval "},
		{"one before it was deleted", "minimal", 0, "warren-stop-now\t\"another-uid\"", "await_online_quorum_plus_one drain "},
	} {
		command := set(t, build(t, c.sample)).Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Exec.Command
		folder := t.TempDir()
		for name, script := range map[string]string{
			"rabbitmq-diagnostics": fmt.Sprintf("exit %d", c.status),
			"rabbitmqctl":          fmt.Sprintf(`[ "$2" = eval ] && printf '%%s ' "$2" >> "$CALLS"; echo '%s'`, c.parameters),
			"sleep":                "exit 0",
			"rabbitmq-upgrade":     `printf '%s ' "$2" >> "$CALLS"`,
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		calls := filepath.Join(folder, "calls")
		run := exec.CommandContext(t.Context(), command[0], command[1:]...)
		run.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "CALLS=" + calls}
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
		text, _ := os.ReadFile(calls)
		if got := string(text); got != c.want {
			t.Errorf("%s: called %q, want %q", c.name, got, c.want)
		}
	}
}

// An Input need not be complete to be safe: a nil choice is left to RabbitMQ and Erlang.
func TestNothingIsSetThatWasNotChosen(t *testing.T) {
	in := input(t, read(t, "minimal"))
	in.Tuning = tuning.Settings{BindFlag: "u"}
	objects := Build(in)
	text := asJSON(t, objects)
	for _, absent := range []string{"+S ", "vm_memory_high_watermark", "disk_free_limit"} {
		if strings.Contains(text, absent) {
			t.Errorf("%q is there", absent)
		}
	}
	if r := set(t, objects).Spec.Template.Spec.Containers[0].Resources; len(r.Limits)+len(r.Requests) > 0 {
		t.Errorf("resources %v", r)
	}
}
