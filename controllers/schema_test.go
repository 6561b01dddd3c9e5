//go:build api

package controllers_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// refusal is one write that the schema must refuse, and a word of the sentence that says why.
type refusal[T client.Object] struct {
	name string
	edit func(T)
	says string // "" means that it is accepted
}

func check(t *testing.T, says string, err error) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("refused: %v", err)
	case says != "" && err == nil:
		t.Errorf("accepted, want a refusal that says %q", says)
	case says != "" && !strings.Contains(err.Error(), says):
		t.Errorf("refused without saying %q: %v", says, err)
	}
}

func ptr[T any](v T) *T { return &v }

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func TestWorkloadClusterSchema(t *testing.T) {
	namespace := newNamespace(t)
	two := int32(2)
	for _, c := range []refusal[*v1alpha1.WorkloadCluster]{
		{"minimal", func(*v1alpha1.WorkloadCluster) {}, ""},
		{"neither version nor image", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "" }, "set version"},
		{"image only", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version, c.Spec.Image = "", "rabbitmq:4.3.6" }, ""},
		{"a maintenance window", func(c *v1alpha1.WorkloadCluster) { c.Spec.Update.Window = windowOf("0 3 * * SUN", 2*time.Hour) }, ""},
		{"a window of no length", func(c *v1alpha1.WorkloadCluster) { c.Spec.Update.Window = windowOf("0 3 * * SUN", time.Second) }, "at least 1m long"},
		{"a window without its days", func(c *v1alpha1.WorkloadCluster) { c.Spec.Update.Window = windowOf("0 3 * *", time.Hour) }, "spec.update.window.cron"},
		{"version is a word", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "latest" }, "spec.version"},
		{"no workload class", func(c *v1alpha1.WorkloadCluster) { c.Spec.WorkloadClass = "" }, "workloadClass"},
		{"workload class in capitals", func(c *v1alpha1.WorkloadCluster) { c.Spec.WorkloadClass = "Runtime" }, "workloadClass"},
		{"too many replicas", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 10 }, "replicas"},
		{"negative replicas", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = -1 }, "replicas"},
		{"long name", func(c *v1alpha1.WorkloadCluster) { c.Name = strings.Repeat("a", 41) }, "at most 40 characters"},
		{"name with a dot", func(c *v1alpha1.WorkloadCluster) { c.Name = "a.b" }, "DNS label"},
		{"name that begins with a digit", func(c *v1alpha1.WorkloadCluster) { c.Name = "1a" }, "DNS label"},
		{"tiny CPU limit", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.CPU = resource.MustParse("10m") }, "limits.cpu"},
		{"tiny memory limit", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.Memory = resource.MustParse("64Mi") }, "limits.memory"},
		{"request over limit", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{CPU: quantity("8")}
		}, "requests.cpu is more than limits.cpu"},
		{"memory request over limit", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{Memory: quantity("64Gi")}
		}, "requests.memory is more than limits.memory"},
		{"request over a limit that is given up", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{CPU: quantity("8")}
			c.Spec.Resources.Unlimited = []v1alpha1.LimitedResource{v1alpha1.UnlimitedCPU}
		}, ""},
		{"defaults", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Defaults = &v1alpha1.ClusterDefaults{QueueType: v1alpha1.DefaultQuorum, DeadLetter: &v1alpha1.DefaultDeadLetter{Queue: "dead"}}
		}, ""},
		{"default type Stream", func(c *v1alpha1.WorkloadCluster) { c.Spec.Defaults = &v1alpha1.ClusterDefaults{QueueType: "Stream"} }, "queueType"},
		{"dead-letter exchange of the broker's own", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Defaults = &v1alpha1.ClusterDefaults{DeadLetter: &v1alpha1.DefaultDeadLetter{Exchange: "amq.direct"}}
		}, "called amq.*"},
		{"dead-letter queue with a line break", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Defaults = &v1alpha1.ClusterDefaults{DeadLetter: &v1alpha1.DefaultDeadLetter{Queue: "a\nb"}}
		}, "queue"},
		{"negative request", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Requests = &v1alpha1.ResourceRequests{CPU: quantity("-1")}
		}, "requests.cpu is negative"},
		{"unknown unlimited resource", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources.Unlimited = []v1alpha1.LimitedResource{"Disk"}
		}, "unlimited"},
		{"count without Fixed", func(c *v1alpha1.WorkloadCluster) { c.Spec.Erlang.Schedulers.Count = &two }, "count goes with mode Fixed"},
		{"Fixed without count", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Erlang.Schedulers.Mode = v1alpha1.SchedulersFixed
		}, "count goes with mode Fixed"},
		{"Fixed with count", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Erlang.Schedulers = v1alpha1.SchedulersSpec{Mode: v1alpha1.SchedulersFixed, Count: &two}
		}, ""},
		{"unknown bind type", func(c *v1alpha1.WorkloadCluster) { c.Spec.Erlang.BindType = "db" }, "bindType"},
		{"watermark over 0.9", func(c *v1alpha1.WorkloadCluster) { c.Spec.Memory.HighWatermark = 1.5 }, "highWatermark"},
		{"pool without a value", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Scheduling.DedicatedNodes = &v1alpha1.DedicatedNodes{Label: v1alpha1.NodeLabel{Key: "pool"}}
		}, "label.value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := newCluster(namespace, "schema", "4.3", c.edit)
			check(t, c.says, kube.Create(t.Context(), object, client.DryRunAll))
		})
	}
}

