package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/golden"
)

// queue is one that has the policy, all its keys and its replicas, changed by edits.
func queue(name string, kind broker.QueueType, want broker.Policy, edits ...func(*broker.Queue)) broker.Queue {
	q := broker.Queue{
		VHost: "/", Name: name, Type: kind, Durable: true,
		Policy: &want.Name, EffectiveDefinition: maps.Clone(want.Definition),
	}
	nodes := []string{"a", "b", "c"}
	if kind == broker.Classic {
		q.Mirrors, q.SynchronisedMirrors = nodes[1:], nodes[1:]
	} else {
		q.Members, q.Online = nodes, nodes
	}
	for _, edit := range edits {
		edit(&q)
	}
	return q
}

func has(name string) func(*broker.Queue) {
	return func(q *broker.Queue) { q.Policy, q.EffectiveDefinition = &name, map[string]any{} }
}

func silent(q *broker.Queue)    { q.Policy, q.EffectiveDefinition = nil, nil }
func exclusive(q *broker.Queue) { q.Exclusive = true }

// effect is what became of p on the queues of a broker of this version.
func effect(t testing.TB, p *v1alpha1.QueuePolicy, version string, nodes int, others []broker.Policy, queues ...broker.Queue) Effect {
	t.Helper()
	want := mustRender(t, p, version)
	return EffectOf(p, want, append(others, want), queues, capabilities(t, version), nodes)
}

// verdictOn is the reason why the policy is not in force on the one queue: "" if it is, "-" if it is not counted.
func verdictOn(t testing.TB, e Effect) string {
	t.Helper()
	switch {
	case e.Matched == nil:
		return "cannot evaluate"
	case *e.Matched == 0:
		if e.InForce != 0 || len(e.NotInForce) > 0 {
			t.Errorf("no queue matches, but %+v", e)
		}
		return "-"
	case e.InForce == 1 && len(e.NotInForce) == 0:
		return ""
	case e.InForce == 0 && len(e.NotInForce) == 1 && len(e.NotInForce[0].Queues) == 1:
		return e.NotInForce[0].Reason
	}
	t.Fatalf("%+v is no answer about one queue", e)
	return ""
}

