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

// held is a queue with so many messages and no policy; edits change it.
func held(name string, kind broker.QueueType, messages int64, edits ...func(*broker.Queue)) broker.Queue {
	none := ""
	size := messages * 10
	q := broker.Queue{VHost: "/", Name: name, Type: kind, Durable: true, State: "running", Policy: &none, OperatorPolicy: ptr(""),
		EffectiveDefinition: map[string]any{}, Arguments: map[string]any{}, Messages: &messages, MessageBytes: &size}
	for _, edit := range edits {
		edit(&q)
	}
	return q
}

func under(name string, definition map[string]any) func(*broker.Queue) {
	return func(q *broker.Queue) {
		q.Policy = &name
		q.EffectiveDefinition = broker.MergeOperator(definition, q.EffectiveDefinition)
	}
}

func argument(key string, value any) func(*broker.Queue) {
	return func(q *broker.Queue) { q.Arguments[key] = value }
}

func uncounted(q *broker.Queue) { q.Messages, q.MessageBytes = nil, nil }

func vhostOf(t testing.TB, version string, queues ...broker.Queue) Vhost {
	return Vhost{Name: "/", Capabilities: capabilities(t, version), Queues: queues, Counted: true, RunningNodes: 3}
}

func dangersOf(t testing.TB, p *v1alpha1.QueuePolicy, v Vhost) Dangers {
	t.Helper()
	want, err := Render(p, v.Capabilities)
	if err != nil {
		t.Fatal(err)
	}
	return DangersOf(p, want, v)
}

// reasons of the refusals with their messages.
func reasons(d Dangers) (reasons []string, messages string) {
	for _, r := range d.Refusals {
		reasons = append(reasons, r.Reason)
		messages += r.Message + "\n"
	}
	return reasons, messages
}

func pattern(text string) edit { return func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = text } }

func rollout(p *v1alpha1.QueuePolicy) { p.Spec.Rollout = &v1alpha1.RolloutSpec{} }

