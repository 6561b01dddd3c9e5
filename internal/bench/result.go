package bench

import (
	"strings"
	"time"
)

// SchemaVersion of Result. It changes when a field changes its meaning or goes; new fields do not change it.
const SchemaVersion = 1

// Result is a benchmark of one scenario: its runs and their median. It is what result.json holds.
type Result struct {
	SchemaVersion int         `json:"schemaVersion"`
	Scenario      Scenario    `json:"scenario"`
	Fingerprint   Fingerprint `json:"fingerprint"`
	Started       time.Time   `json:"started"`
	Runs          []Run       `json:"runs"`
	// Summary is over the valid runs.
	Summary Summary `json:"summary"`
}

// Fingerprint says on what a result was measured. Only results of the same Key are compared.
type Fingerprint struct {
	// CPUModel, as /proc/cpuinfo has it, of the machine of the broker; the generator's where the broker's is not known.
	CPUModel string `json:"cpuModel,omitempty"`
	// CPUCores that the broker may use: its limit, or the machine's. Kernel is `uname -r`.
	CPUCores float64 `json:"cpuCores,omitempty"`
	Kernel   string  `json:"kernel,omitempty"`
	// BrokerVersion ("4.3.6"), ErlangVersion ("27"), Image (with digest where known), Nodes of the cluster.
	BrokerVersion string `json:"brokerVersion,omitempty"`
	ErlangVersion string `json:"erlangVersion,omitempty"`
	Image         string `json:"image,omitempty"`
	Nodes         int    `json:"nodes,omitempty"`
	// QueueType is the scenario's.
	QueueType QueueType `json:"queueType,omitempty"`
	// Generator is the version of the generator with the client library in it. SharedHost says that the generator and the
	// broker have the same cores, which makes each a neighbour of the other.
	Generator  string `json:"generator,omitempty"`
	SharedHost bool   `json:"sharedHost,omitempty"`
}

// Run is one repetition. Load fills it up to Broker, for each worker a Part; MergeParts makes one of them, and Finish
// fills the rest.
type Run struct {
	// Number from 1. Started is the zero of all AtSeconds.
	Number  int       `json:"number"`
	Started time.Time `json:"started"`
	// Phases in order. The figures are of the phase Steady alone, histograms too.
	Phases []Phase `json:"phases"`
	// Seconds are one entry for each second since Started, over all phases.
	Seconds []Second `json:"seconds"`
	// Latency histograms of the phase Steady.
	Latency Histograms `json:"latency"`
	// Queues is the account of messages over all phases, by queue, sorted by name.
	Queues []QueueAccount `json:"queues"`
	// Generator says how well the generator did in the phase Steady.
	Generator GeneratorFigures `json:"generator"`
	// Drain is there when the scenario has a backlog and consumers, Storm when it has a storm.
	Drain *DrainFigures `json:"drain,omitempty"`
	Storm *StormFigures `json:"storm,omitempty"`
	// Events are what happened and may explain a figure: blocked, unblocked, reconnected, capped. By time.
	Events []Event `json:"events,omitempty"`
	// Broker samples of all nodes, by time. Nil when no source was given.
	Broker []Sample `json:"broker,omitempty"`

	// Figures, Validity and Verdict are what Finish found.
	Figures  Figures  `json:"figures"`
	Validity Validity `json:"validity"`
	Verdict  Verdict  `json:"verdict"`
}

// Part is what one worker hands back of one run: the run up to Broker, with Queues empty, and its ledgers, one for each
// queue in which it sent or received.
type Part struct {
	Run     Run       `json:"run"`
	Ledgers []*Ledger `json:"ledgers"`
}

// PhaseName of a part of a run.
type PhaseName string

// The phases.
const (
	PhaseFill   PhaseName = "Fill"   // a backlog is built; no consumers
	PhaseWarmUp PhaseName = "WarmUp" // cut from the figures
	PhaseSteady PhaseName = "Steady" // what is measured; with a backlog it begins with the consumers
	PhaseFlush  PhaseName = "Flush"  // publishers have stopped, consumers take what is left, so that loss can be counted
)

