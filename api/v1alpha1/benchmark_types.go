package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BenchmarkSpec says what is measured on which cluster, and when.
//
// +kubebuilder:validation:XValidation:rule="has(self.scenarios) && size(self.scenarios) > 0 || has(self.custom) && size(self.custom) > 0",message="name at least one of the scenarios, or write one in custom"
// +kubebuilder:validation:XValidation:rule="self.clusterRef == oldSelf.clusterRef",message="clusterRef cannot change: the history is of one cluster; create another Benchmark"
type BenchmarkSpec struct {
	// ClusterRef names the WorkloadCluster, in the same namespace. It cannot change.
	ClusterRef ClusterReference `json:"clusterRef"`

	// Scenarios are built-in ones by name, run in this order, before those of custom. `warren bench scenarios` tells what
	// each does.
	// +listType=set
	// +kubebuilder:validation:MaxItems=28
	// +optional
	Scenarios []BuiltinScenario `json:"scenarios,omitempty"`

	// Custom are scenarios of your own, as `warren bench scenarios NAME` prints them, to be changed. They are checked
	// when they are read: the condition Accepted names the faults.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +optional
	Custom []runtime.RawExtension `json:"custom,omitempty"`

	// Runs of each scenario, of which the median counts.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	// +optional
	Runs int32 `json:"runs,omitempty"`

	// Trigger says what starts a run, besides the creation of this object and a new value of the annotation
	// rabbitmq.warren.dev/run.
	// +kubebuilder:default={}
	// +optional
	Trigger BenchmarkTrigger `json:"trigger,omitzero"`

	// Gate says which results are a regression.
	// +kubebuilder:default={}
	// +optional
	Gate BenchmarkGate `json:"gate,omitzero"`

	// Notify tells a channel of regressions, of their end, and of runs that failed.
	// +optional
	Notify *BenchmarkNotify `json:"notify,omitempty"`

	// History is what is kept of earlier runs.
	// +kubebuilder:default={}
	// +optional
	History BenchmarkHistory `json:"history,omitzero"`

	// Generator is the pods that make the load.
	// +kubebuilder:default={}
	// +optional
	Generator GeneratorSpec `json:"generator,omitzero"`

	// Caps are the most that a run may do, whatever its scenarios say.
	// +kubebuilder:default={}
	// +optional
	Caps BenchmarkCaps `json:"caps,omitzero"`

	// AllowProduction lets runs start although the cluster is, or may be, in use by others. An alarm, a node that is down
	// and a disk that is too small forbid a run all the same.
	// +optional
	AllowProduction bool `json:"allowProduction,omitempty"`

	// Paused starts no run; one that is under way ends by itself.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// BuiltinScenario is the name of a scenario that Warren has.
// +kubebuilder:validation:Enum=SmallMessages;SmallConfirmed;LargeMessages;SteadyRate;PublishOnly;ConsumeOnly;Backlog;BacklogRecovery;Transient;ConfirmWindow1;ConfirmWindow50;ConfirmWindow500;ConfirmWindow5000;Prefetch1;Prefetch50;Prefetch200;Prefetch1000;AckEvery100;BatchConsumers;ConnectionStorm;ConnectionStormJittered;FanIn;ManyQueues;Classic;Quorum;Stream;Mirrored;MultiHost
type BuiltinScenario string

// BenchmarkTrigger says what starts a run.
type BenchmarkTrigger struct {
	// OnChange starts a run when the cluster is another than the newest run found it: its version, image, number of nodes,
	// resources, tuned values or QueuePolicies. It waits until the cluster is ready and has not changed for a minute.
	// +optional
	OnChange bool `json:"onChange,omitempty"`

	// Cron starts runs by the clock, in UTC: minute, hour, day of month, month, day of week, as "0 4 * * SUN". A time that
	// passed more than an hour ago, because the cluster was not ready or Warren did not run, is skipped.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[^\s@=]+(\s+[^\s@=]+){4}$`
	// +optional
	Cron string `json:"cron,omitempty"`
}

// BenchmarkGate says which results are a regression.
type BenchmarkGate struct {
	// MaxRegression is what a figure may be worse than in the history of the same scenario, broker version and machine. It
	// is a regression when the figure is worse by more than this, and by more than three times the history's median
	// deviation, and no run of it lies in the range of earlier ones.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^(0\.[1-9]|[1-9][0-9]?(\.[0-9])?)%$`
	// +kubebuilder:validation:MaxLength=6
	// +optional
	MaxRegression string `json:"maxRegression,omitempty"`
}

// BenchmarkNotify says who is told.
type BenchmarkNotify struct {
	// WebhookSecretRef names the Secret, in the same namespace, that holds the address of a webhook. It gets a POST with
	// JSON whose text is one or more lines for people.
	WebhookSecretRef SecretKeyReference `json:"webhookSecretRef"`
}

// SecretKeyReference names a value in a Secret.
type SecretKeyReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Key in the Secret.
	// +kubebuilder:default=url
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// BenchmarkHistory is what is kept of earlier runs.
type BenchmarkHistory struct {
	// Limit is of how many runs the results are kept, the newest included: one ConfigMap for each scenario and one with the
	// report, and as many folders on the volume.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Limit int32 `json:"limit,omitempty"`

	// VolumeClaimRef names a PersistentVolumeClaim, in the same namespace, whose volume keeps each run too, as files in
	// NAME/RUN: for each scenario the whole result as JSON and its latencies as HdrHistogram log, and the report as HTML.
	// The pods of a run mount it, so they run where the volume can be had. With several pods it must be ReadWriteMany.
	// +optional
	VolumeClaimRef *VolumeClaimReference `json:"volumeClaimRef,omitempty"`
}

// VolumeClaimReference names a PersistentVolumeClaim in the same namespace.
type VolumeClaimReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GeneratorSpec is the pods that make the load. They prefer nodes without pods of the cluster.
type GeneratorSpec struct {
	// Pods that share the load: of N pods each has every N-th publisher, consumer and connection, and the same part of the
	// rate. They start, and end their phases, together.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// Resources of each pod. Requests that are not set follow the limits. When the generator is its own limit, the verdict
	// says so: give it more.
	// +kubebuilder:default={limits: {cpu: "2", memory: "1Gi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// NodeSelector of the pods.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the pods.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// ImagePullSecrets in this namespace, for Warren's own image, which the pods run.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// BrokerCgroups has CPU, throttling, memory and disk of the broker's containers sampled during runs, from their control
	// groups. For that the ServiceAccount of a run may execute programs in the pods of the cluster, by name, and nowhere
	// else; the manager must be allowed to give it that right (the chart's value benchmark.brokerCgroups). Without it those
	// figures are unknown.
	// +optional
	BrokerCgroups bool `json:"brokerCgroups,omitempty"`
}

// BenchmarkCaps are the most that a run may do.
//
// +kubebuilder:validation:XValidation:rule="!has(self.disk) || quantity(self.disk).compareTo(quantity('1Mi')) >= 0",message="caps.disk is less than 1Mi"
type BenchmarkCaps struct {
	// Rate is the most messages per second that are sent.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Rate int32 `json:"rate,omitempty"`

	// Connections is the most that are open at once. A scenario that needs more is refused.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Connections int32 `json:"connections,omitempty"`

	// Disk is the most that may wait in queues.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// BenchmarkStatus is what Warren last saw.
type BenchmarkStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions; Ready is the summary.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Started counts the runs that were started.
	// +optional
	Started int64 `json:"started,omitempty"`

	// Active is the run that is under way.
	// +optional
	Active *ActiveRun `json:"active,omitempty"`

	// LastRun is the newest run that has ended.
	// +optional
	LastRun *BenchmarkRun `json:"lastRun,omitempty"`

	// History are the runs whose results are kept, newest first. Their ConfigMaps have the label
	// rabbitmq.warren.dev/run with the run's id.
	// +listType=map
	// +listMapKey=id
	// +optional
	History []RunRecord `json:"history,omitempty"`

	// NextRun by spec.trigger.cron.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// Target is the cluster as the newest run found it.
	// +listType=map
	// +listMapKey=name
	// +optional
	Target []TargetFact `json:"target,omitempty"`

	// Pending is a change of the cluster for which a run is due once it has settled.
	// +optional
	Pending *PendingChange `json:"pending,omitempty"`

	// Request is the value of the annotation rabbitmq.warren.dev/run that was last acted upon.
	// +optional
	Request string `json:"request,omitempty"`
}

// RunTrigger is what started a run.
// +kubebuilder:validation:Enum=Creation;Request;Change;Schedule
type RunTrigger string

// The triggers.
const (
	TriggerCreation RunTrigger = "Creation"
	TriggerRequest  RunTrigger = "Request"
	TriggerChange   RunTrigger = "Change"
	TriggerSchedule RunTrigger = "Schedule"
)

// RunStep is how far a run is.
// +kubebuilder:validation:Enum=Starting;Running;CleaningUp
type RunStep string

// The steps of a run.
const (
	// RunStarting: recorded, its objects are about to be made.
	RunStarting RunStep = "Starting"
	// RunRunning: its Job was made.
	RunRunning RunStep = "Running"
	// RunCleaningUp: its results are kept; what it left on the broker and in Kubernetes is being removed.
	RunCleaningUp RunStep = "CleaningUp"
)

// ActiveRun is a run that is under way.
type ActiveRun struct {
	// ID of the run: its vhost and user on the broker are warren-bench-ID.
	ID string `json:"id"`
	// ClusterUID of the WorkloadCluster: another cluster of the same name is another broker.
	ClusterUID string     `json:"clusterUID"`
	Number     int64      `json:"number"`
	Trigger    RunTrigger `json:"trigger"`
	// Reason in words, as what has changed.
	// +optional
	Reason  string      `json:"reason,omitempty"`
	Started metav1.Time `json:"started"`
	Step    RunStep     `json:"step"`
}

// RunVerdict sums a run up.
// +kubebuilder:validation:Enum=Baseline;Passed;Regressed;Inconclusive;Refused;Failed
type RunVerdict string

// The verdicts.
const (
	// VerdictBaseline: there was nothing to compare with.
	VerdictBaseline RunVerdict = "Baseline"
	// VerdictPassed: no figure is worse than the gate allows.
	VerdictPassed RunVerdict = "Passed"
	// VerdictRegressed: a figure is.
	VerdictRegressed RunVerdict = "Regressed"
	// VerdictInconclusive: a scenario has no valid run, or cannot be compared.
	VerdictInconclusive RunVerdict = "Inconclusive"
	// VerdictRefused: the cluster must not be put under load.
	VerdictRefused RunVerdict = "Refused"
	// VerdictFailed: the run did not end as it should.
	VerdictFailed RunVerdict = "Failed"
)

// BenchmarkRun is a run that has ended.
type BenchmarkRun struct {
	ID      string     `json:"id"`
	Number  int64      `json:"number"`
	Trigger RunTrigger `json:"trigger"`
	// +optional
	Reason   string      `json:"reason,omitempty"`
	Started  metav1.Time `json:"started"`
	Finished metav1.Time `json:"finished"`
	Verdict  RunVerdict  `json:"verdict"`
	// Message says why the verdict is so.
	Message string `json:"message"`

	// Headline is the figure of one scenario: SmallConfirmed where it is one of them, else the first; with its change
	// since the run before, as "SmallConfirmed 61k/s (+2%)".
	// +optional
	Headline string `json:"headline,omitempty"`
	// P99 latency of that scenario, as "8.1ms".
	// +optional
	P99 string `json:"p99,omitempty"`
	// Bottleneck of that scenario in words, as "broker CPU".
	// +optional
	Bottleneck string `json:"bottleneck,omitempty"`

	// Report is the ConfigMap with the report of the run: report.html.gz.
	// +optional
	Report string `json:"report,omitempty"`
	// Folder of the run on the volume of spec.history.volumeClaimRef, as "runtime-baseline/20270101-040000-1a2b3c4d".
	// +optional
	Folder string `json:"folder,omitempty"`
	// StoreFault says why the run is not on that volume, or why older ones could not be removed.
	// +optional
	StoreFault string `json:"storeFault,omitempty"`

	// Scenarios in the order in which they ran.
	// +listType=map
	// +listMapKey=name
	// +optional
	Scenarios []ScenarioResult `json:"scenarios,omitempty"`

	// Notification to the channel of spec.notify; absent when there was nothing to tell.
	// +optional
	Notification *RunNotification `json:"notification,omitempty"`
}

// ScenarioResult is what came of one scenario.
type ScenarioResult struct {
	Name string `json:"name"`
	// Outcome of the comparison: Passed, Regressed, NoHistory, NotComparable or Invalid.
	Outcome string `json:"outcome"`
	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// Runs that count, of those made, as "3/3".
	Runs string `json:"runs"`
	// Throughput is the median, in whole messages or connections per second.
	// +optional
	Throughput int64 `json:"throughput,omitempty"`
	// Unit of the throughput.
	// +optional
	Unit string `json:"unit,omitempty"`
	// Change of the throughput since the last run that has the scenario, as "+2%".
	// +optional
	Change string `json:"change,omitempty"`
	// P50 and P99 latency, as "8.1ms"; absent when there were too few messages.
	// +optional
	P50 string `json:"p50,omitempty"`
	// +optional
	P99 string `json:"p99,omitempty"`
	// Bottleneck is what kept the rate from being higher.
	// +optional
	Bottleneck string `json:"bottleneck,omitempty"`
	// InvalidReasons are why runs do not count.
	// +optional
	InvalidReasons []string `json:"invalidReasons,omitempty"`
	// ConfigMap with the whole result.
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
}

// RunNotification says whether the channel was told.
type RunNotification struct {
	Sent bool `json:"sent"`
	// Attempts so far; after five it is given up.
	Attempts int32 `json:"attempts"`
	// Message says why the last attempt failed.
	// +optional
	Message string `json:"message,omitempty"`
	// LastAttempt is when that was.
	// +optional
	LastAttempt *metav1.Time `json:"lastAttempt,omitempty"`
}

// RunRecord is a run whose results are kept.
type RunRecord struct {
	ID       string      `json:"id"`
	Number   int64       `json:"number"`
	Finished metav1.Time `json:"finished"`
	Trigger  RunTrigger  `json:"trigger"`
	Verdict  RunVerdict  `json:"verdict"`
}

// TargetFact is one fact about the cluster that a run depends on.
type TargetFact struct {
	// Name of the fact, as "version".
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PendingChange is a change of the cluster that has not settled yet.
type PendingChange struct {
	// Change in words, as "version: 4.3.5 → 4.3.6".
	Change string      `json:"change"`
	Since  metav1.Time `json:"since"`
}

// Benchmark measures a cluster, again and again, and tells when it got worse.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qbench,categories=warren
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label that begins with a letter, at most 40 characters: pods are named after it"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Last run",type=date,JSONPath=`.status.lastRun.finished`
// +kubebuilder:printcolumn:name="Headline",type=string,JSONPath=`.status.lastRun.headline`
// +kubebuilder:printcolumn:name="P99",type=string,JSONPath=`.status.lastRun.p99`
// +kubebuilder:printcolumn:name="Bottleneck",type=string,JSONPath=`.status.lastRun.bottleneck`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.lastRun.verdict`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Next run",type=string,priority=1,JSONPath=`.status.nextRun`
type Benchmark struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BenchmarkSpec `json:"spec"`
	// +optional
	Status BenchmarkStatus `json:"status,omitempty"`
}

// BenchmarkList is a list of Benchmarks.
//
// +kubebuilder:object:root=true
type BenchmarkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Benchmark `json:"items"`
}
