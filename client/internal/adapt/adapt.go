// Package adapt finds how many batches may run at once without overloading what is behind them: one more while the 95th
// percentile of their latency is well below a target, a third less when it stays above. It is pure: time is an argument. It is
// not safe for use by several goroutines.
package adapt

import (
	"slices"
	"time"
)

const (
	kept       = 256 // samples
	enough     = 10  // samples, for a judgement
	percentile = 95
	comfort    = 80 // percent of the target below which one more may run
	reduction  = 30 // percent, at a time
	patience   = 2  // windows above the target in a row before there is a reduction
	stale      = 10 // windows without a sample after which earlier ones do not count
)

// Window is how long latencies are watched before there is a judgement; longer while there are few.
const Window = time.Second

// Limit adapts a number from 1 to a ceiling. Make one with New.
type Limit struct {
	target  time.Duration
	ceiling int
	limit   int
	window  time.Duration

	samples []time.Duration // since the last judgement; the latest, when there are many
	fresh   int             // how many there were
	busy    int             // of these, those that came while the limit was reached
	since   time.Time       // the last judgement
	last    time.Time       // the last sample
	above   int             // judgements in a row that were above the target
	p95     time.Duration
}

// New makes a limit that begins at half of the ceiling: what is behind is not known yet.
func New(target time.Duration, ceiling int, now time.Time) *Limit {
	ceiling = max(ceiling, 1)
	// What takes long is to be watched longer, or the effect of a change would not show yet.
	return &Limit{target: target, ceiling: ceiling, limit: (ceiling + 1) / 2, since: now, last: now, window: max(Window, 4*target)}
}

// Limit at present.
func (l *Limit) Limit() int { return l.limit }

// P95 is the 95th percentile at the last judgement; 0 before the first.
func (l *Limit) P95() time.Duration { return l.p95 }

// Observe takes the latency of a batch that has ended at now, while running batches ran, itself included. It tells whether the
// limit changed.
func (l *Limit) Observe(now time.Time, d time.Duration, running int) (changed bool) {
	if now.Sub(l.last) > stale*l.window {
		l.forget(now) // what came before a long pause says nothing any more
	}
	l.last = now
	if l.fresh < kept {
		l.samples = append(l.samples, d)
	} else {
		l.samples[l.fresh%kept] = d
	}
	l.fresh++
	if running >= l.limit {
		l.busy++
	}
	if l.fresh < enough || now.Sub(l.since) < l.window {
		return false
	}
	return l.judge(now)
}

func (l *Limit) judge(now time.Time) (changed bool) {
	slices.Sort(l.samples)
	l.p95 = l.samples[(len(l.samples)*percentile+99)/100-1]
	// Whether one more can be borne shows only where as many as may run did run.
	full := 2*l.busy >= l.fresh
	l.forget(now)
	before := l.limit
	switch {
	case l.p95 > l.target:
		if l.above++; l.above >= patience {
			l.limit = max(min(l.limit*(100-reduction)/100, l.limit-1), 1)
			l.above = 0
		}
	case l.p95*100 < l.target*comfort:
		l.above = 0
		if full {
			l.limit = min(l.limit+1, l.ceiling)
		}
	default:
		l.above = 0
	}
	return l.limit != before
}

func (l *Limit) forget(now time.Time) {
	l.samples, l.fresh, l.busy, l.since = l.samples[:0], 0, 0, now
}
