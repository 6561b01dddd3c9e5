package bench

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// startSkew is how far apart workers may start: their seconds are added by number.
	startSkew = 2 * time.Second
	// mostEvents is how many events a merged run keeps.
	mostEvents = 1000
)

// MergeParts makes one run of what the workers hand back of it. Counts are added, histograms merged; phases are the time in
// which all workers were in them; the account of each queue is over all workers. Left is how many messages the broker says
// are in each queue at the end; a queue that is not in it was not asked. Workers of different runs, or that did not start
// within two seconds of one another, are an error, and so are none. The parts must not be used afterwards. Figures, Validity
// and Verdict are left to Finish.
func MergeParts(parts []Part, left map[string]int64) (Run, error) {
	if len(parts) == 0 {
		return Run{}, errors.New("no worker handed anything back")
	}
	run := parts[0].Run
	ledgers := map[string]*Ledger{}
	for i := range parts {
		p := &parts[i]
		if p.Run.Number != run.Number {
			return Run{}, fmt.Errorf("workers were in runs %d and %d", run.Number, p.Run.Number)
		}
		if skew := p.Run.Started.Sub(run.Started).Abs(); skew > startSkew {
			return Run{}, fmt.Errorf("workers started %s apart", skew)
		}
		if i > 0 {
			run.add(&p.Run)
		}
		for _, l := range p.Ledgers {
			if l == nil {
				return Run{}, errors.New("a worker handed back an empty account")
			}
			if ledgers[l.Queue] == nil {
				ledgers[l.Queue] = l
			} else if err := ledgers[l.Queue].Merge(l); err != nil {
				return Run{}, err
			}
		}
	}
	run.Queues = nil
	for _, name := range slices.Sorted(maps.Keys(ledgers)) {
		var remaining *int64
		if n, asked := left[name]; asked {
			remaining = &n
		}
		account, complete := ledgers[name].Account(remaining)
		if !complete {
			run.Events = append(run.Events, Event{Kind: EventStopped, Message: "the run was longer than its account can count"})
		}
		run.Queues = append(run.Queues, account)
	}
	run.sortByTime()
	return run, nil
}

func (r *Run) add(other *Run) {
	r.addPhases(other.Phases)
	r.addSeconds(other.Seconds)
	r.Latency.add(other.Latency)
	r.Generator.add(other.Generator)
	r.Events = append(r.Events, other.Events...)
	r.Broker = append(r.Broker, other.Broker...)
	if other.Drain != nil {
		if r.Drain == nil {
			r.Drain = &DrainFigures{EmptySeconds: new(0.0)}
		}
		r.Drain.add(other.Drain)
	}
	if other.Storm != nil {
		if r.Storm == nil {
			r.Storm = &StormFigures{}
		}
		r.Storm.add(other.Storm)
	}
}

// addPhases keeps of each phase what both were in. A phase that one did not have is dropped.
func (r *Run) addPhases(other []Phase) {
	var both []Phase
	for _, p := range r.Phases {
		at := slices.IndexFunc(other, func(q Phase) bool { return q.Name == p.Name })
		if at < 0 {
			continue
		}
		p.StartSeconds = max(p.StartSeconds, other[at].StartSeconds)
		p.EndSeconds = max(min(p.EndSeconds, other[at].EndSeconds), p.StartSeconds)
		both = append(both, p)
	}
	r.Phases = both
}

func (r *Run) addSeconds(other []Second) {
	byTime := map[int]int{}
	for i := range r.Seconds {
		byTime[r.Seconds[i].AtSeconds] = i
	}
	for _, s := range other {
		if i, present := byTime[s.AtSeconds]; present {
			r.Seconds[i].add(s)
		} else {
			r.Seconds = append(r.Seconds, s)
		}
	}
}

