package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench/plan"
)

// Benchmark is what one pass saw and did for a Benchmark.
type Benchmark struct {
	Object *v1alpha1.Benchmark
	// Seen of Kubernetes, and what was decided.
	Seen     plan.Observed
	Decision plan.Decision
	// Problem that kept the pass from doing it; nil if none.
	Problem *Problem
	// Active run from now on; nil for none. Finished is one that was judged in this pass.
	Active   *v1alpha1.ActiveRun
	Finished *v1alpha1.BenchmarkRun
	// Cleanup says why what a run left could not be removed; "" if it could. Tried says whether it was tried.
	Cleanup string
	Tried   bool
	// Told is what became of the notification; nil when no attempt was made.
	Told *v1alpha1.RunNotification
}

// ForBenchmark is the status that follows from what a pass saw and did.
func ForBenchmark(in Benchmark, now time.Time) v1alpha1.BenchmarkStatus {
	b := in.Object
	out := *b.Status.DeepCopy()
	out.ObservedGeneration, out.Active = b.Generation, in.Active
	out.NextRun, out.Pending = in.Decision.NextRun, in.Decision.Pending
	if in.Decision.Verb == plan.Start && in.Active != nil {
		out.Started = in.Active.Number
		out.Request = b.Annotations[v1alpha1.AnnotationRun]
		out.Target = plan.FactsOf(in.Seen.Cluster, in.Seen.Policies)
	}
	if in.Finished != nil {
		run := shortened(*in.Finished)
		if b.Spec.Notify != nil && plan.WorthTelling(run, b.Status.LastRun) {
			run.Notification = &v1alpha1.RunNotification{}
		}
		out.LastRun = &run
		out.History = plan.Record(out.History, run, b.Spec.History.Limit)
	}
	out.History = plan.Trim(out.History, b.Spec.History.Limit)
	if in.Told != nil && out.LastRun != nil {
		out.LastRun.Notification = in.Told
	}
	s := setter{conditions: &out.Conditions, generation: b.Generation, now: now}
	s.set(v1alpha1.ConditionAccepted, acceptedBenchmark(b, in.Seen))
	s.set(v1alpha1.ConditionTargetReady, targetReady(b, in.Seen))
	s.set(v1alpha1.ConditionRunning, running(in))
	s.set(v1alpha1.ConditionCleanedUp, cleanedUp(in))
	if v, known := regressed(in.Finished); known || meta.FindStatusCondition(out.Conditions, v1alpha1.ConditionRegressed) == nil {
		s.set(v1alpha1.ConditionRegressed, v)
	}
	if b.Spec.History.VolumeClaimRef != nil {
		s.set(v1alpha1.ConditionStored, stored(out.LastRun))
	} else {
		s.drop(v1alpha1.ConditionStored)
	}
	if in.Problem != nil {
		s.set(v1alpha1.ConditionReady, no(in.Problem.Reason, in.Problem.Message))
		return out
	}
	s.summarize(yes(v1alpha1.ReasonReady, "runs start when they are due"),
		v1alpha1.ConditionAccepted, v1alpha1.ConditionCleanedUp, v1alpha1.ConditionTargetReady)
	return out
}

// shortened is a run whose texts, which quote what brokers and pods said, fit into a status.
func shortened(run v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRun {
	run.Reason, run.Message, run.StoreFault = short(run.Reason), short(run.Message), short(run.StoreFault)
	run.Scenarios = slices.Clone(run.Scenarios)
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		s.Message, s.InvalidReasons = cut(s.Message, scenarioMost), slices.Clone(s.InvalidReasons)
		for j, reason := range s.InvalidReasons {
			s.InvalidReasons[j] = cut(reason, scenarioMost)
		}
	}
	return run
}

// scenarioMost is how long a text of one scenario may be, in bytes: there are up to 38 of them, with five reasons each.
const scenarioMost = 1024

func acceptedBenchmark(b *v1alpha1.Benchmark, o plan.Observed) verdict {
	if reason, message := plan.Unfit(b, o); reason != "" {
		return no(reason, message)
	}
	return yes(v1alpha1.ReasonAsExpected, "the scenarios can be run")
}

// stored says whether the newest run is on the volume.
func stored(run *v1alpha1.BenchmarkRun) verdict {
	switch {
	case run != nil && run.StoreFault != "" && run.Folder != "":
		return no(v1alpha1.ReasonStoreFailed, fmt.Sprintf("run %d is in %s on the volume, but runs beyond the limit are still there: %s", run.Number, run.Folder, run.StoreFault))
	case run != nil && run.StoreFault != "":
		return no(v1alpha1.ReasonStoreFailed, fmt.Sprintf("run %d is not on the volume: %s", run.Number, run.StoreFault))
	case run != nil && run.Folder != "":
		return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("run %d is in %s on the volume", run.Number, run.Folder))
	}
	return unknown(v1alpha1.ReasonNoHistory, "the newest run measured nothing, or was before the volume was named")
}

func targetReady(b *v1alpha1.Benchmark, o plan.Observed) verdict {
	if reason, message := plan.Obstacle(b, o.Cluster); reason != "" {
		return no(reason, message)
	}
	return yes(v1alpha1.ReasonAsExpected, "the cluster is ready and has no alarm")
}

func running(in Benchmark) verdict {
	run := in.Active
	switch {
	case run != nil && run.Step == v1alpha1.RunCleaningUp:
		return yes(v1alpha1.ReasonCleaningUp, fmt.Sprintf("run %d has ended and is being cleaned up", run.Number))
	case run != nil:
		return yes(v1alpha1.ReasonRunActive, fmt.Sprintf("run %d, started by %s: %s", run.Number, run.Trigger, run.Reason))
	case slices.Contains([]plan.Verb{plan.CleanUp, plan.Collect}, in.Decision.Verb):
		return no(v1alpha1.ReasonIdle, "no run is due")
	}
	return no(in.Decision.Reason, in.Decision.Message)
}

// cleanedUp stays as it was while nothing was tried.
func cleanedUp(in Benchmark) verdict {
	before := meta.FindStatusCondition(in.Object.Status.Conditions, v1alpha1.ConditionCleanedUp)
	switch {
	case in.Cleanup != "":
		return no(v1alpha1.ReasonCleanupFailed, in.Cleanup)
	case !in.Tried && in.Active != nil && before != nil && before.Status != "True":
		return verdict{status: before.Status, reason: before.Reason, message: before.Message}
	}
	return yes(v1alpha1.ReasonAsExpected, "nothing of runs that have ended is left on the broker")
}

// regressed is what a run says of it; unknown when it says nothing new.
func regressed(run *v1alpha1.BenchmarkRun) (v verdict, known bool) {
	if run == nil {
		return unknown(v1alpha1.ReasonNoHistory, "no run has been compared yet"), false
	}
	switch run.Verdict {
	case v1alpha1.VerdictRegressed:
		return yes(v1alpha1.ReasonOutsideGate, run.Message), true
	case v1alpha1.VerdictPassed:
		return no(v1alpha1.ReasonWithinGate, run.Message), true
	case v1alpha1.VerdictBaseline:
		return unknown(v1alpha1.ReasonNoHistory, run.Message), true
	case v1alpha1.VerdictInconclusive:
		return unknown(v1alpha1.ReasonNotComparable, run.Message), true
	}
	return unknown(v1alpha1.ReasonNoHistory, "no run has been compared yet"), false
}