func TestWorkloadClusterAdditions(t *testing.T) {
	namespace := newNamespace(t)
	sidecar := v1alpha1.ExtraContainer{Name: "exporter", Image: "exporter:2"}
	empty := &corev1.EmptyDirVolumeSource{}
	for _, c := range []refusal[*v1alpha1.WorkloadCluster]{
		{"labels of the user", func(c *v1alpha1.WorkloadCluster) { c.Spec.Pod.Labels = map[string]string{"team": "payments"} }, ""},
		{"Warren's label on pods", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Labels = map[string]string{v1alpha1.LabelCluster: "other"}
		}, "pod.labels has a key that is Warren's own"},
		{"managed-by on pods", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "helm"}
		}, "pod.labels has a key that is Warren's own"},
		{"Warren's annotation on pods", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Annotations = map[string]string{v1alpha1.AnnotationStopNow: "true"}
		}, "pod.annotations has a key that is Warren's own"},
		{"Warren's label on the Service", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Service.Labels = map[string]string{"app.kubernetes.io/name": "x"}
		}, "service.labels has a key that is Warren's own"},
		{"Warren's annotation on the Service", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Service.Annotations = map[string]string{v1alpha1.AnnotationApplied: "x"}
		}, "service.annotations has a key that is Warren's own"},
		{"external name", func(c *v1alpha1.WorkloadCluster) { c.Spec.Service.Type = corev1.ServiceTypeExternalName }, "service.type"},
		{"node ports", func(c *v1alpha1.WorkloadCluster) { c.Spec.Service.Type = corev1.ServiceTypeNodePort }, ""},
		{"sidecar", func(c *v1alpha1.WorkloadCluster) { c.Spec.Pod.Containers = []v1alpha1.ExtraContainer{sidecar} }, ""},
		{"sidecar named as the broker", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Containers = []v1alpha1.ExtraContainer{{Name: "rabbitmq", Image: "x"}}
		}, "Warren's own containers"},
		{"volume of no kind", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Volumes = []v1alpha1.ExtraVolume{{Name: "x"}}
		}, "a volume is one of"},
		{"volume of two kinds", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Volumes = []v1alpha1.ExtraVolume{{Name: "x", EmptyDir: empty, Secret: &corev1.SecretVolumeSource{SecretName: "x"}}}
		}, "a volume is one of"},
		{"mount of nothing", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.VolumeMounts = []v1alpha1.ExtraMount{{Name: "x", MountPath: "/x"}}
		}, "names a volume that is not in pod.volumes"},
		{"mount of a volume", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Volumes = []v1alpha1.ExtraVolume{{Name: "x", EmptyDir: empty}}
			c.Spec.Pod.VolumeMounts = []v1alpha1.ExtraMount{{Name: "x", MountPath: "/x"}}
		}, ""},
		{"mount without a path", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Pod.Volumes = []v1alpha1.ExtraVolume{{Name: "x", EmptyDir: empty}}
			c.Spec.Pod.VolumeMounts = []v1alpha1.ExtraMount{{Name: "x", MountPath: "x"}}
		}, "mountPath"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.says, kube.Create(t.Context(), newCluster(namespace, "additions", "4.3", c.edit), client.DryRunAll))
		})
	}
}

