package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// QueuePolicySpec says which policy a class of queues has.
//
// +kubebuilder:validation:XValidation:rule="self.clusterRef == oldSelf.clusterRef && self.vhost == oldSelf.vhost && has(self.policyName) == has(oldSelf.policyName) && (!has(self.policyName) || self.policyName == oldSelf.policyName)",message="clusterRef, vhost and policyName cannot change: create another QueuePolicy and delete this one"
// +kubebuilder:validation:XValidation:rule="!(self.replication.mode in ['HATwo', 'HAThree']) || has(self.quorumDecision)",message="mirrored queues need quorumDecision.by, the day by which they become quorum queues: RabbitMQ 4.0 removed mirroring"
// +kubebuilder:validation:XValidation:rule="self.replication.mode != 'None' || has(self.definition)",message="replication mode None needs a definition: a policy cannot be empty"
type QueuePolicySpec struct {
	// ClusterRef names the WorkloadCluster, in the same namespace.
	ClusterRef ClusterReference `json:"clusterRef"`

	// VHost that the policy is in.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	VHost string `json:"vhost,omitempty"`

	// PolicyName is the policy's name in the broker; the name of this object if unset.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	PolicyName string `json:"policyName,omitempty"`

	// Pattern is a regular expression on queue names: the broker's PCRE on bytes, not anchored by itself. It is never
	// compiled before the broker has it. RabbitMQ 4.3 takes at most 1024 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Pattern string `json:"pattern"`

	// Priority: of all policies that match a queue only the one with the highest priority is in force.
	// +kubebuilder:default=0
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// ApplyTo limits the policy to some kinds of objects. The default follows the replication mode: classic queues
	// for HATwo and HAThree, quorum queues for Quorum, queues for None. On RabbitMQ before 3.12 only Queues, Exchanges
	// and All exist; there the keys of the definition keep the policy off the other queue types.
	// +optional
	ApplyTo PolicyTarget `json:"applyTo,omitempty"`

	// Replication of the queues.
	Replication ReplicationSpec `json:"replication"`

	// QuorumDecision is the plan for mirrored queues to become quorum queues; needed with HATwo and HAThree.
	// +optional
	QuorumDecision *QuorumDecision `json:"quorumDecision,omitempty"`

	// Definition holds further policy keys, as the broker names them. They may not repeat those of the replication mode.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Definition *runtime.RawExtension `json:"definition,omitempty"`

	// Adopt takes over a policy of the same name that Warren did not make. Without it such a policy is a conflict.
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// DeletionPolicy says what happens to the broker's policy when this object is deleted.
	// +kubebuilder:default=Delete
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ClusterReference names a WorkloadCluster.
type ClusterReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
}

// PolicyTarget is what a policy applies to.
// +kubebuilder:validation:Enum=Queues;ClassicQueues;QuorumQueues;Streams;Exchanges;All
type PolicyTarget string

// The policy targets.
const (
	TargetQueues        PolicyTarget = "Queues"
	TargetClassicQueues PolicyTarget = "ClassicQueues"
	TargetQuorumQueues  PolicyTarget = "QuorumQueues"
	TargetStreams       PolicyTarget = "Streams"
	TargetExchanges     PolicyTarget = "Exchanges"
	TargetAll           PolicyTarget = "All"
)

// ReplicationSpec says how queues are replicated.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.mode == 'Quorum'",message="size goes with mode Quorum; HATwo and HAThree say theirs"
// +kubebuilder:validation:XValidation:rule="!has(self.sync) || self.mode in ['HATwo', 'HAThree']",message="sync goes with HATwo and HAThree"
type ReplicationSpec struct {
	// Mode: HATwo and HAThree mirror classic queues on two or three nodes (RabbitMQ up to 3.13), Quorum sets what a
	// policy can set on quorum queues, None leaves replication alone.
	Mode ReplicationMode `json:"mode"`

	// Size is the number of members wanted of each quorum queue; 3 if unset.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +optional
	Size *int32 `json:"size,omitempty"`

	// Sync says whether a new mirror copies the queue's messages at once (Automatic, the default) or is filled by
	// new messages only (Manual).
	// +optional
	Sync SyncMode `json:"sync,omitempty"`
}