func (s *Second) add(o Second) {
	s.Intended += o.Intended
	s.Published += o.Published
	s.Confirmed += o.Confirmed
	s.Nacked += o.Nacked
	s.Returned += o.Returned
	s.Consumed += o.Consumed
	s.Acknowledged += o.Acknowledged
	s.PublishedBytes += o.PublishedBytes
	s.ConsumedBytes += o.ConsumedBytes
	s.Unconfirmed += o.Unconfirmed
	s.Unacknowledged += o.Unacknowledged
	s.WindowWaitSeconds += o.WindowWaitSeconds
	s.WriteWaitSeconds += o.WriteWaitSeconds
	s.BlockedSeconds += o.BlockedSeconds
	s.HandleSeconds += o.HandleSeconds
	s.Opened += o.Opened
	s.Closed += o.Closed
	s.Failed += o.Failed
	s.CPUSeconds += o.CPUSeconds
	s.Latency = merged(s.Latency, o.Latency)
	s.Quantiles = nil
}

func (h *Histograms) add(o Histograms) {
	h.EndToEnd, h.Uncorrected = merged(h.EndToEnd, o.EndToEnd), merged(h.Uncorrected, o.Uncorrected)
	h.Confirm, h.ConfirmUncorrected = merged(h.Confirm, o.Confirm), merged(h.ConfirmUncorrected, o.ConfirmUncorrected)
	h.Fresh, h.Connect = merged(h.Fresh, o.Fresh), merged(h.Connect, o.Connect)
	h.Pacing, h.SchedulingDelay = merged(h.Pacing, o.Pacing), merged(h.SchedulingDelay, o.SchedulingDelay)
}

// merged adds b to a; where one is nil it is the other.
func merged(a, b *Histogram) *Histogram {
	if a == nil {
		return b
	}
	a.Merge(b)
	return a
}

func (g *GeneratorFigures) add(o GeneratorFigures) {
	g.Workers += o.Workers
	g.IntendedSends += o.IntendedSends
	g.LateSends += o.LateSends
	g.CPUCores, g.CPULimitCores = plus(g.CPUCores, o.CPUCores), plus(g.CPULimitCores, o.CPULimitCores)
	g.ThrottledSeconds, g.MemoryBytes = plus(g.ThrottledSeconds, o.ThrottledSeconds), plus(g.MemoryBytes, o.MemoryBytes)
	g.GCPauseSeconds, g.GCCPUSeconds = plus(g.GCPauseSeconds, o.GCPauseSeconds), plus(g.GCCPUSeconds, o.GCCPUSeconds)
	if o.BusiestRatio != nil && (g.BusiestRatio == nil || *o.BusiestRatio > *g.BusiestRatio) {
		g.BusiestRatio = o.BusiestRatio
	}
}

// plus adds what is known of both; what only one knows is unknown of both.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

func (d *DrainFigures) add(o *DrainFigures) {
	d.Messages += o.Messages
	d.Left += o.Left
	d.PerSecond += o.PerSecond
	if d.EmptySeconds == nil || o.EmptySeconds == nil {
		d.EmptySeconds = nil
	} else {
		d.EmptySeconds = new(math.Max(*d.EmptySeconds, *o.EmptySeconds))
	}
}

func (s *StormFigures) add(o *StormFigures) {
	s.Attempted += o.Attempted
	s.Opened += o.Opened
	s.OpenSeconds = max(s.OpenSeconds, o.OpenSeconds)
	for reason, n := range o.Failed {
		if s.Failed == nil {
			s.Failed = map[string]int64{}
		}
		s.Failed[reason] += n
	}
}

func (r *Run) sortByTime() {
	slices.SortStableFunc(r.Seconds, func(a, b Second) int { return a.AtSeconds - b.AtSeconds })
	slices.SortStableFunc(r.Events, func(a, b Event) int { return cmp.Compare(a.AtSeconds, b.AtSeconds) })
	slices.SortStableFunc(r.Broker, func(a, b Sample) int { return cmp.Compare(a.AtSeconds, b.AtSeconds) })
	r.Events = r.Events[:min(len(r.Events), mostEvents)]
}

// Compact is the result without what only charts need: seconds, histograms, samples and events. It is what a history keeps.
func (r Result) Compact() Result {
	runs := make([]Run, len(r.Runs))
	for i, run := range r.Runs {
		run.Seconds, run.Latency, run.Broker, run.Events = nil, Histograms{}, nil, nil
		runs[i] = run
	}
	r.Runs = runs
	return r
}
