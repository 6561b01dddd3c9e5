package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// MostAttempts is how often a channel is told before that is given up.
const MostAttempts = 5

// firstRetry is the wait after the first failure; each one after that is four times as long: 10s, 40s, 160s, 640s.
const firstRetry = 10 * time.Second

// WorthTelling says whether a run is one that a channel is to know of: it regressed or did not come to its end, or it is the
// first good one after such a run. before is the run before it; nil for none.
func WorthTelling(run v1alpha1.BenchmarkRun, before *v1alpha1.BenchmarkRun) bool {
	bad := func(v v1alpha1.RunVerdict) bool {
		return v == v1alpha1.VerdictRegressed || v == v1alpha1.VerdictFailed || v == v1alpha1.VerdictRefused
	}
	return bad(run.Verdict) || run.Verdict != v1alpha1.VerdictInconclusive && before != nil && bad(before.Verdict)
}

// TellAt is when the channel is to be told of the newest run; false when there is nothing to tell (any more).
func TellAt(n *v1alpha1.RunNotification) (time.Time, bool) {
	if n == nil || n.Sent || n.Attempts >= MostAttempts {
		return time.Time{}, false
	}
	if n.LastAttempt == nil {
		return time.Time{}, true
	}
	wait := firstRetry
	for range n.Attempts - 1 {
		wait *= 4
	}
	return n.LastAttempt.Add(wait), true
}

// Told is the notification after an attempt; fault is "" when it arrived.
func Told(n v1alpha1.RunNotification, fault string, now time.Time) *v1alpha1.RunNotification {
	at := metav1.NewTime(now.Truncate(time.Second))
	n.Attempts++
	n.Sent, n.Message, n.LastAttempt = fault == "", fault, &at
	return &n
}

// Text for the channel.
func Text(b *v1alpha1.Benchmark, run v1alpha1.BenchmarkRun) string {
	lines := []string{fmt.Sprintf("Benchmark %s/%s of cluster %s: %s", b.Namespace, b.Name, b.Spec.ClusterRef.Name, run.Verdict), run.Message}
	if run.Reason != "" {
		lines = append(lines, fmt.Sprintf("run %d, started by %s: %s", run.Number, run.Trigger, run.Reason))
	}
	for _, s := range run.Scenarios {
		line := fmt.Sprintf("%s: %s %s", s.Name, rate(float64(s.Throughput)), s.Unit)
		for _, more := range []struct{ name, value string }{{"", s.Change}, {"p99 ", s.P99}, {"limited by ", s.Bottleneck}} {
			if more.value != "" {
				line += ", " + more.name + more.value
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