func TestWhatIsNotSentWithoutConsent(t *testing.T) {
	const none, quorum = v1alpha1.ReplicationNone, v1alpha1.ReplicationQuorum
	const loss, masked, unknown, staged = v1alpha1.ReasonNeedsAcceptDataLoss, v1alpha1.ReasonNeedsAcceptMaskedKeys, v1alpha1.ReasonDepthUnknown, v1alpha1.ReasonNeedsRollout
	length := limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10))})
	size := limits(v1alpha1.QueueLimits{MaxLengthBytes: bytes("100")})
	dropping := limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10)), Overflow: v1alpha1.DropHead})
	rejecting := map[string]any{"max-length": int64(10), "overflow": "reject-publish"}
	dlx := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx"})
	low := broker.Policy{Name: "low", Pattern: ".", ApplyTo: broker.ApplyToQueues, Priority: 1, Definition: map[string]any{"dead-letter-exchange": "x", "max-length": int64(99)}}
	high := broker.Policy{Name: "high", Pattern: ".", ApplyTo: broker.ApplyToQueues, Priority: 9, Definition: low.Definition}
	withPolicies := func(v Vhost, policies ...broker.Policy) Vhost {
		v.Policies = policies
		return v
	}
	for _, c := range []struct {
		name   string
		policy *v1alpha1.QueuePolicy
		vhost  Vhost
		want   []string
		says   []string
	}{
		{"a limit above all depths", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 10)), nil, nil},
		{"C9: below the depth of a classic queue", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 50_000), held("orders.2", broker.Classic, 3)), []string{loss},
			[]string{"max-length 10 is below what 1 queue (orders.1) hold now", "about 49000 messages more", "when a queue's process starts again", "acceptDataLoss: true"}},
		{"C9: below the depths of more", queuePolicy(none, length), vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 12), held("orders.2", broker.Quorum, 13)), []string{loss},
			[]string{"2 queues (orders.1, orders.2)", "5 messages more in all"}},
		{"below the depth of a quorum queue", queuePolicy(quorum, length), vhostOf(t, "4.3.6", held("orders.1", broker.Quorum, 30)), []string{loss}, []string{"20 messages", "no publisher is served"}},
		{"F0.4: dead-lettered", queuePolicy(none, length, dlx), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 30)), []string{loss}, []string{"dead-lettered"}},
		{"bytes below what is there", queuePolicy(none, size), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 30)), []string{loss}, []string{"max-length-bytes 100", "about 200 bytes more"}},
		{"G2: an unknown depth is not zero", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, uncounted)), []string{unknown}, []string{"does not say how much is in 1 queue (orders.1)"}},
		{"G2: unknown bytes", queuePolicy(none, size), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, func(q *broker.Queue) { q.MessageBytes = nil })), []string{unknown}, nil},
		{"no messages have no bytes", queuePolicy(none, size), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, func(q *broker.Queue) { q.MessageBytes = nil })), nil, nil},
		{"other queues do not matter", queuePolicy(none, length), vhostOf(t, "4.3.6", held("billing", broker.Classic, 99), held("orders.s", broker.Stream, 99, uncounted)), nil, nil},
		{"queues of a higher policy do not matter", queuePolicy(none, length), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99, under("high", high.Definition))), high), nil, nil},
		{"in force already", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99, under("orders", rejecting))), nil, nil},
		{"in force already, and the depth is not asked for", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, under("orders", rejecting), uncounted)), nil, nil},
		{"raised", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99, under("orders", map[string]any{"max-length": int64(5), "overflow": "reject-publish"}))), nil, nil},
		{"lowered", queuePolicy(none, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 19, under("orders", map[string]any{"max-length": int64(20), "overflow": "reject-publish"}))), []string{loss}, []string{"9 messages"}},
		{"accepted", queuePolicy(none, length, accept("loss")), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99)), nil, nil},
		{"accepted, and unknown", queuePolicy(none, length, accept("loss")), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, uncounted)), nil, nil},
		{"drop-head", queuePolicy(none, dropping), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99)), []string{loss, loss}, []string{"drop-head drops the oldest messages", "dropped at once"}},
		{"drop-head with nothing there", queuePolicy(none, dropping), vhostOf(t, "4.3.6"), []string{loss}, []string{"no queue now"}},
		{"a limit by hand without overflow", queuePolicy(none, definition(`{"max-length":10}`)), vhostOf(t, "4.3.6"), []string{loss}, []string{"without overflow drops the oldest"}},
		{"C9: a time to live", queuePolicy(none, limits(v1alpha1.QueueLimits{MessageTTL: span(0)})), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99)), []string{loss}, []string{"message-ttl 0 ms", "1 queue (orders.1)"}},
		{"a time to live with dead letters", queuePolicy(none, limits(v1alpha1.QueueLimits{MessageTTL: span(time.Hour)}), dlx), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99)), nil, nil},
		{"a hard time to live where dead letters are not in force", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MessageTTL: span(time.Hour)}), dlx),
			withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99, under("high", map[string]any{"expires": int64(9)}))), broker.Policy{Name: "high", Priority: 99, Definition: map[string]any{"expires": int64(9)}}),
			[]string{loss}, []string{"where no dead-letter exchange is in force", "orders.1"}},
		{"C9: expires in milliseconds", queuePolicy(none, definition(`{"expires":2}`)), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0)), []string{loss}, []string{"expires 2 ms", "counts in milliseconds"}},
		{"expires after a day", queuePolicy(none, limits(v1alpha1.QueueLimits{Expires: span(24 * time.Hour)})), vhostOf(t, "4.3.6"), []string{loss}, []string{"expires 86400000 ms deletes a queue"}},
		{"C9: everything that is destructive, on everything", queuePolicy(none, definition(`{"expires":2}`), pattern(".*"), accept("loss")), vhostOf(t, "4.3.6", held("a", broker.Classic, 0), held("b", broker.Quorum, 0)), []string{staged},
			[]string{`".*" matches every queue`, "2 queues (a, b) at once", "set rollout"}},
		{"C9: on everything, with no queue yet", queuePolicy(none, dropping, pattern(""), accept("loss")), vhostOf(t, "4.3.6"), []string{staged}, nil},
		{"on everything, in stages", queuePolicy(none, dropping, pattern(".*"), accept("loss"), rollout), vhostOf(t, "4.3.6", held("a", broker.Classic, 0)), nil, nil},
		{"on everything, in force already", queuePolicy(none, dropping, pattern(".*"), accept("loss")), vhostOf(t, "4.3.6", held("a", broker.Classic, 0, under("orders", map[string]any{"max-length": int64(10), "overflow": "drop-head"}))), nil, nil},
		{"on everything, with one part in force already", queuePolicy(none, definition(`{"expires":90000,"message-ttl":5}`), pattern(".*"), accept("loss")), vhostOf(t, "4.3.6", held("a", broker.Classic, 0, under("orders", map[string]any{"message-ttl": int64(5)}))), []string{staged}, nil},
		{"harmless on everything", queuePolicy(none, length, pattern(".*")), vhostOf(t, "4.3.6", held("a", broker.Classic, 0)), nil, nil},
		{"retention of streams", queuePolicy(none, size, target(v1alpha1.TargetStreams)), vhostOf(t, "4.3.6", held("orders.s", broker.Stream, 99)), []string{loss, loss}, []string{"of a stream that is larger"}},
		{"retention of streams by age", queuePolicy(none, definition(`{"max-age":"7D"}`), target(v1alpha1.TargetStreams)), vhostOf(t, "4.3.6"), []string{loss}, []string{"max-age 7D"}},
		{"an argument drops the oldest", queuePolicy(none, length), vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 3, argument("x-overflow", "drop-head"))), []string{loss}, []string{"1 queue (orders.1) would drop the oldest", "x-overflow"}},
		{"which does not count on quorum queues", queuePolicy(none, length), vhostOf(t, "3.10.8", held("orders.1", broker.Quorum, 3, argument("x-overflow", "drop-head"))), nil, nil},
		{"reject-publish-dlx is for classic queues", queuePolicy(none, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10)), Overflow: v1alpha1.RejectPublishDeadLetter})),
			vhostOf(t, "3.10.8", held("orders.1", broker.Quorum, 3), held("orders.2", broker.Classic, 3)), []string{loss}, []string{"1 queue (orders.1)"}},
		{"a hard limit where another policy drops the oldest", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(10))})),
			withPolicies(vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 3, under("high", high.Definition))), high), []string{loss}, []string{"1 queue (orders.1)", "another policy"}},
		{"an operator overflow counts everywhere", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(10))})),
			withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, under("high", high.Definition))), high), nil, nil},
		{"C3: a pattern that only the broker can evaluate, with room everywhere", queuePolicy(none, length, pattern("(?<!x)y")), vhostOf(t, "4.3.6", held("a", broker.Classic, 3)), nil, nil},
		{"C3: and without", queuePolicy(none, length, pattern("(?<!x)y")), vhostOf(t, "4.3.6", held("a", broker.Classic, 30)), []string{loss}, []string{"only the broker can evaluate the pattern"}},
		{"C5: keys are lost", queuePolicy(none, length), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, under("low", low.Definition)), held("orders.2", broker.Quorum, 3, under("low", low.Definition)), held("billing", broker.Classic, 0, under("low", low.Definition))), low),
			[]string{masked}, []string{`"low" gives dead-letter-exchange to 2 queues (orders.1, orders.2)`, "acceptMaskedKeys: true"}},
		{"C5: accepted", queuePolicy(none, length, accept("masked")), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, under("low", low.Definition))), low), nil, nil},
		{"C5: repeated keys are kept", queuePolicy(none, length, dlx), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, under("low", low.Definition))), low), nil, nil},
		{"C5: a policy that stands above takes part in nothing", queuePolicy(none, length), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 3, under("high", high.Definition))), high), nil, nil},
		{"C5: mirrors are lost", queuePolicy(none, definition(`{"queue-mode":"lazy"}`)), withPolicies(vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 0, under("ha", map[string]any{"ha-mode": "all"}))), broker.Policy{Name: "ha", Definition: map[string]any{"ha-mode": "all"}}),
			[]string{masked}, []string{`"ha" gives ha-mode to 1 queue (orders.1)`}},
		{"C7: mirrors that are gone are not lost", queuePolicy(none, definition(`{"queue-mode":"lazy"}`)), withPolicies(vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, under("ha", map[string]any{"ha-mode": "all"}))), broker.Policy{Name: "ha", Definition: map[string]any{"ha-mode": "all"}}), nil, nil},
		{"C5: an unknown policy may have keys", queuePolicy(none, length), withPolicies(vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 0, func(q *broker.Queue) { q.Policy = nil })), low), []string{masked}, []string{"does not say which policy 1 of the queues have"}},
		{"C5: unless there is no other", queuePolicy(none, length), vhostOf(t, "3.10.8", held("orders.1", broker.Classic, 0, func(q *broker.Queue) { q.Policy = nil })), nil, nil},
		{"C5: another operator policy is hidden", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(10))})), func() Vhost {
			v := vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, func(q *broker.Queue) { q.OperatorPolicy = ptr("site") }))
			v.OperatorPolicies = []broker.Policy{{Name: "site", Definition: map[string]any{"message-ttl": int64(5)}}}
			return v
		}(), []string{masked}, []string{`"site" gives message-ttl to`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := dangersOf(t, c.policy, c.vhost)
			reasons, messages := reasons(got)
			if !slices.Equal(reasons, c.want) {
				t.Errorf("refused with %v, want %v\n%s", reasons, c.want, messages)
			}
			for _, words := range c.says {
				if !strings.Contains(messages, words) {
					t.Errorf("%q is not said in\n%s", words, messages)
				}
			}
		})
	}
}

