package gate

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/broker"
)

// ScaleIn are all that a decision on fewer nodes depends on.
type ScaleIn struct {
	// Have is what the StatefulSet has now, Want what the spec says.
	Have, Want int
	// DryRun: nothing is to be done, only judged.
	DryRun bool
	// DropEmpty: classic queues without a message may go with their node.
	DropEmpty bool
	// Rollout as it was decided in this pass: nothing leaves while pods are replaced or stop.
	Rollout Decision
	Pods    []Pod
	// Node is the name of the broker's node with the index.
	Node         func(index int) string
	BrokerSilent string
	Nodes        []broker.Node
	QueuesRead   bool
	QueuesSilent string
	Queues       []broker.Queue
	// Recorded: the status says already that exactly these nodes may leave. Begun: it says so of some nodes.
	Recorded, Begun bool
}

// ScaleVerb is what to do next so that the cluster becomes smaller.
type ScaleVerb string

// The verbs of scaling in.
const (
	ScaleRest ScaleVerb = "rest"
	ScaleWait ScaleVerb = "wait"
	// ScaleAsk: the queues are to be read, with their messages, and the question asked again.
	ScaleAsk ScaleVerb = "ask"
	// ScaleRefuse: something would be lost.
	ScaleRefuse ScaleVerb = "refuse"
	// ScaleJudged: nothing would be lost; it is to be recorded before anything is done.
	ScaleJudged ScaleVerb = "judged"
	// ScaleDrop empty queues that may go.
	ScaleDrop ScaleVerb = "drop"
	// ScaleReturn a node that has stopped: it still has a queue that nobody else has.
	ScaleReturn ScaleVerb = "return"
	// ScaleMove members of quorum queues off the node.
	ScaleMove ScaleVerb = "move"
	// ScaleStop the pod with the highest index.
	ScaleStop ScaleVerb = "stop"
	// ScaleForget a node whose pod is gone.
	ScaleForget ScaleVerb = "forget"
)

// Move is a member of a quorum queue that comes to a node or leaves it.
type Move struct {
	VHost, Queue, Node string
	Add                bool
}

// ScaleDecision is what to do next, and why.
type ScaleDecision struct {
	Verb ScaleVerb
	// Index of the node that it is about, Node its name, and Through one that runs and stays.
	Index         int
	Node, Through string
	Why           string
	// Lost is what would be lost.
	Lost  []string
	Moves []Move
	Drops []broker.Queue
	// Gone: its pod is gone, and the cluster has yet to forget it.
	Gone bool
	// Left is how many queues still have a member on the node.
	Left int
}

// moves that are made in one pass: a new member copies what the queue holds.
const movesAtOnce = 8

// NextScaleIn decides on scaling in. The node with the highest index leaves first: its members of quorum queues move to nodes
// that stay, then it stops, then the others forget it. Nothing begins before nothing would be lost by all that leave, and a node
// that turns out to hold something after it has stopped comes back.
func NextScaleIn(f ScaleIn) ScaleDecision {
	if f.Have <= f.Want && !f.Begun && f.BrokerSilent != "" {
		return ScaleDecision{Verb: ScaleRest}
	}
	// Nodes that leave do so one after the other.
	d := ScaleDecision{Index: f.Have - 1, Node: f.Node(f.Have - 1)}
	if f.BrokerSilent != "" {
		return d.is(ScaleWait, "the broker does not answer: "+f.BrokerSilent)
	}
	if d, forgets := f.forget(); forgets {
		return d
	}
	if f.Have <= f.Want {
		return ScaleDecision{Verb: ScaleRest}
	}
	pod := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Node == d.Node })
	if !f.member(d.Node) {
		if pod >= 0 && f.Pods[pod].Ready {
			return d.is(ScaleRefuse, fmt.Sprintf("node %s is ready and not in the cluster: nobody knows what it holds", d.Node))
		}
		return d.is(ScaleStop, "its node is not in the cluster")
	}
	if f.Rollout.Verb != Rest {
		return d.is(ScaleWait, "other pods come first: "+f.Rollout.Why)
	}
	if why := f.staying(&d); why != "" {
		return d.is(ScaleWait, why)
	}
	switch {
	case f.QueuesSilent != "":
		return d.is(ScaleWait, "the broker does not say what its queues hold: "+f.QueuesSilent)
	case !f.QueuesRead:
		return d.is(ScaleAsk, "the queues decide")
	}
	return f.judge(d)
}