// Phase is a part of a run, in seconds since Run.Started.
type Phase struct {
	Name         PhaseName `json:"name"`
	StartSeconds float64   `json:"startSeconds"`
	EndSeconds   float64   `json:"endSeconds"`
}

// Second is what the generator did in one second. Counts are messages in that second. The waits are summed over publishers
// or consumers: 8 publishers that wait all the time have 8 seconds of it.
type Second struct {
	// AtSeconds is when it began, since Run.Started; whole.
	AtSeconds int `json:"atSeconds"`
	// Intended sends by the schedule; 0 in Closed mode. Published were handed to the socket.
	Intended     int64 `json:"intended,omitempty"`
	Published    int64 `json:"published,omitempty"`
	Confirmed    int64 `json:"confirmed,omitempty"`
	Nacked       int64 `json:"nacked,omitempty"`
	Returned     int64 `json:"returned,omitempty"`
	Consumed     int64 `json:"consumed,omitempty"`
	Acknowledged int64 `json:"acknowledged,omitempty"`
	// PublishedBytes and ConsumedBytes are of bodies.
	PublishedBytes int64 `json:"publishedBytes,omitempty"`
	ConsumedBytes  int64 `json:"consumedBytes,omitempty"`
	// Unconfirmed and Unacknowledged at the end of the second, over all publishers and all consumers.
	Unconfirmed    int64 `json:"unconfirmed,omitempty"`
	Unacknowledged int64 `json:"unacknowledged,omitempty"`
	// WindowWaitSeconds: publishers waited for a confirm because their window was full. WriteWaitSeconds: they were inside
	// a write to the socket. BlockedSeconds: their connection was blocked by the broker (connection.blocked).
	WindowWaitSeconds float64 `json:"windowWaitSeconds,omitempty"`
	WriteWaitSeconds  float64 `json:"writeWaitSeconds,omitempty"`
	BlockedSeconds    float64 `json:"blockedSeconds,omitempty"`
	// HandleSeconds: consumers were in the handler (Consumers.Latency and the generator's own work on a message).
	HandleSeconds float64 `json:"handleSeconds,omitempty"`
	// Opened, Closed connections of the generator, and failed attempts.
	Opened int64 `json:"opened,omitempty"`
	Closed int64 `json:"closed,omitempty"`
	Failed int64 `json:"failed,omitempty"`
	// CPUSeconds of the generator's process in that second.
	CPUSeconds float64 `json:"cpuSeconds,omitempty"`
	// Latency of the messages that were consumed (or, without consumers, confirmed) in that second, as a coarse histogram, so
	// that workers can be merged and an HDR log be written. Quantiles are drawn from it by Finish.
	Latency   *Histogram `json:"latency,omitempty"`
	Quantiles *Quantiles `json:"quantiles,omitempty"`
}

// Histograms of latencies. A nil one does not apply to the scenario.
type Histograms struct {
	// EndToEnd is from the intended send time (Open) or from the time at which the publisher was ready to send (Closed) to
	// the handler of the consumer. Uncorrected is the same from the actual write: what most tools print.
	EndToEnd    *Histogram `json:"endToEnd,omitempty"`
	Uncorrected *Histogram `json:"uncorrected,omitempty"`
	// Confirm is from the intended time to the confirm; ConfirmUncorrected is from the write.
	Confirm            *Histogram `json:"confirm,omitempty"`
	ConfirmUncorrected *Histogram `json:"confirmUncorrected,omitempty"`
	// Fresh is EndToEnd of the messages that were sent while a backlog drained.
	Fresh *Histogram `json:"fresh,omitempty"`
	// Connect is from the attempt to an open channel, of a storm or else of the generator's own connections.
	Connect *Histogram `json:"connect,omitempty"`
	// Pacing is how late the generator itself was: from the intended time, or the end of what it waited for in the window,
	// the write or the blocked connection, if that was later, to the send. SchedulingDelay is of the Go runtime: ready to
	// run until running.
	Pacing          *Histogram `json:"pacing,omitempty"`
	SchedulingDelay *Histogram `json:"schedulingDelay,omitempty"`
}