func TestWorkloadClusterTransitions(t *testing.T) {
	namespace := newNamespace(t)
	made := newCluster(namespace, "transitions", "4.2.5", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Storage.ClassName = "slow"
		c.Spec.Paused = true
	})
	must(t, kube.Create(t.Context(), made))
	for _, c := range []refusal[*v1alpha1.WorkloadCluster]{
		{"same", func(*v1alpha1.WorkloadCluster) {}, ""},
		{"patch of the same line", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "4.2.9" }, ""},
		{"another line", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "4.3" }, "another RabbitMQ version line"},
		{"longer digits of another line", func(c *v1alpha1.WorkloadCluster) { c.Spec.Version = "4.20" }, "another RabbitMQ version line"},
		{"scale out", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 5 }, ""},
		{"scale in", func(c *v1alpha1.WorkloadCluster) { c.Spec.Replicas = 1 }, ""},
		{"another class of work", func(c *v1alpha1.WorkloadCluster) { c.Spec.WorkloadClass = "worker" }, "workloadClass cannot change"},
		{"shrink", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.Size = resource.MustParse("1Gi") }, "storage.size cannot shrink"},
		{"growth", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.Size = resource.MustParse("20Gi") }, ""},
		{"same size in other words", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.Size = resource.MustParse("10240Mi") }, ""},
		{"another storage class", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.ClassName = "fast" }, "storage.className cannot change"},
		{"storage class taken away", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.ClassName = "" }, "storage.className cannot change"},
		{"CPU limit", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.CPU = resource.MustParse("16") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, get(t, namespace, made.Name, made))
			edited := made.DeepCopy()
			c.edit(edited)
			check(t, c.says, kube.Patch(t.Context(), edited, client.MergeFrom(made), client.DryRunAll))
		})
	}
}

