package bench

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Outcome of a comparison.
type Outcome string

// The outcomes, from good to bad.
const (
	Better        Outcome = "Better"        // of one figure: better by more than noise
	Same          Outcome = "Same"          // of one figure: within noise
	NotCompared   Outcome = "NotCompared"   // of one figure: no statement is made
	Worse         Outcome = "Worse"         // of one figure: worse by more than noise
	Passed        Outcome = "Passed"        // no figure is worse
	NoHistory     Outcome = "NoHistory"     // the first result of its kind
	NotComparable Outcome = "NotComparable" // there are results, of something else
	Invalid       Outcome = "Invalid"       // no run of the new result counts
	Regressed     Outcome = "Regressed"     // a figure is worse
)

// Gate says how results are compared.
type Gate struct {
	// MaxRegression is what a figure may be worse by, as a ratio; noise may allow more. Default 0.05.
	MaxRegression float64
	// Across compares results of other versions or machines too, to see what a change was worth; Comparison.Differences
	// says what differs. The scenario must be the same all the same.
	Across bool
}

const (
	defaultRegression = 0.05
	// madFactor times the MAD of the history is taken for noise.
	madFactor = 3
	// historyMost is how many earlier results count, the newest.
	historyMost = 10
	// quartilesFrom is with how many runs the history's range is that between its quartiles; with fewer it is from the
	// least to the most.
	quartilesFrom = 8
)

// Comparison of a result with earlier ones.
type Comparison struct {
	Outcome Outcome `json:"outcome"`
	// Reason in a sentence.
	Reason string `json:"reason"`
	// Results that it was compared with.
	Results int `json:"results"`
	// Differences of fingerprints, with Gate.Across: "kernel: 6.1 → 6.12".
	Differences []string `json:"differences,omitempty"`
	Figures     []Delta  `json:"figures,omitempty"`
}

// Delta is one figure of a comparison.
type Delta struct {
	// Figure is "throughput", "p50", "p99", "p99.9" or "timeToEmpty"; Unit is "messages/s", "connections/s" or "s".
	Figure string `json:"figure"`
	Unit   string `json:"unit"`
	// Before is the median of the medians of earlier results, with their MAD and the range of their runs; Now of the new one.
	Before Spread `json:"before"`
	Now    Spread `json:"now"`
	// ChangeRatio is how much higher the new median is: 0.02 for 2 % more. AllowedRatio is the larger of MaxRegression and
	// 3 × MAD.
	ChangeRatio  float64 `json:"changeRatio"`
	AllowedRatio float64 `json:"allowedRatio"`
	Outcome      Outcome `json:"outcome"`
	Reason       string  `json:"reason,omitempty"`
}

// Compare holds a result against earlier ones of the same scenario and fingerprint, of which the ten newest count. A figure
// is worse when its median is worse by more than the larger of gate.MaxRegression and three times the MAD of the earlier
// medians, and no run of it lies in the range of the earlier runs. Latency is compared for loads with intended times and for
// storms; in Closed mode it follows from throughput and window, and is only shown. P99.9 is compared from a million samples.
func Compare(history []Result, now Result, gate Gate) Comparison {
	if gate.MaxRegression <= 0 {
		gate.MaxRegression = defaultRegression
	}
	if now.Summary.ValidRuns == 0 {
		return Comparison{Outcome: Invalid, Reason: "no run of the new result is valid: " + whyInvalid(now)}
	}
	like := now.like(history, gate.Across)
	if len(like.results) == 0 {
		if like.refused != "" {
			return Comparison{Outcome: NotComparable, Reason: "earlier results are of something else: " + like.refused}
		}
		return now.withoutHistory(history)
	}
	c := Comparison{Results: len(like.results), Differences: like.differences}
	limited := func(r Result) bool { return r.Summary.Bottleneck == GeneratorBound }
	switch {
	case limited(now):
		c.Outcome, c.Reason = NotComparable, "the generator was the limit"
		return c
	case slices.ContainsFunc(like.results, limited):
		c.Outcome, c.Reason = NotComparable, "the generator was the limit of an earlier result"
		return c
	}
	for _, f := range comparedFigures {
		if d, ok := f.compare(like.results, now, gate); ok {
			c.Figures = append(c.Figures, d)
		}
	}
	c.conclude()
	return c
}

