package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// All publishers of a scenario together send evenly, with no error that grows.
func TestSchedulesInterleave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.5, 2e6).Draw(t, "rate")
		n := rapid.IntRange(1, 20).Draw(t, "publishers")
		start := rapid.Int64Range(0, 1e7).Draw(t, "from")
		var times []time.Duration
		for k := range n {
			for i := start; i < start+5; i++ {
				times = append(times, NewSchedule(rate, n, k).At(i))
			}
		}
		slices.Sort(times)
		for j, at := range times {
			want := (float64(start)*float64(n) + float64(j)) / rate * 1e9
			if math.Abs(float64(at)-want) > 1+want*1e-14 {
				t.Fatalf("send %d is at %v, want %v", j, float64(at), want)
			}
		}
	})
}

func TestScheduleDue(t *testing.T) {
	s := NewSchedule(100, 2, 1) // 10 ms, 30 ms, 50 ms …
	for elapsed, want := range map[time.Duration]int64{
		0: 0, 10 * time.Millisecond: 0, 11 * time.Millisecond: 1, 30 * time.Millisecond: 1, 31 * time.Millisecond: 2,
		time.Second: 50,
	} {
		if got := s.Due(elapsed); got != want {
			t.Errorf("due before %v: %d, want %d", elapsed, got, want)
		}
	}
	for name, s := range map[string]Schedule{
		"a rate of zero": NewSchedule(0, 2, 0), "no publisher": NewSchedule(5, 0, 0), "a second publisher": NewSchedule(1e-300, 2, 1),
		"a rate of NaN": NewSchedule(math.NaN(), 1, 0),
	} {
		if s.At(0) != never || s.At(5) != never || s.Due(time.Hour) != 0 {
			t.Errorf("%s sends", name)
		}
	}
	// The first message of a publisher comes at once, however long the second takes.
	if rare := NewSchedule(1e-300, 2, 0); rare.At(0) != 0 || rare.At(1) != never || rare.Due(time.Hour) != 1 {
		t.Errorf("%v, %v, %d are due", rare.At(0), rare.At(1), rare.Due(time.Hour))
	}
}

// However rarely a publisher sends: what is intended is never before now through an overflow, which would be sent flat out.
func TestRareSendsAreNotOverdue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := math.Pow(10, rapid.Float64Range(-308, -3).Draw(t, "exponent"))
		p := NewPacer(NewSchedule(rate, rapid.IntRange(1, 1000).Draw(t, "publishers"), 0))
		now := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "now"))
		first := p.Next(now) // late: it is caught up with
		for range 3 {
			next := p.Next(first.At)
			if at := now + next.At; at < now+400*time.Second || now+next.Intended < now {
				t.Fatalf("at a rate of %v the next is due %v after %v", rate, next.At, now)
			}
		}
	})
}

func TestPacerOnTime(t *testing.T) {
	p := NewPacer(NewSchedule(1000, 1, 0))
	now := time.Duration(0)
	for i := range int64(50) {
		send := p.Next(now)
		if want := time.Duration(i) * time.Millisecond; send.Intended != want || send.At != want || send.Number != i {
			t.Fatalf("%d: %+v", i, send)
		}
		now = send.At + 100*time.Microsecond // a timer that is late
	}
}

// After a pause nothing is left out, intended times stay, and the backlog is paid off at twice the rate.
func TestPacerCatchesUpWithoutABurst(t *testing.T) {
	const pause = time.Second
	p := NewPacer(NewSchedule(1000, 1, 0))
	p.Next(0)
	now := pause
	caughtUp := time.Duration(0)
	var sent []time.Duration
	for i := int64(1); i < 3000; i++ {
		send := p.Next(now)
		if send.Intended != time.Duration(i)*time.Millisecond {
			t.Fatalf("send %d is intended for %v", i, send.Intended)
		}
		now = max(now, send.At)
		sent = append(sent, now)
		if caughtUp == 0 && send.At == send.Intended {
			caughtUp = now
		}
	}
	if want := 2 * pause; (caughtUp - want).Abs() > 5*time.Millisecond {
		t.Errorf("caught up at %v, want about %v", caughtUp, want)
	}
	for i := range len(sent) - 20 {
		if window := sent[i+20] - sent[i]; window < 9500*time.Microsecond {
			t.Fatalf("20 sends within %v of %v: more than twice the rate", window, sent[i])
		}
	}
}

func TestPacerNeverSendsEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPacer(NewSchedule(rapid.Float64Range(1, 1e5).Draw(t, "rate"), 3, rapid.IntRange(0, 2).Draw(t, "index")))
		now, last := time.Duration(0), time.Duration(-1)
		for i := range int64(200) {
			send := p.Next(now)
			if send.Number != i || send.At < send.Intended || send.At < last {
				t.Fatalf("%+v after %v", send, last)
			}
			last = send.At
			now = max(now, send.At) + time.Duration(rapid.SampledFrom([]int{0, 50, 1500, 40000, 3e6}).Draw(t, "late"))*time.Microsecond
		}
	})
}