// GeneratorFigures are of all workers together in the phase Steady. Nil is not measured.
type GeneratorFigures struct {
	// Workers merged.
	Workers int `json:"workers"`
	// IntendedSends, and LateSends of them: sends for which the generator itself (Pacing) was later than LateAfter. In
	// Closed mode both are 0.
	IntendedSends int64 `json:"intendedSends,omitempty"`
	LateSends     int64 `json:"lateSends,omitempty"`
	// CPUCores used on average and CPULimitCores that it may use: the quota of its cgroup, or GOMAXPROCS if less. BusiestRatio
	// is the highest of used by limit of one worker: one full worker spoils the run.
	CPUCores      *float64 `json:"cpuCores,omitempty"`
	CPULimitCores *float64 `json:"cpuLimitCores,omitempty"`
	BusiestRatio  *float64 `json:"busiestRatio,omitempty"`
	// ThrottledSeconds by its cgroup.
	ThrottledSeconds *float64 `json:"throttledSeconds,omitempty"`
	// GCPauseSeconds and GCCPUSeconds of the Go runtime, MemoryBytes the highest of its heap (sum of workers).
	GCPauseSeconds *float64 `json:"gcPauseSeconds,omitempty"`
	GCCPUSeconds   *float64 `json:"gcCpuSeconds,omitempty"`
	MemoryBytes    *float64 `json:"memoryBytes,omitempty"`
}

// LateAfter is from when on a send counts as late through the generator itself.
const LateAfter = 5 * time.Millisecond

// QueueAccount is the account of the messages of one queue. Lost, Duplicated, Reordered and Foreign are as Ledger counts
// them.
type QueueAccount struct {
	Queue     string `json:"queue"`
	Published int64  `json:"published"`
	Confirmed int64  `json:"confirmed"`
	Consumed  int64  `json:"consumed"`
	// Left in the queue at the end, by the broker's count; they are not lost. Nil when it was not asked.
	Left *int64 `json:"left,omitempty"`
	// Lost were confirmed (or, without confirms, published) and neither consumed nor left.
	Lost int64 `json:"lost"`
	// Duplicated were consumed again without the redelivered flag; Redelivered with it.
	Duplicated  int64 `json:"duplicated"`
	Redelivered int64 `json:"redelivered"`
	Reordered   int64 `json:"reordered"`
	// Foreign were not sent by this run.
	Foreign int64 `json:"foreign"`
}

// DrainFigures say how a backlog went away.
type DrainFigures struct {
	// Messages at the start of the phase Steady, and Left at its end.
	Messages int64 `json:"messages"`
	Left     int64 `json:"left"`
	// EmptySeconds from the start of consumers until the queues were empty; nil when they were not.
	EmptySeconds *float64 `json:"emptySeconds,omitempty"`
	// PerSecond is the rate at which the depth fell, fresh messages taken off.
	PerSecond float64 `json:"perSecond"`
}

// StormFigures say how a storm of connections went.
type StormFigures struct {
	Attempted int64 `json:"attempted"`
	Opened    int64 `json:"opened"`
	// Failed attempts by reason, as short as the client has it.
	Failed map[string]int64 `json:"failed,omitempty"`
	// OpenSeconds from the first attempt until the last connection was open.
	OpenSeconds float64 `json:"openSeconds"`
}

// EventKind of what happened.
type EventKind string

// The kinds of events.
const (
	EventBlocked   EventKind = "Blocked"   // connection.blocked came
	EventUnblocked EventKind = "Unblocked" // connection.unblocked came
	EventLost      EventKind = "Lost"      // a connection or channel was lost
	EventCapped    EventKind = "Capped"    // a cap of the scenario stopped the load
	EventStopped   EventKind = "Stopped"   // the run was cut short, by a signal or a fault
)

