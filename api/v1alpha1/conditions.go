package v1alpha1

// Condition types of a WorkloadCluster. Ready is True when all the others are.
const (
	// Ready is the summary of every Kind.
	ConditionReady = "Ready"
	// ConditionReconciled: the spec is valid and the objects of the cluster are as it says.
	ConditionReconciled = "Reconciled"
	// ConditionSchedulable: no pod waits for a place.
	ConditionSchedulable = "Schedulable"
	// ConditionNodesReady: as many pods as wanted are ready, at the wanted revision.
	ConditionNodesReady = "NodesReady"
	// ConditionBrokerReachable: the management API answers, all nodes are in one cluster and run.
	ConditionBrokerReachable = "BrokerReachable"
	// ConditionAlarmsClear: no node has a memory or disk alarm, so publishers are not blocked.
	ConditionAlarmsClear = "AlarmsClear"
	// ConditionTuned: the running nodes have every value of status.tuning.
	ConditionTuned = "Tuned"
	// ConditionVolumesReady: every node's volume has at least the size that the spec says.
	ConditionVolumesReady = "VolumesReady"
	// ConditionUpdatePending: the pods would restart for nothing but another version of Warren, and that waits. It does not make
	// the cluster unready.
	ConditionUpdatePending = "UpdatePending"
	// ConditionDefaultsInForce: the broker has spec.defaults. It is there only with that.
	ConditionDefaultsInForce = "DefaultsInForce"
)

// Condition types of a QueuePolicy, besides Ready.
const (
	// ConditionAccepted: the policy can be sent to this broker and the broker did not refuse it.
	ConditionAccepted = "Accepted"
	// ConditionInSync: the broker has exactly this policy.
	ConditionInSync = "InSync"
	// ConditionInForce: every matching queue has the policy and the replicas it asks for.
	ConditionInForce = "InForce"
	// ConditionConflict: another QueuePolicy, or somebody's policy in the broker, has the same name.
	ConditionConflict = "Conflict"
	// ConditionQuorumDecisionDue: the day of quorumDecision.by has passed. It does not make the policy unready.
	ConditionQuorumDecisionDue = "QuorumDecisionDue"
	// ConditionDeletionBlocked: the broker's policy cannot be removed, so the object stays.
	ConditionDeletionBlocked = "DeletionBlocked"
)

// Condition types of a Benchmark, besides Ready and Accepted.
const (
	// ConditionTargetReady: the cluster is there, ready and without alarms, so that a run may start.
	ConditionTargetReady = "TargetReady"
	// ConditionRunning: a run is under way, or why none is.
	ConditionRunning = "Running"
	// ConditionRegressed: the newest run that could be compared is worse than those before it. It does not make the
	// Benchmark unready.
	ConditionRegressed = "Regressed"
	// ConditionCleanedUp: nothing of a run that has ended is left on the broker.
	ConditionCleanedUp = "CleanedUp"
	// ConditionStored: the newest run is on the volume of spec.history.volumeClaimRef. It is there only with that, and does
	// not make the Benchmark unready.
	ConditionStored = "Stored"
)