// ReplicationMode says how queues are replicated.
// +kubebuilder:validation:Enum=HATwo;HAThree;Quorum;None
type ReplicationMode string

// The replication modes.
const (
	HATwo             ReplicationMode = "HATwo"
	HAThree           ReplicationMode = "HAThree"
	ReplicationQuorum ReplicationMode = "Quorum"
	ReplicationNone   ReplicationMode = "None"
)

// SyncMode says how a new mirror gets the messages that are there already.
// +kubebuilder:validation:Enum=Automatic;Manual
type SyncMode string

// The synchronisation modes.
const (
	SyncAutomatic SyncMode = "Automatic"
	SyncManual    SyncMode = "Manual"
)

// QuorumDecision is the plan for mirrored queues to become quorum queues.
type QuorumDecision struct {
	// By is the day, as 2027-09-30, until which mirrored queues are accepted; from the next day on, UTC, the policy
	// stays in force and the condition QuorumDecisionDue is True.
	// +kubebuilder:validation:Format=date
	// +kubebuilder:validation:MaxLength=10
	By string `json:"by"`
	// Owner is who decides.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Owner string `json:"owner,omitempty"`
	// Note for whoever reads this later.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Note string `json:"note,omitempty"`
}

// QueuePolicyStatus is what Warren last saw.
type QueuePolicyStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions; Ready is the summary.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Owned is the broker's policy that this object made or is about to make, and may change and delete.
	// +optional
	Owned *OwnedPolicy `json:"owned,omitempty"`

	// InForce over matching queues, as "412/412"; "412/?" when the pattern cannot be evaluated outside the broker.
	// +optional
	InForce string `json:"inForce,omitempty"`

	// Queues counts the queues that the pattern matches.
	// +optional
	Queues *PolicyQueues `json:"queues,omitempty"`
}

// OwnedPolicy is a policy in one broker cluster.
type OwnedPolicy struct {
	// ClusterUID of the WorkloadCluster: another cluster of the same name is another broker.
	ClusterUID string `json:"clusterUID"`
	VHost      string `json:"vhost"`
	Name       string `json:"name"`
}

// PolicyQueues counts the queues that a policy is meant for.
type PolicyQueues struct {
	// Matched by pattern and kind; absent when Warren cannot evaluate the pattern as the broker does.
	// +optional
	Matched *int32 `json:"matched,omitempty"`
	// InForce: the queue has this policy, every key of it, and the replicas it asks for.
	InForce int32 `json:"inForce"`
	// NotInForce groups the rest by reason.
	// +listType=map
	// +listMapKey=reason
	// +optional
	NotInForce []QueueGroup `json:"notInForce,omitempty"`
}

// QueueGroup is a number of queues that share a reason.
type QueueGroup struct {
	// Reason in CamelCase, as MaskedByPriority.
	Reason string `json:"reason"`
	Count  int32  `json:"count"`
	// Examples of queue names, at most three.
	// +optional
	Examples []string `json:"examples,omitempty"`
	// Message says what the reason means and what to do.
	Message string `json:"message"`
}

// QueuePolicy keeps one policy of one class of queues true.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qpol,categories=warren
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Pattern",type=string,JSONPath=`.spec.pattern`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.replication.mode`
// +kubebuilder:printcolumn:name="In force",type=string,JSONPath=`.status.inForce`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QueuePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec QueuePolicySpec `json:"spec"`
	// +optional
	Status QueuePolicyStatus `json:"status,omitempty"`
}

// BrokerPolicyName is the policy's name in the broker.
func (p *QueuePolicy) BrokerPolicyName() string {
	if p.Spec.PolicyName != "" {
		return p.Spec.PolicyName
	}
	return p.Name
}

// QueuePolicyList is a list of QueuePolicies.
//
// +kubebuilder:object:root=true
type QueuePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QueuePolicy `json:"items"`
}
