// Package gate decides what may happen next to the pods of a RabbitMQ cluster: one decision for each pass, with its reason. It
// is pure. A decision is carried out with the pod's UID as a condition and may be repeated, so that a pass that ends in the
// middle, or that read what is outdated, does no harm.
package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// Verb is what to do next.
type Verb string

// The verbs.
const (
	// Rest: there is nothing to do.
	Rest Verb = "rest"
	// Wait: there is something to do, and something in its way.
	Wait Verb = "wait"
	// AskQueues: what the queues look like decides; they are to be read and the question asked again.
	AskQueues Verb = "ask"
	// Evict a pod that may go now.
	Evict Verb = "evict"
	// Replace a pod that cannot run, without asking the others.
	Replace Verb = "replace"
)

// Decision is what to do next, and why.
type Decision struct {
	Verb Verb
	// Pod that it is about; "" if none.
	Pod string
	// Why, as a clause for a person.
	Why string
	// Latest of the pods have the latest template.
	Latest int
	// Rolling: some pods have not the latest template.
	Rolling bool
	// Holds are the queues that need the node of Pod.
	Holds []string
}

// Facts are all that a decision depends on.
type Facts struct {
	// Wanted number of nodes.
	Wanted int
	// Settled: the StatefulSet's controller has seen the template that is wanted.
	Settled bool
	// Pods by index.
	Pods []Pod
	// NotCreated says why the API server refuses pods that are missing; "" if nobody said so.
	NotCreated string
	// BrokerSilent says why nothing is known of the broker; "" if it answered.
	BrokerSilent string
	Nodes        []broker.Node
	// QueuesRead: Queues are all that the broker has, read in this pass.
	QueuesRead   bool
	QueuesSilent string
	Queues       []broker.Queue
}

// Next decides on a rolling update. Pods go one at a time, those first whose nodes have an alarm, then from the highest index
// down, each only when all others are back and no queue needs its node. One that cannot run and has not the latest template is
// replaced without waiting for anything.
func Next(f Facts) Decision {
	d := Decision{Verb: Rest, Latest: latest(f.Pods)}
	if !f.Settled {
		return d.wait("", "Kubernetes has not seen the latest template yet")
	}
	d.Rolling = d.Latest < len(f.Pods)
	if i := slices.IndexFunc(f.Pods, func(p Pod) bool { return !p.Latest && !p.Stopping && p.Broken != "" }); i >= 0 {
		d.Verb, d.Pod = Replace, f.Pods[i].Name
		d.Why = fmt.Sprintf("it cannot run (%s) and has not the latest template", f.Pods[i].Broken)
		return d
	}
	if stopped := f.stopping(d); stopped.Verb != Rest {
		return stopped
	}
	if len(f.Pods) < f.Wanted {
		return d.wait("", f.missing())
	}
	if !d.Rolling {
		return d
	}
	if pod, why := notBack(f.Pods); why != "" {
		return d.wait(pod, why)
	}
	if why := f.brokerNotWell(); why != "" {
		return d.wait("", why)
	}
	next := f.candidate()
	d.Pod = next.Name
	if len(f.Pods) == 1 {
		d.Verb, d.Why = Evict, "the only node restarts, and clients wait for it"
		return d
	}
	return f.askQueues(d, next)
}

func (f Facts) askQueues(d Decision, next Pod) Decision {
	switch {
	case f.QueuesSilent != "":
		return d.wait(next.Name, "the broker does not say what its queues need: "+f.QueuesSilent)
	case !f.QueuesRead:
		d.Verb, d.Why = AskQueues, "queues may need its node"
		return d
	}
	if d.Holds = Needing(next.Node, f.Queues); len(d.Holds) > 0 {
		return d.wait(next.Name, "queues need its node: "+List(d.Holds))
	}
	d.Verb, d.Why = Evict, "all nodes are well and no queue needs its node"
	return d
}

// patience is how many seconds a pod may take to stop before its queues are looked at.
const patience = 30