// Reasons that conditions share.
const (
	ReasonReady       = "Ready"
	ReasonAsExpected  = "AsExpected"
	ReasonUnknown     = "Unknown"
	ReasonInvalidSpec = "InvalidSpec"
	ReasonPaused      = "Paused"
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of a WorkloadCluster.
const (
	ReasonNameTaken      = "NameTaken"
	ReasonSecretMissing  = "SecretMissing"
	ReasonUnschedulable  = "Unschedulable"
	ReasonNodesStarting  = "NodesStarting"
	ReasonRollingUpdate  = "RollingUpdate"
	ReasonNodeNotReady   = "NodeNotReady"
	ReasonNodeStopping   = "NodeStopping"
	ReasonScalingIn      = "ScalingIn"
	ReasonScaleInRefused = "ScaleInRefused"
	ReasonVolumeInTheWay = "VolumeInTheWay"
	ReasonNodeDown       = "NodeDown"
	ReasonNotClustered   = "NotClustered"
	ReasonAuthFailed     = "AuthFailed"
	ReasonUnreachable    = "Unreachable"
	ReasonNotInForce     = "NotInForce"
	ReasonNoLimit        = "NoLimit"
	ReasonAlarm          = "Alarm"
	ReasonWaitingForNode = "WaitingForNodes"
	// ReasonGrowing: volumes are on their way to the size that the spec says.
	ReasonGrowing = "Growing"
	// ReasonGrowthRefused: the API server or the storage does not let the volumes grow.
	ReasonGrowthRefused = "GrowthRefused"
	// ReasonWaitingForApproval: nobody has approved the update yet.
	ReasonWaitingForApproval = "WaitingForApproval"
)

// Reasons of a QueuePolicy.
const (
	ReasonClusterNotFound      = "ClusterNotFound"
	ReasonClusterNotReady      = "ClusterNotReady"
	ReasonVHostNotFound        = "VHostNotFound"
	ReasonUnsupportedByServer  = "UnsupportedByServer"
	ReasonRefusedByServer      = "RefusedByServer"
	ReasonNoConflict           = "NoConflict"
	ReasonOtherQueuePolicy     = "OtherQueuePolicy"
	ReasonForeignPolicy        = "ForeignPolicy"
	ReasonPending              = "Pending"
	ReasonNotAllQueues         = "NotAllQueues"
	ReasonCannotEvaluate       = "CannotEvaluatePattern"
	ReasonDateInFuture         = "DateInFuture"
	ReasonDatePassed           = "DatePassed"
	ReasonMaskedByPriority     = "MaskedByPriority"
	ReasonUnsupportedForType   = "UnsupportedForType"
	ReasonNeedsMigration       = "NeedsMigration"
	ReasonSynchronising        = "Synchronising"
	ReasonBelowTargetSize      = "BelowTargetSize"
	ReasonNotYetApplied        = "NotYetApplied"
	ReasonOverriddenByArgument = "OverriddenByArgument"
	ReasonLeaving              = "Leaving"
	ReasonMatchesNothing       = "MatchesNothing"
	ReasonEqualPriority        = "EqualPriority"
	ReasonDueSoon              = "DueSoon"

	ReasonOverriddenByOperatorPolicy = "OverriddenByOperatorPolicy"
)

// Reasons of a Benchmark.
const (
	ReasonNoImage        = "NoImage"
	ReasonQueued         = "Queued"
	ReasonChangeSettling = "ChangeSettling"
	ReasonIdle           = "Idle"
	ReasonRunActive      = "RunActive"
	ReasonNoHistory      = "NoHistory"
	ReasonNotComparable  = "NotComparable"
	ReasonWithinGate     = "WithinGate"
	ReasonOutsideGate    = "OutsideGate"
	ReasonCleaningUp     = "CleaningUp"
	ReasonCleanupFailed  = "CleanupFailed"
	ReasonStoreFailed    = "StoreFailed"
	// ReasonClaimNotFound: spec.history.volumeClaimRef names a claim that is not there, or is going.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonClaimNotShared: several pods cannot have the claim at once.
	ReasonClaimNotShared = "ClaimNotShared"
	// ReasonBrokerCgroupsNotAllowed: the manager may not give the pods of a run the right that spec.generator.brokerCgroups needs.
	ReasonBrokerCgroupsNotAllowed = "BrokerCgroupsNotAllowed"
)

// Names that Warren puts on objects.
const (
	// LabelCluster carries the WorkloadCluster's name on everything it consists of.
	LabelCluster = "rabbitmq.warren.dev/cluster"
	// LabelWorkloadClass carries spec.workloadClass.
	LabelWorkloadClass = "rabbitmq.warren.dev/workload-class"
	// LabelBenchmark carries the Benchmark's name on everything of its runs.
	LabelBenchmark = "rabbitmq.warren.dev/benchmark"
	// LabelRun carries the run's id on the objects of the run and on its results.
	LabelRun = "rabbitmq.warren.dev/run"
	// LabelResult carries the scenario's name on the ConfigMap with its result.
	LabelResult = "rabbitmq.warren.dev/result"
	// LabelReport is "true" on the ConfigMap with the report of a run.
	LabelReport = "rabbitmq.warren.dev/report"
	// AnnotationRun of a Benchmark starts a run each time that its value changes.
	AnnotationRun = "rabbitmq.warren.dev/run"
	// FinalizerBenchmark holds a Benchmark while a run of it may have something on the broker.
	FinalizerBenchmark = "rabbitmq.warren.dev/run"
	// FinalizerQueuePolicy holds a QueuePolicy until the broker's policy is gone.
	FinalizerQueuePolicy = "rabbitmq.warren.dev/policy"
	// FinalizerWorkloadCluster holds a WorkloadCluster until its pods know that they need not wait for each other.
	FinalizerWorkloadCluster = "rabbitmq.warren.dev/graceful-stop"
	// AnnotationOrphan, set to "true" on a QueuePolicy being deleted, leaves the broker's policy behind and lets the object go.
	AnnotationOrphan = "rabbitmq.warren.dev/orphan"
	// AnnotationStopNow, set to "true" on a pod, makes it stop without waiting for the queues' other replicas.
	AnnotationStopNow = "rabbitmq.warren.dev/stop-now"
	// AnnotationStopNowSince is when the pod was told so.
	AnnotationStopNowSince = "rabbitmq.warren.dev/stop-now-since"
	// AnnotationApproveUpdate of a WorkloadCluster approves the update that the condition UpdatePending names.
	AnnotationApproveUpdate = "rabbitmq.warren.dev/update.approve"
	// AnnotationRendering says of what a StatefulSet's pod template was made.
	AnnotationRendering = "rabbitmq.warren.dev/rendering"
	// AnnotationApplied carries a hash of what Warren last wrote to an object.
	AnnotationApplied = "rabbitmq.warren.dev/applied"
	// AnnotationVolumeSize carries the size of the volumes before they grew: what was chosen from it stays, since a node takes
	// another disk limit only when it restarts.
	AnnotationVolumeSize = "rabbitmq.warren.dev/volume-size"
)
