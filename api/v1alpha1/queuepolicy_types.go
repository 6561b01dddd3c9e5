package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// QueuePolicySpec says which policy a class of queues has, and where.
//
// +kubebuilder:validation:XValidation:rule="(has(self.clusterRef) ? 1 : 0) + (has(self.clusterSelector) ? 1 : 0) + (has(self.connectionSecretRef) ? 1 : 0) == 1",message="name one of clusterRef, clusterSelector and connectionSecretRef"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost && has(self.policyName) == has(oldSelf.policyName) && (!has(self.policyName) || self.policyName == oldSelf.policyName)",message="vhost and policyName cannot change: create another QueuePolicy and delete this one"
// +kubebuilder:validation:XValidation:rule="!(self.replication.mode in ['HATwo', 'HAThree']) || has(self.quorumDecision)",message="mirrored queues need quorumDecision.by, the day by which they become quorum queues: RabbitMQ 4.0 removed mirroring"
// +kubebuilder:validation:XValidation:rule="self.replication.mode != 'None' || has(self.definition) || has(self.limits) || has(self.deadLetter) || has(self.delayedRetry) || has(self.queueVersion) || has(self.hardLimits)",message="replication mode None needs something to set: limits, deadLetter, delayedRetry, queueVersion, hardLimits or a definition; a policy cannot be empty"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || self.priority < 2147483647",message="a staged rollout needs a priority below 2147483647: its temporary policies stand above it"
type QueuePolicySpec struct {
	// ClusterRef names one WorkloadCluster. One in another namespace must list this one in its policyNamespaces.
	// +optional
	ClusterRef *PolicyClusterReference `json:"clusterRef,omitempty"`

	// ClusterSelector names all WorkloadClusters that it matches, now and later. A cluster that it does not match any more
	// loses the policy as deletionPolicy says.
	// +optional
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`

	// ConnectionSecretRef names a RabbitMQ cluster that Warren does not run, by a Secret in this namespace with the keys
	// managementUri (as https://rabbit.example.org:15671), username, password and, unless the system trusts the server, ca.crt.
	// +optional
	ConnectionSecretRef *LocalSecretReference `json:"connectionSecretRef,omitempty"`

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

	// DeadLetter says where messages go that are rejected, expire, or are over a limit. Exchange, queue and binding are made
	// before the policy points at them.
	// +optional
	DeadLetter *DeadLetterSpec `json:"deadLetter,omitempty"`

	// Limits of the queues and of their messages.
	// +optional
	Limits *QueueLimits `json:"limits,omitempty"`

	// HardLimits are set by an operator policy of the same name: of a value here and one in any policy or argument of the
	// queue the lower counts.
	// +optional
	HardLimits *HardLimits `json:"hardLimits,omitempty"`

	// DelayedRetry holds back messages that were returned to a quorum queue (RabbitMQ 4.3).
	// +optional
	DelayedRetry *DelayedRetry `json:"delayedRetry,omitempty"`

	// QueueVersion of classic queues: the format in which they store messages (3.10 and later).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	// +optional
	QueueVersion *int32 `json:"queueVersion,omitempty"`

	// Definition holds further policy keys, as the broker names them. They may not repeat what other fields set.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Definition *runtime.RawExtension `json:"definition,omitempty"`

	// AcceptDataLoss allows what may drop messages or queues: a limit below the present depth of a matching queue, drop-head, a
	// message TTL without dead letters, an expiry, retention of streams. Without it such a policy is not sent. With a pattern
	// that matches every queue all but the first need rollout as well.
	// +optional
	AcceptDataLoss bool `json:"acceptDataLoss,omitempty"`

	// AcceptMirrorAll allows ha-mode all, and nodes, in the definition: every node then works for every queue.
	// +optional
	AcceptMirrorAll bool `json:"acceptMirrorAll,omitempty"`

	// AcceptMaskedKeys allows the policy to take keys away from queues that have them from a policy of lower priority: of all
	// policies only one is in force on a queue. Without it such a policy is not sent.
	// +optional
	AcceptMaskedKeys bool `json:"acceptMaskedKeys,omitempty"`

	// Rollout brings a new or changed policy to the queues in stages. Without it all matching queues get it at once.
	// +optional
	Rollout *RolloutSpec `json:"rollout,omitempty"`

	// Paused stops all writes to the broker, and a rollout where it is.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Adopt says that a policy of the same name that Warren did not make is known of: the conflict then tells in what it differs
	// from the spec. One that is equal is taken over in any case, since that overwrites nothing.
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// DeletionPolicy says what happens to the broker's policy when this object is deleted.
	// +kubebuilder:default=Delete
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ClusterReference names a WorkloadCluster in the same namespace.
type ClusterReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
}

// PolicyClusterReference names a WorkloadCluster.
type PolicyClusterReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// Namespace of the cluster; that of the QueuePolicy if unset.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ClusterSelector matches WorkloadClusters. All that is set must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.workloadClass) || has(self.matchLabels)",message="name a workloadClass, matchLabels or both"
type ClusterSelector struct {
	// WorkloadClass of the clusters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	WorkloadClass string `json:"workloadClass,omitempty"`

	// MatchLabels of the WorkloadCluster objects.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// Namespaces to look in; that of the QueuePolicy if unset. In another one only clusters count that list the
	// QueuePolicy's namespace in their policyNamespaces.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
}

// LocalSecretReference names a Secret in the same namespace.
type LocalSecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DeadLetterSpec says where dead messages go.
//
// +kubebuilder:validation:XValidation:rule="has(self.queue) || !(has(self.queueType) || has(self.limits))",message="queueType and limits are of the dead-letter queue: name it in queue"
type DeadLetterSpec struct {
	// Exchange that dead messages are published to; it is made as a durable direct exchange if it is absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Exchange string `json:"exchange"`

	// Queue that gets them; it is made, and bound to the exchange, if it is absent. Without it somebody else binds a queue to
	// the exchange, and a warning says when nobody has.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Queue string `json:"queue,omitempty"`

	// RoutingKey of dead messages; the name of the dead-letter queue if that is set, else the message keeps its own.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	RoutingKey string `json:"routingKey,omitempty"`

	// Strategy AtLeastOnce keeps a message in a quorum queue until the dead-letter queue has it; it needs overflow
	// RejectPublish where there is a length limit. AtMostOnce, the default, may lose one when a node fails.
	// +optional
	Strategy DeadLetterStrategy `json:"strategy,omitempty"`

	// QueueType of the dead-letter queue when it is made: Quorum, the default, or Classic.
	// +optional
	QueueType DeadLetterQueueType `json:"queueType,omitempty"`

	// Limits of the dead-letter queue, set as its arguments when it is made.
	// +optional
	Limits *DeadLetterLimits `json:"limits,omitempty"`
}

// DeadLetterStrategy is how surely dead messages reach their queue.
// +kubebuilder:validation:Enum=AtMostOnce;AtLeastOnce
type DeadLetterStrategy string

// The dead-letter strategies.
const (
	AtMostOnce  DeadLetterStrategy = "AtMostOnce"
	AtLeastOnce DeadLetterStrategy = "AtLeastOnce"
)

// DeadLetterQueueType is the type of a dead-letter queue.
// +kubebuilder:validation:Enum=Quorum;Classic
type DeadLetterQueueType string

// The types of dead-letter queues.
const (
	DeadLetterQuorum  DeadLetterQueueType = "Quorum"
	DeadLetterClassic DeadLetterQueueType = "Classic"
)

// DeadLetterLimits are those of a dead-letter queue.
type DeadLetterLimits struct {
	// MaxLength in messages; older ones are dropped.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MaxLengthBytes of message bodies; older ones are dropped.
	// +optional
	MaxLengthBytes *resource.Quantity `json:"maxLengthBytes,omitempty"`
	// MessageTTL, as 720h: messages are dropped after it.
	// +optional
	MessageTTL *metav1.Duration `json:"messageTTL,omitempty"`
}

// QueueLimits are those of queues and their messages.
type QueueLimits struct {
	// MaxLength in messages that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxLength *int64 `json:"maxLength,omitempty"`

	// MaxLengthBytes of the bodies of messages that are ready, as 10Gi.
	// +optional
	MaxLengthBytes *resource.Quantity `json:"maxLengthBytes,omitempty"`

	// Overflow is what happens at the limit: RejectPublish refuses new messages, RejectPublishDeadLetter (classic queues)
	// dead-letters them, DropHead drops the oldest and needs acceptDataLoss. RejectPublish if unset.
	// +optional
	Overflow OverflowMode `json:"overflow,omitempty"`

	// MessageTTL: messages are dropped or dead-lettered after it. It needs acceptDataLoss or deadLetter.
	// +optional
	MessageTTL *metav1.Duration `json:"messageTTL,omitempty"`

	// Expires: a queue without consumers that nobody uses for so long is deleted, with its messages. It needs acceptDataLoss.
	// +optional
	Expires *metav1.Duration `json:"expires,omitempty"`

	// ConsumerTimeout: a consumer that holds a message for so long is cut off, and its messages return.
	// +optional
	ConsumerTimeout *metav1.Duration `json:"consumerTimeout,omitempty"`

	// DeliveryLimit of quorum queues: a message that was returned more often is dropped or dead-lettered. -1 is no limit
	// (RabbitMQ 4.0 and later, where it is 20 by default).
	// +kubebuilder:validation:Minimum=-1
	// +optional
	DeliveryLimit *int64 `json:"deliveryLimit,omitempty"`
}

// OverflowMode is what a queue does at its limit.
// +kubebuilder:validation:Enum=DropHead;RejectPublish;RejectPublishDeadLetter
type OverflowMode string

// The overflow modes.
const (
	DropHead                OverflowMode = "DropHead"
	RejectPublish           OverflowMode = "RejectPublish"
	RejectPublishDeadLetter OverflowMode = "RejectPublishDeadLetter"
)

// HardLimits are limits that nobody but the operator of the cluster can raise.
type HardLimits struct {
	// MaxLength in messages that are ready.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MaxLengthBytes of the bodies of messages that are ready.
	// +optional
	MaxLengthBytes *resource.Quantity `json:"maxLengthBytes,omitempty"`
	// MessageTTL: messages are dropped or dead-lettered after it.
	// +optional
	MessageTTL *metav1.Duration `json:"messageTTL,omitempty"`
	// Expires: an unused queue is deleted after it.
	// +optional
	Expires *metav1.Duration `json:"expires,omitempty"`
	// DeliveryLimit of quorum queues.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DeliveryLimit *int64 `json:"deliveryLimit,omitempty"`
}

// DelayedRetry holds back messages that were returned.
type DelayedRetry struct {
	// Type says which returned messages are held back.
	// +optional
	Type DelayedRetryType `json:"type,omitempty"`
	// Min is how long after the first return; it grows with each further one.
	Min metav1.Duration `json:"min"`
	// Max is the longest.
	// +optional
	Max *metav1.Duration `json:"max,omitempty"`
}

// DelayedRetryType says which returned messages are held back.
// +kubebuilder:validation:Enum=All;Failed;Returned
type DelayedRetryType string

// The delayed retry types.
const (
	RetryAll      DelayedRetryType = "All"
	RetryFailed   DelayedRetryType = "Failed"
	RetryReturned DelayedRetryType = "Returned"
)

// RolloutSpec says in which stages a policy reaches its queues. Each stage is a temporary policy on the names of a batch
// of queues; at the end the policy itself takes their place.
type RolloutSpec struct {
	// Wave: on each cluster, policies of a higher wave wait until those of lower ones are done.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Wave int32 `json:"wave,omitempty"`

	// BatchSize is how many queues get the policy at once.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	BatchSize int32 `json:"batchSize,omitempty"`

	// Soak is how long a batch must have been well before the next one.
	// +kubebuilder:default="1m"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`

	// MaxUnsynchronised is how many queues of the vhost may have a mirror or member that does not have all messages yet; a
	// batch is made smaller so that there are never more. BatchSize if unset. Mirrors that nobody fills (sync Manual) do not
	// count.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxUnsynchronised *int32 `json:"maxUnsynchronised,omitempty"`

	// PauseOn stops between batches for as long as it lasts. Alarms always do.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	PauseOn []RolloutPause `json:"pauseOn,omitempty"`

	// RollBack takes the rollout back: batch by batch the queues get what was in force before.
	// +optional
	RollBack bool `json:"rollBack,omitempty"`
}

