package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// volumesReady compares the volumes with the spec. What the storage says of a growth is passed on: it is the only one who
// knows what it waits for.
func volumesReady(in Cluster) verdict {
	wanted := in.Object.Spec.Storage.Size
	var small, failed []string
	for _, claim := range in.Claims {
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		if claim.Status.Phase != corev1.ClaimBound || capacity.Cmp(wanted) >= 0 {
			continue // one without a volume holds its pod, which says so
		}
		text := fmt.Sprintf("%s has %s of %s", claim.Name, &capacity, &wanted)
		if words := resizeWords(claim); words != "" {
			text += ": " + words
		}
		if strings.HasSuffix(string(claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]), "Infeasible") {
			failed = append(failed, text)
			continue
		}
		small = append(small, text)
	}
	switch {
	case len(failed) > 0:
		return no(v1alpha1.ReasonGrowthRefused, "the storage cannot grow a volume: "+strings.Join(failed, "; "))
	case in.Growth != "":
		return no(v1alpha1.ReasonGrowing, in.Growth)
	case len(small) > 0:
		return no(v1alpha1.ReasonGrowing, strings.Join(small, "; "))
	case len(in.Claims) == 0:
		return yes(v1alpha1.ReasonAsExpected, "no volume exists yet")
	}
	return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("%d volumes of at least %s", len(in.Claims), &wanted))
}

// resizeWords is how far the storage is with a growth.
func resizeWords(claim corev1.PersistentVolumeClaim) string {
	var words []string
	if state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; state != "" {
		words = append(words, string(state))
	}
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			if c.Status == corev1.ConditionTrue {
				words = append(words, strings.TrimSuffix(string(c.Type)+": "+c.Message, ": "))
			}
		}
	}
	return cut(strings.Join(words, ", "), 256)
}

func storage(claims []corev1.PersistentVolumeClaim) *v1alpha1.StorageStatus {
	if len(claims) == 0 {
		return nil
	}
	out := &v1alpha1.StorageStatus{}
	for _, claim := range claims {
		if claim.Spec.StorageClassName != nil && out.ClassName == "" {
			out.ClassName = *claim.Spec.StorageClassName
		}
		v := v1alpha1.VolumeStatus{Name: claim.Name, Requested: claim.Spec.Resources.Requests[corev1.ResourceStorage], Resize: resizeWords(claim)}
		if capacity, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
			v.Capacity = &capacity
		}
		out.Volumes = append(out.Volumes, v)
	}
	slices.SortFunc(out.Volumes, func(a, b v1alpha1.VolumeStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}
