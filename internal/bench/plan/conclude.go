package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
)

// Measured is one scenario of a run, and what it is held against.
type Measured struct {
	Result bench.Result
	// Faults say which runs could not be used.
	Faults []string
	// History are the earlier results of the scenario that are kept, oldest first.
	History []bench.Result
	// ConfigMap that keeps the result; "" when there is nothing to keep.
	ConfigMap string
}

// Ending is how the pods of a run ended, all together.
type Ending struct {
	// Refused and Failed say why the run did not happen, or not to its end; "" if it did.
	Refused, Failed string
	// Folder of the run on the volume, and why it is not there; both are "" without one.
	Folder, StoreFault string
}

// Conclude judges a run that has ended.
func Conclude(run v1alpha1.ActiveRun, gate v1alpha1.BenchmarkGate, measured []Measured, ending Ending, now time.Time) v1alpha1.BenchmarkRun {
	out := v1alpha1.BenchmarkRun{
		ID: run.ID, Number: run.Number, Trigger: run.Trigger, Reason: run.Reason,
		Started: run.Started, Finished: metav1.NewTime(now.Truncate(time.Second)),
	}
	out.Folder, out.StoreFault = ending.Folder, ending.StoreFault
	var comparisons []bench.Comparison
	for _, m := range measured {
		c := m.Compare(gate)
		comparisons = append(comparisons, c)
		out.Scenarios = append(out.Scenarios, scenarioResult(m, c))
	}
	headline(&out)
	switch {
	case ending.Refused != "":
		out.Verdict, out.Message = v1alpha1.VerdictRefused, ending.Refused
	case ending.Failed != "":
		out.Verdict, out.Message = v1alpha1.VerdictFailed, ending.Failed
	default:
		out.Verdict, out.Message = verdictOf(measured, comparisons)
	}
	if worse := regressions(measured, comparisons); worse != "" && ending.Refused == "" {
		// What was measured before a run failed counts: it is not made better by the failure.
		out.Verdict, out.Message = v1alpha1.VerdictRegressed, joined(worse, ending.Failed)
	}
	return out
}

// MaxRegression of a gate as a ratio; 0, which is the default of bench.Compare, when it cannot be read.
func MaxRegression(gate v1alpha1.BenchmarkGate) float64 {
	most, err := maxRegression(gate)
	if err != nil {
		return 0
	}
	return most
}

