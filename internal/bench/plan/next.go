package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/schedule"
)

// Verb is what a Benchmark does next.
type Verb string

// The verbs.
const (
	// Wait and look again.
	Wait Verb = "Wait"
	// Start records a run; nothing else happens in that pass.
	Start Verb = "Start"
	// Launch makes the objects of the run that is recorded.
	Launch Verb = "Launch"
	// Collect what the run handed back, and judge it.
	Collect Verb = "Collect"
	// Stop deletes the run's Job, so that its pods end.
	Stop Verb = "Stop"
	// CleanUp removes what the run left on the broker and in Kubernetes.
	CleanUp Verb = "CleanUp"
)

// Observed is what a pass saw.
type Observed struct {
	// Cluster that the Benchmark names; nil when there is none, or it is going.
	Cluster *v1alpha1.WorkloadCluster
	// Policies of the cluster.
	Policies []v1alpha1.QueuePolicy
	// Busy is the name of another Benchmark that has a run on the cluster; "" for none.
	Busy string
	// Image of the generator; "" when the manager does not know its own.
	Image string
	// Faults of the spec.
	Faults []string
	// Claim that the spec names; nil when there is none, or it names none.
	Claim *corev1.PersistentVolumeClaim
	// MayExec: the manager may let the pods of a run execute programs in those of the broker.
	MayExec bool
	// Job of the active run; nil when the API server has none.
	Job *batchv1.Job
	// Pods of the active run.
	Pods []corev1.Pod
}

// Decision is what to do, and why.
type Decision struct {
	Verb Verb
	// Reason in CamelCase and Message for a person.
	Reason, Message string
	// Run to record, with Start.
	Run *v1alpha1.ActiveRun
	// NextRun by the clock and Pending change, to be shown.
	NextRun *metav1.Time
	Pending *v1alpha1.PendingChange
}

// settleTime is how long a cluster must not have changed before a run that measures the change.
const settleTime = time.Minute

// Next decides what to do.
func Next(b *v1alpha1.Benchmark, o Observed, now time.Time) Decision {
	d := Decision{Verb: Wait}
	times, err := schedule.Parse(b.Spec.Trigger.Cron)
	if err != nil {
		times = nil // one of the faults
	}
	var recorded time.Time
	if b.Status.NextRun != nil {
		recorded = b.Status.NextRun.Time
	}
	byTime, next := byClock(times, recorded, now)
	if !next.IsZero() {
		d.NextRun = &metav1.Time{Time: next}
	}
	d.Pending = pendingChange(b, o, now)
	if b.Status.Active != nil {
		d.Verb, d.Reason, d.Message = step(b, o, now)
		return d
	}
	trigger, why := due(b, byTime, d.Pending)
	unfit, unfitBecause := Unfit(b, o)
	switch {
	case unfit != "":
		d.Reason, d.Message = unfit, unfitBecause
	case trigger == "":
		d.Reason, d.Message = v1alpha1.ReasonIdle, "no run is due"
	case b.Spec.Paused:
		d.Reason, d.Message = v1alpha1.ReasonPaused, "a run is due, and spec.paused is true: "+why
	default:
		d.start(b, o, trigger, why, now)
		if d.Verb == Start && times != nil {
			d.NextRun = &metav1.Time{Time: times.Next(now.UTC())}
		}
	}
	return d
}

// start records a run, unless something is in its way.
func (d *Decision) start(b *v1alpha1.Benchmark, o Observed, trigger v1alpha1.RunTrigger, why string, now time.Time) {
	reason, obstacle := Obstacle(b, o.Cluster)
	switch {
	case reason != "":
		d.Reason, d.Message = reason, "a run is due and waits: "+obstacle
	case d.Pending != nil && now.Sub(d.Pending.Since.Time) < settleTime:
		d.Reason, d.Message = v1alpha1.ReasonChangeSettling, "a run starts when the cluster has not changed for a minute; "+d.Pending.Change
	case o.Busy != "":
		d.Reason, d.Message = v1alpha1.ReasonQueued, fmt.Sprintf("a run is due and waits: Benchmark %s measures the cluster", o.Busy)
	default:
		number := b.Status.Started + 1
		d.Verb, d.Reason, d.Message = Start, v1alpha1.ReasonRunActive, why
		d.Pending = nil
		d.Run = &v1alpha1.ActiveRun{
			ID: RunID(string(b.UID), number), ClusterUID: string(o.Cluster.UID), Number: number, Trigger: trigger, Reason: why,
			Started: metav1.NewTime(now.Truncate(time.Second)), Step: v1alpha1.RunStarting,
		}
	}
}

