package bench

import "reflect"

// Sample is what one node of the broker said at one time. Prometheus, the management API and the node's cgroup each fill
// what they know; Join puts them together. All values are optional: what was not said is nil. Counters (Total) are as the
// source counts them; Rate makes them a rate.
type Sample struct {
	// AtSeconds since the start of the run (Run.Started), by the generator's clock.
	AtSeconds float64 `json:"atSeconds"`
	// Node is the Erlang name of the node, such as "rabbit@host".
	Node string `json:"node,omitempty"`

	// CPU of the broker's container, from cpu.stat and cpu.max.
	CPUSecondsTotal          *float64 `json:"cpuSecondsTotal,omitempty"`
	CPULimitCores            *float64 `json:"cpuLimitCores,omitempty"` // the quota, or the cores of the machine
	CPUThrottledSecondsTotal *float64 `json:"cpuThrottledSecondsTotal,omitempty"`
	CPUPeriodsTotal          *float64 `json:"cpuPeriodsTotal,omitempty"`          // of the quota
	CPUThrottledPeriodsTotal *float64 `json:"cpuThrottledPeriodsTotal,omitempty"` // in which it was used up
	CPUPressureSecondsTotal  *float64 `json:"cpuPressureSecondsTotal,omitempty"`  // "some" of cpu.pressure

	// Memory of the node, by its own count, and of its control group without the file cache that can be dropped.
	MemoryUsedBytes      *float64 `json:"memoryUsedBytes,omitempty"`
	ContainerMemoryBytes *float64 `json:"containerMemoryBytes,omitempty"`
	MemoryLimitBytes     *float64 `json:"memoryLimitBytes,omitempty"`
	MemoryWatermarkBytes *float64 `json:"memoryWatermarkBytes,omitempty"`

	// Disk, from io.stat, io.pressure, /proc/diskstats or the node exporter. RabbitMQ's own io series stay 0.
	DiskFreeBytes          *float64 `json:"diskFreeBytes,omitempty"`
	DiskFreeLimitBytes     *float64 `json:"diskFreeLimitBytes,omitempty"`
	DiskReadBytesTotal     *float64 `json:"diskReadBytesTotal,omitempty"`
	DiskWriteBytesTotal    *float64 `json:"diskWriteBytesTotal,omitempty"`
	DiskWritesTotal        *float64 `json:"diskWritesTotal,omitempty"`
	DeviceWritesTotal      *float64 `json:"deviceWritesTotal,omitempty"`      // of the disk, whoever wrote
	DiskWriteSecondsTotal  *float64 `json:"diskWriteSecondsTotal,omitempty"`  // time of all writes of the disk: with DeviceWritesTotal, the await
	DiskBusySecondsTotal   *float64 `json:"diskBusySecondsTotal,omitempty"`   // time with a request in flight
	IOPressureSecondsTotal *float64 `json:"ioPressureSecondsTotal,omitempty"` // "some" of io.pressure

	// Network of the node, from /proc/net/dev of its namespace, and the speed of the link.
	NetworkReceiveBytesTotal    *float64 `json:"networkReceiveBytesTotal,omitempty"`
	NetworkTransmitBytesTotal   *float64 `json:"networkTransmitBytesTotal,omitempty"`
	NetworkLimitBytesPerSecond  *float64 `json:"networkLimitBytesPerSecond,omitempty"`
	BrokerReceiveBytesTotal     *float64 `json:"brokerReceiveBytesTotal,omitempty"` // by the broker's own count, of AMQP alone
	BrokerTransmitBytesTotal    *float64 `json:"brokerTransmitBytesTotal,omitempty"`
	ConnectionPendingPackets    *float64 `json:"connectionPendingPackets,omitempty"` // more than 0: a client does not read
	ConnectionsOpenedTotal      *float64 `json:"connectionsOpenedTotal,omitempty"`
	ConnectionsClosedTotal      *float64 `json:"connectionsClosedTotal,omitempty"`
	ChannelsOpenedTotal         *float64 `json:"channelsOpenedTotal,omitempty"`
	ChannelsClosedTotal         *float64 `json:"channelsClosedTotal,omitempty"`
	Connections                 *float64 `json:"connections,omitempty"`
	Channels                    *float64 `json:"channels,omitempty"`
	Consumers                   *float64 `json:"consumers,omitempty"`
	Queues                      *float64 `json:"queues,omitempty"`
	FileDescriptors             *float64 `json:"fileDescriptors,omitempty"`
	Sockets                     *float64 `json:"sockets,omitempty"`
	ConnectionsInFlow           *float64 `json:"connectionsInFlow,omitempty"` // state "flow", from the management API
	ChannelsInFlow              *float64 `json:"channelsInFlow,omitempty"`
	QueuesInFlow                *float64 `json:"queuesInFlow,omitempty"`
	ConnectionsBlocked          *float64 `json:"connectionsBlocked,omitempty"` // state "blocked" or "blocking"
	MemoryAlarm                 *float64 `json:"memoryAlarm,omitempty"`        // 1 while it rings
	DiskAlarm                   *float64 `json:"diskAlarm,omitempty"`
	FileDescriptorAlarm         *float64 `json:"fileDescriptorAlarm,omitempty"`
	RunQueue                    *float64 `json:"runQueue,omitempty"` // Erlang processes that are ready and wait
	Schedulers                  *float64 `json:"schedulers,omitempty"`
	SchedulerUtilisationRatio   *float64 `json:"schedulerUtilisationRatio,omitempty"`
	GCRunsTotal                 *float64 `json:"gcRunsTotal,omitempty"`
	GCReclaimedBytesTotal       *float64 `json:"gcReclaimedBytesTotal,omitempty"`
	QueueReductionsTotal        *float64 `json:"queueReductionsTotal,omitempty"` // of all queue processes
	HottestQueueReductionsTotal *float64 `json:"hottestQueueReductionsTotal,omitempty"`
	ChannelReductionsTotal      *float64 `json:"channelReductionsTotal,omitempty"`
	ConnectionReductionsTotal   *float64 `json:"connectionReductionsTotal,omitempty"`
	MessagesReady               *float64 `json:"messagesReady,omitempty"`
	MessagesUnacked             *float64 `json:"messagesUnacked,omitempty"`
	MessagesUnconfirmed         *float64 `json:"messagesUnconfirmed,omitempty"`
	ConsumerCapacityRatio       *float64 `json:"consumerCapacityRatio,omitempty"` // the lowest of the queues that have consumers
	ReceivedTotal               *float64 `json:"receivedTotal,omitempty"`
	ConfirmedTotal              *float64 `json:"confirmedTotal,omitempty"`
	RoutedTotal                 *float64 `json:"routedTotal,omitempty"`
	DeliveredTotal              *float64 `json:"deliveredTotal,omitempty"`
	AcknowledgedTotal           *float64 `json:"acknowledgedTotal,omitempty"`
	RedeliveredTotal            *float64 `json:"redeliveredTotal,omitempty"`
	UnroutableTotal             *float64 `json:"unroutableTotal,omitempty"` // dropped and returned
	DeadLetteredTotal           *float64 `json:"deadLetteredTotal,omitempty"`
	RaftCommitLatencySeconds    *float64 `json:"raftCommitLatencySeconds,omitempty"` // the highest of the quorum queues
	RaftWrittenBytesTotal       *float64 `json:"raftWrittenBytesTotal,omitempty"`
}

// join sets the values that s does not have.
func (s *Sample) join(other *Sample) {
	ours, theirs := reflect.ValueOf(s).Elem(), reflect.ValueOf(other).Elem()
	for i := range ours.NumField() {
		if f := ours.Field(i); f.IsZero() {
			f.Set(theirs.Field(i))
		}
	}
}
