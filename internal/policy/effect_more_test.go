package policy

import (
	"fmt"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// What counts on a queue is not always what its policy says.
func TestWhatCountsInsteadOfThePolicy(t *testing.T) {
	name, operator, none := "orders", "ceiling", ""
	limit := func(n int64) map[string]any { return map[string]any{"max-length": n, "overflow": "reject-publish"} }
	want := Rendered{Policy: broker.Policy{Name: name, Pattern: "^orders", ApplyTo: broker.ApplyToQueues, Definition: limit(10)}}
	own := want
	own.Operator = &broker.Policy{Name: name, Pattern: "^orders", ApplyTo: broker.ApplyToQueues, Definition: map[string]any{"max-length": int64(5)}}
	alone := Rendered{Policy: broker.Policy{Name: name, Pattern: "^orders"}, Operator: own.Operator}
	queue := func(edit func(*broker.Queue)) broker.Queue {
		q := broker.Queue{Name: "orders.1", Type: broker.Quorum, Policy: &name, OperatorPolicy: &none, EffectiveDefinition: limit(10)}
		edit(&q)
		return q
	}
	for _, c := range []struct {
		name   string
		want   Rendered
		queue  broker.Queue
		reason string // "" when in force
	}{
		{"C13: an argument of the queue", want, queue(func(q *broker.Queue) { q.Arguments = map[string]any{"x-max-length": int64(3)} }), v1alpha1.ReasonOverriddenByArgument},
		{"an argument that changes nothing", want, queue(func(q *broker.Queue) { q.Arguments = map[string]any{"x-max-length": int64(30)} }), ""},
		{"somebody's operator policy", want, queue(func(q *broker.Queue) { q.OperatorPolicy, q.EffectiveDefinition = &operator, limit(2) }), v1alpha1.ReasonOverriddenByOperatorPolicy},
		{"our own operator policy", own, queue(func(q *broker.Queue) { q.OperatorPolicy, q.EffectiveDefinition = &name, limit(5) }), ""},
		{"our own operator policy, not yet", own, queue(func(q *broker.Queue) { q.OperatorPolicy, q.EffectiveDefinition = &name, limit(10) }), v1alpha1.ReasonNotYetApplied},
		{"hard limits alone", alone, queue(func(q *broker.Queue) { q.Policy, q.OperatorPolicy, q.EffectiveDefinition = &none, &name, limit(5) }), ""},
		{"hard limits alone, and a policy below them", alone, queue(func(q *broker.Queue) { q.OperatorPolicy, q.EffectiveDefinition = &name, limit(2) }), ""},
		{"hard limits alone, not yet", alone, queue(func(q *broker.Queue) { q.Policy = &none }), v1alpha1.ReasonNotYetApplied},
		{"G2: a queue whose node is down", want, queue(func(q *broker.Queue) { q.State = "down" }), v1alpha1.ReasonUnknown},
		{"G2: a stopped queue", want, queue(func(q *broker.Queue) { q.State = "stopped" }), v1alpha1.ReasonUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Vhost{Capabilities: capabilities(t, "4.3"), Queues: []broker.Queue{c.queue}}
			got := EffectIn(queuePolicy(v1alpha1.ReplicationNone), c.want, v)
			reason := ""
			if len(got.NotInForce) > 0 {
				reason = got.NotInForce[0].Reason
			}
			if reason != c.reason || got.Matched == nil || *got.Matched != 1 {
				t.Errorf("%+v, want %q", got, c.reason)
			}
		})
	}
}

// What passes share gives the same answer as what each finds for itself, for any number of queues.
func TestSharedMatchesAreTheSame(t *testing.T) {
	var queues []broker.Queue
	for i := range 200 {
		queues = append(queues, broker.Queue{Name: fmt.Sprintf("q%d\xff", i)})
	}
	for _, pattern := range []string{"^q1", `^q\d+\w`, "(unclosed", "7$", "x"} {
		matches, matcher := MatchAll(pattern, queues), NewMatcher(pattern)
		for i, q := range queues {
			is, known := matcher.Match(q.Name)
			if gotIs, gotKnown := matches.At(i); gotIs != is || gotKnown != known {
				t.Errorf("%q on %q: %t, %t, want %t, %t", pattern, q.Name, gotIs, gotKnown, is, known)
			}
		}
	}
	shared := 0
	MatchAll("^q1", queues).both(MatchAll("5", queues), func(int) bool { shared++; return true })
	if shared != 20 { // 15, 105, 115, 125, 135, 145, 15x, 165, 175, 185, 195
		t.Errorf("%d queues match both", shared)
	}
}
