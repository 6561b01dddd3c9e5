package v1alpha1

// ClusterDefaults are what clients of the cluster find from its first day, in the vhost "/".
type ClusterDefaults struct {
	// QueueType of queues that a client declares without saying a type: Quorum or Classic. Queues that exist keep theirs. Quorum needs
	// RabbitMQ 3.11.1.
	// +optional
	QueueType DefaultQueueType `json:"queueType,omitempty"`

	// DeadLetter is where dead messages find a queue that nobody else leads them to.
	// +optional
	DeadLetter *DefaultDeadLetter `json:"deadLetter,omitempty"`
}

// DefaultQueueType is the type of queues that are declared without one.
// +kubebuilder:validation:Enum=Quorum;Classic
type DefaultQueueType string

// The default queue types.
const (
	DefaultQuorum  DefaultQueueType = "Quorum"
	DefaultClassic DefaultQueueType = "Classic"
)

// DefaultDeadLetter is a dead-letter exchange and its queue. They are made, kept, and never deleted.
//
// +kubebuilder:validation:XValidation:rule="!self.exchange.startsWith('amq.') && (!has(self.queue) || !self.queue.startsWith('amq.'))",message="RabbitMQ lets nobody make exchanges or queues called amq.*"
type DefaultDeadLetter struct {
	// Exchange for queues and policies to name as their dead-letter exchange. It leads each message to the queues that are bound by
	// its routing key and, if there is none, through its alternate exchange to queue.
	// +kubebuilder:default=dlx
	// +kubebuilder:validation:Pattern=`^[^\r\n]+$`
	// +kubebuilder:validation:MaxLength=240
	// +optional
	Exchange string `json:"exchange,omitempty"`

	// Queue that gets them: a quorum queue. "<workloadClass>.dead-letters" if unset.
	// +kubebuilder:validation:Pattern=`^[^\r\n]+$`
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Queue string `json:"queue,omitempty"`
}
