package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UpdateSpec says when the nodes restart for what nobody changed in the spec.
type UpdateSpec struct {
	// Approval: with OnOperatorUpgrade, what only a new version of Warren would change in the pods waits until the window, or until
	// the annotation rabbitmq.warren.dev/update.approve has the value that the condition UpdatePending names. A changed spec is
	// carried out at once, together with what waits. With Never nothing waits.
	// +kubebuilder:default=OnOperatorUpgrade
	// +optional
	Approval UpdateApproval `json:"approval,omitempty"`

	// Window in which what waits goes on without approval.
	// +optional
	Window *MaintenanceWindow `json:"window,omitempty"`
}

// UpdateApproval says what waits for approval.
// +kubebuilder:validation:Enum=OnOperatorUpgrade;Never
type UpdateApproval string

// The kinds of approval.
const (
	ApproveOnOperatorUpgrade UpdateApproval = "OnOperatorUpgrade"
	ApproveNever             UpdateApproval = "Never"
)

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// Cron is when it begins, in UTC: minute, hour, day of month, month, day of week, as "0 3 * * SUN".
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[^\s@=]+(\s+[^\s@=]+){4}$`
	Cron string `json:"cron"`

	// Duration of it, as 2h. What has begun in it goes on after it.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="a window is at least 1m long"
	Duration metav1.Duration `json:"duration"`
}