func TestWhatIsWarnedOf(t *testing.T) {
	length := limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10))})
	dlx := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx"})
	two := func(v Vhost) Vhost { v.RunningNodes = 2; return v }
	for _, c := range []struct {
		name   string
		policy *v1alpha1.QueuePolicy
		vhost  Vhost
		says   []string // one per warning
	}{
		{"F0.2: a restart drops what is above the limit", queuePolicy(v1alpha1.ReplicationNone, length), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0)), []string{"RabbitMQ drops what is above the limit"}},
		{"F0.4: or dead-letters it", queuePolicy(v1alpha1.ReplicationNone, length, dlx), vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0)), []string{"RabbitMQ dead-letters what is above the limit"}},
		{"F0.5: not of quorum queues", queuePolicy(v1alpha1.ReplicationQuorum, length, dlx), vhostOf(t, "4.3.6", held("orders.1", broker.Quorum, 0)), nil},
		{"C7: three mirrors of two nodes", queuePolicy(v1alpha1.HAThree), two(vhostOf(t, "3.10.8")), []string{"HAThree wants each queue on 3 nodes, and 2 run"}},
		{"C7: two of two", queuePolicy(v1alpha1.HATwo), two(vhostOf(t, "3.10.8")), nil},
		{"C13: a queue's own dead-letter exchange", queuePolicy(v1alpha1.ReplicationQuorum, dlx), vhostOf(t, "4.3.6", held("orders.1", broker.Quorum, 0, argument("x-dead-letter-exchange", "mine"))),
			[]string{"the argument x-dead-letter-exchange of 1 queue (orders.1) counts there"}},
		{"a queue's own lower limit", queuePolicy(v1alpha1.ReplicationQuorum, length), vhostOf(t, "4.3.6", held("orders.1", broker.Quorum, 0, argument("x-max-length", int64(5)))), []string{"x-max-length of 1 queue"}},
		{"a queue's own higher limit does not count", queuePolicy(v1alpha1.ReplicationQuorum, length), vhostOf(t, "4.3.6", held("orders.1", broker.Quorum, 0, argument("x-max-length", int64(50)))), nil},
		{"C7: keys of mirrors that are gone", queuePolicy(v1alpha1.ReplicationNone, definition(`{"queue-mode":"lazy"}`)), func() Vhost {
			old := map[string]any{"ha-mode": "all", "max-length": int64(5)}
			v := vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 0, under("orders", old)))
			v.Policies = []broker.Policy{{Name: "orders", Definition: old}}
			return v
		}(), []string{`policy "orders" still has keys that RabbitMQ 4.3.6 ignores: ha-mode`}},
		{"accepted losses are still said", queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10)), Overflow: v1alpha1.DropHead}), accept("loss")),
			vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 99)), []string{"drop-head drops the oldest messages above the limit (accepted)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := dangersOf(t, c.policy, c.vhost)
			if len(got.Warnings) != len(c.says) {
				t.Fatalf("warnings %q, want %q", got.Warnings, c.says)
			}
			for i, words := range c.says {
				if !strings.Contains(got.Warnings[i], words) {
					t.Errorf("%q does not say %q", got.Warnings[i], words)
				}
			}
		})
	}
}

