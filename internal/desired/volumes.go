package desired

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// ClaimTemplate is what a StatefulSet's claim template says of the nodes' volumes. Nobody can change it in a StatefulSet
// that exists.
type ClaimTemplate struct {
	Size      resource.Quantity
	ClassName string
}

func templateOfSpec(c *v1alpha1.WorkloadCluster) ClaimTemplate {
	return ClaimTemplate{Size: c.Spec.Storage.Size, ClassName: c.Spec.Storage.ClassName}
}

// templateOfSet is the claim template of a StatefulSet; ok is false when it has none of ours.
func templateOfSet(set *appsv1.StatefulSet) (template ClaimTemplate, ok bool) {
	for i := range set.Spec.VolumeClaimTemplates {
		claim := &set.Spec.VolumeClaimTemplates[i]
		if claim.Name == volumeData {
			return ClaimTemplate{Size: requested(claim), ClassName: className(claim)}, true
		}
	}
	return ClaimTemplate{}, false
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// Volumes is what the volumes of a cluster mean for everything else.
type Volumes struct {
	// Spec from which values for the nodes are chosen: with the size that the volumes had before they grew. A growth alone
	// restarts no node. The ConfigMap carries that size, since the StatefulSet is replaced on the way.
	Spec   v1alpha1.WorkloadClusterSpec
	Growth Growth
	// Faults of the spec that only a look at the volumes shows; with any, nothing is built.
	Faults []string
}

// PlanVolumes decides what to do about the volumes.
func PlanVolumes(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim, live map[Key]Object) Volumes {
	size, recorded := recordedSize(c, live)
	if !recorded {
		size = c.Spec.Storage.Size
		if set != nil && taken(c, set) == "" {
			if template, ok := templateOfSet(set); ok && template.Size.Sign() > 0 {
				size = template.Size
			}
		}
	}
	out := Volumes{Spec: c.Spec, Growth: PlanGrowth(c, set, claims, recorded)}
	out.Spec.Storage.Size = size
	if out.Growth.Fault != "" {
		out.Faults = []string{out.Growth.Fault}
	}
	return out
}

// recordedSize is what the ConfigMap says of the size that the volumes had.
func recordedSize(c *v1alpha1.WorkloadCluster, live map[Key]Object) (resource.Quantity, bool) {
	object, ok := live[Key{Kind: "ConfigMap", Name: ConfigMapName(c.Name)}]
	if !ok || taken(c, object) != "" {
		return resource.Quantity{}, false
	}
	size, err := resource.ParseQuantity(object.GetAnnotations()[v1alpha1.AnnotationVolumeSize])
	return size, err == nil && size.Sign() > 0
}

// Growth is the next step towards volumes of the size that the spec says. Each step is safe to repeat, and what comes next
// follows from what is there: nothing is remembered between passes, so that Warren may be killed at any point.
type Growth struct {
	// Template that the StatefulSet is to have for now. The other fields may change meanwhile.
	Template ClaimTemplate
	// Claims that are to ask for more.
	Claims []Edit
	// Replace says that all claims ask for enough, so that the StatefulSet is to be deleted without its pods and made anew.
	Replace bool
	// Waiting says what the next step waits for; "" if for nothing.
	Waiting string
	// Fault says what is wrong with the spec; nothing may be applied.
	Fault string
}

// PlanGrowth decides the next step from the StatefulSet (nil if there is none), the volume claims of the cluster, and
// whether the ConfigMap carries the size that the volumes had.
func PlanGrowth(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim, recorded bool) Growth {
	g := Growth{Template: templateOfSpec(c)}
	ours := claimsOfNodes(c, claims)
	if g.Fault = classFault(c, ours); g.Fault != "" {
		return g
	}
	template, exists := ClaimTemplate{}, false
	if set != nil {
		template, exists = templateOfSet(set)
	}
	if exists {
		g.Template = template
		if c.Spec.Storage.Size.Cmp(template.Size) < 0 {
			g.Fault = fmt.Sprintf("storage.size %s is less than the %s that the volumes have: volumes only grow", &c.Spec.Storage.Size, &template.Size)
			return g
		}
		if !set.DeletionTimestamp.IsZero() {
			g.Waiting = "the StatefulSet is replaced: waiting until its pods are let go of"
			return g
		}
	}
	g.growClaims(c, ours)
	switch {
	case len(g.Claims) > 0 || g.Waiting != "" || !exists || c.Spec.Storage.Size.Cmp(template.Size) == 0:
	case !recorded:
		g.Waiting = "waiting until the ConfigMap says what size the volumes had"
	default:
		g.Replace = true
	}
	return g
}

// growClaims asks for more where the claim is smaller than the spec says. A larger one stays as it is.
func (g *Growth) growClaims(c *v1alpha1.WorkloadCluster, claims []corev1.PersistentVolumeClaim) {
	var waiting []string
	for i := range claims {
		claim := &claims[i]
		size := requested(claim)
		if size.Cmp(c.Spec.Storage.Size) >= 0 {
			continue
		}
		switch {
		case !claim.DeletionTimestamp.IsZero():
			waiting = append(waiting, claim.Name+" is being deleted")
		case claim.Status.Phase != corev1.ClaimBound: // the API server lets only those grow
			waiting = append(waiting, claim.Name+" has no volume yet")
		case growing(claim) && !infeasible(claim):
			waiting = append(waiting, fmt.Sprintf("%s is still growing to %s", claim.Name, &size))
		default:
			after := claim.DeepCopy()
			after.Spec.Resources.Requests[corev1.ResourceStorage] = c.Spec.Storage.Size
			g.Claims = append(g.Claims, Edit{Before: claim, After: after})
		}
	}
	g.Waiting = strings.Join(waiting, "; ")
}

// claimsOfNodes are the claims of the nodes that are wanted, by the names that a StatefulSet gives them. Those of nodes
// that were there once stay as they are.
func claimsOfNodes(c *v1alpha1.WorkloadCluster, claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	wanted := map[string]bool{}
	for i := range c.Spec.Replicas {
		wanted[ClaimName(c.Name, i)] = true
	}
	return slices.DeleteFunc(slices.Clone(claims), func(claim corev1.PersistentVolumeClaim) bool { return !wanted[claim.Name] })
}

// ClaimName is the name of a node's volume claim.
func ClaimName(cluster string, ordinal int32) string {
	return fmt.Sprintf("%s-%s-%d", volumeData, StatefulSetName(cluster), ordinal)
}

func classFault(c *v1alpha1.WorkloadCluster, claims []corev1.PersistentVolumeClaim) string {
	wanted := c.Spec.Storage.ClassName
	for i := range claims {
		if have := className(&claims[i]); wanted != "" && have != wanted {
			return fmt.Sprintf("storage.className is %s, but the volume %s has the class %q, and volumes keep their class: set storage.className to that, or create a second WorkloadCluster and move the queues",
				wanted, claims[i].Name, have)
		}
	}
	return ""
}

// growing tells whether a claim asks for more than its volume has.
func growing(claim *corev1.PersistentVolumeClaim) bool {
	size, capacity := requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return size.Cmp(capacity) > 0
}

// infeasible tells whether the storage has said that it cannot do what was asked, so that nothing is to be waited for.
func infeasible(claim *corev1.PersistentVolumeClaim) bool {
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return state == corev1.PersistentVolumeClaimControllerResizeInfeasible || state == corev1.PersistentVolumeClaimNodeResizeInfeasible
}