func (f ScaleIn) judge(d ScaleDecision) ScaleDecision {
	leaving, staying := f.split()
	for i := range f.Queues {
		if why := lostWith(&f.Queues[i], leaving, staying, f.DropEmpty); why != "" {
			d.Lost = append(d.Lost, why)
		}
	}
	switch {
	case len(d.Lost) > 0:
		return d.is(ScaleRefuse, "what would be lost with the nodes that leave: "+List(d.Lost))
	case f.DryRun || !f.Recorded:
		return d.is(ScaleJudged, fmt.Sprintf("nothing would be lost with %s", List(leaving)))
	}
	waits := ""
	d.Moves, d.Left, waits = f.moves(d.Node, staying)
	d.Drops = f.onlyOn(d.Node)
	switch {
	case len(d.Drops) > 0: // all of them empty, or they would be lost
		return d.is(ScaleDrop, fmt.Sprintf("%d empty classic queues are on no other node", len(d.Drops)))
	case len(d.Moves) > 0:
		return d.is(ScaleMove, fmt.Sprintf("%d queues have a member on node %s", d.Left, d.Node))
	case waits != "":
		return d.is(ScaleWait, waits)
	}
	return d.is(ScaleStop, "no quorum queue has a member on its node")
}

func (d ScaleDecision) is(verb ScaleVerb, why string) ScaleDecision {
	d.Verb, d.Why = verb, why
	return d
}

func (f ScaleIn) member(node string) bool {
	return slices.ContainsFunc(f.Nodes, func(n broker.Node) bool { return n.Name == node })
}

// onlyOn are the durable classic queues that would go for ever with node.
func (f ScaleIn) onlyOn(node string) (out []broker.Queue) {
	_, staying := f.split()
	for i := range f.Queues {
		if q := &f.Queues[i]; q.Type == broker.Classic && q.Durable && lostClassic(q, []string{node}, staying, false) != "" {
			out = append(out, *q)
		}
	}
	return out
}

// forget finds a node above both what is wanted and what there is, whose pod is gone.
func (f ScaleIn) forget() (ScaleDecision, bool) {
	for i := max(f.Have, f.Want); i < max(f.Have, f.Want)+mostNodes; i++ {
		node := slices.IndexFunc(f.Nodes, func(n broker.Node) bool { return n.Name == f.Node(i) })
		if node < 0 {
			continue
		}
		d := ScaleDecision{Index: i, Node: f.Node(i), Gone: true}
		switch {
		case !f.Begun:
			return d.is(ScaleRefuse, fmt.Sprintf("node %s is a member of the cluster, and nobody has asked Warren to remove it: what it holds would be lost. "+
				"Set replicas to %d so that it comes back, or have it forgotten by rabbitmqctl", d.Node, i+1)), true
		case slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Node == d.Node }) || f.Nodes[node].Running:
			return d.is(ScaleWait, "node "+d.Node+" stops"), true
		case f.staying(&d) != "":
			return d.is(ScaleWait, f.staying(&d)), true
		}
		return f.forgetOrReturn(d), true
	}
	return ScaleDecision{}, false
}

// forgetOrReturn: a queue may have come to the node between the last look and its end.
func (f ScaleIn) forgetOrReturn(d ScaleDecision) ScaleDecision {
	switch {
	case f.QueuesSilent != "":
		return d.is(ScaleWait, "the broker does not say what its queues hold: "+f.QueuesSilent)
	case !f.QueuesRead:
		return d.is(ScaleAsk, "the queues decide")
	}
	if left := f.onlyOn(d.Node); len(left) > 0 {
		var names []string
		for i := range left {
			names = append(names, Name(&left[i]))
		}
		return d.is(ScaleReturn, "classic queues have come to it meanwhile: "+List(names))
	}
	return d.is(ScaleForget, "node "+d.Node+" has stopped and left")
}

// mostNodes that a cluster may have.
const mostNodes = 9