// C5: what is lost is known for each queue.
func TestMaskedKeysAreListedPerQueue(t *testing.T) {
	other := broker.Policy{Name: "low", Definition: map[string]any{"message-ttl": int64(5), "expires": int64(90_000), "max-length": int64(3), "queue-leader-locator": "balanced"}}
	v := vhostOf(t, "4.3.6", held("orders.2", broker.Classic, 0, under("low", other.Definition)), held("orders.1", broker.Quorum, 0, under("low", other.Definition)), held("orders.3", broker.Quorum, 0))
	v.Policies = []broker.Policy{other}
	got := dangersOf(t, queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10))})), v)
	want := "[{orders.1 low [expires message-ttl]} {orders.2 low [expires message-ttl]}]"
	if said := fmt.Sprint(got.Masked); said != want {
		t.Errorf("%s, want %s", said, want)
	}
}

// E6: a status that changes with every message would be written at every poll.
func TestWarningsDoNotChangeWithDepths(t *testing.T) {
	p := queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10)), Overflow: v1alpha1.DropHead, MessageTTL: span(time.Second)}), accept("loss"))
	first := dangersOf(t, p, vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 50)))
	second := dangersOf(t, p, vhostOf(t, "4.3.6", held("orders.1", broker.Classic, 51)))
	if !slices.Equal(first.Warnings, second.Warnings) {
		t.Errorf("%q, then %q", first.Warnings, second.Warnings)
	}
}