// RolloutPause is something that stops a rollout while it lasts.
// +kubebuilder:validation:Enum=Alarms;BacklogGrowth
type RolloutPause string

// What stops a rollout.
const (
	PauseOnAlarms        RolloutPause = "Alarms"
	PauseOnBacklogGrowth RolloutPause = "BacklogGrowth"
)

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

	// Clusters that the policy is in or is to be in, or has to be removed from.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Clusters []ClusterPolicyStatus `json:"clusters,omitempty"`

	// Where is the cluster's name, or how many there are.
	// +optional
	Where string `json:"where,omitempty"`

	// InForce over matching queues, of all clusters, as "412/412"; "412/?" when the pattern cannot be evaluated outside the
	// broker.
	// +optional
	InForce string `json:"inForce,omitempty"`

	// Rollout in a few words, of the cluster that is furthest behind, as "wave 2, batch 13/31" or "done".
	// +optional
	Rollout string `json:"rollout,omitempty"`
}

// ClusterPolicyStatus is what became of the policy in one cluster.
type ClusterPolicyStatus struct {
	// Cluster as namespace/name of the WorkloadCluster, or secret/NAME.
	Cluster string `json:"cluster"`

	// Owned is the broker's policy that this object made or is about to make here, and may change and delete.
	// +optional
	Owned *OwnedPolicy `json:"owned,omitempty"`

	// Reason and Message say why the policy is not, or not yet, as it should be here; "Ready" if it is.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// Warnings about what is accepted and still dangerous here, at most ten.
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Warnings []string `json:"warnings,omitempty"`

	// Queues counts the queues that the pattern matches.
	// +optional
	Queues *PolicyQueues `json:"queues,omitempty"`

	// Rollout is how far it is; absent when there is nothing staged about the policy.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}

// OwnedPolicy is a policy in one broker cluster.
type OwnedPolicy struct {
	// ClusterUID of the WorkloadCluster: another cluster of the same name is another broker. For one that Warren does not run
	// it follows from its address.
	ClusterUID string `json:"clusterUID"`
	VHost      string `json:"vhost"`
	Name       string `json:"name"`
	// Operator: so is the operator policy of the same name.
	// +optional
	Operator bool `json:"operator,omitempty"`
}

// RolloutPhase is where a rollout is.
// +kubebuilder:validation:Enum=Waiting;Batches;Overflow;Final;Cleanup;Done;RollingBack;RolledBack
type RolloutPhase string

// The phases of a rollout, in their order.
const (
	// RolloutWaiting for an earlier wave.
	RolloutWaiting RolloutPhase = "Waiting"
	// RolloutBatches: temporary policies on batches of queue names.
	RolloutBatches RolloutPhase = "Batches"
	// RolloutOverflow: what happens at a limit is put in force before the limit is.
	RolloutOverflow RolloutPhase = "Overflow"
	// RolloutFinal: the policy itself is written.
	RolloutFinal RolloutPhase = "Final"
	// RolloutCleanup: the temporary policies are removed.
	RolloutCleanup RolloutPhase = "Cleanup"
	RolloutDone    RolloutPhase = "Done"
	// RolloutRollingBack: what was in force before comes back, batch by batch.
	RolloutRollingBack RolloutPhase = "RollingBack"
	RolloutRolledBack  RolloutPhase = "RolledBack"
)

// RolloutStatus is how far a rollout is in one cluster.
type RolloutStatus struct {
	// ID of what is rolled out; the names of the temporary policies carry it.
	ID    string       `json:"id"`
	Phase RolloutPhase `json:"phase"`
	// ObservedGeneration of the spec that this is about. In phase Done: the broker had all that this spec says.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Batch of Batches that is being written or was written last; 0 when none is.
	// +optional
	Batch int32 `json:"batch,omitempty"`
	// +optional
	Batches int32 `json:"batches,omitempty"`
	// Done of Total queues have what is rolled out.
	// +optional
	Done int32 `json:"done,omitempty"`
	// +optional
	Total int32 `json:"total,omitempty"`
	// WaitsFor says in words what is next waited for; "" for nothing.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
	// Since the present step was written.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// WellSince: from when on all gates of the present batch have held.
	// +optional
	WellSince *metav1.Time `json:"wellSince,omitempty"`
	// Backlog of the matching queues when the present batch was written, in messages; unset when the broker did not say.
	// +optional
	Backlog *int64 `json:"backlog,omitempty"`
	// ProtectedSince: from when on all classic queues of the present step have refused publishers at a limit, so that the
	// limit itself may follow.
	// +optional
	ProtectedSince *metav1.Time `json:"protectedSince,omitempty"`
	// Before is the broker's policy of this name when the rollout began; unset if there was none.
	// +optional
	Before *PolicyBefore `json:"before,omitempty"`
	// FormerIDs of rollouts that an edit of the spec broke off, while their temporary policies are there.
	// +optional
	FormerIDs []string `json:"formerIDs,omitempty"`
	// RollBackSpent: rollBack was true already when this rollout began, and means nothing for it until it was false.
	// +optional
	RollBackSpent bool `json:"rollBackSpent,omitempty"`
}

// PolicyBefore is a policy as a broker had it.
type PolicyBefore struct {
	Pattern  string `json:"pattern"`
	ApplyTo  string `json:"applyTo"`
	Priority int32  `json:"priority"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Definition runtime.RawExtension `json:"definition"`
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
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.where`
// +kubebuilder:printcolumn:name="Pattern",type=string,JSONPath=`.spec.pattern`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.replication.mode`
// +kubebuilder:printcolumn:name="In force",type=string,JSONPath=`.status.inForce`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout`
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

// Owns tells whether the status records the policy of this name, in the vhost of the cluster with this UID, as its own.
func (s *QueuePolicyStatus) Owns(clusterUID, vhost, name string) bool {
	for _, c := range s.Clusters {
		if c.Owned != nil && c.Owned.ClusterUID == clusterUID && c.Owned.VHost == vhost && c.Owned.Name == name {
			return true
		}
	}
	return false
}
