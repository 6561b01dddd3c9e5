package policy

import (
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

func TestPlan(t *testing.T) {
	want := broker.Policy{VHost: "/", Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 1, Definition: map[string]any{"max-length": int64(5)}}
	as := func(edit func(*broker.Policy)) *broker.Policy {
		p := want
		edit(&p)
		return &p
	}
	same := as(func(p *broker.Policy) { p.Definition = map[string]any{"max-length": 5.0} })
	for _, c := range []struct {
		name           string
		want, have     *broker.Policy
		owned, settled bool
		verb           Verb
		drift          bool
		why            string
	}{
		{"E1: equal, so no call", &want, same, true, true, Keep, false, "as it should be"},
		{"absent at first", &want, nil, true, false, Put, false, "does not have the policy yet"},
		{"E1: removed by somebody", &want, nil, true, true, Put, true, "somebody removed"},
		{"E1: pattern edited by hand", &want, as(func(p *broker.Policy) { p.Pattern = "b" }), true, true, Put, true, "pattern is b, wanted ^a"},
		{"E1: priority edited by hand", &want, as(func(p *broker.Policy) { p.Priority = 9 }), true, true, Put, true, "priority is 9, wanted 1"},
		{"E1: apply-to edited by hand", &want, as(func(p *broker.Policy) { p.ApplyTo = "all" }), true, true, Put, true, "apply-to is all, wanted queues"},
		{"E1: definition edited by hand", &want, as(func(p *broker.Policy) { p.Definition = map[string]any{"max-length": int64(6)} }), true, true, Put, true,
			"definition is {max-length: 6}, wanted {max-length: 5}"},
		{"E1: a key added by hand", &want, as(func(p *broker.Policy) { p.Definition = map[string]any{"max-length": int64(5), "expires": int64(2)} }), true, true, Put, true, "expires: 2"},
		{"E1: definition unknown", &want, as(func(p *broker.Policy) { p.Definition = nil }), true, true, Put, true, "definition is {}"},
		{"the spec changed: no drift", &want, as(func(p *broker.Policy) { p.Priority = 9 }), true, false, Put, false, "priority"},
		{"E4: somebody else's is not changed", &want, as(func(p *broker.Policy) { p.Priority = 9 }), false, false, Keep, false, "not ours to change"},
		{"E4: nor removed", nil, same, false, true, Keep, false, "not ours to remove"},
		{"ours goes", nil, same, true, true, Delete, false, "being deleted"},
		{"gone already", nil, nil, true, true, Keep, false, "no such policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Plan(c.want, c.have, c.owned, c.settled)
			if got.Verb != c.verb || got.Drift != c.drift || !strings.Contains(got.Why, c.why) {
				t.Errorf("%s, drift %v, %q; want %s, %v, %q", got.Verb, got.Drift, got.Why, c.verb, c.drift, c.why)
			}
			if got.Verb == Put && got.Policy.Name != want.Name {
				t.Errorf("would put %+v", got.Policy)
			}
		})
	}
}

func TestFind(t *testing.T) {
	list := []broker.Policy{{Name: "a"}, {Name: "b", Priority: 2}}
	if got := Find(list, "b"); got != &list[1] {
		t.Errorf("found %v", got)
	}
	if got := Find(list, "B"); got != nil {
		t.Errorf("names are not folded: %v", got)
	}
}

// E5: a policy that is just as wanted may be taken over, since nothing is overwritten; any difference may not.
func TestSame(t *testing.T) {
	want := broker.Policy{VHost: "/", Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 1, Definition: map[string]any{"max-length": int64(5)}}
	for name, c := range map[string]struct {
		have *broker.Policy
		same bool
	}{
		"E5: absent":             {nil, false},
		"E5: in another form":    {&broker.Policy{Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 1, Definition: map[string]any{"max-length": 5.0}}, true},
		"E5: another priority":   {&broker.Policy{Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 2, Definition: want.Definition}, false},
		"E5: a key more":         {&broker.Policy{Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 1, Definition: map[string]any{"max-length": int64(5), "expires": int64(2)}}, false},
		"E5: definition unknown": {&broker.Policy{Name: "p", Pattern: "^a", ApplyTo: broker.ApplyToQueues, Priority: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Same(want, c.have); got != c.same {
				t.Errorf("same: %v, want %v", got, c.same)
			}
		})
	}
}
