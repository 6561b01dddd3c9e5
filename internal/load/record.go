package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/internal/bench"
)

// clock is that of one run: nanoseconds since its start, monotonic.
type clock struct{ started time.Time }

func (c clock) now() int64 { return int64(time.Since(c.started)) }

// since is a moment of the clock in seconds.
func since(ns int64) float64 { return time.Duration(ns).Seconds() }

// span is the part of a run whose figures count. It opens and closes while the load runs.
type span struct{ from, to atomic.Int64 }

func newSpan() *span {
	s := &span{}
	s.from.Store(1<<63 - 1)
	s.to.Store(1<<63 - 1)
	return s
}

func (s *span) holds(at int64) bool { return at >= s.from.Load() && at < s.to.Load() }

// recorder gathers the figures of one or more workers. Its lock is almost never contended: there are as many recorders as
// workers, up to a bound that memory sets.
type recorder struct {
	mu     sync.Mutex
	second bench.Second // since the last tick; Latency is reused
	coarse *bench.Histogram
	latency
	intended, late int64 // of the span
}

// latency are the histograms that a recorder has; those that do not apply are nil.
type latency struct {
	endToEnd, uncorrected       *bench.Histogram
	confirm, confirmUncorrected *bench.Histogram
	fresh, pacing               *bench.Histogram
}

// recorders share the work. A histogram has 200 KiB, so thousands of workers cannot have their own.
const mostRecorders = 64

type recorders struct {
	all  []*recorder
	span *span
}

// newRecorders are for a scenario with so many workers of one kind.
func newRecorders(s *bench.Scenario, span *span) *recorders {
	r := &recorders{span: span}
	for range min(max(s.Publishers.Count, s.Consumers.Count, 1), mostRecorders) {
		one := &recorder{coarse: bench.NewCoarseHistogram()}
		if s.Consumers.Count > 0 {
			one.endToEnd, one.uncorrected = bench.NewHistogram(), bench.NewHistogram()
		}
		if s.Publishers.Count > 0 {
			one.pacing = bench.NewHistogram()
			if s.Publishers.ConfirmWindow > 0 {
				one.confirm, one.confirmUncorrected = bench.NewHistogram(), bench.NewHistogram()
			}
		}
		if s.Backlog != nil && s.Backlog.FreshRate > 0 {
			one.fresh = bench.NewHistogram()
		}
		r.all = append(r.all, one)
	}
	return r
}

func (r *recorders) of(worker int) *recorder { return r.all[worker%len(r.all)] }

// tick takes the counts since the last tick, of all workers.
func (r *recorders) tick() bench.Second {
	sum := bench.Second{Latency: bench.NewCoarseHistogram()}
	for _, one := range r.all {
		one.mu.Lock()
		s := &one.second
		sum.Intended += s.Intended
		sum.Published += s.Published
		sum.Confirmed += s.Confirmed
		sum.Nacked += s.Nacked
		sum.Returned += s.Returned
		sum.Consumed += s.Consumed
		sum.Acknowledged += s.Acknowledged
		sum.PublishedBytes += s.PublishedBytes
		sum.ConsumedBytes += s.ConsumedBytes
		sum.WindowWaitSeconds += s.WindowWaitSeconds
		sum.WriteWaitSeconds += s.WriteWaitSeconds
		sum.HandleSeconds += s.HandleSeconds
		*s = bench.Second{}
		if one.coarse.Count() > 0 {
			sum.Latency.Merge(one.coarse)
			one.coarse.Reset()
		}
		one.mu.Unlock()
	}
	if sum.Latency.Count() == 0 {
		sum.Latency = nil
	}
	return sum
}

// histograms are those of the span, of all workers. The workers have ended.
func (r *recorders) histograms() bench.Histograms {
	var h bench.Histograms
	add := func(into **bench.Histogram, one *bench.Histogram) {
		if one == nil {
			return
		}
		if *into == nil {
			*into = bench.NewHistogram()
		}
		(*into).Merge(one)
	}
	for _, one := range r.all {
		one.mu.Lock()
		add(&h.EndToEnd, one.endToEnd)
		add(&h.Uncorrected, one.uncorrected)
		add(&h.Confirm, one.confirm)
		add(&h.ConfirmUncorrected, one.confirmUncorrected)
		add(&h.Fresh, one.fresh)
		add(&h.Pacing, one.pacing)
		one.mu.Unlock()
	}
	return h
}

// sends are the intended sends of the span, and those for which the generator itself was late.
func (r *recorders) sends() (intended, late int64) {
	for _, one := range r.all {
		one.mu.Lock()
		intended, late = intended+one.intended, late+one.late
		one.mu.Unlock()
	}
	return intended, late
}
