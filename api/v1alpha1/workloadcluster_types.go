package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadClusterSpec says what one RabbitMQ cluster for one workload class should be.
//
// +kubebuilder:validation:XValidation:rule="has(self.version) || has(self.image)",message="set version, as \"4.3\", or image"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.version) || !has(self.version) || self.version.split('.')[0] == oldSelf.version.split('.')[0] && self.version.split('.')[1] == oldSelf.version.split('.')[1]",message="moving a running cluster to another RabbitMQ version line is not supported: create a second WorkloadCluster and move the queues"
// +kubebuilder:validation:XValidation:rule="self.workloadClass == oldSelf.workloadClass",message="workloadClass cannot change: clients find the cluster by it"
type WorkloadClusterSpec struct {
	// WorkloadClass names the class of work that this cluster serves, as "runtime" or "worker". It is a label of
	// everything the cluster consists of. It cannot change.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	WorkloadClass string `json:"workloadClass"`

	// Replicas is the number of RabbitMQ nodes. Odd numbers keep a majority when one node is lost.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ScaleIn says how nodes leave when replicas becomes smaller.
	// +kubebuilder:default={}
	// +optional
	ScaleIn ScaleInSpec `json:"scaleIn,omitzero"`

	// Version of RabbitMQ: a line ("4.3") or an exact version ("4.3.6"), 3.10 to 4.3. Needed unless the image's tag
	// says it.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,3})?$`
	// +kubebuilder:validation:MaxLength=10
	// +optional
	Version string `json:"version,omitempty"`

	// Image overrides the image that the version stands for. If its tag does not begin with a version, set version too.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// Resources of each node. Requests follow limits.
	// +kubebuilder:default={}
	// +optional
	Resources ClusterResources `json:"resources,omitzero"`

	// Storage of each node.
	// +kubebuilder:default={}
	// +optional
	Storage StorageSpec `json:"storage,omitzero"`

	// Scheduling says on which Kubernetes nodes the RabbitMQ nodes run.
	// +kubebuilder:default={}
	// +optional
	Scheduling SchedulingSpec `json:"scheduling,omitzero"`

	// Pod adds to the pods: metadata, volumes, containers.
	// +optional
	Pod PodAdditions `json:"pod,omitzero"`

	// Service for clients.
	// +kubebuilder:default={}
	// +optional
	Service ClientServiceSpec `json:"service,omitzero"`

	// Erlang tunes the virtual machine.
	// +kubebuilder:default={}
	// +optional
	Erlang ErlangSpec `json:"erlang,omitzero"`

	// Memory tunes the memory alarm.
	// +kubebuilder:default={}
	// +optional
	Memory MemorySpec `json:"memory,omitzero"`

	// Disk tunes the disk alarm.
	// +optional
	Disk DiskSpec `json:"disk,omitzero"`

	// Update says when the nodes restart for what nobody changed in the spec.
	// +kubebuilder:default={}
	// +optional
	Update UpdateSpec `json:"update,omitzero"`
	// Defaults are what clients find from the first day: the type of queues, and a way for dead messages.
	// +optional
	Defaults *ClusterDefaults `json:"defaults,omitempty"`

	// Plugins that the nodes have besides those that Warren needs. Another list restarts the nodes, one at a time.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z][a-z0-9_]*$`
	// +kubebuilder:validation:items:MaxLength=100
	// +listType=set
	// +optional
	Plugins []string `json:"plugins,omitempty"`

	// Config are further lines of rabbitmq.conf. Keys that the version does not know, that Warren sets itself, or that belong
	// to a plugin that is not enabled are refused before any node restarts.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=key
	// +optional
	Config []ConfigLine `json:"config,omitempty"`

	// PolicyNamespaces are further namespaces whose QueuePolicies may name or select this cluster; "*" means all. Those of its
	// own namespace always may.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	PolicyNamespaces []string `json:"policyNamespaces,omitempty"`

	// Paused stops Warren from changing anything of this cluster; it still reports. Deletion still works.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// ClusterResources are the resources of each RabbitMQ node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.requests.cpu) || (has(self.unlimited) && 'CPU' in self.unlimited) || quantity(self.requests.cpu).compareTo(quantity(self.limits.cpu)) <= 0",message="requests.cpu is more than limits.cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.requests.memory) || (has(self.unlimited) && 'Memory' in self.unlimited) || quantity(self.requests.memory).compareTo(quantity(self.limits.memory)) <= 0",message="requests.memory is more than limits.memory"
type ClusterResources struct {
	// Limits of each node: always set, unless unlimited says otherwise.
	// +kubebuilder:default={}
	// +optional
	Limits ResourceLimits `json:"limits,omitzero"`

	// Requests default to the limits.
	// +optional
	Requests *ResourceRequests `json:"requests,omitempty"`

	// Unlimited opts out of the limit of CPU or Memory. Without a CPU limit Erlang starts one scheduler for each CPU of
	// the host; without a memory limit the memory alarm follows the host's memory. Both are warned about.
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +optional
	Unlimited []LimitedResource `json:"unlimited,omitempty"`
}

// LimitedResource is a resource whose limit can be given up.
// +kubebuilder:validation:Enum=CPU;Memory
type LimitedResource string

// The resources whose limit can be given up.
const (
	UnlimitedCPU    LimitedResource = "CPU"
	UnlimitedMemory LimitedResource = "Memory"
)

// ResourceLimits are the limits of each node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || quantity(self.cpu).compareTo(quantity('50m')) >= 0",message="limits.cpu is less than 50m: RabbitMQ does not start"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || quantity(self.memory).compareTo(quantity('256Mi')) >= 0",message="limits.memory is less than 256Mi: RabbitMQ does not start"
type ResourceLimits struct {
	// CPU of each node; Erlang gets as many schedulers as it has whole CPUs.
	// +kubebuilder:default="2"
	// +optional
	CPU resource.Quantity `json:"cpu,omitzero"`

	// Memory of each node; the memory alarm follows it.
	// +kubebuilder:default="4Gi"
	// +optional
	Memory resource.Quantity `json:"memory,omitzero"`
}

// ResourceRequests are the requests of each node where they differ from its limits.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || quantity(self.cpu).compareTo(quantity('0')) >= 0",message="requests.cpu is negative"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || quantity(self.memory).compareTo(quantity('0')) >= 0",message="requests.memory is negative"
type ResourceRequests struct {
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// StorageSpec is the volume of each node.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.size) || has(self.size) && quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",message="storage.size cannot shrink: volumes only grow; create a second WorkloadCluster and move the queues"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.className) || has(self.className) && self.className == oldSelf.className",message="storage.className cannot change: volumes keep their class; create a second WorkloadCluster and move the queues"
type StorageSpec struct {
	// Size of each node's volume. It may grow, if the volumes' class lets them: no pod restarts for it.
	// +kubebuilder:default="10Gi"
	// +optional
	Size resource.Quantity `json:"size,omitzero"`

	// ClassName of the volumes; the cluster's default class if unset. Afterwards it may only be set to what the volumes have.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClassName string `json:"className,omitempty"`

	// DeletionPolicy says what happens to the volumes, and to the Secrets without which they are of no use, when the
	// WorkloadCluster is deleted.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says what becomes of data when its owner is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	RetainOnDelete DeletionPolicy = "Retain"
	DeleteOnDelete DeletionPolicy = "Delete"
)

// SchedulingSpec says on which Kubernetes nodes the RabbitMQ nodes run.
type SchedulingSpec struct {
	// DedicatedNodes puts the RabbitMQ nodes on a pool of Kubernetes nodes that carry a label, and lets them onto
	// nodes that have a taint of the same key and value.
	// +optional
	DedicatedNodes *DedicatedNodes `json:"dedicatedNodes,omitempty"`

	// HostAntiAffinity keeps two nodes of this cluster off the same Kubernetes node.
	// +kubebuilder:default=Preferred
	// +optional
	HostAntiAffinity PlacementMode `json:"hostAntiAffinity,omitempty"`

	// SpreadAcross are the topology keys over which the nodes are spread evenly, as far as the scheduler can.
	// +kubebuilder:default={"topology.kubernetes.io/zone"}
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +optional
	SpreadAcross []string `json:"spreadAcross,omitempty"`

	// PriorityClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Tolerations besides that of the dedicated pool's taint.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// NodeSelector that Kubernetes nodes must match, whatever the pool.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Affinity besides that to the dedicated pool and away from one another.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
}

// DedicatedNodes is a pool of Kubernetes nodes.
type DedicatedNodes struct {
	// Mode: Preferred lets the scheduler go elsewhere when the pool is full or absent, Required leaves pods Pending.
	// +kubebuilder:default=Preferred
	// +optional
	Mode PlacementMode `json:"mode,omitempty"`

	// Label that the pool's nodes carry.
	Label NodeLabel `json:"label"`
}

// PlacementMode says how strict a placement rule is.
// +kubebuilder:validation:Enum=Preferred;Required
type PlacementMode string

// The placement modes.
const (
	PlacementPreferred PlacementMode = "Preferred"
	PlacementRequired  PlacementMode = "Required"
)

// NodeLabel is a label of a Kubernetes node, and the taint of the same key and value.
type NodeLabel struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value"`
}

// ErlangSpec tunes the Erlang virtual machine of each node.
type ErlangSpec struct {
	// Schedulers says how many scheduler threads run Erlang code.
	// +kubebuilder:default={}
	// +optional
	Schedulers SchedulersSpec `json:"schedulers,omitzero"`

	// BindType says how schedulers are bound to CPUs. Binding counts from the host's first CPU, so it helps only a pod
	// that owns its CPUs, and hurts pods that share a host.
	// +kubebuilder:default=Unbound
	// +optional
	BindType BindType `json:"bindType,omitempty"`
}

// SchedulersSpec says how many schedulers run.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Fixed') == has(self.count)",message="count goes with mode Fixed, and only with it"
type SchedulersSpec struct {
	// Mode: FromCPULimit takes the whole CPUs of the limit (at least 1), Fixed takes count.
	// +kubebuilder:default=FromCPULimit
	// +optional
	Mode SchedulersMode `json:"mode,omitempty"`

	// Count of schedulers in mode Fixed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Count *int32 `json:"count,omitempty"`
}

// SchedulersMode says where the number of schedulers comes from.
// +kubebuilder:validation:Enum=FromCPULimit;Fixed
type SchedulersMode string

// The scheduler modes.
const (
	SchedulersFromCPULimit SchedulersMode = "FromCPULimit"
	SchedulersFixed        SchedulersMode = "Fixed"
)

// BindType says how Erlang schedulers are bound to CPUs: the values of Erlang's +stbt flag, in words.
// +kubebuilder:validation:Enum=Unbound;NoSpread;ThreadSpread;ProcessorSpread;Spread;NoNodeThreadSpread;NoNodeProcessorSpread;ThreadNoNodeProcessorSpread;DefaultBind
type BindType string

// BindUnbound leaves placement to the operating system.
const BindUnbound BindType = "Unbound"

// MemorySpec tunes the memory alarm.
type MemorySpec struct {
	// HighWatermark is the fraction of the memory limit, after headroom for the runtime and the page cache, above which
	// publishers are blocked.
	// +kubebuilder:default=0.6
	// +kubebuilder:validation:Minimum=0.1
	// +kubebuilder:validation:Maximum=0.9
	// +optional
	HighWatermark float64 `json:"highWatermark,omitempty"`
}

// DiskSpec tunes the disk alarm.
type DiskSpec struct {
	// FreeLimit is the free space below which publishers are blocked. The default is a tenth of the volume, at least
	// 512Mi, at most half of the volume.
	// +optional
	FreeLimit *resource.Quantity `json:"freeLimit,omitempty"`
}

// ConfigLine is one line of rabbitmq.conf.
type ConfigLine struct {
	// Key, as "log.console.level".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^\s=#]+$`
	Key string `json:"key"`

	// Value as it stands in the file. It is one line without #, which begins a comment there. Everybody who may read the
	// cluster sees it: no passwords.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[^#\r\n]+$`
	Value string `json:"value"`

	// Unchecked takes a key that Warren does not know, as of a plugin that your image adds. A node that does not know it
	// either does not start, which ends the rolling update at that node. Keys that Warren sets are refused all the same.
	// +optional
	Unchecked bool `json:"unchecked,omitempty"`
}

// WorkloadClusterStatus is what Warren last saw.
type WorkloadClusterStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions; Ready is the summary.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ReadyNodes over wanted nodes, as "3/3".
	// +optional
	ReadyNodes string `json:"readyNodes,omitempty"`

	// Version of RabbitMQ that the cluster reports.
	// +optional
	Version string `json:"version,omitempty"`

	// Image that the nodes run.
	// +optional
	Image string `json:"image,omitempty"`

	// Schedulers that are online on each node, as the nodes report them; "8, 4" if they differ.
	// +optional
	Schedulers string `json:"schedulers,omitempty"`

	// Memory used, of the limit of the fullest node, as "41%". It moves in steps of at least 5 points.
	// +optional
	Memory string `json:"memory,omitempty"`

	// AdminSecret holds the administrator's credentials and the address, under the keys of the service-binding convention.
	// +optional
	AdminSecret *corev1.LocalObjectReference `json:"adminSecret,omitempty"`

	// Tuning lists every value that Warren chose, why, and whether the running nodes have it.
	// +listType=map
	// +listMapKey=name
	// +optional
	Tuning []TunedValue `json:"tuning,omitempty"`

	// Scaling is what becomes of nodes that are to leave; absent when none are.
	// +optional
	Scaling *ScalingStatus `json:"scaling,omitempty"`

	// Nodes of the cluster.
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []NodeStatus `json:"nodes,omitempty"`

	// Storage is what is known of the nodes' volumes.
	// +optional
	Storage *StorageStatus `json:"storage,omitempty"`
}