// staying says what is wrong with the nodes that stay, and names one that runs.
func (f ScaleIn) staying(d *ScaleDecision) string {
	for i := range f.Want {
		node := slices.IndexFunc(f.Nodes, func(n broker.Node) bool { return n.Name == f.Node(i) })
		if node < 0 || !f.Nodes[node].Running {
			return fmt.Sprintf("node %s, which stays, does not run in the cluster", f.Node(i))
		}
		if d.Through == "" {
			d.Through = f.Node(i)
		}
	}
	return ""
}

func (f ScaleIn) split() (leaving, staying []string) {
	for i := range f.Have {
		if i >= f.Want {
			leaving = append(leaving, f.Node(i))
		} else {
			staying = append(staying, f.Node(i))
		}
	}
	return leaving, staying
}

func among(nodes, names []string) (n int) {
	for _, name := range names {
		if slices.Contains(nodes, name) {
			n++
		}
	}
	return n
}

// lostWith says what of a queue would be lost with the nodes that leave; "" if nothing.
func lostWith(q *broker.Queue, leaving, staying []string, dropEmpty bool) string {
	switch q.Type {
	case broker.Quorum:
		switch {
		case q.Members == nil:
			return "quorum queue " + Name(q) + ", whose members are unknown"
		case among(leaving, q.Members) > 0 && min(len(q.Members), smallest) > len(staying):
			return fmt.Sprintf("quorum queue %s, which has %d members and would have %d", Name(q), len(q.Members), len(staying))
		}
		return ""
	case broker.Stream:
		switch {
		case q.Members == nil:
			return "stream " + Name(q) + ", whose members are unknown"
		case among(leaving, q.Members) > 0:
			return "stream " + Name(q) + ", which has a member there: move it with rabbitmq-streams add_replica and delete_replica"
		}
		return ""
	}
	return lostClassic(q, leaving, staying, dropEmpty)
}

func lostClassic(q *broker.Queue, leaving, staying []string, dropEmpty bool) string {
	switch {
	case q.Exclusive || !slices.Contains(leaving, q.Node) || among(staying, q.SynchronisedMirrors) > 0:
		return "" // what is exclusive goes with its connection, which every restart ends
	case q.Messages == nil:
		return "classic queue " + Name(q) + ", whose messages the broker does not count"
	case *q.Messages > 0:
		return fmt.Sprintf("classic queue %s with %d messages", Name(q), *q.Messages)
	case dropEmpty:
		return ""
	}
	return "classic queue " + Name(q) + ", which is empty, with its bindings"
}

// moves are the next members to move off node: first a new one on a node that stays, then the old one goes, so that no queue has
// fewer members than before as long as there are nodes for them. A queue with a member away waits for it.
func (f ScaleIn) moves(node string, staying []string) (out []Move, left int, waits string) {
	load := map[string]int{}
	for i := range f.Queues {
		for _, member := range f.Queues[i].Members {
			load[member]++
		}
	}
	for i := range f.Queues {
		q := &f.Queues[i]
		if q.Type != broker.Quorum || !slices.Contains(q.Members, node) {
			continue
		}
		left++
		if q.Online == nil || away(q, node) {
			waits = fmt.Sprintf("queue %s waits for a member that is away", Name(q))
			continue
		}
		if len(out) >= movesAtOnce {
			continue
		}
		to := node
		add := among(staying, q.Members) < min(len(q.Members), len(staying))
		if add {
			to = leastLoaded(staying, q.Members, load)
			load[to]++
		}
		out = append(out, Move{VHost: q.VHost, Queue: q.Name, Node: to, Add: add})
	}
	return out, left, waits
}

// away tells whether a member that is not on node does not run.
func away(q *broker.Queue, node string) bool {
	return slices.ContainsFunc(q.Members, func(m string) bool { return m != node && !slices.Contains(q.Online, m) })
}

// leastLoaded is the node with the fewest members of queues that has none of this one.
func leastLoaded(nodes, members []string, load map[string]int) string {
	best := ""
	for _, node := range nodes {
		if !slices.Contains(members, node) && (best == "" || load[node] < load[best]) {
			best = node
		}
	}
	return best
}
