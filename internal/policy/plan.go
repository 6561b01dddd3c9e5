package policy

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// Verb is what to do with one policy of the broker.
type Verb string

// The verbs.
const (
	Keep   Verb = "Keep"
	Put    Verb = "Put"
	Delete Verb = "Delete"
)

// Change is one decision about one policy of the broker, with its reason.
type Change struct {
	Verb   Verb
	Policy broker.Policy
	// Why, in words a person can read.
	Why string
	// Drift is true when the broker had what was wanted before and somebody changed it.
	Drift bool
	// Absent is true when the broker has no such policy.
	Absent bool
}

// Plan decides how the broker gets from have to want. want is nil when the policy is to go away; have is nil when the
// broker has none of that name. owned says whether the broker's policy may be changed; settled whether an earlier pass
// saw the broker have what this spec wants, so that a difference now is drift. Equal means no call.
func Plan(want, have *broker.Policy, owned, settled bool) Change {
	switch {
	case want == nil && have == nil:
		return Change{Verb: Keep, Why: "the broker has no such policy"}
	case want == nil && !owned:
		return Change{Verb: Keep, Policy: *have, Why: "the broker's policy is not ours to remove"}
	case want == nil:
		return Change{Verb: Delete, Policy: *have, Why: "the QueuePolicy is being deleted"}
	case have == nil && settled:
		return Change{Verb: Put, Policy: *want, Why: "somebody removed the policy", Drift: true, Absent: true}
	case have == nil:
		return Change{Verb: Put, Policy: *want, Why: "the broker does not have the policy yet", Absent: true}
	case !owned:
		return Change{Verb: Keep, Policy: *have, Why: "the broker's policy is not ours to change"}
	}
	if differences := diff(*want, *have); len(differences) > 0 {
		return Change{Verb: Put, Policy: *want, Why: strings.Join(differences, "; "), Drift: settled}
	}
	return Change{Verb: Keep, Policy: *have, Why: "the broker has the policy as it should be"}
}

func diff(want, have broker.Policy) []string {
	var out []string
	add := func(what string, have, want any) {
		out = append(out, fmt.Sprintf("%s is %v, wanted %v", what, have, want))
	}
	if want.Pattern != have.Pattern {
		add("pattern", have.Pattern, want.Pattern)
	}
	if want.ApplyTo != have.ApplyTo {
		add("apply-to", have.ApplyTo, want.ApplyTo)
	}
	if want.Priority != have.Priority {
		add("priority", have.Priority, want.Priority)
	}
	if !broker.EqualDefinitions(want.Definition, have.Definition) {
		add("definition", "{"+Describe(have.Definition)+"}", "{"+Describe(want.Definition)+"}")
	}
	return out
}

// Same tells whether the broker has just what is wanted. Taking over such a policy overwrites nothing: it is how objects
// that were pruned and created again, or that belong to a cluster restored from its volumes, find their policies.
func Same(want broker.Policy, have *broker.Policy) bool {
	return have != nil && len(diff(want, *have)) == 0
}

// Find is the policy called name in a listing, or nil.
func Find(policies []broker.Policy, name string) *broker.Policy {
	for i := range policies {
		if policies[i].Name == name {
			return &policies[i]
		}
	}
	return nil
}
