package bench

import (
	"math"
	"time"
)

// Schedule is the intended send times of one publisher of several that share a rate. Together they are evenly spaced:
// publisher k of n sends at (i·n + k) / rate.
type Schedule struct {
	interval, offset float64 // nanoseconds
}

// NewSchedule is the schedule of the publisher with this index, from 0, of so many at a total rate in messages per second.
// A rate or a count that is not positive gives a schedule that never sends.
func NewSchedule(rate float64, publishers, index int) Schedule {
	if !(rate > 0) || publishers < 1 {
		return Schedule{interval: math.Inf(1), offset: math.Inf(1)}
	}
	apart := float64(time.Second) / rate
	s := Schedule{interval: apart * float64(publishers)}
	if index > 0 { // not Inf·0
		s.offset = apart * float64(index)
	}
	return s
}

// Interval between two sends of this publisher.
func (s Schedule) Interval() time.Duration { return clampDuration(s.interval) }

// At is the intended time of send i, from 0, since the start. It has no error that grows: each is reckoned from i.
func (s Schedule) At(i int64) time.Duration {
	if i == 0 {
		return clampDuration(s.offset) // not Inf·0
	}
	return clampDuration(s.offset + float64(i)*s.interval)
}

// Due is how many sends have an intended time before elapsed.
func (s Schedule) Due(elapsed time.Duration) int64 {
	if float64(elapsed) <= s.offset {
		return 0
	}
	return max(1, int64(math.Ceil((float64(elapsed)-s.offset)/s.interval)))
}

// never is later than any run may end, and so far from the largest time that it may be added to one: what overflowed would be
// long overdue, and be sent at once.
const never time.Duration = math.MaxInt64 / 2

func clampDuration(ns float64) time.Duration {
	if !(ns < float64(never)) {
		return never
	}
	return time.Duration(math.Round(ns))
}

const (
	// catchUp is how much faster than the schedule a publisher goes that has fallen behind. Sends that are overdue are
	// never left out: each keeps its intended time, from which its latency counts. But a pause must not become a burst,
	// which would measure the broker under a load that nobody asked for.
	catchUp = 2
	// grain is the lateness within which sends simply follow one another: timers are no finer.
	grain = 2 * time.Millisecond
)

// Send is one message to be sent: its number, the time that was intended and the time at which it may go. Both times are
// since the start.
type Send struct {
	Number       int64
	Intended, At time.Duration
}

// Pacer hands out the sends of a schedule one after the other. It is not safe for concurrent use.
type Pacer struct {
	schedule Schedule
	next     int64
	// from the send `first` on, sends are paid off in steps from `anchor`.
	anchor time.Duration
	first  int64
	behind bool
}

// NewPacer begins with the first send of the schedule.
func NewPacer(s Schedule) Pacer { return Pacer{schedule: s} }

// Next is the next send of a publisher that is free at now: it waits until At and sends. When the publisher comes more than
// 2 ms late, overdue sends are due at twice the rate from now on until the schedule is reached.
func (p *Pacer) Next(now time.Duration) Send {
	send := Send{Number: p.next, Intended: p.schedule.At(p.next)}
	send.At = p.due(send)
	if now-send.At > grain {
		p.behind, p.anchor, p.first = true, now, p.next
		send.At = now
	}
	p.next++
	return send
}

func (p *Pacer) due(send Send) time.Duration {
	if !p.behind {
		return send.Intended
	}
	at := p.anchor + clampDuration(float64(send.Number-p.first)*p.schedule.interval/catchUp)
	if at <= send.Intended {
		p.behind = false
		return send.Intended
	}
	return at
}
