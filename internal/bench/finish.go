package bench

import (
	"fmt"
	"math"
)

// Finish fills what can be reckoned from the rest of a run: the quantiles of its seconds, Figures, Validity and Verdict. It
// may be called again.
func Finish(r *Run, s Scenario) {
	for i := range r.Seconds {
		r.Seconds[i].Quantiles = r.Seconds[i].Latency.Quantiles()
	}
	r.Figures = figuresOf(r, &s)
	r.Validity = validityOf(r, &s)
	r.Verdict = Judge(s, *r)
}

func figuresOf(r *Run, s *Scenario) Figures {
	steady := r.phaseWindow(PhaseSteady)
	in := r.wholeSeconds(steady)
	var sum Second
	var cpu float64
	for _, second := range in {
		sum.Published += second.Published
		sum.Confirmed += second.Confirmed
		sum.Consumed += second.Consumed
		sum.PublishedBytes += second.PublishedBytes
		sum.ConsumedBytes += second.ConsumedBytes
		cpu += second.CPUSeconds
	}
	f := Figures{SteadySeconds: float64(len(in))}
	if n := f.SteadySeconds; n > 0 {
		f.PublishedPerSecond, f.ConfirmedPerSecond = float64(sum.Published)/n, float64(sum.Confirmed)/n
		f.ConsumedPerSecond = float64(sum.Consumed) / n
		f.PublishedBytesPerSecond, f.ConsumedBytesPerSecond = float64(sum.PublishedBytes)/n, float64(sum.ConsumedBytes)/n
	}
	f.throughput(r, s)
	f.latency(r, s)
	g := r.Generator
	if s.paced() && g.IntendedSends > 0 {
		f.PacingErrorRatio = new(float64(g.LateSends) / float64(g.IntendedSends))
	}
	f.Pacing, f.SchedulingDelay = r.Latency.Pacing.Quantiles(), r.Latency.SchedulingDelay.Quantiles()
	if d := r.Drain; d != nil {
		f.TimeToEmptySeconds, f.DrainPerSecond = d.EmptySeconds, &d.PerSecond
	}
	f.broker(r, steady)
	if perSecond := f.Throughput; perSecond > 0 && s.Storm == nil {
		if f.BrokerCPUCores != nil {
			f.BrokerCPUSecondsPerMillion = new(*f.BrokerCPUCores / perSecond * 1e6)
		}
		if cpu > 0 {
			f.GeneratorCPUPerMillion = new(cpu / f.SteadySeconds / perSecond * 1e6)
		}
	}
	return f
}

// paced says that sends have intended times.
func (s *Scenario) paced() bool {
	return s.Load.Mode == OpenLoop || s.Backlog != nil && s.Backlog.FreshRate > 0
}

func (f *Figures) throughput(r *Run, s *Scenario) {
	f.ThroughputUnit = "messages/s"
	switch {
	case s.Storm != nil:
		f.ThroughputUnit = "connections/s"
		if r.Storm != nil && r.Storm.OpenSeconds > 0 {
			f.Throughput = float64(r.Storm.Opened) / r.Storm.OpenSeconds
		}
	case s.Consumers.Count > 0:
		f.Throughput = f.ConsumedPerSecond
	case s.Publishers.ConfirmWindow > 0:
		f.Throughput = f.ConfirmedPerSecond
	default:
		f.Throughput = f.PublishedPerSecond
	}
}

// Names of what a latency is of.
const (
	latencyConnect  = "connect"
	latencyFresh    = "fresh messages, end to end"
	latencyEndToEnd = "end to end"
	latencyConfirm  = "confirm"
)

