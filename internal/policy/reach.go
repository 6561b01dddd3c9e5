package policy

import "github.com/warren-mq/warren/internal/broker"

// Reach is the queues that a policy is in force on, or will be once the broker has it.
type Reach struct {
	Queues []*broker.Queue
	// Unknown are those of which only the broker can tell.
	Unknown []*broker.Queue
}

// ReachOf judges by pattern, kind, keys and priority. have are the policies of the same sort, policies or operator policies.
func ReachOf(want broker.Policy, v Vhost, have []broker.Policy, inForce func(*broker.Queue) *string) Reach {
	var out Reach
	var matched *Matches
	priority := make(map[string]int, len(have))
	for _, p := range have {
		priority[p.Name] = p.Priority
	}
	for i := range v.Queues {
		q := &v.Queues[i]
		if !takesPart(want, v.Capabilities, q) {
			continue
		}
		name := inForce(q)
		if name != nil && *name == want.Name {
			out.Queues = append(out.Queues, q)
			continue
		}
		if matched == nil {
			matched = v.matches(want.Pattern)
		}
		matches, known := matched.At(i)
		switch {
		case known && !matches, name != nil && standsAbove(priority, *name, want):
		case known:
			out.Queues = append(out.Queues, q)
		default:
			out.Unknown = append(out.Unknown, q)
		}
	}
	return out
}

// takesPart tells whether the kind of a queue, and every key, lets the policy apply to it. A type that the broker did not
// say may be any.
func takesPart(want broker.Policy, c broker.Capabilities, q *broker.Queue) bool {
	if q.Type == "" {
		return want.ApplyTo != broker.ApplyToExchanges
	}
	switch want.ApplyTo {
	case broker.ApplyToExchanges:
		return false
	case broker.ApplyToClassicQueues:
		if q.Type != broker.Classic {
			return false
		}
	case broker.ApplyToQuorumQueues:
		if q.Type != broker.Quorum {
			return false
		}
	case broker.ApplyToStreams:
		if q.Type != broker.Stream {
			return false
		}
	}
	supported, _ := c.SupportsDefinition(q.Type, want.Definition)
	return supported
}

// standsAbove tells whether the policy in force now stays so. Which of two of equal priority does, RabbitMQ does not say.
func standsAbove(priority map[string]int, name string, want broker.Policy) bool {
	has, present := priority[name]
	return present && has > want.Priority
}

func policyInForce(q *broker.Queue) *string   { return q.Policy }
func operatorInForce(q *broker.Queue) *string { return q.OperatorPolicy }

// CatchAll tells whether a pattern surely matches whatever name a queue has.
func CatchAll(pattern string) bool {
	matcher := NewMatcher(pattern)
	for _, name := range []string{"a", "Z9", "some.queue-name_1", "amq.gen-x", "日本", " /%2F", "\xc3\xb6\"'<>|"} {
		if matches, known := matcher.Match(name); !matches || !known {
			return false
		}
	}
	return true
}
