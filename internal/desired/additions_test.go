package desired

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A node needs to match one term only, so a pool that is demanded stands in each.
func TestOwnAffinityDoesNotOpenTheDedicatedPool(t *testing.T) {
	affinity := set(t, build(t, "additions")).Spec.Template.Spec.Affinity
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 2 {
		t.Fatalf("%d terms, want the 2 of the spec", len(terms))
	}
	for i, term := range terms {
		if !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == "rabbitmq.warren.dev/pool" }) {
			t.Errorf("term %d does not name the pool", i)
		}
	}
	if n := len(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution); n != 2 {
		t.Errorf("%d preferences, want Warren's own and the spec's", n)
	}
}

func TestAddedContainersAreRestricted(t *testing.T) {
	pod := set(t, build(t, "additions")).Spec.Template.Spec
	if len(pod.Containers) != 2 || len(pod.InitContainers) != 2 {
		t.Fatalf("%d containers and %d init containers", len(pod.Containers), len(pod.InitContainers))
	}
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s is not restricted: %+v", c.Name, s)
		}
	}
}

// Whatever gets past the schema, Warren's own labels and annotations win.
func TestAddedMetadataDoesNotReplaceWarrens(t *testing.T) {
	objects := build(t, "additions", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Pod.Labels = map[string]string{v1alpha1.LabelCluster: "other", "team": "payments"}
		c.Spec.Pod.Annotations = map[string]string{annotationConfig: "same"}
		c.Spec.Service.Labels = map[string]string{v1alpha1.LabelCluster: "other"}
	})
	template := set(t, objects).Spec.Template
	if template.Labels[v1alpha1.LabelCluster] != "edge" || template.Labels["team"] != "payments" || template.Annotations[annotationConfig] == "same" {
		t.Errorf("pods have labels %v and annotations %v", template.Labels, template.Annotations)
	}
	service := find[*corev1.Service](t, objects, "edge")
	if service.Labels[v1alpha1.LabelCluster] != "edge" || service.Spec.Selector["team"] != "" {
		t.Errorf("the Service has labels %v and selector %v", service.Labels, service.Spec.Selector)
	}
}

func TestAdditionsThatCollideAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1alpha1.PodAdditions)
		says string
	}{
		"none":                    {func(*v1alpha1.PodAdditions) {}, ""},
		"volume of Warren's":      {func(p *v1alpha1.PodAdditions) { p.Volumes[0].Name = volumeData }, "pod.volumes: data"},
		"over a file of Warren's": {func(p *v1alpha1.PodAdditions) { p.VolumeMounts[0].MountPath = "/etc/rabbitmq/conf.d/" }, "would hide /etc/rabbitmq/conf.d"},
		"over a parent folder":    {func(p *v1alpha1.PodAdditions) { p.VolumeMounts[0].MountPath = "/etc" }, "would hide /etc/"},
		"below a folder":          {func(p *v1alpha1.PodAdditions) { p.VolumeMounts[0].MountPath = "/etc/rabbitmq/ldap" }, ""},
		"one name twice":          {func(p *v1alpha1.PodAdditions) { p.Containers[0].Name = "prepare" }, "the name prepare is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := Resolve(read(t, "additions", func(w *v1alpha1.WorkloadCluster) { c.edit(&w.Spec.Pod) }), template)
			got := strings.Join(faults, "; ")
			if (c.says == "") != (got == "") || !strings.Contains(got, c.says) {
				t.Errorf("faults %q, want %q", got, c.says)
			}
		})
	}
}
