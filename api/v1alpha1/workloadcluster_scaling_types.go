package v1alpha1

// ScaleInSpec says how nodes leave. The one with the highest index leaves first. Nothing begins while something would be lost with any
// of those that are to leave: status.scaling says what.
type ScaleInSpec struct {
	// Mode: Run removes nodes when replicas is smaller than their number, DryRun only says what would be lost.
	// +kubebuilder:default=Run
	// +optional
	Mode ScaleInMode `json:"mode,omitempty"`

	// Volumes of nodes that have left: Retain keeps them until somebody deletes them, and no node can come back with one; Delete
	// removes them once the node has left.
	// +kubebuilder:default=Retain
	// +optional
	Volumes DeletionPolicy `json:"volumes,omitempty"`

	// EmptyClassicQueues without a copy on a node that stays: Refuse keeps the node, Delete lets them go with it, bindings included.
	// +kubebuilder:default=Refuse
	// +optional
	EmptyClassicQueues EmptyQueuesPolicy `json:"emptyClassicQueues,omitempty"`
}

// ScaleInMode says whether nodes leave.
// +kubebuilder:validation:Enum=Run;DryRun
type ScaleInMode string

// The modes of scaling in.
const (
	ScaleInRun    ScaleInMode = "Run"
	ScaleInDryRun ScaleInMode = "DryRun"
)

// EmptyQueuesPolicy says what becomes of empty queues whose only node leaves.
// +kubebuilder:validation:Enum=Refuse;Delete
type EmptyQueuesPolicy string

// The policies for empty queues.
const (
	EmptyQueuesRefuse EmptyQueuesPolicy = "Refuse"
	EmptyQueuesDelete EmptyQueuesPolicy = "Delete"
)

// ScalingStatus is what becomes of nodes that are to leave.
type ScalingStatus struct {
	// From how many nodes, To how many.
	From int32 `json:"from"`
	To   int32 `json:"to"`
	// Verdict: Safe when nothing would be lost, Refused when something would, Waiting while that cannot be said.
	Verdict ScalingVerdict `json:"verdict"`
	// Node that leaves now.
	// +optional
	Node string `json:"node,omitempty"`
	// Message says what happens, or what is in the way.
	// +optional
	Message string `json:"message,omitempty"`
	// QueuesLeft on the node that leaves now, which have a member there.
	// +optional
	QueuesLeft *int32 `json:"queuesLeft,omitempty"`
	// Lost is what would be lost, the first of it.
	// +optional
	// +listType=atomic
	Lost []string `json:"lost,omitempty"`
}

// ScalingVerdict says whether nodes may leave.
// +kubebuilder:validation:Enum=Safe;Refused;Waiting
type ScalingVerdict string

// The verdicts.
const (
	ScalingSafe    ScalingVerdict = "Safe"
	ScalingRefused ScalingVerdict = "Refused"
	ScalingWaiting ScalingVerdict = "Waiting"
)