// Event is something that happened at a time.
type Event struct {
	AtSeconds float64   `json:"atSeconds"`
	Kind      EventKind `json:"kind"`
	Message   string    `json:"message,omitempty"`
}

// Quantiles of a histogram, in seconds. A quantile for which there are too few samples is nil: see MinSamples.
type Quantiles struct {
	Samples     int64    `json:"samples"`
	P50Seconds  *float64 `json:"p50Seconds,omitempty"`
	P90Seconds  *float64 `json:"p90Seconds,omitempty"`
	P99Seconds  *float64 `json:"p99Seconds,omitempty"`
	P999Seconds *float64 `json:"p999Seconds,omitempty"`
	MaxSeconds  *float64 `json:"maxSeconds,omitempty"`
	// Insufficient names the quantiles that were refused: "P99.9".
	Insufficient []string `json:"insufficient,omitempty"`
}

// Figures are the numbers of one run, over the phase Steady.
type Figures struct {
	SteadySeconds           float64 `json:"steadySeconds"`
	PublishedPerSecond      float64 `json:"publishedPerSecond"`
	ConfirmedPerSecond      float64 `json:"confirmedPerSecond"`
	ConsumedPerSecond       float64 `json:"consumedPerSecond"`
	PublishedBytesPerSecond float64 `json:"publishedBytesPerSecond"`
	ConsumedBytesPerSecond  float64 `json:"consumedBytesPerSecond"`
	// Throughput is the number that is compared: what was consumed, or without consumers what was confirmed, or without
	// confirms what was published; of a storm the connections opened per second.
	Throughput     float64 `json:"throughput"`
	ThroughputUnit string  `json:"throughputUnit"`
	// Latency is the distribution that is compared: end to end; of fresh messages when a backlog drains; of confirms without
	// consumers; of connects in a storm. Uncorrected is its other face. Confirm is always of confirms.
	LatencyOf   string     `json:"latencyOf,omitempty"`
	Latency     *Quantiles `json:"latency,omitempty"`
	Uncorrected *Quantiles `json:"uncorrected,omitempty"`
	Confirm     *Quantiles `json:"confirm,omitempty"`
	// PacingErrorRatio is late sends by intended sends; nil in Closed mode.
	PacingErrorRatio *float64   `json:"pacingErrorRatio,omitempty"`
	Pacing           *Quantiles `json:"pacing,omitempty"`
	SchedulingDelay  *Quantiles `json:"schedulingDelay,omitempty"`
	// Broker figures over the phase; nil when there were no samples of it. CPU is summed over nodes.
	BrokerCPUCores             *float64 `json:"brokerCpuCores,omitempty"`
	BrokerCPURatio             *float64 `json:"brokerCpuRatio,omitempty"` // of the busiest node
	BrokerMemoryBytes          *float64 `json:"brokerMemoryBytes,omitempty"`
	BrokerCPUSecondsPerMillion *float64 `json:"brokerCpuSecondsPerMillion,omitempty"` // messages of Throughput
	GeneratorCPUPerMillion     *float64 `json:"generatorCpuSecondsPerMillion,omitempty"`
	MaxReady                   *float64 `json:"maxReady,omitempty"`
	TimeToEmptySeconds         *float64 `json:"timeToEmptySeconds,omitempty"`
	DrainPerSecond             *float64 `json:"drainPerSecond,omitempty"`
}

// Validity says whether a run counts.
type Validity struct {
	Valid bool `json:"valid"`
	// Reasons why not, and, in a valid run, none. Notes are what a reader should know and does not spoil the run.
	Reasons []Reason `json:"reasons,omitempty"`
	Notes   []Reason `json:"notes,omitempty"`
}