// withoutHistory says why there is nothing to compare with.
func (r Result) withoutHistory(history []Result) Comparison {
	var others []string
	for _, old := range history {
		if old.Scenario.Name == r.Scenario.Name {
			return Comparison{Outcome: NoHistory, Reason: "no earlier result of the scenario has a valid run"}
		}
		if !slices.Contains(others, old.Scenario.Name) {
			others = append(others, old.Scenario.Name)
		}
	}
	if len(others) > 0 {
		return Comparison{Outcome: NotComparable, Reason: "earlier results are of something else: scenario " + strings.Join(others, ", ")}
	}
	return Comparison{Outcome: NoHistory, Reason: "this is the first result of the scenario"}
}

// Last is the summary of the newest earlier result that counts, of whatever version. history is oldest first.
func Last(history []Result) (Summary, bool) {
	for _, old := range slices.Backward(history) {
		if s := old.Summary; s.ValidRuns > 0 && s.Throughput != nil && s.Throughput.Median > 0 {
			return s, true
		}
	}
	return Summary{}, false
}

// alike are the earlier results that a new one is held against, newest first.
type alike struct {
	results []Result
	// differences of their fingerprints; refused is why the newest that was left out was.
	differences []string
	refused     string
}

func (r Result) like(history []Result, across bool) alike {
	var found alike
	for _, old := range slices.Backward(history) {
		if old.Scenario.Name != r.Scenario.Name || old.Summary.ValidRuns == 0 {
			continue
		}
		if d := scenarioDifferences(old.Scenario, r.Scenario); len(d) > 0 {
			found.refused = cmp.Or(found.refused, "the scenario is another: "+strings.Join(d, ", "))
			continue
		}
		d := old.Fingerprint.differences(r.Fingerprint)
		if len(d) > 0 && !across {
			found.refused = cmp.Or(found.refused, strings.Join(d, ", "))
			continue
		}
		for _, one := range d {
			if !slices.Contains(found.differences, one) {
				found.differences = append(found.differences, one)
			}
		}
		if found.results = append(found.results, old); len(found.results) == historyMost {
			break
		}
	}
	return found
}

func (c *Comparison) conclude() {
	var worse []string
	for _, d := range c.Figures {
		if d.Outcome == Worse {
			worse = append(worse, fmt.Sprintf("%s %+.1f %%", d.Figure, 100*d.ChangeRatio))
		}
	}
	c.Outcome, c.Reason = Passed, "no figure is worse than noise allows"
	if len(worse) > 0 {
		c.Outcome, c.Reason = Regressed, strings.Join(worse, ", ")
	}
}

// ExitCode for a command: 0 when passed or without history, 1 for a regression, 3 when not comparable, 4 when invalid. 2 is
// left to wrong usage.
func (o Outcome) ExitCode() int {
	switch o {
	case Regressed, Worse:
		return 1
	case NotComparable:
		return 3
	case Invalid:
		return 4
	}
	return 0
}

// WorstOutcome of several comparisons: a regression before an invalid result before what is not comparable. Passed for none.
func WorstOutcome(comparisons []Comparison) Outcome {
	worst := Passed
	rank := []Outcome{Passed, NoHistory, NotComparable, Invalid, Regressed}
	for _, c := range comparisons {
		if slices.Index(rank, c.Outcome) > slices.Index(rank, worst) {
			worst = c.Outcome
		}
	}
	return worst
}

func whyInvalid(r Result) string {
	for _, run := range r.Runs {
		if len(run.Validity.Reasons) > 0 {
			return run.Validity.Reasons[0].Message
		}
	}
	return "there is none"
}

// differences are the fields in which two fingerprints differ. A field that one does not know differs.
func (f Fingerprint) differences(now Fingerprint) []string {
	var out []string
	old, new := reflect.ValueOf(f), reflect.ValueOf(now)
	for i := range old.NumField() {
		if a, b := old.Field(i).Interface(), new.Field(i).Interface(); a != b {
			name, _, _ := strings.Cut(old.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, fmt.Sprintf("%s: %s → %s", name, orUnknown(a), orUnknown(b)))
		}
	}
	return out
}

func orUnknown(v any) string {
	if text := fmt.Sprint(v); text != "" && text != "0" {
		return text
	}
	return "unknown"
}

