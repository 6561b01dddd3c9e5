package v1alpha1

// Reasons why a QueuePolicy is not sent although the broker would take it.
const (
	// ReasonNeedsAcceptDataLoss: it may drop messages or queues.
	ReasonNeedsAcceptDataLoss = "NeedsAcceptDataLoss"
	// ReasonNeedsAcceptMaskedKeys: it would take keys away that queues have from another policy.
	ReasonNeedsAcceptMaskedKeys = "NeedsAcceptMaskedKeys"
	// ReasonNeedsRollout: it may drop messages or queues, and matches every queue at once.
	ReasonNeedsRollout = "NeedsRollout"
	// ReasonDepthUnknown: the broker did not say how many messages are in a queue that it would limit.
	ReasonDepthUnknown = "DepthUnknown"
	// ReasonDeadLetterLoop: dead messages would come back to a queue of the policy.
	ReasonDeadLetterLoop = "DeadLetterLoop"
	// ReasonDeadLetterMissing: there is nothing that dead messages could go to.
	ReasonDeadLetterMissing = "DeadLetterMissing"
	// ReasonDeadLetterUnusable: what is there cannot be used for dead messages.
	ReasonDeadLetterUnusable = "DeadLetterUnusable"
)
