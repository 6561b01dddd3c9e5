package policy

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// over sums up the queues that hold more than a limit that they would get.
type over struct {
	queues   int
	examples []string
	// messages over max-length, bytes over max-length-bytes.
	messages, bytes int64
	// what becomes of them.
	dropped, atRestart, deadLettered, kept int
	limit                                  map[string]int64 // the lowest, by key
}

// overLimit counts what is above the limits that queues do not have yet. Messages that consumers hold count: they return.
func (a *assessment) overLimit() over {
	out := over{limit: map[string]int64{}}
	for _, o := range a.queues {
		above := false
		for _, key := range lengthKeys {
			limit, tighter := o.tighter(key)
			depth := depthOf(o.queue, key)
			if !tighter || depth == nil || *depth <= limit {
				continue
			}
			above = true
			if key == "max-length" {
				out.messages += *depth - limit
			} else {
				out.bytes += *depth - limit
			}
			if lowest, given := out.limit[key]; !given || limit < lowest {
				out.limit[key] = limit
			}
		}
		if above {
			out.queues++
			out.examples = addExample(out.examples, o.queue.Name)
			out.fate(o)
		}
	}
	return out
}

func (v *over) fate(o outlook) {
	_, dead := o.then["dead-letter-exchange"]
	switch {
	case dead && (drops(o) || o.queue.Type == broker.Classic):
		v.deadLettered++
	case drops(o):
		v.dropped++
	case o.queue.Type == broker.Classic:
		v.atRestart++
	default:
		v.kept++
	}
}

func (v over) message() string {
	var limits, excess string
	add := func(into *string, format string, args ...any) {
		if *into != "" {
			*into += " and "
		}
		*into += fmt.Sprintf(format, args...)
	}
	if limit, given := v.limit["max-length"]; given {
		add(&limits, "max-length %d", limit)
		add(&excess, "%s messages", roughly(v.messages))
	}
	if limit, given := v.limit["max-length-bytes"]; given {
		add(&limits, "max-length-bytes %d", limit)
		add(&excess, "%s bytes", roughly(v.bytes))
	}
	fate := "no publisher is served until they are below it"
	switch {
	case v.dropped > 0:
		fate = "these would be dropped at once"
	case v.atRestart > 0:
		fate = "these would be dropped when a queue's process starts again, and no publisher is served until then"
	case v.deadLettered > 0:
		fate = "these would be dead-lettered"
	}
	return fmt.Sprintf("%s is below what %s hold now, %s more in all, and %s", limits, queuesOf(v.queues, v.examples), excess, fate)
}

// tighter is the limit that a queue would get, and whether it has none so low, or with another overflow, yet.
func (o outlook) tighter(key string) (int64, bool) {
	then, limited := o.then[key].(int64)
	if !limited {
		return 0, false
	}
	if o.now == nil {
		return then, true
	}
	now, already := o.now[key].(int64)
	return then, !already || then < now || !same(o.now, o.then, "overflow")
}

// depthOf is what a length key limits, with what consumers hold; nil when the broker did not say.
func depthOf(q *broker.Queue, key string) *int64 {
	if key == "max-length" || q.Messages == nil || *q.Messages == 0 {
		return q.Messages
	}
	return q.MessageBytes
}

// unknownDepths refuses a limit on queues of which the broker does not say what they hold. It never means none.
func (a *assessment) unknownDepths() []Refusal {
	n, examples := a.count(func(o outlook) bool {
		for _, key := range lengthKeys {
			if _, tighter := o.tighter(key); tighter && depthOf(o.queue, key) == nil {
				return true
			}
		}
		return false
	})
	if n == 0 {
		return nil
	}
	return []Refusal{{v1alpha1.ReasonDepthUnknown, fmt.Sprintf("the broker does not say how much is in %s, so that a limit might be below it: "+
		"wait until it does, or set acceptDataLoss: true", queuesOf(n, examples))}}
}