func TestCatchAll(t *testing.T) {
	for pattern, want := range map[string]bool{
		".*": true, "": true, ".": true, "^": true, "^.*$": true, ".+": true, "^.+$": true, "(a|.)": true,
		"^orders": false, "a": false, "[a-z]": false, "^[^.]+$": false, `(?<!x)`: false,
	} {
		if got := CatchAll(pattern); got != want {
			t.Errorf("%q matches everything: %v", pattern, got)
		}
	}
}

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy *v1alpha1.QueuePolicy
		want   Needs
	}{
		{"nothing", queuePolicy(v1alpha1.ReplicationQuorum), Needs{}},
		{"a length that comes after its overflow", queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(1))})), Needs{Counts: true, Bytes: true}},
		{"a length that drops", queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(1)), Overflow: v1alpha1.DropHead})), Needs{Counts: true}},
		{"a size", queuePolicy(v1alpha1.ReplicationNone, limits(v1alpha1.QueueLimits{MaxLengthBytes: bytes("1")})), Needs{Counts: true, Bytes: true}},
		{"a hard length", queuePolicy(v1alpha1.ReplicationQuorum, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(1))})), Needs{Counts: true, Bytes: true}},
		{"dead letters", queuePolicy(v1alpha1.ReplicationNone, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "x"})), Needs{Topology: true}},
		{"dead letters by hand", queuePolicy(v1alpha1.ReplicationNone, definition(`{"dead-letter-exchange":"x"}`)), Needs{Topology: true}},
	} {
		want, err := Render(c.policy, capabilities(t, "4.3.6"))
		if err != nil {
			t.Fatal(err)
		}
		if got := NeedsOf(want); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
