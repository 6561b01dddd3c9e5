package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench/plan"
)

// Whether the newest run is on the volume is a condition of its own, which is there only with a volume.
func TestStoredOnAVolume(t *testing.T) {
	for name, c := range map[string]struct {
		run    *v1alpha1.BenchmarkRun
		status metav1.ConditionStatus
		says   string
	}{
		"no run":     {nil, metav1.ConditionUnknown, "measured nothing"},
		"kept":       {&v1alpha1.BenchmarkRun{Number: 3, Folder: "b/run"}, metav1.ConditionTrue, "run 3 is in b/run"},
		"not kept":   {&v1alpha1.BenchmarkRun{Number: 3, StoreFault: "no space"}, metav1.ConditionFalse, "run 3 is not on the volume: no space"},
		"not pruned": {&v1alpha1.BenchmarkRun{Number: 3, Folder: "b/run", StoreFault: "denied"}, metav1.ConditionFalse, "beyond the limit are still there: denied"},
		"refused":    {&v1alpha1.BenchmarkRun{Number: 3, Verdict: v1alpha1.VerdictRefused}, metav1.ConditionUnknown, "measured nothing"},
	} {
		b := &v1alpha1.Benchmark{}
		b.Status.LastRun = c.run
		b.Spec.History.VolumeClaimRef = &v1alpha1.VolumeClaimReference{Name: "results"}
		now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		out := ForBenchmark(Benchmark{Object: b, Decision: plan.Decision{Verb: plan.Wait, Reason: "Idle"}}, now)
		got := meta.FindStatusCondition(out.Conditions, v1alpha1.ConditionStored)
		if got == nil || got.Status != c.status || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if c := meta.FindStatusCondition(out.Conditions, v1alpha1.ConditionAccepted); c.Reason != v1alpha1.ReasonNoImage {
			t.Errorf("%s: accepted %+v", name, c)
		}
		b.Status, b.Spec.History.VolumeClaimRef = out, nil
		out = ForBenchmark(Benchmark{Object: b, Decision: plan.Decision{Verb: plan.Wait, Reason: "Idle"}}, now)
		if got := meta.FindStatusCondition(out.Conditions, v1alpha1.ConditionStored); got != nil {
			t.Errorf("%s: without a volume %+v", name, got)
		}
	}
}

// What pods and brokers said may be long, and a status that is too long is refused as a whole: then nobody would know anything.
func TestTextsOfARunFitIntoAStatus(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	run := v1alpha1.BenchmarkRun{Number: 1, Verdict: v1alpha1.VerdictFailed, Message: long, Reason: long, StoreFault: long}
	for range 38 {
		run.Scenarios = append(run.Scenarios, v1alpha1.ScenarioResult{Message: long, InvalidReasons: []string{long, long, long, long, long}})
	}
	out := ForBenchmark(Benchmark{Object: &v1alpha1.Benchmark{}, Finished: &run}, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 512<<10 {
		t.Errorf("a status of %d bytes", len(text))
	}
	if run.Message != long || run.Scenarios[0].InvalidReasons[0] != long {
		t.Error("the argument was changed")
	}
}
