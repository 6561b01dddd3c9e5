package gate

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/broker"
)

// smallest number of members that can spare one.
const smallest = 3

// Needing are the queues that would lose their majority, or their only complete copy, with the node. What the broker does not
// say of a queue counts as need. Queues that can never spare a node (fewer than three members, no mirror) are not among them:
// waiting would not help them.
func Needing(node string, queues []broker.Queue) []string {
	var out []string
	for i := range queues {
		if why := needs(node, &queues[i]); why != "" {
			out = append(out, why)
		}
	}
	return out
}

func needs(node string, q *broker.Queue) string {
	if q.Type == broker.Quorum || q.Type == broker.Stream {
		return needsMember(node, q)
	}
	empty := q.Messages != nil && *q.Messages == 0
	if q.Node == node && len(q.Mirrors) > 0 && len(q.SynchronisedMirrors) == 0 && !empty {
		return Name(q) + " (no synchronised mirror)"
	}
	return ""
}

func needsMember(node string, q *broker.Queue) string {
	switch {
	case q.Members == nil || q.Online == nil:
		if q.Type == broker.Stream { // 3.10 does not say; the node itself asks before it stops
			return ""
		}
		return Name(q) + " (members unknown)"
	case len(q.Members) < smallest || !slices.Contains(q.Members, node):
		return ""
	}
	left := 0
	for _, member := range q.Online {
		if member != node && slices.Contains(q.Members, member) {
			left++
		}
	}
	if left > len(q.Members)/2 {
		return ""
	}
	return fmt.Sprintf("%s (%d of %d members would be left)", Name(q), left, len(q.Members))
}

// Name of a queue for a person.
func Name(q *broker.Queue) string {
	if q.VHost == "/" {
		return q.Name
	}
	return q.VHost + "/" + q.Name
}