// scenarioDifferences are the parts in which two scenarios of a name differ, but for those that do not change the load.
func scenarioDifferences(old, now Scenario) []string {
	old.Description, old.Runs, old.CoolDown = now.Description, now.Runs, now.CoolDown
	old.Caps.Connections, old.Caps.Disk = now.Caps.Connections, now.Caps.Disk
	var out []string
	a, b := reflect.ValueOf(old), reflect.ValueOf(now)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}

// figure is one that is compared.
type figure struct {
	name, unit   string
	higherBetter bool
	// quantile that it is; 0 for what is not a latency.
	quantile float64
	value    func(*Figures) *float64
}

var comparedFigures = []figure{
	{"throughput", "", true, 0, func(f *Figures) *float64 { return &f.Throughput }},
	{"p50", "s", false, 0.5, func(f *Figures) *float64 { return f.Latency.orEmpty().P50Seconds }},
	{"p99", "s", false, 0.99, func(f *Figures) *float64 { return f.Latency.orEmpty().P99Seconds }},
	{"p99.9", "s", false, 0.999, func(f *Figures) *float64 { return f.Latency.orEmpty().P999Seconds }},
	{"timeToEmpty", "s", false, 0, func(f *Figures) *float64 { return f.TimeToEmptySeconds }},
}

func (q *Quantiles) orEmpty() *Quantiles {
	if q == nil {
		return &Quantiles{}
	}
	return q
}

// values of the valid runs that have the figure, and their latency samples together.
func (f figure) values(r Result) (values []float64, samples int64) {
	for i := range r.Runs {
		if !r.Runs[i].Validity.Valid {
			continue
		}
		if v := f.value(&r.Runs[i].Figures); v != nil {
			values = append(values, *v)
			samples += r.Runs[i].Figures.Latency.orEmpty().Samples
		}
	}
	return values, samples
}

// compare makes the delta; false when one of the sides does not have the figure.
func (f figure) compare(history []Result, now Result, gate Gate) (Delta, bool) {
	d := Delta{Figure: f.name, Unit: f.unit}
	if d.Unit == "" {
		d.Unit = now.Summary.ThroughputUnit
	}
	var medians, runs []float64
	var fewest int64 = math.MaxInt64
	var mad float64
	for _, r := range history {
		values, samples := f.values(r)
		if len(values) == 0 {
			continue
		}
		s := spreadOf(values)
		medians, runs, mad = append(medians, s.Median), append(runs, values...), s.MAD
		fewest = min(fewest, samples)
	}
	values, samples := f.values(now)
	if len(medians) == 0 || len(values) == 0 {
		return d, false
	}
	d.Now = *spreadOf(values)
	before := spreadOf(medians)
	if len(medians) == 1 {
		before.MAD = mad // of its runs
	}
	before.Runs = len(runs)
	before.Min, before.Max = rangeOf(runs)
	d.Before = *before
	d.Outcome, d.Reason = f.outcome(&d, min(fewest, samples), &now.Scenario, gate)
	return d, true
}

func (f figure) outcome(d *Delta, samples int64, s *Scenario, gate Gate) (Outcome, string) {
	if !(d.Before.Median > 0) {
		return NotCompared, "it was zero before"
	}
	d.ChangeRatio = d.Now.Median/d.Before.Median - 1
	d.AllowedRatio = max(gate.MaxRegression, madFactor*d.Before.MAD/d.Before.Median)
	switch {
	case f.quantile > 0 && !s.paced() && s.Storm == nil:
		return NotCompared, "in Closed mode latency follows from throughput and window"
	case f.quantile > 0 && samples < MinSamplesToCompare(f.quantile):
		return NotCompared, fmt.Sprintf("insufficient samples: %d of %d", samples, MinSamplesToCompare(f.quantile))
	case math.Abs(d.ChangeRatio) <= d.AllowedRatio:
		return Same, ""
	case d.Now.Min <= d.Before.Max && d.Now.Max >= d.Before.Min:
		return Same, "runs overlap with earlier ones"
	case (d.ChangeRatio > 0) == f.higherBetter:
		return Better, ""
	}
	return Worse, ""
}

// rangeOf is from the lower to the upper quartile, or from the least to the most of a few values.
func rangeOf(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n < quartilesFrom {
		return sorted[0], sorted[n-1]
	}
	at := func(q float64) float64 {
		position := q * float64(n-1)
		below := int(position)
		above := min(below+1, n-1)
		return sorted[below] + (position-float64(below))*(sorted[above]-sorted[below])
	}
	return at(0.25), at(0.75)
}