// stopping says what a pod that stops waits for.
func (f Facts) stopping(d Decision) Decision {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Stopping })
	if i < 0 {
		return d
	}
	pod := f.Pods[i]
	d.Rolling = d.Rolling || !pod.Latest
	switch {
	case pod.StoppingSeconds < patience || f.BrokerSilent != "":
		return d.wait(pod.Name, "it stops")
	case !f.QueuesRead && f.QueuesSilent == "":
		d.Verb, d.Pod, d.Why = AskQueues, pod.Name, "it takes long to stop"
		return d
	}
	if d.Holds = Needing(pod.Node, f.Queues); len(d.Holds) > 0 {
		return d.wait(pod.Name, fmt.Sprintf("it has been stopping for %d s and waits, at most 8 minutes, until these queues can do without its node: %s",
			pod.StoppingSeconds/10*10, List(d.Holds)))
	}
	return d.wait(pod.Name, fmt.Sprintf("it has been stopping for %d s", pod.StoppingSeconds/10*10))
}

func (f Facts) missing() string {
	why := fmt.Sprintf("%d of %d pods exist", len(f.Pods), f.Wanted)
	if f.NotCreated != "" {
		why += ": the API server refuses to create them: " + f.NotCreated
	}
	return why
}

func (d Decision) wait(pod, why string) Decision {
	d.Verb, d.Pod, d.Why = Wait, pod, why
	return d
}

// notBack is the first pod that is not ready. A new one that cannot run is what stops a rolling update.
func notBack(pods []Pod) (pod, why string) {
	for _, p := range pods {
		switch {
		case p.Ready:
		case p.Latest && p.Broken != "":
			return p.Name, fmt.Sprintf("it has the latest template and cannot run (%s): the others keep theirs. Correct the spec; the pod is then replaced", p.Broken)
		default:
			return p.Name, "it is not ready yet"
		}
	}
	return "", ""
}

// brokerNotWell says what is wrong with the broker that a restart of one more node could make worse. An alarm of a node with
// an old template is no reason: the new one may be what ends it.
func (f Facts) brokerNotWell() string {
	if f.BrokerSilent != "" {
		return "the broker is not known to be well: " + f.BrokerSilent
	}
	byName := map[string]broker.Node{}
	for _, node := range f.Nodes {
		byName[node.Name] = node
	}
	for _, pod := range f.Pods {
		node, known := byName[pod.Node]
		switch {
		case !known:
			return fmt.Sprintf("node %s is not in the cluster", pod.Node)
		case !node.Running:
			return fmt.Sprintf("the cluster does not see node %s", pod.Node)
		case node.MemoryAlarm == nil || node.DiskAlarm == nil:
			return fmt.Sprintf("the broker does not say whether node %s has an alarm", pod.Node)
		case pod.Latest && alarmed(node):
			return fmt.Sprintf("node %s, which has the latest template, has an alarm", pod.Node)
		case node.BeingDrained != nil && *node.BeingDrained:
			return fmt.Sprintf("node %s is in maintenance mode", pod.Node)
		}
	}
	return ""
}

func alarmed(node broker.Node) bool {
	return node.MemoryAlarm != nil && *node.MemoryAlarm || node.DiskAlarm != nil && *node.DiskAlarm
}

// candidate is the pod that goes next: one whose node has an alarm, else the one with the highest index.
func (f Facts) candidate() Pod {
	var next Pod
	for _, pod := range f.Pods {
		if pod.Latest {
			continue
		}
		next = pod
		if slices.ContainsFunc(f.Nodes, func(n broker.Node) bool { return n.Name == pod.Node && alarmed(n) }) {
			return next
		}
	}
	return next
}

func latest(pods []Pod) (n int) {
	for _, pod := range pods {
		if pod.Latest {
			n++
		}
	}
	return n
}

// listed is how many names a list shows.
const listed = 5

// List is the first names, and how many more there are.
func List(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