func TestEffectOnOneQueue(t *testing.T) {
	two, three, quorum := queuePolicy(v1alpha1.HATwo), queuePolicy(v1alpha1.HAThree), queuePolicy(v1alpha1.ReplicationQuorum)
	limits := queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`))
	deliveries := queuePolicy(v1alpha1.ReplicationNone, definition(`{"delivery-limit":5}`))
	mirrors := func(all, synchronised []string) func(*broker.Queue) {
		return func(q *broker.Queue) { q.Mirrors, q.SynchronisedMirrors = all, synchronised }
	}
	members := func(all, online []string) func(*broker.Queue) {
		return func(q *broker.Queue) { q.Members, q.Online = all, online }
	}
	effective := func(d map[string]any) func(*broker.Queue) {
		return func(q *broker.Queue) { q.EffectiveDefinition = d }
	}
	high := []broker.Policy{{Name: "high", Priority: 8}, {Name: "equal", Priority: 7}, {Name: "low", Priority: 6}}
	for _, c := range []struct {
		name    string
		policy  *v1alpha1.QueuePolicy
		version string
		kind    broker.QueueType
		edits   []func(*broker.Queue)
		want    string
	}{
		{"in force, mirrored", two, "3.10.8", broker.Classic, nil, ""},
		{"in force, quorum", quorum, "4.3.6", broker.Quorum, nil, ""},
		{"in force, limits", limits, "4.3.6", broker.Classic, nil, ""},
		{"numbers compare in any form", limits, "4.3.6", broker.Classic, []func(*broker.Queue){effective(map[string]any{"max-length": 5.0})}, ""},

		{"C5: masked by a higher priority", limits, "4.3.6", broker.Classic, []func(*broker.Queue){has("high")}, v1alpha1.ReasonMaskedByPriority},
		{"C4: masked by an equal priority", limits, "4.3.6", broker.Classic, []func(*broker.Queue){has("equal")}, v1alpha1.ReasonMaskedByPriority},
		{"C5: masked by a policy that the listing does not have", limits, "4.3.6", broker.Classic, []func(*broker.Queue){has("vanished")}, v1alpha1.ReasonMaskedByPriority},
		{"a lower priority is about to be replaced", limits, "4.3.6", broker.Classic, []func(*broker.Queue){has("low")}, v1alpha1.ReasonNotYetApplied},
		{"no policy yet", limits, "4.3.6", broker.Classic, []func(*broker.Queue){has("")}, v1alpha1.ReasonNotYetApplied},
		{"the definition before", limits, "4.3.6", broker.Classic, []func(*broker.Queue){effective(map[string]any{"max-length": int64(4)})}, v1alpha1.ReasonNotYetApplied},
		{"a key is missing", limits, "4.3.6", broker.Classic, []func(*broker.Queue){effective(map[string]any{})}, v1alpha1.ReasonNotYetApplied},
		{"a key that the type does not support", deliveries, "4.3.6", broker.Classic, []func(*broker.Queue){has("")}, v1alpha1.ReasonUnsupportedForType},
		{"a stream does not support it", limits, "4.3.6", broker.Stream, []func(*broker.Queue){has("")}, v1alpha1.ReasonUnsupportedForType},

		{"G2: the policy is not said", limits, "4.3.6", broker.Classic, []func(*broker.Queue){silent}, v1alpha1.ReasonUnknown},
		{"G2: the definition is not said", limits, "4.3.6", broker.Classic, []func(*broker.Queue){effective(nil)}, v1alpha1.ReasonUnknown},
		{"G2: the type is not said", limits, "4.3.6", "", nil, v1alpha1.ReasonUnknown},
		{"G2: the type is not said, where it counts", quorum, "4.3.6", "", nil, v1alpha1.ReasonUnknown},
		{"G2: the mirrors are not said", two, "3.10.8", broker.Classic, []func(*broker.Queue){mirrors(nil, nil)}, v1alpha1.ReasonUnknown},
		{"G2: which mirrors are synchronised is not said", two, "3.10.8", broker.Classic, []func(*broker.Queue){mirrors([]string{"b"}, nil)}, v1alpha1.ReasonUnknown},
		{"G2: the members are not said", quorum, "4.3.6", broker.Quorum, []func(*broker.Queue){members(nil, []string{"a"})}, v1alpha1.ReasonUnknown},
		{"G2: who is online is not said", quorum, "4.3.6", broker.Quorum, []func(*broker.Queue){members([]string{"a", "b", "c"}, nil)}, v1alpha1.ReasonUnknown},

		{"no mirror at all", two, "3.10.8", broker.Classic, []func(*broker.Queue){mirrors([]string{}, []string{})}, v1alpha1.ReasonBelowTargetSize},
		{"one mirror of two", three, "3.13", broker.Classic, []func(*broker.Queue){mirrors([]string{"b"}, []string{"b"})}, v1alpha1.ReasonBelowTargetSize},
		{"C11: a mirror is behind", three, "3.13", broker.Classic, []func(*broker.Queue){mirrors([]string{"b", "c"}, []string{"b"})}, v1alpha1.ReasonSynchronising},
		{"C11: none has all", two, "3.10.8", broker.Classic, []func(*broker.Queue){mirrors([]string{"b"}, []string{})}, v1alpha1.ReasonSynchronising},
		{"manual sync asks for mirrors, not for their contents", queuePolicy(v1alpha1.HATwo, manualSync), "3.10.8", broker.Classic, []func(*broker.Queue){mirrors([]string{"b"}, []string{})}, ""},
		{"B6: two members of three", quorum, "4.3.6", broker.Quorum, []func(*broker.Queue){members([]string{"a", "b"}, []string{"a", "b"})}, v1alpha1.ReasonBelowTargetSize},
		{"B6: a member is down", quorum, "4.3.6", broker.Quorum, []func(*broker.Queue){members([]string{"a", "b", "c"}, []string{"a", "b"})}, v1alpha1.ReasonSynchronising},
		{"B6: of five wanted, three", queuePolicy(v1alpha1.ReplicationQuorum, size(5)), "4.3.6", broker.Quorum, nil, v1alpha1.ReasonBelowTargetSize},

		{"a classic queue under Quorum", quorum, "4.3.6", broker.Classic, []func(*broker.Queue){has("")}, v1alpha1.ReasonNeedsMigration},
		{"a classic queue under Quorum, on a line that has no types to apply to", quorum, "3.10.8", broker.Classic, []func(*broker.Queue){has("")}, v1alpha1.ReasonNeedsMigration},
		{"F11: a stream under Quorum", quorum, "4.3.6", broker.Stream, []func(*broker.Queue){has("")}, "-"},
		{"F11: a stream that has it all the same, on a line that has no types to apply to", quorum, "3.10.8", broker.Stream, nil, "-"},
		{"a quorum queue under HATwo", two, "3.13", broker.Quorum, []func(*broker.Queue){has("")}, "-"},
		{"a quorum queue under HATwo, on a line that has no types to apply to", two, "3.10.8", broker.Quorum, []func(*broker.Queue){has("")}, "-"},
		{"F9: an exclusive queue is never mirrored", two, "3.10.8", broker.Classic, []func(*broker.Queue){exclusive, mirrors([]string{}, []string{})}, "-"},
		{"F9: an exclusive queue never becomes quorum", quorum, "4.3.6", broker.Classic, []func(*broker.Queue){exclusive, has("")}, "-"},
		{"F9: an exclusive queue has limits", limits, "4.3.6", broker.Classic, []func(*broker.Queue){exclusive}, ""},
		{"a policy of exchanges is about no queue", queuePolicy(v1alpha1.ReplicationNone, definition(`{"alternate-exchange":"x"}`), target(v1alpha1.TargetExchanges)),
			"4.3.6", broker.Classic, []func(*broker.Queue){has("")}, "-"},
		{"classic queues only", queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`), target(v1alpha1.TargetClassicQueues)), "4.3.6", broker.Quorum, []func(*broker.Queue){has("")}, "-"},
		{"streams only", queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-age":"7D"}`), target(v1alpha1.TargetStreams)), "4.3.6", broker.Stream, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue("orders.1", c.kind, mustRender(t, c.policy, c.version), c.edits...)
			if got := verdictOn(t, effect(t, c.policy, c.version, 3, high, q)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyMatchingQueuesCount(t *testing.T) {
	limits := queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`))
	e := effect(t, limits, "4.3.6", 3, nil, queue("billing", broker.Classic, broker.Policy{}, has("")))
	if got := verdictOn(t, e); got != "-" {
		t.Errorf("a queue of another name is %q", got)
	}
	if e := effect(t, limits, "4.3.6", 3, nil); e.Matched == nil || *e.Matched != 0 || !e.All() {
		t.Errorf("no queue at all: %+v", e)
	}
}

// C3: a pattern that only the broker can evaluate is never "0 queues".
func TestAPatternThatCannotBeEvaluatedIsNotZero(t *testing.T) {
	p := queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`), func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = `^orders(?<!\.dlq)$` })
	want := mustRender(t, p, "4.3.6")
	having, without := queue("orders", broker.Classic, want), queue("other", broker.Classic, want, has(""))
	e := effect(t, p, "4.3.6", 3, nil, having, without)
	if e.Matched != nil || e.InForce != 1 || len(e.NotInForce) != 0 || e.All() {
		t.Errorf("%+v, want one in force and the rest unknown", e)
	}
	if e := effect(t, p, "4.3.6", 3, nil, having); e.Matched == nil || *e.Matched != 1 {
		t.Errorf("a queue that has the policy matches, and nothing else is there: %+v", e)
	}
	p.Spec.ApplyTo = v1alpha1.TargetQuorumQueues
	if e := effect(t, p, "4.3.6", 3, nil, without); e.Matched == nil || *e.Matched != 0 {
		t.Errorf("queues that are not meant leave nothing open: %+v", e)
	}
}

