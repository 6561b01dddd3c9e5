package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/bench"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Input is what a page shows.
type Input struct {
	// Title of the page. Default "Benchmark".
	Title string
	// Results in the order of the page, one for each scenario. Results without seconds and samples have no charts.
	Results []bench.Result
	// Comparisons by the name of the scenario; none for a scenario without one.
	Comparisons map[string]bench.Comparison
	// Last are the results of the run before, by the name of the scenario, for the ratios; none for a scenario without one.
	Last map[string]bench.Summary
	// Written is when; zero to leave it out.
	Written time.Time
}

// Page draws the results as HTML. The same input gives the same bytes.
func Page(in Input) ([]byte, error) {
	var out bytes.Buffer
	if err := page.Execute(&out, viewOf(in)); err != nil {
		return nil, fmt.Errorf("drawing the report: %w", err)
	}
	return out.Bytes(), nil
}

type view struct {
	Title, Written string
	Outcome        string
	OutcomeClass   string
	Facts          []fact
	Scenarios      []scenarioView
}

type fact struct{ Name, Value string }

type scenarioView struct {
	// Words of the name, between which it may be broken.
	Words             []string
	Name, Description string
	// Cells of the table of scenarios.
	Throughput, Ratio, RatioClass string
	LatencyOf                     string
	P50, P99, P999, P99Ratio      string
	// Why no run counts; "" when some do.
	Why                 string
	Bottleneck, Outcome string
	OutcomeClass        string
	Runs                string
	Open                bool
	Reason              string
	Facts               []fact
	// Shown is the run of the charts, and ShownWhy it is that one.
	Shown         int
	ShownWhy      string
	Verdict       verdictView
	Rows          []runView
	Charts        []*chartView
	Deltas        []deltaView
	Queues        []bench.QueueAccount
	QueuesLeftOut int
}

type verdictView struct {
	Bottleneck, Summary, CounterExperiment string
	Evidence                               []evidenceView
	Others, Missing                        []string
}

type evidenceView struct{ Series, Value, Comparison, Threshold, Meaning string }

type runView struct {
	Number                                     int
	Throughput, P50, P90, P99, P999, Max       string
	Uncorrected, Confirm, CPU, Generator, Late string
	Bottleneck                                 string
	Valid                                      bool
	Reasons, Notes                             []string
}

type deltaView struct{ Figure, Before, Now, Change, Allowed, Outcome, Class, Reason string }

func viewOf(in Input) view {
	v := view{Title: in.Title}
	if v.Title == "" {
		v.Title = "Benchmark"
	}
	if !in.Written.IsZero() {
		v.Written = in.Written.UTC().Format("2 January 2006, 15:04 UTC")
	}
	var all []bench.Comparison
	for i := range in.Results {
		r := &in.Results[i]
		c, compared := in.Comparisons[r.Scenario.Name]
		if compared {
			all = append(all, c)
		}
		s := scenarioOf(r, c, compared)
		if last, known := in.Last[r.Scenario.Name]; known {
			s.against(&last, &r.Summary)
		}
		v.Scenarios = append(v.Scenarios, s)
	}
	if len(all) > 0 {
		worst := bench.WorstOutcome(all)
		v.Outcome, v.OutcomeClass = words(worst), classOf(worst)
	}
	if len(in.Results) > 0 {
		v.Facts = facts(in.Results[0].Fingerprint)
	}
	if len(v.Scenarios) == 1 {
		v.Scenarios[0].Open = true
	}
	return v
}

func facts(f bench.Fingerprint) []fact {
	var out []fact
	add := func(name, value string) {
		if value != "" && value != "0" {
			out = append(out, fact{name, value})
		}
	}
	add("RabbitMQ", f.BrokerVersion)
	add("Erlang", f.ErlangVersion)
	add("Nodes", fmt.Sprint(f.Nodes))
	add("CPU", f.CPUModel)
	add("Cores", three(f.CPUCores))
	add("Kernel", f.Kernel)
	add("Image", f.Image)
	add("Generator", f.Generator)
	if f.SharedHost {
		add("Host", "shared by the generator and the broker")
	}
	return out
}

func words(o bench.Outcome) string {
	switch o {
	case bench.NoHistory:
		return "First result"
	case bench.NotComparable:
		return "Not comparable"
	case bench.NotCompared:
		return "Not compared"
	}
	return string(o)
}

func classOf(o bench.Outcome) string {
	switch o {
	case bench.Passed, bench.Better:
		return "good"
	case bench.Regressed, bench.Worse, bench.Invalid:
		return "bad"
	}
	return "plain"
}

