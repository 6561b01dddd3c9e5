package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

func exchangeOf(name, kind string) broker.Exchange {
	return broker.Exchange{VHost: "/", Name: name, Type: kind, Durable: true, Arguments: map[string]any{}}
}

func bound(source, destination, key string) broker.Binding {
	return broker.Binding{VHost: "/", Source: source, Destination: destination, RoutingKey: key}
}

func toExchange(b broker.Binding) broker.Binding {
	b.ToExchange = true
	return b
}

// topology is a vhost with the broker's own exchanges, and more.
func topology(v Vhost, parts ...any) Vhost {
	v.Exchanges = append([]broker.Exchange{}, exchangeOf("", "direct"), exchangeOf("amq.direct", "direct"))
	for _, part := range parts {
		switch part := part.(type) {
		case broker.Exchange:
			v.Exchanges = append(v.Exchanges, part)
		case broker.Binding:
			v.Bindings = append(v.Bindings, part)
		case broker.Policy:
			v.Policies = append(v.Policies, part)
		}
	}
	return v
}

// actionsOf as `DeclareExchange dlx`.
func actionsOf(actions []Action) (out []string) {
	for _, a := range actions {
		switch a.Verb {
		case DeclareExchange, DeleteExchange:
			out = append(out, fmt.Sprintf("%s %s", a.Verb, a.Exchange.Name))
		case DeclareQueue, DeleteQueue:
			out = append(out, fmt.Sprintf("%s %s", a.Verb, a.Queue.Name))
		case Bind:
			out = append(out, fmt.Sprintf("%s %s -> %s by %q", a.Verb, a.Binding.Source, a.Binding.Destination, a.Binding.RoutingKey))
		default:
			out = append(out, string(a.Verb))
		}
	}
	return out
}