// Unfit says why the Benchmark cannot be run as it is, whatever the cluster; "" if it can.
func Unfit(b *v1alpha1.Benchmark, o Observed) (reason, message string) {
	if len(o.Faults) > 0 {
		return v1alpha1.ReasonInvalidSpec, strings.Join(o.Faults, "; ")
	}
	if o.Image == "" {
		return v1alpha1.ReasonNoImage, "the manager does not know which image its pods have: start it with --image"
	}
	if b.Spec.Generator.BrokerCgroups && !o.MayExec {
		return v1alpha1.ReasonBrokerCgroupsNotAllowed, "spec.generator.brokerCgroups needs a manager that may give the right for it: " +
			"install Warren with benchmark.brokerCgroups=true, or take brokerCgroups off"
	}
	return unfitClaim(b, o.Claim)
}

func unfitClaim(b *v1alpha1.Benchmark, claim *corev1.PersistentVolumeClaim) (reason, message string) {
	ref := b.Spec.History.VolumeClaimRef
	if ref == nil {
		return "", ""
	}
	name := "PersistentVolumeClaim " + ref.Name + " of spec.history.volumeClaimRef"
	switch {
	case claim == nil:
		return v1alpha1.ReasonClaimNotFound, name + " does not exist in this namespace: create it, or take volumeClaimRef off"
	case !claim.DeletionTimestamp.IsZero():
		return v1alpha1.ReasonClaimNotFound, name + " is being deleted: create it anew, or name another"
	case claim.Status.Phase == corev1.ClaimLost:
		return v1alpha1.ReasonClaimNotFound, name + " has lost its volume: create it anew, or name another"
	case b.Spec.Generator.Pods > 1 && !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany):
		return v1alpha1.ReasonClaimNotShared, fmt.Sprintf("%s is not ReadWriteMany, and spec.generator.pods is %d: pods on several nodes could not have it at once", name, b.Spec.Generator.Pods)
	}
	return "", ""
}

// Folder of a run on a volume, in that of its Benchmark. Names sort by time.
func Folder(run v1alpha1.ActiveRun) string {
	return run.Started.UTC().Format("20060102-150405") + "-" + run.ID[:8]
}

// Obstacle says why no run may start on the cluster now; "" if one may.
func Obstacle(b *v1alpha1.Benchmark, c *v1alpha1.WorkloadCluster) (reason, message string) {
	if c == nil {
		return v1alpha1.ReasonClusterNotFound, "WorkloadCluster " + b.Spec.ClusterRef.Name + " does not exist in this namespace, or is being deleted"
	}
	for _, wanted := range []string{v1alpha1.ConditionAlarmsClear, v1alpha1.ConditionReady} {
		condition := meta.FindStatusCondition(c.Status.Conditions, wanted)
		switch {
		case condition == nil:
			return v1alpha1.ReasonClusterNotReady, "WorkloadCluster " + c.Name + " has not said yet whether it is ready"
		case condition.Status == metav1.ConditionTrue:
		case wanted == v1alpha1.ConditionAlarmsClear && condition.Status == metav1.ConditionFalse:
			return v1alpha1.ReasonAlarm, "WorkloadCluster " + c.Name + " has an alarm"
		default:
			return v1alpha1.ReasonClusterNotReady, fmt.Sprintf("WorkloadCluster %s is not ready (%s)", c.Name, condition.Reason)
		}
	}
	return "", ""
}

// pendingChange is what has changed since the newest run found the cluster, and since when it is so.
func pendingChange(b *v1alpha1.Benchmark, o Observed, now time.Time) *v1alpha1.PendingChange {
	if !b.Spec.Trigger.OnChange || b.Status.Started == 0 {
		return nil
	}
	if reason, _ := Obstacle(b, o.Cluster); reason != "" {
		return b.Status.Pending // what a cluster says of itself while it changes is no fact yet
	}
	change := Changes(b.Status.Target, FactsOf(o.Cluster, o.Policies))
	switch {
	case change == "":
		return nil
	case b.Status.Pending != nil && b.Status.Pending.Change == change:
		return b.Status.Pending
	}
	return &v1alpha1.PendingChange{Change: change, Since: metav1.NewTime(now.Truncate(time.Second))}
}

