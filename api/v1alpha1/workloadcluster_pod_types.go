package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodAdditions are what users add to the pods. A change of them restarts the nodes, one at a time.
//
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || self.labels.all(k, !k.startsWith('rabbitmq.warren.dev/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by']))",message="pod.labels has a key that is Warren's own: rabbitmq.warren.dev/*, app.kubernetes.io/name, instance, component and managed-by"
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(k, !k.startsWith('rabbitmq.warren.dev/'))",message="pod.annotations has a key that is Warren's own: rabbitmq.warren.dev/*"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="pod.volumeMounts names a volume that is not in pod.volumes"
type PodAdditions struct {
	// Labels of the pods, besides Warren's own.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the pods, besides Warren's own.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// ImagePullSecrets with which images are pulled.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Volumes for the containers below and for RabbitMQ.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Volumes []ExtraVolume `json:"volumes,omitempty"`

	// VolumeMounts of those volumes in the container that runs RabbitMQ.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	VolumeMounts []ExtraMount `json:"volumeMounts,omitempty"`

	// InitContainers run one after the other before RabbitMQ starts.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	InitContainers []ExtraContainer `json:"initContainers,omitempty"`

	// Containers run beside RabbitMQ.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []ExtraContainer `json:"containers,omitempty"`
}

// ExtraVolume is a volume of the pods. Paths of the host cannot be had: pods stay restricted.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.secret), has(self.emptyDir), has(self.persistentVolumeClaim)].filter(x, x).size() == 1",message="a volume is one of configMap, secret, emptyDir and persistentVolumeClaim"
type ExtraVolume struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
}

// ExtraMount is where a container sees a volume.
type ExtraMount struct {
	// Name of the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^/[^:]*$`
	// +kubebuilder:validation:MaxLength=512
	MountPath string `json:"mountPath"`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	SubPath string `json:"subPath,omitempty"`
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// ExtraContainer is a container of the pods. Warren runs it as the restricted pod security standard asks: as the user of
// RabbitMQ, with a read-only root file system and without capabilities.
//
// +kubebuilder:validation:XValidation:rule="self.name != 'rabbitmq' && self.name != 'erlang-cookie'",message="the names rabbitmq and erlang-cookie are Warren's own containers"
type ExtraContainer struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	VolumeMounts []ExtraMount `json:"volumeMounts,omitempty"`
}

// ClientServiceSpec says how the Service for clients is published. A change of it restarts nothing.
//
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || self.labels.all(k, !k.startsWith('rabbitmq.warren.dev/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by']))",message="service.labels has a key that is Warren's own: rabbitmq.warren.dev/*, app.kubernetes.io/name, instance, component and managed-by"
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(k, !k.startsWith('rabbitmq.warren.dev/'))",message="service.annotations has a key that is Warren's own: rabbitmq.warren.dev/*"
type ClientServiceSpec struct {
	// Type of the Service.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +kubebuilder:default=ClusterIP
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// Labels of the Service, besides Warren's own.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the Service, as those that load balancers want.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