// TunedValue is one value that Warren chose.
type TunedValue struct {
	// Name of the value, as "schedulers".
	Name string `json:"name"`
	// Value that was chosen, with bytes as plain numbers.
	Value string `json:"value"`
	// Reason it was chosen.
	Reason string `json:"reason"`
	// Observed on the running nodes; empty if they cannot say.
	// +optional
	Observed string `json:"observed,omitempty"`
	// InForce says whether every running node has the value; Unknown while none can say.
	InForce metav1.ConditionStatus `json:"inForce"`
}

// NodeStatus is what is known of one RabbitMQ node.
type NodeStatus struct {
	// Name of its pod.
	Name string `json:"name"`
	// HostNode is the Kubernetes node.
	// +optional
	HostNode string `json:"hostNode,omitempty"`
	// Ready as the pod reports it.
	Ready bool `json:"ready"`
	// Running as the cluster's other nodes see it; absent if the broker did not say.
	// +optional
	Running *bool `json:"running,omitempty"`
	// Schedulers that were started, and SchedulersOnline that may run; absent if the node did not say.
	// +optional
	Schedulers *int32 `json:"schedulers,omitempty"`
	// +optional
	SchedulersOnline *int32 `json:"schedulersOnline,omitempty"`
	// Alarms in force: "memory", "disk".
	// +optional
	Alarms []string `json:"alarms,omitempty"`
}

// WorkloadCluster is one RabbitMQ cluster for one class of work.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wlc,categories=warren
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.workloadClass`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.readyNodes`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.tuning[?(@.name=="cpuLimit")].value`
// +kubebuilder:printcolumn:name="Schedulers",type=string,JSONPath=`.status.schedulers`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.memory`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name must be a DNS label of at most 40 characters that begins with a letter: pods, Services and volumes are named after it"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.spec.storage.className) || !has(self.spec.storage.className) || !has(self.status) || !has(self.status.storage) || !has(self.status.storage.className) || self.spec.storage.className == self.status.storage.className",message="storage.className can only be set to the class that the volumes have (status.storage.className): volumes keep their class; create a second WorkloadCluster and move the queues"
type WorkloadCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkloadClusterSpec `json:"spec"`
	// +optional
	Status WorkloadClusterStatus `json:"status,omitempty"`
}

// WorkloadClusterList is a list of WorkloadClusters.
//
// +kubebuilder:object:root=true
type WorkloadClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadCluster `json:"items"`
}