// Reason is a word for programs and a sentence for people.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Spread is a figure over runs.
type Spread struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	// MAD is the median of the distances to the median.
	MAD float64 `json:"mad"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Summary is over the valid runs of a result. A spread is nil when no run has the figure.
type Summary struct {
	ValidRuns int `json:"validRuns"`
	// Throughput as in Figures.
	Throughput     *Spread `json:"throughput,omitempty"`
	ThroughputUnit string  `json:"throughputUnit,omitempty"`
	LatencyOf      string  `json:"latencyOf,omitempty"`
	P50Seconds     *Spread `json:"p50Seconds,omitempty"`
	P90Seconds     *Spread `json:"p90Seconds,omitempty"`
	P99Seconds     *Spread `json:"p99Seconds,omitempty"`
	P999Seconds    *Spread `json:"p999Seconds,omitempty"`
	MaxSeconds     *Spread `json:"maxSeconds,omitempty"`
	TimeToEmpty    *Spread `json:"timeToEmptySeconds,omitempty"`
	// LatencySamples is the fewest that a valid run has.
	LatencySamples int64 `json:"latencySamples,omitempty"`
	// Bottleneck that most valid runs name; Unknown when they differ without a majority.
	Bottleneck Bottleneck `json:"bottleneck,omitempty"`
	// Lost, Duplicated, Reordered over all runs, the invalid ones too.
	Lost       int64 `json:"lost"`
	Duplicated int64 `json:"duplicated"`
	Reordered  int64 `json:"reordered"`
}

// Bottleneck is what keeps the rate from being higher or the latency from being lower.
type Bottleneck string

// The bottlenecks that Judge can name, in its order of precedence.
const (
	GeneratorBound     Bottleneck = "Generator"
	AlarmBound         Bottleneck = "Alarm"         // memory or disk alarm, connections blocked
	NetworkBound       Bottleneck = "Network"       // the link is full
	BrokerCPUBound     Bottleneck = "BrokerCPU"     // no CPU left on a node
	DiskBound          Bottleneck = "Disk"          // fsync, raft commit
	ConfirmWindowBound Bottleneck = "ConfirmWindow" // publishers wait for confirms, by choice of the window
	ConsumerBound      Bottleneck = "Consumer"      // the handler, or the consumer's socket
	PrefetchBound      Bottleneck = "Prefetch"      // the round trip of acknowledgements
	QueueProcessBound  Bottleneck = "QueueProcess"  // one queue is one Erlang process
	RateBound          Bottleneck = "Rate"          // the scenario asks for no more, and gets it
	UnknownBound       Bottleneck = "Unknown"
)

// Text is the bottleneck in words, as in the middle of a sentence: "broker CPU", "confirm window"; "unknown" for none.
func (b Bottleneck) Text() string {
	switch b {
	case BrokerCPUBound:
		return "broker CPU"
	case ConfirmWindowBound:
		return "confirm window"
	case QueueProcessBound:
		return "queue process"
	case "":
		return "unknown"
	}
	return strings.ToLower(string(b))
}

// Verdict names the bottleneck of a run.
type Verdict struct {
	Bottleneck Bottleneck `json:"bottleneck"`
	// Summary in one sentence.
	Summary string `json:"summary"`
	// Evidence that the rule is made of: each row held.
	Evidence []Evidence `json:"evidence,omitempty"`
	// CounterExperiment would refute the verdict.
	CounterExperiment string `json:"counterExperiment,omitempty"`
	// Others held too but come later in the order of precedence.
	Others []Bottleneck `json:"others,omitempty"`
	// Missing series that rules would have needed: with them the verdict could be another.
	Missing []string `json:"missing,omitempty"`
}

// Evidence is one row: a series, what it was, and what it was held against.
type Evidence struct {
	Series string  `json:"series"`
	Value  float64 `json:"value"`
	// Comparison is ">=", "<=", ">" or "<", between Value and Threshold.
	Comparison string  `json:"comparison"`
	Threshold  float64 `json:"threshold"`
	Unit       string  `json:"unit,omitempty"`
	// Meaning of the row in a few words.
	Meaning string `json:"meaning,omitempty"`
}
