package gate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/golden"
)

// shrinking is a model of a cluster from which nodes leave.
type shrinking struct {
	have, want int
	dropEmpty  bool
	// up by index of the pod; a node that stops takes a tick for it.
	stopping int
	members  []string // of the cluster
	queues   []broker.Queue
	recorded bool
	// late is declared on the node that stops next, when it is too late to see it before.
	late *broker.Queue
	log  []string
}

func newShrinking(have, want int) *shrinking {
	s := &shrinking{have: have, want: want}
	for i := range have {
		s.members = append(s.members, nodeName(i))
	}
	for i := range have {
		members := []string{nodeName(i), nodeName((i + 1) % have), nodeName((i + 2) % have)}
		s.queues = append(s.queues, quorum(fmt.Sprintf("q%d", i), members, members))
	}
	return s
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func (s *shrinking) running() (out []string) {
	for i := range s.have + s.stopping {
		out = append(out, nodeName(i))
	}
	return out
}

func (s *shrinking) facts() ScaleIn {
	f := ScaleIn{Have: s.have, Want: s.want, DropEmpty: s.dropEmpty, Node: nodeName, QueuesRead: true, Rollout: Decision{Verb: Rest},
		Recorded: s.recorded, Begun: s.recorded}
	running := s.running()
	for i, node := range running {
		f.Pods = append(f.Pods, Pod{Name: node, Node: node, Ready: true, Stopping: i >= s.have})
	}
	for _, node := range s.members {
		f.Nodes = append(f.Nodes, broker.Node{Name: node, Running: slices.Contains(running, node)})
	}
	for _, q := range s.queues {
		q.Online = slices.DeleteFunc(slices.Clone(q.Members), func(m string) bool { return !slices.Contains(running, m) })
		if q.Type == broker.Classic && !slices.Contains(running, q.Node) {
			q.Messages = nil
		}
		f.Queues = append(f.Queues, q)
	}
	return f
}

func (s *shrinking) act(t *testing.T, d ScaleDecision) {
	t.Helper()
	switch d.Verb {
	case ScaleJudged:
		s.recorded = true
	case ScaleMove:
		for _, m := range d.Moves {
			i := slices.IndexFunc(s.queues, func(q broker.Queue) bool { return q.Name == m.Queue })
			members := slices.DeleteFunc(slices.Clone(s.queues[i].Members), func(n string) bool { return n == m.Node })
			if m.Add {
				members = append(members, m.Node)
			}
			s.queues[i].Members = members
		}
	case ScaleDrop:
		for _, drop := range d.Drops {
			s.queues = slices.DeleteFunc(s.queues, func(q broker.Queue) bool { return q.Name == drop.Name && *q.Messages == 0 })
		}
	case ScaleStop:
		if s.have == d.Index+1 { // the change names what it was decided on
			s.have, s.stopping = d.Index, 1
			if s.late != nil {
				s.late.Node = d.Node
				s.queues, s.late = append(s.queues, *s.late), nil
			}
		}
	case ScaleReturn:
		s.have = d.Index + 1
	case ScaleForget:
		s.members = slices.DeleteFunc(s.members, func(n string) bool { return n == d.Node })
		for _, q := range s.queues {
			if q.Node == d.Node && q.Type == broker.Classic {
				t.Fatalf("queue %s was lost with node %s", q.Name, d.Node)
			}
		}
	}
}

// check that no queue is short of members, whatever leaves.
func (s *shrinking) check(t *testing.T) {
	t.Helper()
	for _, q := range s.facts().Queues {
		if q.Type == broker.Quorum && (len(q.Members) < 3 || len(q.Online) < len(q.Members)) {
			t.Fatalf("queue %s has members %v, of which %v are online:\n%s", q.Name, q.Members, q.Online, strings.Join(s.log, "\n"))
		}
	}
}

// run until nothing is left to do, or something is in the way. crash tells whether Warren dies before or after an action.
func (s *shrinking) run(t *testing.T, crash func() bool) ScaleVerb {
	t.Helper()
	last := ""
	for range 200 {
		d := NextScaleIn(s.facts())
		if line := strings.TrimSpace(fmt.Sprintf("%-7s %-3s %s", d.Verb, d.Node, d.Why)); line != last {
			s.log, last = append(s.log, line), line
		}
		if d.Verb == ScaleRest || d.Verb == ScaleRefuse {
			return d.Verb
		}
		if !crash() {
			s.act(t, d)
			if crash() {
				s.act(t, d)
			}
		}
		s.check(t)
		if d.Verb == ScaleWait {
			s.stopping = 0
		}
	}
	t.Fatalf("no end:\n%s", strings.Join(s.log, "\n"))
	return ""
}

func classicOn(name, node string, messages int64) broker.Queue {
	return broker.Queue{VHost: "/", Name: name, Type: broker.Classic, Durable: true, Node: node, Messages: &messages}
}

// TestWholeScaleIns plays the departure of nodes from its beginning to its end.
func TestWholeScaleIns(t *testing.T) {
	for _, c := range []struct {
		name string
		end  ScaleVerb
		set  func(*shrinking)
	}{
		{"scale-in", ScaleRest, func(*shrinking) {}},
		{"scale-in-classic", ScaleRefuse, func(s *shrinking) { s.queues = append(s.queues, classicOn("old", "n3", 7)) }},
		{"scale-in-empty", ScaleRest, func(s *shrinking) {
			s.dropEmpty = true
			s.queues = append(s.queues, classicOn("old", "n3", 0), classicOn("stays", "n0", 7))
		}},
		{"scale-in-late", ScaleRefuse, func(s *shrinking) { q := classicOn("late", "", 3); s.late = &q }},
		{"scale-in-too-few", ScaleRefuse, func(s *shrinking) { s.want = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShrinking(5, 3)
			c.set(s)
			if end := s.run(t, never); end != c.end {
				t.Errorf("it ends with %s", end)
			}
			if c.end == ScaleRest && (s.have != 3 || len(s.members) != 3) {
				t.Errorf("%d nodes, members %v", s.have, s.members)
			}
			golden.Equal(t, filepath.Join("testdata", c.name+".log"), []byte(strings.Join(s.log, "\n")+"\n"))
		})
	}
}

// TestScaleInWithACrashAtEveryStep: wherever Warren dies, nothing is lost and it ends the same.
func TestScaleInWithACrashAtEveryStep(t *testing.T) {
	play := func(at int) (*shrinking, int) {
		s, n := newShrinking(5, 3), 0
		s.dropEmpty = true
		s.queues = append(s.queues, classicOn("old", "n4", 0))
		s.run(t, func() bool { n++; return n == at })
		return s, n
	}
	_, steps := play(0)
	for at := 1; at <= steps; at++ {
		if s, _ := play(at); s.have != 3 || len(s.members) != 3 {
			t.Fatalf("a crash at step %d: %d nodes, members %v\n%s", at, s.have, s.members, strings.Join(s.log, "\n"))
		}
	}
}

// TestScaleInWaits for what is not known, and never takes it for nothing.
func TestScaleInWaits(t *testing.T) {
	unknown := classicOn("old", "n4", 0)
	unknown.Messages = nil
	for _, c := range []struct {
		name string
		set  func(*ScaleIn)
		verb ScaleVerb
		why  string
	}{
		{"a silent broker", func(f *ScaleIn) { f.BrokerSilent = "time-out" }, ScaleWait, "time-out"},
		{"a silent broker after the node has stopped", func(f *ScaleIn) { f.BrokerSilent, f.Have = "time-out", 3 }, ScaleWait, "time-out"},
		{"queues are not read yet", func(f *ScaleIn) { f.QueuesRead = false }, ScaleAsk, "queues"},
		{"queues cannot be read", func(f *ScaleIn) { f.QueuesRead, f.QueuesSilent = false, "503" }, ScaleWait, "503"},
		{"other pods", func(f *ScaleIn) { f.Rollout = Decision{Verb: Wait, Why: "it stops"} }, ScaleWait, "it stops"},
		{"a node that stays is down", func(f *ScaleIn) { f.Nodes[1].Running = false }, ScaleWait, "n1"},
		{"messages are unknown", func(f *ScaleIn) { f.Queues = append(f.Queues, unknown) }, ScaleRefuse, "does not count"},
		{"members are unknown", func(f *ScaleIn) { f.Queues[0].Members = nil }, ScaleRefuse, "unknown"},
		{"a stream", func(f *ScaleIn) { f.Queues[0].Type, f.Queues[0].Members = broker.Stream, []string{"n4"} }, ScaleRefuse, "stream"},
		{"only judged", func(f *ScaleIn) { f.DryRun = true }, ScaleJudged, "nothing would be lost"},
		{"a node that nobody asked to remove", func(f *ScaleIn) { f.Have, f.Begun, f.Pods = 3, false, f.Pods[:3] }, ScaleRefuse, "nobody has asked"},
		{"a member elsewhere is away", func(f *ScaleIn) {
			f.Queues = f.Queues[4:]
			f.Queues[0].Online = []string{"n4", "n0"}
		}, ScaleWait, "away"},
		{"a ready node outside the cluster", func(f *ScaleIn) { f.Nodes = f.Nodes[:4] }, ScaleRefuse, "not in the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShrinking(5, 3)
			s.recorded = true
			f := s.facts()
			c.set(&f)
			if d := NextScaleIn(f); d.Verb != c.verb || !strings.Contains(d.Why, c.why) {
				t.Errorf("%s: %s", d.Verb, d.Why)
			}
		})
	}
}