// C7: HAThree on two nodes says why it cannot be.
func TestTooFewNodesAreNamed(t *testing.T) {
	p := queuePolicy(v1alpha1.HAThree)
	q := queue("orders.1", broker.Classic, mustRender(t, p, "3.13"), func(q *broker.Queue) { q.Mirrors = []string{"b"} })
	if got := effect(t, p, "3.13", 2, nil, q).NotInForce[0].Message; !strings.HasSuffix(got, ": only 2 run") {
		t.Errorf("%q", got)
	}
	if got := effect(t, p, "3.13", 0, nil, q).NotInForce[0].Message; strings.Contains(got, "run") {
		t.Errorf("the number of nodes is unknown, but %q", got)
	}
}

// The golden file holds the effect on a vhost with a bit of everything: every queue is counted once.
func TestEffectOnAMixedVhost(t *testing.T) {
	p := queuePolicy(v1alpha1.ReplicationQuorum)
	want := mustRender(t, p, "4.3.6")
	short := func(q *broker.Queue) { q.Members, q.Online = []string{"a"}, []string{"a"} }
	down := func(q *broker.Queue) { q.Online = []string{"a", "b"} }
	queues := []broker.Queue{
		queue("orders.new", broker.Quorum, want, has("")),
		queue("orders.a", broker.Quorum, want),
		queue("orders.b", broker.Quorum, want),
		queue("orders.classic.2", broker.Classic, want, has("")),
		queue("orders.classic.1", broker.Classic, want, has("")),
		queue("orders.masked", broker.Quorum, want, has("federation")),
		queue("orders.down", broker.Quorum, want, down),
		queue("orders.short", broker.Quorum, want, short),
		queue("orders.silent", broker.Quorum, want, silent),
		queue("orders.stream", broker.Stream, want, has("")),
		queue("orders.reply", broker.Classic, want, has(""), exclusive),
		queue("billing", broker.Quorum, want, has("")),
		queue("görev", broker.Quorum, want, has("")),
	}
	e := effect(t, p, "4.3.6", 3, []broker.Policy{{Name: "federation", Priority: 99}}, queues...)
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/mixed-vhost.json", append(text, '\n'))

	counted := e.InForce
	for _, g := range e.NotInForce {
		counted += len(g.Queues)
	}
	if counted != *e.Matched {
		t.Errorf("%d queues are counted, %d match", counted, *e.Matched)
	}
	slices.Reverse(queues)
	again, err := json.MarshalIndent(effect(t, p, "4.3.6", 3, []broker.Policy{{Name: "federation", Priority: 99}}, queues...), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(text) {
		t.Errorf("in another order it is\n%s", again)
	}
}
