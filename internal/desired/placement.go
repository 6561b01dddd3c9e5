package desired

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// preferenceWeight is the most that a preference can weigh.
const preferenceWeight = 100

func affinity(c *v1alpha1.WorkloadCluster) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity:    nodeAffinity(c.Spec.Scheduling.DedicatedNodes),
		PodAntiAffinity: hostAntiAffinity(c),
	}
}

func nodeAffinity(pool *v1alpha1.DedicatedNodes) *corev1.NodeAffinity {
	if pool == nil {
		return nil
	}
	inPool := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: pool.Label.Key, Operator: corev1.NodeSelectorOpIn, Values: []string{pool.Label.Value},
	}}}
	if pool.Mode == v1alpha1.PlacementRequired {
		return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{inPool},
		}}
	}
	return &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: preferenceWeight, Preference: inPool},
	}}
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

func tolerations(pool *v1alpha1.DedicatedNodes) []corev1.Toleration {
	if pool == nil {
		return nil
	}
	return []corev1.Toleration{{Key: pool.Label.Key, Operator: corev1.TolerationOpEqual, Value: pool.Label.Value}}
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