// Compare holds the result against its history.
func (m Measured) Compare(gate v1alpha1.BenchmarkGate) bench.Comparison {
	return bench.Compare(m.History, m.Result, bench.Gate{MaxRegression: MaxRegression(gate)})
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

func regressions(measured []Measured, comparisons []bench.Comparison) string {
	var worse []string
	for i, c := range comparisons {
		if c.Outcome == bench.Regressed {
			worse = append(worse, fmt.Sprintf("%s: %s", measured[i].Result.Scenario.Name, figures(c)))
		}
	}
	return strings.Join(worse, "; ")
}

// figures that are worse, with their numbers.
func figures(c bench.Comparison) string {
	var worse []string
	for _, d := range c.Figures {
		if d.Outcome == bench.Worse {
			worse = append(worse, fmt.Sprintf("%s %+.1f%% (%s, was %s; %.1f%% is allowed)", d.Figure, 100*d.ChangeRatio,
				amount(d.Now.Median, d.Unit), amount(d.Before.Median, d.Unit), 100*d.AllowedRatio))
		}
	}
	return strings.Join(worse, ", ")
}

func amount(value float64, unit string) string {
	if unit == "s" {
		return latency(value)
	}
	return rate(value) + " " + unit
}

// verdictOf a run in which nothing is worse.
func verdictOf(measured []Measured, comparisons []bench.Comparison) (v1alpha1.RunVerdict, string) {
	var passed, first int
	var unclear []string
	for i, c := range comparisons {
		name := measured[i].Result.Scenario.Name
		switch {
		case c.Outcome == bench.Passed:
			passed++
		case c.Outcome == bench.NoHistory, c.Outcome == bench.NotComparable && c.Results == 0:
			first++
		default:
			unclear = append(unclear, name+": "+c.Reason)
		}
	}
	switch {
	case len(unclear) > 0:
		return v1alpha1.VerdictInconclusive, strings.Join(unclear, "; ")
	case passed > 0:
		return v1alpha1.VerdictPassed, fmt.Sprintf("%d of %d scenarios are compared with earlier runs, and none is worse", passed, len(comparisons))
	case first == 0:
		return v1alpha1.VerdictFailed, "nothing was measured"
	}
	reason := "these are the first results"
	if i := slices.IndexFunc(comparisons, func(c bench.Comparison) bool { return c.Outcome == bench.NotComparable }); i >= 0 {
		reason = comparisons[i].Reason
	}
	return v1alpha1.VerdictBaseline, reason
}

// mostReasons is how many reasons for invalid runs a status lists of one scenario.
const mostReasons = 5

func scenarioResult(m Measured, c bench.Comparison) v1alpha1.ScenarioResult {
	s := m.Result.Summary
	out := v1alpha1.ScenarioResult{
		Name: m.Result.Scenario.Name, Outcome: string(c.Outcome), Message: c.Reason, ConfigMap: m.ConfigMap,
		Runs: fmt.Sprintf("%d/%d", s.ValidRuns, m.Result.Scenario.Runs), Bottleneck: s.Bottleneck.Text(), InvalidReasons: m.Faults,
	}
	if c.Outcome == bench.Regressed {
		out.Message = figures(c)
	}
	for _, run := range m.Result.Runs {
		for _, why := range run.Validity.Reasons {
			text := fmt.Sprintf("run %d: %s", run.Number, why.Message)
			out.InvalidReasons = append(out.InvalidReasons, text)
		}
	}
	out.InvalidReasons = out.InvalidReasons[:min(len(out.InvalidReasons), mostReasons)]
	if s.Throughput != nil {
		out.Throughput, out.Unit = int64(math.Round(s.Throughput.Median)), s.ThroughputUnit
		out.Change = change(m.History, s.Throughput.Median)
	}
	if s.P50Seconds != nil {
		out.P50 = latency(s.P50Seconds.Median)
	}
	if s.P99Seconds != nil {
		out.P99 = latency(s.P99Seconds.Median)
	}
	return out
}

// change since the newest earlier result that counts, of whatever version.
func change(history []bench.Result, now float64) string {
	if s, found := bench.Last(history); found {
		return fmt.Sprintf("%+.0f%%", 100*(now/s.Throughput.Median-1))
	}
	return ""
}

// headlineScenario is the one that most applications are like.
const headlineScenario = "SmallConfirmed"

func headline(run *v1alpha1.BenchmarkRun) {
	if len(run.Scenarios) == 0 {
		return
	}
	at := max(0, slices.IndexFunc(run.Scenarios, func(s v1alpha1.ScenarioResult) bool { return s.Name == headlineScenario }))
	s := run.Scenarios[at]
	run.P99, run.Bottleneck = s.P99, s.Bottleneck
	run.Headline = s.Name + " -"
	if s.Throughput > 0 {
		run.Headline = fmt.Sprintf("%s %s/s", s.Name, rate(float64(s.Throughput)))
		if s.Change != "" {
			run.Headline += " (" + s.Change + ")"
		}
	}
}

// rate in few digits: "950", "9.8k", "61k", "1.2M".
func rate(perSecond float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		switch v := perSecond / unit.size; {
		case v >= 9.95:
			return fmt.Sprintf("%.0f%s", v, unit.name)
		case v >= 0.9995:
			return fmt.Sprintf("%.1f%s", v, unit.name)
		}
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// latency in two or three digits: "850µs", "8.1ms", "120ms", "1.2s".
func latency(seconds float64) string {
	d := time.Duration(math.Round(seconds * 1e9))
	step := time.Duration(1)
	for d/step >= 100 {
		step *= 10
	}
	return d.Round(step).String()
}

// Record puts a run that was judged at the head of the kept ones, and drops those beyond the limit. A run that measured
// nothing is not kept.
func Record(history []v1alpha1.RunRecord, run v1alpha1.BenchmarkRun, limit int32) []v1alpha1.RunRecord {
	out := slices.DeleteFunc(slices.Clone(history), func(r v1alpha1.RunRecord) bool { return r.ID == run.ID })
	if slices.ContainsFunc(run.Scenarios, func(s v1alpha1.ScenarioResult) bool { return s.ConfigMap != "" }) {
		record := v1alpha1.RunRecord{ID: run.ID, Number: run.Number, Finished: run.Finished, Trigger: run.Trigger, Verdict: run.Verdict}
		out = slices.Insert(out, 0, record)
	}
	return Trim(out, limit)
}

// Trim drops the records beyond the limit.
func Trim(history []v1alpha1.RunRecord, limit int32) []v1alpha1.RunRecord {
	if limit < 1 {
		limit = 1
	}
	return history[:min(len(history), int(limit))]
}