func TestDeadLettersHaveAWayBeforeThePolicy(t *testing.T) {
	const none, quorum = v1alpha1.ReplicationNone, v1alpha1.ReplicationQuorum
	const loop, missing, unusable, loss = v1alpha1.ReasonDeadLetterLoop, v1alpha1.ReasonDeadLetterMissing, v1alpha1.ReasonDeadLetterUnusable, v1alpha1.ReasonNeedsAcceptDataLoss
	dlq := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead"})
	inner := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "orders.dead"})
	keyed := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", RoutingKey: "k"})
	alone := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx"})
	order, dead := held("orders.1", broker.Quorum, 0), held("dead", broker.Quorum, 0)
	all := []string{"DeclareExchange dlx", "DeclareQueue dead", `Bind dlx -> dead by "dead"`}
	for _, c := range []struct {
		name    string
		policy  *v1alpha1.QueuePolicy
		vhost   Vhost
		actions []string
		reason  string
		says    string // in the refusal or the only warning
	}{
		{"C13: nothing is there", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order)), all, "", ""},
		{"C13: of an older line", queuePolicy(none, keyed), topology(vhostOf(t, "3.10.8", order)), []string{"DeclareExchange dlx", "DeclareQueue dead", `Bind dlx -> dead by "k"`}, "", ""},
		{"C13: all is there", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "direct"), bound("dlx", "dead", "dead")), nil, "", ""},
		{"a crash came before the queue", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "direct")), all[1:], "", ""},
		{"a crash came before the binding", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "direct")), all[2:], "", ""},
		{"bound by another key", queuePolicy(none, keyed), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "direct"), bound("dlx", "dead", "dead")), []string{`Bind dlx -> dead by "k"`}, "", ""},
		{"somebody's fanout", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "fanout")), []string{`Bind dlx -> dead by ""`}, "", ""},
		{"somebody's fanout, bound by any key", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "fanout"), bound("dlx", "dead", "z")), nil, "", ""},
		{"somebody's topic", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "topic")), all[2:], "", ""},
		{"somebody's topic, bound to all", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "topic"), bound("dlx", "dead", "#")), nil, "", ""},
		{"somebody's headers", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "headers")), []string{`Bind dlx -> dead by ""`}, "", ""},
		{"somebody's plugin", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "x-delayed-message")), nil, unusable, "x-delayed-message"},
		{"one of the broker's own", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "amq.direct", Queue: "dead"})), topology(vhostOf(t, "4.3.6", order)), []string{"DeclareQueue dead", `Bind amq.direct -> dead by "dead"`}, "", ""},
		{"a name that nobody may make", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "amq.mine"})), topology(vhostOf(t, "4.3.6", order)), nil, unusable, "amq.*"},
		{"not durable", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), broker.Exchange{Name: "dlx", Type: "direct"}, bound("dlx", "dead", "dead")), nil, "", "not durable"},
		{"C13: unbound", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "direct")), nil, "", "nothing is bound to the dead-letter exchange"},
		{"C13: made and unbound", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order)), all[:1], "", "nothing is bound"},
		{"bound by somebody", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "direct"), bound("dlx", "dead", "any")), nil, "", ""},
		{"the queue is somebody's connection's", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, held("dead", broker.Classic, 0, func(q *broker.Queue) { q.Exclusive = true }))), nil, unusable, "exclusive"},
		{"the queue has another type", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", QueueType: v1alpha1.DeadLetterQuorum})),
			topology(vhostOf(t, "4.3.6", held("dead", broker.Classic, 0)), exchangeOf("dlx", "direct"), bound("dlx", "dead", "dead")), nil, "", "exists with the type classic"},
		{"the queue has no limits", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", Limits: &v1alpha1.DeadLetterLimits{MessageTTL: span(time.Hour)}})),
			topology(vhostOf(t, "4.3.6", dead), exchangeOf("dlx", "direct"), bound("dlx", "dead", "dead")), nil, "", "without the limits"},
		{"the exchanges are not known", queuePolicy(none, dlq), vhostOf(t, "4.3.6", order), nil, v1alpha1.ReasonUnknown, "which exchanges"},

		{"the pattern leaves the policy's own dead-letter queue out", queuePolicy(none, inner), topology(vhostOf(t, "4.3.6", order)),
			[]string{"DeclareExchange dlx", "DeclareQueue orders.dead", `Bind dlx -> orders.dead by "orders.dead"`}, "", ""},
		{"one that is there", queuePolicy(none, inner), topology(vhostOf(t, "4.3.6", held("orders.dead", broker.Quorum, 0))),
			[]string{"DeclareExchange dlx", `Bind dlx -> orders.dead by "orders.dead"`}, "", ""},
		{"not when another policy stands above it", queuePolicy(none, inner), topology(vhostOf(t, "4.3.6", order), broker.Policy{Name: "dead", Pattern: "dead$", ApplyTo: broker.ApplyToQueues, Priority: 99, Definition: map[string]any{"max-length": int64(9)}}),
			[]string{"DeclareExchange dlx", "DeclareQueue orders.dead", `Bind dlx -> orders.dead by "orders.dead"`}, "", ""},
		{"nor when the queue is of another type", queuePolicy(none, inner, target(v1alpha1.TargetClassicQueues)), topology(vhostOf(t, "4.3.6", order)),
			[]string{"DeclareExchange dlx", "DeclareQueue orders.dead", `Bind dlx -> orders.dead by "orders.dead"`}, "", ""},
		{"the operator policy leaves it out too", queuePolicy(none, inner, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(5))})),
			topology(vhostOf(t, "4.3.6", order), broker.Policy{Name: "dead", Pattern: "dead$", ApplyTo: broker.ApplyToQueues, Priority: 99, Definition: map[string]any{"max-length": int64(9)}}), []string{"DeclareExchange dlx", "DeclareQueue orders.dead", `Bind dlx -> orders.dead by "orders.dead"`}, "", ""},
		{"C3: only the broker could tell", queuePolicy(none, inner, pattern("^(?=orders).*")), topology(vhostOf(t, "4.3.6", order)), nil, loss, "only the broker can tell"},
		{"C3: and has told", queuePolicy(none, inner, pattern("^(?=orders).*")),
			topology(vhostOf(t, "4.3.6", held("orders.dead", broker.Quorum, 0)), exchangeOf("dlx", "direct"), bound("dlx", "orders.dead", "orders.dead"),
				broker.Policy{Name: "orders", Pattern: "^(?=orders).*", ApplyTo: broker.ApplyToQueues, Priority: 7}), nil, "", ""},
		{"C3: accepted", queuePolicy(none, dlq, pattern("^(?=orders).*"), accept("loss")), topology(vhostOf(t, "4.3.6", order)), all, "", ""},

		{"a way back to the queues", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "fanout"), bound("dlx", "orders.1", "")), nil, loop, `"dlx" leads back to queue "orders.1"`},
		{"a way back through another exchange", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "topic"), exchangeOf("more", "fanout"),
			bound("dlx", "dead", "#"), toExchange(bound("dlx", "more", "dead")), bound("more", "orders.1", "")), nil, loop, "orders.1"},
		{"exchanges in a circle", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "fanout"), exchangeOf("more", "fanout"),
			toExchange(bound("dlx", "more", "")), toExchange(bound("more", "dlx", "")), bound("more", "dead", "")), nil, "", ""},
		{"a way back for some messages", queuePolicy(none, alone), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "topic"), bound("dlx", "orders.1", "back.*")), nil, "", "may lead back"},
		{"a way back for others", queuePolicy(none, dlq), topology(vhostOf(t, "4.3.6", order, dead), exchangeOf("dlx", "topic"), bound("dlx", "dead", "dead"), bound("dlx", "orders.1", "back.*")), nil, "", ""},

		{"C13: by hand, missing", queuePolicy(none, definition(`{"dead-letter-exchange":"dlx"}`)), topology(vhostOf(t, "4.3.6", order)), nil, missing, `exchange "dlx" of dead-letter-exchange does not exist`},
		{"by hand, unbound", queuePolicy(none, definition(`{"dead-letter-exchange":"dlx"}`)), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "direct")), nil, "", "nothing is bound"},
		{"by hand, round in a circle", queuePolicy(none, definition(`{"dead-letter-exchange":"dlx","dead-letter-routing-key":"k"}`)), topology(vhostOf(t, "4.3.6", order), exchangeOf("dlx", "direct"), bound("dlx", "orders.1", "k")), nil, loop, "orders.1"},
		{"by hand, to a queue", queuePolicy(none, definition(`{"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`)), topology(vhostOf(t, "4.3.6", order, dead)), nil, "", ""},
		{"by hand, to a queue that is missing", queuePolicy(none, definition(`{"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`)), topology(vhostOf(t, "4.3.6", order)), nil, missing, `queue "dead", which does not exist`},
		{"by hand, to a queue of the policy", queuePolicy(none, definition(`{"dead-letter-exchange":"","dead-letter-routing-key":"orders.1"}`)), topology(vhostOf(t, "4.3.6", order)), nil, loop, "orders.1"},
		{"by hand, to itself", queuePolicy(none, definition(`{"dead-letter-exchange":""}`)), topology(vhostOf(t, "4.3.6", order)), nil, loop, "name a queue in dead-letter-routing-key"},
		{"none", queuePolicy(quorum), vhostOf(t, "4.3.6", order), nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := Render(c.policy, c.vhost.Capabilities)
			if err != nil {
				t.Fatal(err)
			}
			got := PlanDeadLetters(c.policy, want, c.vhost)
			if actions := actionsOf(got.Actions); !slices.Equal(actions, c.actions) {
				t.Errorf("actions %q, want %q", actions, c.actions)
			}
			var said []string
			for _, r := range got.Refusals {
				if r.Reason != c.reason {
					t.Errorf("refused: %s: %s", r.Reason, r.Message)
				}
				said = append(said, r.Message)
			}
			if (len(said) > 0) != (c.reason != "") {
				t.Errorf("refusals %q", said)
			}
			said = append(said, got.Warnings...)
			if (len(said) == 1) != (c.says != "" || c.reason != "") || len(said) > 0 && !strings.Contains(said[0], c.says) {
				t.Errorf("said %q, want %q", said, c.says)
			}
		})
	}
}

func TestTopicMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"#", "", true}, {"#", "a.b", true}, {"a.#", "a", true}, {"a.#", "a.b.c", true}, {"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false},
		{"*.b", "a.b", true}, {"#.c", "a.b.c", true}, {"a.b", "a.b", true}, {"a.b", "a.c", false}, {"#.b.#", "a.b.c", true}, {"#.b.#", "a.c", false},
		{strings.Repeat("#.a.", 60) + "b", strings.Repeat("a.", 120) + "c", false},
	} {
		if got := topicMatches(c.pattern, c.key); got != c.want {
			t.Errorf("%q takes %q: %v", c.pattern, c.key, got)
		}
	}
}

func TestDeadLettersDepart(t *testing.T) {
	ours := func(q *broker.Queue) { q.Arguments[MadeFor] = "messaging/orders" }
	exchange := exchangeOf("dlx", "direct")
	exchange.Arguments = map[string]any{MadeFor: "messaging/orders"}
	way := bound("dlx", "dead", "dead")
	for _, c := range []struct {
		name    string
		vhost   Vhost
		actions []string
		kept    []string
	}{
		{"C13: all of it, in reverse", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours)), exchange, way), []string{"DeleteQueue dead", "DeleteExchange dlx"}, nil},
		{"C13: not while it holds messages", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 1, ours)), exchange, way), nil, []string{"it holds messages", `"dead" is bound to it`}},
		{"C13: nor when that is not known", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours, uncounted)), exchange, way), nil, []string{"does not say what it holds", "is bound to it"}},
		{"C13: not what somebody else made", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0)), exchangeOf("dlx", "direct"), way), nil, []string{"Warren did not make it", "Warren did not make it"}},
		{"the queue is ours, the exchange is not", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours)), exchangeOf("dlx", "direct"), way), []string{"DeleteQueue dead"}, []string{"exchange \"dlx\" stays, since Warren did not make it"}},
		{"another queue is bound", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours)), exchange, way, bound("dlx", "more", "k")), []string{"DeleteQueue dead"}, []string{`"more" is bound to it`}},
		{"another exchange leads there", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours)), exchange, way, bound("x", "dead", "k")), nil, []string{`exchange "x" leads to it too`, `"dead" is bound`}},
		{"another policy uses it", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours)), exchange, way, broker.Policy{Name: "other", Definition: map[string]any{"dead-letter-exchange": "dlx"}}), nil, []string{`policy "other" uses it`}},
		{"a queue's argument uses it", topology(vhostOf(t, "4.3.6", held("dead", broker.Quorum, 0, ours), held("q", broker.Classic, 0, argument("x-dead-letter-exchange", "dlx"))), exchange, way), nil, []string{`queue "q" uses it`}},
		{"it is gone", topology(vhostOf(t, "4.3.6")), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dead, err := DeadLetterOf(queuePolicy(v1alpha1.ReplicationNone, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead"})))
			if err != nil {
				t.Fatal(err)
			}
			actions, kept := DepartDeadLetters(dead, c.vhost)
			if got := actionsOf(actions); !slices.Equal(got, c.actions) {
				t.Errorf("actions %q, want %q", got, c.actions)
			}
			if len(kept) != len(c.kept) {
				t.Fatalf("kept %q, want %q", kept, c.kept)
			}
			for i := range kept {
				if !strings.Contains(kept[i], c.kept[i]) {
					t.Errorf("kept %q, want %q", kept[i], c.kept[i])
				}
			}
		})
	}
}