func scenarioOf(r *bench.Result, c bench.Comparison, compared bool) scenarioView {
	s := &r.Summary
	v := scenarioView{
		Name: r.Scenario.Name, Words: wordsOf(r.Scenario.Name), Description: r.Scenario.Description, LatencyOf: s.LatencyOf, Ratio: none, P99Ratio: none, RatioClass: "plain",
		Throughput: spread(s.Throughput, func(x float64) string { return rate(x, s.ThroughputUnit) }),
		P50:        spread(s.P50Seconds, latency), P99: spread(s.P99Seconds, latency), P999: spread(s.P999Seconds, latency),
		Bottleneck: s.Bottleneck.Text(), Runs: fmt.Sprintf("%d of %d", s.ValidRuns, len(r.Runs)), Outcome: none, OutcomeClass: "plain",
	}
	for name, cell := range map[string]*string{"P50": &v.P50, "P99": &v.P99, "P99.9": &v.P999} {
		if *cell == none && s.LatencyOf != "" && insufficient(r, name) {
			*cell = "insufficient samples"
		}
	}
	if s.ValidRuns == 0 {
		v.Outcome, v.OutcomeClass, v.Bottleneck, v.Why = words(bench.Invalid), "bad", none, whyNot(r)
	}
	if compared {
		v.Outcome, v.OutcomeClass, v.Reason = words(c.Outcome), classOf(c.Outcome), c.Reason
		v.compare(c)
	}
	v.Open = v.OutcomeClass == "bad"
	v.Facts = load(&r.Scenario)
	for i := range r.Runs {
		v.Rows = append(v.Rows, runOf(&r.Runs[i]))
	}
	if shown := medianRun(r); shown != nil {
		v.Shown = shown.Number
		if shown.Validity.Valid && len(r.Runs) > 1 {
			v.ShownWhy = ", the one nearest to the median"
		}
		v.Verdict = verdictOf(shown.Verdict)
		v.Charts = charts(shown)
		v.Queues, v.QueuesLeftOut = accounts(shown.Queues)
	}
	return v
}

// wordsOf a name in CamelCase.
func wordsOf(name string) []string {
	var words []string
	from := 0
	for i := 1; i < len(name); i++ {
		if 'A' <= name[i] && name[i] <= 'Z' && 'a' <= name[i-1] && name[i-1] <= 'z' {
			words, from = append(words, name[from:i]), i
		}
	}
	return append(words, name[from:])
}

// whyNot is the first reason that a run does not count.
func whyNot(r *bench.Result) string {
	for i := range r.Runs {
		for _, reason := range r.Runs[i].Validity.Reasons {
			return reason.Message
		}
	}
	return "no run has ended"
}

func insufficient(r *bench.Result, name string) bool {
	return slices.ContainsFunc(r.Runs, func(run bench.Run) bool {
		return run.Validity.Valid && run.Figures.Latency != nil && slices.Contains(run.Figures.Latency.Insufficient, name)
	})
}

func (v *scenarioView) compare(c bench.Comparison) {
	for _, d := range c.Figures {
		write := func(x float64) string { return rate(x, d.Unit) }
		if d.Unit == "s" {
			write = latency
		}
		v.Deltas = append(v.Deltas, deltaView{
			Figure: figureName(d.Figure), Before: spread(&d.Before, write), Now: spread(&d.Now, write), Change: change(d.ChangeRatio),
			Allowed: "±" + space + percent(d.AllowedRatio), Outcome: words(d.Outcome), Class: classOf(d.Outcome), Reason: d.Reason,
		})
		if d.Figure == "throughput" {
			v.RatioClass = classOf(d.Outcome)
		}
	}
}

// against the run before: of whatever version, so that one sees what a change was worth.
func (v *scenarioView) against(last, now *bench.Summary) {
	v.Ratio, v.P99Ratio = ratio(last.Throughput, now.Throughput), ratio(last.P99Seconds, now.P99Seconds)
}

// ratio of the medians, as "× 0.90".
func ratio(last, now *bench.Spread) string {
	if last == nil || now == nil || last.Median <= 0 {
		return none
	}
	return fmt.Sprintf("×"+space+"%.2f", now.Median/last.Median)
}

// figureName as it stands elsewhere on the page.
func figureName(name string) string {
	switch name {
	case "throughput":
		return "Throughput"
	case "timeToEmpty":
		return "Time to empty"
	}
	return strings.ToUpper(name)
}