// mostRequest is how many letters of a request are shown: an annotation may have 256 KiB.
const mostRequest = 64

// due says which trigger is due, and why in words; "" for none. A person comes before the clock.
func due(b *v1alpha1.Benchmark, byTime bool, pending *v1alpha1.PendingChange) (v1alpha1.RunTrigger, string) {
	request := b.Annotations[v1alpha1.AnnotationRun]
	switch {
	case b.Status.Started == 0:
		return v1alpha1.TriggerCreation, "the Benchmark is new"
	case request != "" && request != b.Status.Request:
		return v1alpha1.TriggerRequest, fmt.Sprintf("annotation %s is %.*q", v1alpha1.AnnotationRun, mostRequest, request)
	case byTime:
		return v1alpha1.TriggerSchedule, "cron " + b.Spec.Trigger.Cron
	case pending != nil:
		return v1alpha1.TriggerChange, pending.Change
	}
	return "", ""
}

// RunID is 128 bits that only those know who know the Benchmark's UID, and the same each time that they are asked for.
func RunID(uid string, number int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", uid, number))
	return hex.EncodeToString(sum[:16])
}

// step is what the active run needs.
func step(b *v1alpha1.Benchmark, o Observed, now time.Time) (Verb, string, string) {
	run := b.Status.Active
	gone := o.Cluster == nil || string(o.Cluster.UID) != run.ClusterUID
	switch {
	case run.Step == v1alpha1.RunCleaningUp:
		return leave(o, now)
	case gone:
		return Collect, v1alpha1.ReasonClusterNotFound, "the cluster is gone"
	case run.Step == v1alpha1.RunStarting:
		return Launch, v1alpha1.ReasonRunActive, run.Reason
	case o.Job == nil:
		return Collect, v1alpha1.ReasonRunActive, "the Job is gone"
	}
	if ended, _, _ := Ended(o.Job); ended {
		return Collect, v1alpha1.ReasonRunActive, "the Job has ended"
	}
	return Wait, v1alpha1.ReasonRunActive, fmt.Sprintf("run %d (%s): %s", run.Number, run.Trigger, run.Reason)
}

// stuckPod is how long a pod that should go is waited for: one on a node that is lost never says that it is gone.
const stuckPod = 5 * time.Minute

// leave is how a run goes: first its pods, which would make anew what is removed under them, then what it left.
func leave(o Observed, now time.Time) (Verb, string, string) {
	if o.Job != nil && o.Job.DeletionTimestamp.IsZero() {
		return Stop, v1alpha1.ReasonCleaningUp, "the run's Job is deleted"
	}
	for _, pod := range o.Pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		stuck := !pod.DeletionTimestamp.IsZero() && now.Sub(pod.DeletionTimestamp.Time) > stuckPod
		if !ended && !stuck {
			return Wait, v1alpha1.ReasonCleaningUp, "waiting until pod " + pod.Name + " has ended"
		}
	}
	return CleanUp, v1alpha1.ReasonCleaningUp, "what the run left is removed"
}

// Ended says whether a Job has ended, whether as it should, and what it says of that.
func Ended(job *batchv1.Job) (ended, well bool, message string) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return true, true, ""
		case batchv1.JobFailed:
			return true, false, fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return false, false, ""
}

// LetGoAfter is how long a Benchmark that is being deleted waits for a broker from which the run cannot be removed.
const LetGoAfter = 10 * time.Minute

// Depart decides what a Benchmark that is being deleted does next. orphaned says that something may stay on the broker.
func Depart(b *v1alpha1.Benchmark, o Observed, now time.Time) (d Decision, letGo, orphaned bool) {
	run := b.Status.Active
	switch {
	case run == nil:
		return Decision{Verb: Wait, Message: "no run is under way"}, true, false
	case o.Cluster == nil || string(o.Cluster.UID) != run.ClusterUID:
		return Decision{Verb: Wait, Message: "the cluster is gone"}, true, false
	case b.Annotations[v1alpha1.AnnotationOrphan] == "true":
		return Decision{Verb: Wait, Message: "left behind as the annotation asks"}, true, true
	}
	d = Decision{}
	d.Verb, d.Reason, d.Message = leave(o, now)
	if now.Sub(b.DeletionTimestamp.Time) > LetGoAfter {
		return Decision{Verb: CleanUp, Reason: d.Reason, Message: "the last attempt"}, false, true
	}
	return d, false, false
}
