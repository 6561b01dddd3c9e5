package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// StorageStatus is what is known of the nodes' volumes.
type StorageStatus struct {
	// ClassName of the volumes, which they keep for good.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClassName string `json:"className,omitempty"`

	// Volumes of the nodes.
	// +listType=map
	// +listMapKey=name
	// +optional
	Volumes []VolumeStatus `json:"volumes,omitempty"`
}

// VolumeStatus is what is known of one node's volume.
type VolumeStatus struct {
	// Name of the volume claim.
	Name string `json:"name"`
	// Requested size.
	Requested resource.Quantity `json:"requested"`
	// Capacity that the volume has; absent while there is none.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// Resize is how far the storage is with a growth, in its own words; absent when it is not at it.
	// +optional
	Resize string `json:"resize,omitempty"`
}
