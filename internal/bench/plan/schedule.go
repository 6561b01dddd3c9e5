package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// cronGrace is how long after its time a run by the clock may still start: a benchmark that was to run at night must not
// begin at noon.
const cronGrace = time.Hour

// byClock says whether a run is due, and when the next one is. recorded is the next time as the status has it; one that the
// schedule does not have any more is void.
func byClock(schedule cron.Schedule, recorded time.Time, now time.Time) (due bool, next time.Time) {
	if schedule == nil {
		return false, time.Time{}
	}
	now, recorded = now.UTC(), recorded.UTC()
	if recorded.IsZero() || !schedule.Next(recorded.Add(-time.Second)).Equal(recorded) {
		return false, schedule.Next(now)
	}
	if recorded.After(now) {
		return false, recorded
	}
	// Of the times that have passed the newest counts.
	last := recorded
	for from := now.Add(-cronGrace); ; {
		candidate := schedule.Next(from)
		if candidate.After(now) {
			break
		}
		last, from = candidate, candidate
	}
	if now.Sub(last) > cronGrace {
		return false, schedule.Next(now)
	}
	return true, last
}

// maxRegression of a gate, as a ratio.
func maxRegression(gate v1alpha1.BenchmarkGate) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(gate.MaxRegression, "%"), 64)
	if err != nil || percent <= 0 || !strings.HasSuffix(gate.MaxRegression, "%") {
		return 0, fmt.Errorf("want a percentage above 0, as \"10%%\", not %q", gate.MaxRegression)
	}
	return percent / 100, nil
}
