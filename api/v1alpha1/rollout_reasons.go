package v1alpha1

// Reasons of a QueuePolicy whose policy is brought to its queues in stages.
const (
	ReasonWaitingForWave = "WaitingForWave"
	ReasonRollingOut     = "RollingOut"
	ReasonSoaking        = "Soaking"
	ReasonAlarmActive    = "AlarmActive"
	ReasonBacklogGrows   = "BacklogGrows"
	ReasonOverflowFirst  = "OverflowFirst"
	ReasonRollingBack    = "RollingBack"
	ReasonRolledBack     = "RolledBack"
	ReasonCannotStage    = "CannotStage"
)