// load is the scenario in facts.
func load(s *bench.Scenario) []fact {
	mode := "closed loop"
	if s.Load.Mode == bench.OpenLoop {
		mode = "open loop, " + rate(s.Load.Rate, "messages/s")
	}
	out := []fact{{"Load", mode}}
	if s.Publishers.Count > 0 {
		confirms := "without confirms"
		if w := s.Publishers.ConfirmWindow; w > 0 {
			confirms = fmt.Sprintf("window %d", w)
		}
		out = append(out, fact{"Publishers", fmt.Sprintf("%d, %s", s.Publishers.Count, confirms)})
	}
	if s.Consumers.Count > 0 {
		out = append(out, fact{"Consumers", fmt.Sprintf("%d, prefetch %d, acknowledge every %d", s.Consumers.Count, s.Consumers.Prefetch, s.Consumers.AckEvery)})
	}
	kept := "transient"
	if s.Message.Persistent {
		kept = "persistent"
	}
	out = append(out, fact{"Queues", fmt.Sprintf("%d %s", s.Queues.Count, s.Queues.Type)}, fact{"Messages", fmt.Sprintf("%s, %s", join(s.Message.Sizes), kept)})
	if s.Storm != nil {
		pace := "all at once"
		if s.Storm.Jitter > 0 {
			pace = "within " + s.Storm.Jitter.String()
		}
		out = append(out, fact{"Storm", fmt.Sprintf("%d connections, %s", s.Storm.Connections, pace)})
	}
	if s.Backlog != nil {
		out = append(out, fact{"Backlog", scaled(float64(s.Backlog.Messages)) + " messages"})
	}
	return out
}

func join(sizes []bench.Size) string {
	all := make([]string, len(sizes))
	for i, size := range sizes {
		all[i] = size.String()
	}
	return strings.Join(all, ", ")
}

// medianRun is the valid run whose throughput is nearest to the median; without a valid one the first.
func medianRun(r *bench.Result) *bench.Run {
	var best *bench.Run
	least := math.Inf(1)
	for i := range r.Runs {
		run := &r.Runs[i]
		if !run.Validity.Valid || r.Summary.Throughput == nil {
			continue
		}
		if d := math.Abs(run.Figures.Throughput - r.Summary.Throughput.Median); d < least {
			best, least = run, d
		}
	}
	if best == nil && len(r.Runs) > 0 {
		return &r.Runs[0]
	}
	return best
}

func runOf(r *bench.Run) runView {
	f := &r.Figures
	v := runView{
		Number: r.Number, Throughput: rate(f.Throughput, f.ThroughputUnit), Valid: r.Validity.Valid, Bottleneck: r.Verdict.Bottleneck.Text(),
		P50: none, P90: none, P99: none, P999: none, Max: none, Uncorrected: none, Confirm: none,
		CPU:       optional(f.BrokerCPUCores, three),
		Generator: optional(r.Generator.BusiestRatio, percent), Late: optional(f.PacingErrorRatio, percent),
	}
	if q := f.Latency; q != nil {
		v.P50, v.P90 = quantile(q, "P50", q.P50Seconds), quantile(q, "P90", q.P90Seconds)
		v.P99, v.P999 = quantile(q, "P99", q.P99Seconds), quantile(q, "P99.9", q.P999Seconds)
		v.Max = quantile(q, "", q.MaxSeconds)
	}
	if q := f.Uncorrected; q != nil {
		v.Uncorrected = quantile(q, "P99", q.P99Seconds)
	}
	if q := f.Confirm; q != nil {
		v.Confirm = quantile(q, "P99", q.P99Seconds)
	}
	for _, reason := range r.Validity.Reasons {
		v.Reasons = append(v.Reasons, reason.Message)
	}
	for _, note := range r.Validity.Notes {
		v.Notes = append(v.Notes, note.Message)
	}
	return v
}

func verdictOf(verdict bench.Verdict) verdictView {
	v := verdictView{
		Bottleneck: verdict.Bottleneck.Text(), Summary: verdict.Summary, CounterExperiment: verdict.CounterExperiment, Missing: verdict.Missing,
	}
	for _, other := range verdict.Others {
		v.Others = append(v.Others, other.Text())
	}
	for _, e := range verdict.Evidence {
		v.Evidence = append(v.Evidence, evidenceView{
			Series: e.Series, Value: evidence(e.Value, e.Unit), Threshold: evidence(e.Threshold, e.Unit), Meaning: e.Meaning,
			Comparison: strings.NewReplacer(">=", "≥", "<=", "≤").Replace(e.Comparison),
		})
	}
	return v
}

// mostQueues that the account shows; those with faults come first.
const mostQueues = 10

func accounts(queues []bench.QueueAccount) (shown []bench.QueueAccount, leftOut int) {
	sorted := slices.Clone(queues)
	faults := func(q bench.QueueAccount) int64 { return q.Lost + q.Duplicated + q.Reordered + q.Foreign }
	slices.SortStableFunc(sorted, func(a, b bench.QueueAccount) int {
		return int(min(max(faults(b)-faults(a), -1), 1))
	})
	n := min(len(sorted), mostQueues)
	return sorted[:n], len(sorted) - n
}