func TestQueuePolicySchema(t *testing.T) {
	namespace := newNamespace(t)
	cluster := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runtime"}}
	three := int32(3)
	for _, c := range []refusal[*v1alpha1.QueuePolicy]{
		{"limits only", func(*v1alpha1.QueuePolicy) {}, ""},
		{"no definition with mode None", func(p *v1alpha1.QueuePolicy) { p.Spec.Definition = nil }, "needs something to set"},
		{"definition is a list", func(p *v1alpha1.QueuePolicy) { p.Spec.Definition.Raw = []byte(`[]`) }, "definition"},
		{"mirrored without a date", func(p *v1alpha1.QueuePolicy) { haTwo(p); p.Spec.QuorumDecision = nil }, "quorumDecision"},
		{"mirrored with a date", haTwo, ""},
		{"date in words", func(p *v1alpha1.QueuePolicy) { haTwo(p); p.Spec.QuorumDecision.By = "next year" }, "quorumDecision.by"},
		{"size with HATwo", func(p *v1alpha1.QueuePolicy) { haTwo(p); p.Spec.Replication.Size = &three }, "size goes with mode Quorum"},
		{"size with Quorum", func(p *v1alpha1.QueuePolicy) { quorum(p); p.Spec.Replication.Size = &three }, ""},
		{"sync with Quorum", func(p *v1alpha1.QueuePolicy) { quorum(p); p.Spec.Replication.Sync = v1alpha1.SyncManual }, "sync goes with"},
		{"unknown mode", func(p *v1alpha1.QueuePolicy) { p.Spec.Replication.Mode = "HAAll" }, "replication.mode"},
		{"singular applyTo", func(p *v1alpha1.QueuePolicy) { p.Spec.ApplyTo = "Queue" }, "applyTo"},
		{"empty pattern", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "" }, "pattern"},
		{"pattern longer than the broker takes", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = strings.Repeat("a", 1025) }, "pattern"},
		{"no cluster", func(p *v1alpha1.QueuePolicy) { p.Spec.ClusterRef.Name = "" }, "clusterRef.name"},
		{"nothing to be for", func(p *v1alpha1.QueuePolicy) { p.Spec.ClusterRef = nil }, "name one of clusterRef"},
		{"two things to be for", func(p *v1alpha1.QueuePolicy) {
			p.Spec.ConnectionSecretRef = &v1alpha1.LocalSecretReference{Name: "outside"}
		}, "name one of clusterRef"},
		{"a selector", selecting(v1alpha1.ClusterSelector{WorkloadClass: "runtime"}), ""},
		{"a selector of all", selecting(v1alpha1.ClusterSelector{}), "name a workloadClass"},
		{"a selector of nothing but namespaces", selecting(v1alpha1.ClusterSelector{Namespaces: []string{"a"}}), "name a workloadClass"},
		{"hard limits alone", func(p *v1alpha1.QueuePolicy) {
			p.Spec.Definition, p.Spec.HardLimits = nil, &v1alpha1.HardLimits{MaxLength: ptr(int64(5))}
		}, ""},
		{"limits of no dead-letter queue", func(p *v1alpha1.QueuePolicy) {
			p.Spec.DeadLetter = &v1alpha1.DeadLetterSpec{Exchange: "dlx", QueueType: v1alpha1.DeadLetterQuorum}
		}, "name it in queue"},
		{"a dead-letter queue", func(p *v1alpha1.QueuePolicy) {
			p.Spec.DeadLetter = &v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", QueueType: v1alpha1.DeadLetterQuorum}
		}, ""},
		{"stages above the highest priority", func(p *v1alpha1.QueuePolicy) {
			p.Spec.Priority, p.Spec.Rollout = 2147483647, &v1alpha1.RolloutSpec{}
		}, "priority below 2147483647"},
		{"a batch of none", func(p *v1alpha1.QueuePolicy) { p.Spec.Rollout = &v1alpha1.RolloutSpec{BatchSize: -1} }, "batchSize"},
		{"an unknown overflow", func(p *v1alpha1.QueuePolicy) { p.Spec.Limits = &v1alpha1.QueueLimits{Overflow: "Drop"} }, "limits.overflow"},
		{"a third queue version", func(p *v1alpha1.QueuePolicy) { p.Spec.QueueVersion = ptr(int32(3)) }, "queueVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.says, kube.Create(t.Context(), newPolicy(cluster, "schema", c.edit), client.DryRunAll))
		})
	}
	made := newPolicy(cluster, "made")
	must(t, kube.Create(t.Context(), made))
	for _, c := range []refusal[*v1alpha1.QueuePolicy]{
		{"another pattern", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "^other" }, ""},
		{"another vhost", func(p *v1alpha1.QueuePolicy) { p.Spec.VHost = "other" }, "cannot change"},
		{"another cluster", func(p *v1alpha1.QueuePolicy) { p.Spec.ClusterRef.Name = "other" }, ""},
		{"a policy name", func(p *v1alpha1.QueuePolicy) { p.Spec.PolicyName = "other" }, "cannot change"},
	} {
		t.Run("transition: "+c.name, func(t *testing.T) {
			must(t, get(t, namespace, made.Name, made))
			edited := made.DeepCopy()
			c.edit(edited)
			check(t, c.says, kube.Patch(t.Context(), edited, client.MergeFrom(made), client.DryRunAll))
		})
	}
}

// Defaults are visible in the stored object.
func TestDefaultsAreStored(t *testing.T) {
	c := newCluster(newNamespace(t), "defaults", "4.3")
	must(t, kube.Create(t.Context(), c, client.DryRunAll))
	s := c.Spec
	for name, holds := range map[string]bool{
		"replicas":       s.Replicas == 3,
		"limits":         s.Resources.Limits.CPU.String() == "2" && s.Resources.Limits.Memory.String() == "4Gi",
		"storage":        s.Storage.Size.String() == "10Gi" && s.Storage.DeletionPolicy == v1alpha1.RetainOnDelete,
		"schedulers":     s.Erlang.Schedulers.Mode == v1alpha1.SchedulersFromCPULimit && s.Erlang.BindType == v1alpha1.BindUnbound,
		"high watermark": s.Memory.HighWatermark == 0.6,
		"placement":      s.Scheduling.HostAntiAffinity == v1alpha1.PlacementPreferred && len(s.Scheduling.SpreadAcross) == 1,
	} {
		if !holds {
			t.Errorf("default of %s is not stored: %+v", name, s)
		}
	}
}

func windowOf(cron string, long time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Cron: cron, Duration: metav1.Duration{Duration: long}}
}