func (f *Figures) latency(r *Run, s *Scenario) {
	h := r.Latency
	f.Confirm = h.Confirm.Quantiles()
	switch {
	case s.Storm != nil:
		f.LatencyOf, f.Latency = latencyConnect, h.Connect.Quantiles()
	case s.Backlog != nil && s.Backlog.FreshRate > 0:
		f.LatencyOf, f.Latency = latencyFresh, h.Fresh.Quantiles()
	case s.Backlog != nil:
		// How long a message of the backlog waited says how long filling took.
	case s.Consumers.Count > 0:
		f.LatencyOf, f.Latency, f.Uncorrected = latencyEndToEnd, h.EndToEnd.Quantiles(), h.Uncorrected.Quantiles()
	case s.Publishers.ConfirmWindow > 0:
		f.LatencyOf, f.Latency, f.Uncorrected = latencyConfirm, f.Confirm, h.ConfirmUncorrected.Quantiles()
	}
	if f.Latency == nil {
		f.LatencyOf = ""
	}
}

func (f *Figures) broker(r *Run, steady window) {
	cpu := r.rates(steady, func(s *Sample) *float64 { return s.CPUSecondsTotal })
	f.BrokerCPUCores = sumOf(cpu)
	f.BrokerCPURatio = maxOf(ratios(cpu, r.medians(steady, func(s *Sample) *float64 { return s.CPULimitCores })))
	f.BrokerMemoryBytes = r.highest(steady, func(s *Sample) *float64 { return s.MemoryUsedBytes })
	for _, p := range r.sumOverTime(steady, func(s *Sample) *float64 { return s.MessagesReady }) {
		if f.MaxReady == nil || p.value > *f.MaxReady {
			f.MaxReady = new(p.value)
		}
	}
}

const (
	// shortest steady part, in whole seconds, that counts.
	shortestSteady = 3
	// foreignRatio is how much more the broker may have received than was sent: samples do not begin and end with the phase.
	foreignRatio = 0.10
	// growingRatio is how much more may be sent than consumed before waiting in the queue is most of the latency.
	growingRatio = 0.05
)

func validityOf(r *Run, s *Scenario) Validity {
	var v Validity
	spoil := func(code, format string, args ...any) {
		v.Reasons = append(v.Reasons, Reason{code, fmt.Sprintf(format, args...)})
	}
	note := func(code, format string, args ...any) {
		v.Notes = append(v.Notes, Reason{code, fmt.Sprintf(format, args...)})
	}
	steady := r.phaseWindow(PhaseSteady)
	eventReasons(r, steady, spoil, note)
	if f := r.Figures; f.SteadySeconds < shortestSteady {
		spoil("TooShort", "%s whole seconds were measured, want at least %d", formatNumber(f.SteadySeconds), shortestSteady)
	}
	accountReasons(r, s, spoil, note)
	brokerReasons(r, s, steady, spoil, note)
	generatorNotes(r, note)
	var rates []float64
	for _, second := range r.wholeSeconds(steady) {
		rates = append(rates, second.Rate())
	}
	if steadiness := CheckSteady(rates); !steadiness.Steady && s.Storm == nil && len(rates) >= steadyLeast {
		note("NotSteady", "%s", steadiness.Reason)
	}
	f := r.Figures
	if s.Backlog == nil && s.Consumers.Count > 0 && f.PublishedPerSecond > f.ConsumedPerSecond*(1+growingRatio) {
		note("Growing", "%s messages/s were sent and %s consumed: messages pile up, and latency grows with the length of the run",
			formatNumber(math.Round(f.PublishedPerSecond)), formatNumber(math.Round(f.ConsumedPerSecond)))
	}
	if d := r.Drain; d != nil && d.EmptySeconds == nil {
		note("NotEmpty", "%d messages of the backlog were left after %s s", d.Left, formatNumber(math.Round(steady.length())))
	}
	v.Valid = len(v.Reasons) == 0
	return v
}

type remark func(code, format string, args ...any)

func eventReasons(r *Run, steady window, spoil, note remark) {
	seen := map[EventKind]bool{}
	for _, e := range r.Events {
		in := steady.holds(e.AtSeconds)
		if seen[e.Kind] || !in && e.Kind != EventStopped && e.Kind != EventCapped {
			continue
		}
		seen[e.Kind] = true
		switch e.Kind {
		case EventStopped:
			spoil("Stopped", "the run was cut short: %s", e.Message)
		case EventBlocked:
			spoil("Blocked", "the broker blocked a connection: %s", e.Message)
		case EventLost:
			spoil("Reconnected", "a connection or channel was lost: %s", e.Message)
		case EventCapped:
			note("Capped", "a cap of the scenario stopped the load: %s", e.Message)
		}
	}
}

