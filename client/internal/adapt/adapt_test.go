package adapt_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warren-mq/warren/client/internal/adapt"
)

var start = time.Unix(1_700_000_000, 0)

const target = 100 * time.Millisecond

// window gives a limit one judgement on batches that all took d, while as many as may run did.
func window(l *adapt.Limit, now *time.Time, d time.Duration) (changed bool) {
	for range 20 {
		*now = now.Add(adapt.Window / 19)
		changed = l.Observe(*now, d, l.Limit()) || changed
	}
	return changed
}

func TestLimit(t *testing.T) {
	below, near, above := target/2, target*9/10, target*2
	for _, tt := range []struct {
		name    string
		ceiling int
		windows []time.Duration
		want    int
	}{
		{"begins at half of the ceiling", 10, nil, 5},
		{"one more for every window that is well below", 10, []time.Duration{below, below, below}, 8},
		{"never more than the ceiling", 4, []time.Duration{below, below, below, below}, 4},
		{"stays where it is just below", 10, []time.Duration{near, near, near}, 5},
		{"one window above is chance", 10, []time.Duration{above}, 5},
		{"a third less after two", 20, []time.Duration{above, above}, 7},
		{"two that are not in a row are chance", 10, []time.Duration{above, near, above, near}, 5},
		{"never less than one", 4, []time.Duration{above, above, above, above, above, above, above, above}, 1},
		{"less even where a third is less than one", 4, []time.Duration{above, above}, 1},
		{"up again afterwards", 4, []time.Duration{above, above, below, below}, 3},
		{"a ceiling of one", 1, []time.Duration{above, above, below, below}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := start
			l := adapt.New(target, tt.ceiling, now)
			for _, d := range tt.windows {
				window(l, &now, d)
			}
			if l.Limit() != tt.want {
				t.Errorf("limit %d, want %d", l.Limit(), tt.want)
			}
		})
	}
}

func TestAFewSamplesAreNoJudgement(t *testing.T) {
	now := start
	l := adapt.New(target, 10, now)
	for range 5 {
		for range 9 {
			now = now.Add(adapt.Window)
			if l.Observe(now, 10*target, 10) {
				t.Fatal("judged too early")
			}
		}
		now = now.Add(time.Hour) // after which those before do not count
	}
	if l.P95() != 0 {
		t.Errorf("p95 is %s without a judgement", l.P95())
	}
}

func TestTheLimitDoesNotGrowWhileItIsNotReached(t *testing.T) {
	now := start
	l := adapt.New(target, 10, now)
	for range 200 {
		now = now.Add(adapt.Window / 19)
		l.Observe(now, target/10, 1)
	}
	if l.Limit() != 5 {
		t.Errorf("limit %d, want 5", l.Limit())
	}
}

func TestP95IsThatOfTheLastWindows(t *testing.T) {
	now := start
	l := adapt.New(target, 10, now)
	for i := range 100 {
		now = now.Add(adapt.Window / 99)
		d := time.Millisecond
		if i%10 == 0 { // every tenth is slow: beyond the 95th percentile
			d = 50 * time.Millisecond
		}
		l.Observe(now, d, 1)
	}
	if got := l.P95(); got != 50*time.Millisecond {
		t.Errorf("p95 is %s", got)
	}
	now = now.Add(time.Hour)
	window(l, &now, time.Millisecond)
	window(l, &now, time.Millisecond)
	if got := l.P95(); got != time.Millisecond {
		t.Errorf("an hour later p95 is %s", got)
	}
}

// server is something downstream that does its best work up to a number of requests at once, and then shares it out.
type server struct {
	best int
	base time.Duration
	rnd  *rand.Rand
}

func (s *server) latency(running int) time.Duration {
	load := max(float64(running)/float64(s.best), 1)
	return time.Duration(float64(s.base) * load * load * (0.9 + 0.2*s.rnd.Float64()))
}

type job struct {
	end  time.Time
	took time.Duration
}

type jobs []job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].end.Before(j[b].end) }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(v any)        { *j = append(*j, v.(job)) }
func (j *jobs) Pop() any          { v := (*j)[len(*j)-1]; *j = (*j)[:len(*j)-1]; return v }

// run keeps as many jobs running as the limit allows until a time, and returns the mean limit of the second half.
func run(l *adapt.Limit, s *server, from, until time.Time) float64 {
	var running jobs
	now, half := from, from.Add(until.Sub(from)/2)
	sum, n := 0, 0
	for now.Before(until) {
		for len(running) < l.Limit() {
			d := s.latency(len(running) + 1)
			heap.Push(&running, job{now.Add(d), d})
		}
		done := heap.Pop(&running).(job)
		now = done.end
		l.Observe(now, done.took, len(running)+1)
		if now.After(half) {
			sum += l.Limit()
			n++
		}
	}
	return float64(sum) / float64(n)
}

// The target of 100 ms is met by 1.4 times the best number at once: latency grows with the square.
func TestItFindsWhatADownstreamBears(t *testing.T) {
	for seed := range uint64(6) {
		s := &server{best: 10, base: 50 * time.Millisecond, rnd: rand.New(rand.NewPCG(seed, 1))}
		now := start
		l := adapt.New(target, 64, now)
		if got := run(l, s, now, now.Add(5*time.Minute)); got < 8 || got > 16 {
			t.Errorf("seed %d: settled at %.1f, want about 13", seed, got)
		}
		// It becomes half as good, and recovers.
		now = now.Add(5 * time.Minute)
		s.best = 5
		if got := run(l, s, now, now.Add(5*time.Minute)); got < 4 || got > 8 {
			t.Errorf("seed %d: settled at %.1f when it was worse, want about 6", seed, got)
		}
		now = now.Add(5 * time.Minute)
		s.best = 40
		if got := run(l, s, now, now.Add(10*time.Minute)); got < 32 || got > 62 {
			t.Errorf("seed %d: settled at %.1f when it was better, want about 52", seed, got)
		}
	}
}
