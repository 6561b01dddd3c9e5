package broker

import (
	"maps"
	"strings"
)

// smallest are the keys of which the lowest of policy, operator policy and queue argument counts.
var smallest = map[string]bool{
	"max-length": true, "max-length-bytes": true, "max-in-memory-length": true, "max-in-memory-bytes": true,
	"message-ttl": true, "expires": true, "delivery-limit": true,
}

// MergeOperator is the effective definition of a policy and an operator policy, either of them nil for none: of two limits
// the lower, of two delivery limits the one that is a limit, else the operator's value.
func MergeOperator(policy, operator map[string]any) map[string]any {
	merged := NormalizeDefinition(policy)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, theirs := range NormalizeDefinition(operator) {
		if mine, both := merged[key]; both && smallest[key] {
			theirs = lower(key, mine, theirs)
		}
		merged[key] = theirs
	}
	return merged
}

func lower(key string, mine, theirs any) any {
	a, numberA := mine.(int64)
	b, numberB := theirs.(int64)
	switch {
	case !numberA || !numberB:
		return theirs
	case key == "delivery-limit" && (a < 0 || b < 0):
		return max(a, b)
	}
	return min(a, b)
}

// settledByArgument are the policy keys that a queue argument ("x-" and the key) may also set.
var settledByArgument = map[string]bool{
	"max-length": true, "max-length-bytes": true, "message-ttl": true, "expires": true, "overflow": true,
	"dead-letter-exchange": true, "dead-letter-routing-key": true, "dead-letter-strategy": true,
}

// WithArguments is what is in force on a queue of type t with these arguments, for the keys of limits and dead letters: of two
// limits the lower; of two ways of dead-lettering the argument's; of two overflows the argument's on classic queues and
// the definition's on quorum queues. It may be effective itself, and must not be changed.
func WithArguments(t QueueType, arguments, effective map[string]any) map[string]any {
	settled := effective
	for name, argument := range arguments {
		key, isArgument := strings.CutPrefix(name, "x-")
		if !isArgument || !settledByArgument[key] {
			continue
		}
		if settled = maps.Clone(settled); settled == nil {
			settled = map[string]any{}
		}
		value, both := effective[key]
		switch {
		case both && smallest[key]:
			settled[key] = lower(key, value, argument)
		case both && key == "overflow" && t == Quorum:
		default:
			settled[key] = argument
		}
	}
	return settled
}

// Overriding names the first key of definition, by name, that an argument of the queue overrides, and the argument.
func Overriding(t QueueType, arguments, definition map[string]any) (key, argument string, overridden bool) {
	relevant := false
	for name := range arguments {
		relevant = relevant || settledByArgument[strings.TrimPrefix(name, "x-")]
	}
	if !relevant {
		return "", "", false
	}
	settled := WithArguments(t, arguments, definition)
	for _, key := range sortedKeys(definition) {
		if settledByArgument[key] && !equalValues(normalize(settled[key]), normalize(definition[key])) {
			return key, "x-" + key, true
		}
	}
	return "", "", false
}