func accountReasons(r *Run, s *Scenario, spoil, note remark) {
	var sum QueueAccount
	for _, q := range r.Queues {
		sum.Lost += q.Lost
		sum.Duplicated += q.Duplicated
		sum.Redelivered += q.Redelivered
		sum.Reordered += q.Reordered
		sum.Foreign += q.Foreign
	}
	if sum.Foreign > 0 {
		spoil("Foreign", "%d messages in the queues were not of this run", sum.Foreign)
	}
	if sum.Lost > 0 {
		why := ""
		if s.Publishers.ConfirmWindow == 0 || s.Consumers.Count > 0 && s.Consumers.AckEvery == 0 {
			why = "; without confirms and manual acknowledgements the broker promises nothing"
		}
		spoil("Lost", "%d messages were lost%s", sum.Lost, why)
	}
	if sum.Duplicated > 0 {
		spoil("Duplicated", "%d messages came twice and were not marked as redelivered", sum.Duplicated)
	}
	if sum.Redelivered > 0 {
		note("Redelivered", "%d messages were sent to a consumer again", sum.Redelivered)
	}
	if sum.Reordered > 0 {
		note("Reordered", "%d messages came after a later one of the same publisher", sum.Reordered)
	}
}

func brokerReasons(r *Run, s *Scenario, steady window, spoil, note remark) {
	if len(r.Broker) == 0 {
		note("NoSamples", "nothing is known of the broker: the verdict is of the generator's figures alone")
		return
	}
	for _, alarm := range []struct {
		name string
		get  pick
	}{
		{"memory", func(s *Sample) *float64 { return s.MemoryAlarm }},
		{"disk", func(s *Sample) *float64 { return s.DiskAlarm }},
		{"file descriptor", func(s *Sample) *float64 { return s.FileDescriptorAlarm }},
	} {
		if v := r.highest(steady, alarm.get); v != nil && *v > 0 {
			spoil("Alarm", "the %s alarm was on", alarm.name)
		}
	}
	f := r.Figures
	received := sumOf(r.rates(steady, func(s *Sample) *float64 { return s.ReceivedTotal }))
	if received != nil && steady.length() >= 10 && *received > f.PublishedPerSecond*(1+foreignRatio)+10 {
		spoil("ForeignTraffic", "the broker received %s messages/s and this run sent %s: others use it too",
			formatNumber(math.Round(*received)), formatNumber(math.Round(f.PublishedPerSecond)))
	}
	opened := sumOf(r.rates(steady, func(s *Sample) *float64 { return s.ConnectionsOpenedTotal }))
	if opened != nil && s.Storm == nil && *opened*steady.length() >= 1 {
		note("Churn", "%s connections were opened while measuring", formatNumber(math.Round(*opened*steady.length())))
	}
}

func generatorNotes(r *Run, note remark) {
	if e := r.Figures.PacingErrorRatio; e != nil && *e > pacingLimit {
		note("GeneratorLate", "%.1f %% of the sends were late through the generator itself", 100**e)
	}
	if busy := r.Generator.BusiestRatio; busy != nil && *busy > generatorCPULimit {
		note("GeneratorBusy", "the generator used %.0f %% of its CPU", 100**busy)
	}
	if t := r.Generator.ThrottledSeconds; t != nil && *t > 0.01*r.Figures.SteadySeconds {
		note("GeneratorThrottled", "the generator was throttled for %s s", formatNumber(*t))
	}
	if q := r.Figures.Latency; q != nil && len(q.Insufficient) > 0 {
		note("InsufficientSamples", "%d samples are too few for %v", q.Samples, q.Insufficient)
	}
}
