package gate

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/golden"
)

// world is a small model of Kubernetes and a broker: pods stop and start late, members come back later still.
type world struct {
	revision int
	bad      map[int]bool // revisions that cannot start
	pods     []worldPod
	queues   []broker.Queue
	log      []string
	replaced []int
	// fewest ready at any time.
	fewest int
}

type worldPod struct {
	revision int
	// starting and catching up, in ticks that are left; stopping likewise.
	stopping, starting, behind int
}

const (
	stopTicks  = 2
	startTicks = 2
	catchTicks = 3
)

func newWorld(n int) *world {
	w := &world{bad: map[int]bool{}, fewest: n, replaced: make([]int, n)}
	w.pods = make([]worldPod, n)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	for i := range n {
		members := []string{names[i], names[(i+1)%n], names[(i+2)%n]}
		w.queues = append(w.queues, quorum(fmt.Sprintf("q%d", i), members, nil))
	}
	return w
}

func (p worldPod) up(bad map[int]bool) bool {
	return p.stopping == 0 && p.starting == 0 && !bad[p.revision]
}

func (w *world) facts() Facts {
	f := Facts{Wanted: len(w.pods), Settled: true, QueuesRead: true}
	online := map[string]bool{}
	for i, p := range w.pods {
		node := fmt.Sprintf("n%d", i)
		up := p.up(w.bad)
		online[node] = up && p.behind == 0
		pod := Pod{Name: fmt.Sprintf("runtime-%d", i), Node: node, Latest: p.revision == w.revision, Ready: up, Stopping: p.stopping > 0}
		if w.bad[p.revision] && p.stopping == 0 && p.starting == 0 {
			pod.Broken = "CrashLoopBackOff"
		}
		f.Pods = append(f.Pods, pod)
		f.Nodes = append(f.Nodes, broker.Node{Name: node, Running: up, MemoryAlarm: ptr(false), DiskAlarm: ptr(false)})
	}
	for _, q := range w.queues {
		q.Online = slices.DeleteFunc(slices.Clone(q.Members), func(m string) bool { return !online[m] })
		f.Queues = append(f.Queues, q)
	}
	return f
}

// act carries out a decision as Kubernetes would: for the pod that was seen, whatever it is called later.
func (w *world) act(d Decision) {
	i := slices.IndexFunc(w.facts().Pods, func(p Pod) bool { return p.Name == d.Pod })
	if (d.Verb == Evict || d.Verb == Replace) && w.pods[i].stopping == 0 {
		w.pods[i].stopping = stopTicks
	}
}

func (w *world) tick() {
	ready := 0
	for i := range w.pods {
		p := &w.pods[i]
		switch {
		case p.stopping > 1:
			p.stopping--
		case p.stopping == 1:
			*p = worldPod{revision: w.revision, starting: startTicks, behind: catchTicks}
			w.replaced[i]++
		case p.starting > 0:
			p.starting--
		case w.bad[p.revision]:
		case p.behind > 0:
			p.behind--
		}
		if p.up(w.bad) {
			ready++
		}
	}
	w.fewest = min(w.fewest, ready)
}

// check that every queue has its majority at this moment.
func (w *world) check(t *testing.T) {
	t.Helper()
	for _, q := range w.facts().Queues {
		if len(q.Online) < len(q.Members)/2+1 {
			t.Fatalf("queue %s has lost its majority: %v are online", q.Name, q.Online)
		}
	}
}

func (w *world) say(d Decision) {
	line := strings.TrimSpace(fmt.Sprintf("%-7s %-9s %s", d.Verb, d.Pod, d.Why))
	if len(w.log) == 0 || w.log[len(w.log)-1] != line {
		w.log = append(w.log, line)
	}
}

// run passes until there is nothing to do. crash tells, before and after each action, whether Warren dies there.
func (w *world) run(t *testing.T, crash func() bool) (passes int) {
	t.Helper()
	for passes = 1; passes < 500; passes++ {
		d := Next(w.facts())
		w.say(d)
		if d.Verb == Rest && slices.ContainsFunc(w.pods, func(p worldPod) bool { return p.behind > 0 }) {
			w.tick()
			continue
		}
		if d.Verb == Rest {
			return passes
		}
		if !crash() {
			w.act(d)
			if crash() {
				w.act(d) // the pass that follows has seen nothing of it yet, and says the same once more
			}
		}
		w.tick()
		w.check(t)
	}
	t.Fatalf("no end:\n%s", strings.Join(w.log, "\n"))
	return 0
}

func never() bool { return false }

// TestWholeRollouts plays rolling updates from their beginning to their end.
func TestWholeRollouts(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(t *testing.T, w *world)
	}{
		{"three", func(t *testing.T, w *world) {
			w.revision = 1
			w.run(t, never)
		}},
		{"corrected", func(t *testing.T, w *world) {
			w.revision, w.bad[1] = 1, true
			for range 12 { // it stops at the first pod
				d := Next(w.facts())
				w.say(d)
				w.act(d)
				w.tick()
				w.check(t)
			}
			if !slices.Equal(w.replaced, []int{0, 0, 1}) {
				t.Errorf("replaced %v while the template is bad", w.replaced)
			}
			w.revision = 2
			w.run(t, never)
		}},
		{"taken-back", func(t *testing.T, w *world) {
			w.revision, w.bad[1] = 1, true
			for range 12 {
				w.act(Next(w.facts()))
				w.tick()
			}
			w.revision = 0
			w.run(t, never)
			if !slices.Equal(w.replaced, []int{0, 0, 2}) {
				t.Errorf("replaced %v: the healthy ones had the template that is wanted again", w.replaced)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(3)
			c.play(t, w)
			if w.fewest < 2 {
				t.Errorf("at some time only %d were ready", w.fewest)
			}
			golden.Equal(t, filepath.Join("testdata", c.name+".log"), []byte(strings.Join(w.log, "\n")+"\n"))
		})
	}
}

// TestACrashAtEveryStep: wherever Warren dies, no queue loses its majority, and each pod is replaced once.
func TestACrashAtEveryStep(t *testing.T) {
	steps := 0
	newRun := func(at int) (*world, int) {
		w, n := newWorld(5), 0
		w.revision = 1
		w.run(t, func() bool { n++; return n == at })
		return w, n
	}
	_, steps = newRun(0)
	for at := 1; at <= steps; at++ {
		w, _ := newRun(at)
		if w.fewest < 4 || slices.ContainsFunc(w.replaced, func(n int) bool { return n != 1 }) {
			t.Fatalf("a crash at step %d: fewest %d, replaced %v", at, w.fewest, w.replaced)
		}
	}
}

func TestRandomCrashes(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(3 + int(seed%3))
		w.revision = 1
		w.run(t, func() bool { return random.IntN(3) == 0 })
		if w.fewest < len(w.pods)-1 || slices.ContainsFunc(w.replaced, func(n int) bool { return n != 1 }) {
			t.Fatalf("seed %d: fewest %d, replaced %v", seed, w.fewest, w.replaced)
		}
	}
}
