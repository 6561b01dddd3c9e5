package desired

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// preferenceWeight is the most that a preference can weigh.
const preferenceWeight = 100

// affinity is the spec's own, and what Warren adds: where both demand something, both hold.
func affinity(c *v1alpha1.WorkloadCluster) *corev1.Affinity {
	out := &corev1.Affinity{}
	if own := c.Spec.Scheduling.Affinity; own != nil {
		out = own.DeepCopy()
	}
	out.NodeAffinity = nodeAffinity(out.NodeAffinity, c.Spec.Scheduling.DedicatedNodes)
	apart := hostAntiAffinity(c)
	if own := out.PodAntiAffinity; own != nil {
		apart.RequiredDuringSchedulingIgnoredDuringExecution = append(apart.RequiredDuringSchedulingIgnoredDuringExecution, own.RequiredDuringSchedulingIgnoredDuringExecution...)
		apart.PreferredDuringSchedulingIgnoredDuringExecution = append(apart.PreferredDuringSchedulingIgnoredDuringExecution, own.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	out.PodAntiAffinity = apart
	return out
}

func nodeAffinity(out *corev1.NodeAffinity, pool *v1alpha1.DedicatedNodes) *corev1.NodeAffinity {
	if pool == nil {
		return out
	}
	if out == nil {
		out = &corev1.NodeAffinity{}
	}
	inPool := corev1.NodeSelectorRequirement{
		Key: pool.Label.Key, Operator: corev1.NodeSelectorOpIn, Values: []string{pool.Label.Value},
	}
	if pool.Mode != v1alpha1.PlacementRequired {
		out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: preferenceWeight, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{inPool}},
		})
		return out
	}
	required := out.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms { // one term is enough for a node, so each names the pool
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, inPool)
	}
	out.RequiredDuringSchedulingIgnoredDuringExecution = required
	return out
}

func hostAntiAffinity(c *v1alpha1.WorkloadCluster) *corev1.PodAntiAffinity {
	sameHost := corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: SelectorLabels(c.Name)},
		TopologyKey:   corev1.LabelHostname,
	}
	if c.Spec.Scheduling.HostAntiAffinity == v1alpha1.PlacementRequired {
		return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{sameHost}}
	}
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: preferenceWeight, PodAffinityTerm: sameHost},
	}}
}

func tolerations(s v1alpha1.SchedulingSpec) []corev1.Toleration {
	var out []corev1.Toleration
	if pool := s.DedicatedNodes; pool != nil {
		out = append(out, corev1.Toleration{Key: pool.Label.Key, Operator: corev1.TolerationOpEqual, Value: pool.Label.Value})
	}
	return append(out, s.Tolerations...)
}

func spread(c *v1alpha1.WorkloadCluster) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	for _, key := range c.Spec.Scheduling.SpreadAcross {
		out = append(out, corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: SelectorLabels(c.Name)},
		})
	}
	return out
}
