package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

func capabilities(t testing.TB, version string) broker.Capabilities {
	t.Helper()
	v, err := broker.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := broker.CapabilitiesOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// queuePolicy is a QueuePolicy of a mode, changed by edits.
func queuePolicy(mode v1alpha1.ReplicationMode, edits ...func(*v1alpha1.QueuePolicy)) *v1alpha1.QueuePolicy {
	p := &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "orders"},
		Spec:       v1alpha1.QueuePolicySpec{VHost: "/", Pattern: `^orders\.`, Priority: 7, Replication: v1alpha1.ReplicationSpec{Mode: mode}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func definition(text string) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.Definition = &runtime.RawExtension{Raw: []byte(text)} }
}

func target(a v1alpha1.PolicyTarget) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.ApplyTo = a }
}

func size(n int32) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.Replication.Size = &n }
}

func manualSync(p *v1alpha1.QueuePolicy) { p.Spec.Replication.Sync = v1alpha1.SyncManual }

func mustRender(t testing.TB, p *v1alpha1.QueuePolicy, version string) broker.Policy {
	t.Helper()
	got, err := Render(p, capabilities(t, version))
	if err != nil {
		t.Fatal(err)
	}
	return got.Policy
}

func TestRenderEachModeOnEachLine(t *testing.T) {
	type keys = map[string]any
	two := keys{"ha-mode": "exactly", "ha-params": int64(2), "ha-sync-mode": "automatic"}
	three := keys{"ha-mode": "exactly", "ha-params": int64(3), "ha-sync-mode": "manual"}
	leader := keys{"queue-leader-locator": "balanced"}
	grown := func(n int64) keys { return keys{"queue-leader-locator": "balanced", "target-group-size": n} }
	limits := keys{"max-length": int64(5)}
	for _, c := range []struct {
		policy  *v1alpha1.QueuePolicy
		version string
		applyTo broker.ApplyTo
		want    keys
	}{
		{queuePolicy(v1alpha1.HATwo), "3.10.8", broker.ApplyToQueues, two},
		{queuePolicy(v1alpha1.HATwo), "3.12", broker.ApplyToClassicQueues, two},
		{queuePolicy(v1alpha1.HATwo), "3.13", broker.ApplyToClassicQueues, two},
		{queuePolicy(v1alpha1.HAThree, manualSync), "3.10.8", broker.ApplyToQueues, three},
		{queuePolicy(v1alpha1.HAThree, manualSync), "3.13", broker.ApplyToClassicQueues, three},
		{queuePolicy(v1alpha1.ReplicationQuorum), "3.10.8", broker.ApplyToQueues, leader}, // L2: no target-group-size
		{queuePolicy(v1alpha1.ReplicationQuorum), "3.12", broker.ApplyToQuorumQueues, leader},
		{queuePolicy(v1alpha1.ReplicationQuorum), "3.13", broker.ApplyToQuorumQueues, grown(3)},
		{queuePolicy(v1alpha1.ReplicationQuorum, size(5)), "4.3.6", broker.ApplyToQuorumQueues, grown(5)},
		{queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`)), "3.10.8", broker.ApplyToQueues, limits},
		{queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length":5}`)), "4.3.6", broker.ApplyToQueues, limits},
		{queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-age":"7D"}`), target(v1alpha1.TargetStreams)), "4.3.6", broker.ApplyToStreams, keys{"max-age": "7D"}},
		{queuePolicy(v1alpha1.ReplicationNone, definition(`{"alternate-exchange":"rest"}`), target(v1alpha1.TargetExchanges)), "3.10.8", broker.ApplyToExchanges, keys{"alternate-exchange": "rest"}},
		{queuePolicy(v1alpha1.HATwo, target(v1alpha1.TargetAll)), "3.13", broker.ApplyToAll, two},
		{queuePolicy(v1alpha1.HATwo, definition(`{"max-length":5}`)), "3.12", broker.ApplyToClassicQueues,
			keys{"ha-mode": "exactly", "ha-params": int64(2), "ha-sync-mode": "automatic", "max-length": int64(5)}},
	} {
		t.Run(string(c.policy.Spec.Replication.Mode)+" on "+c.version, func(t *testing.T) {
			want := broker.Policy{VHost: "/", Name: "orders", Pattern: `^orders\.`, Priority: 7, ApplyTo: c.applyTo, Definition: c.want}
			if got := mustRender(t, c.policy, c.version); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestThePolicyNameIsItsOwnWhereGiven(t *testing.T) {
	p := queuePolicy(v1alpha1.HATwo, func(p *v1alpha1.QueuePolicy) { p.Spec.PolicyName, p.Spec.VHost = "ha/two", "team/a" })
	if got := mustRender(t, p, "3.13"); got.Name != "ha/two" || got.VHost != "team/a" { // D1, D2: as they are
		t.Errorf("policy %q in vhost %q", got.Name, got.VHost)
	}
}

func TestWhatRenderRefuses(t *testing.T) {
	none := v1alpha1.ReplicationNone
	for _, c := range []struct {
		name    string
		policy  *v1alpha1.QueuePolicy
		version string
		reason  string
		says    []string
	}{
		{"C7: HATwo on 4.x, with the way out", queuePolicy(v1alpha1.HATwo), "4.3.6", v1alpha1.ReasonUnsupportedByServer,
			[]string{"4.3.6 has no mirrored queues", "removed in 4.0", "{mode: Quorum, size: 3}"}},
		{"C7: HAThree on 4.x, with the way out", queuePolicy(v1alpha1.HAThree), "4.0", v1alpha1.ReasonUnsupportedByServer, []string{"{mode: Quorum, size: 3}"}},
		{"C7: mirror keys by hand on 4.x", queuePolicy(none, definition(`{"ha-mode":"all"}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{`"ha-mode"`, "gone since 4.0"}},
		{"C7: quorum keys on a version without them", queuePolicy(none, definition(`{"target-group-size":5}`)), "3.10.8", v1alpha1.ReasonInvalidSpec, []string{"added in 3.13"}},
		{"C1: a quoted number", queuePolicy(none, definition(`{"max-length":"1000"}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{`"max-length"`, `not the string "1000"`}},
		{"C1: a misspelt key", queuePolicy(none, definition(`{"max-lenght":5}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{`did you mean "max-length"?`}},
		{"C1: nothing", queuePolicy(none, definition(`{}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"empty"}},
		{"C1: not set at all", queuePolicy(none), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"empty"}},
		{"C1: a text", queuePolicy(none, definition(`"max-length"`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"must be a JSON object"}},
		{"C1: a list", queuePolicy(none, definition(`[1]`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"must be a JSON object"}},
		{"C1: null, with keys of a mode", queuePolicy(v1alpha1.HATwo, definition(`null`)), "3.13", v1alpha1.ReasonInvalidSpec, []string{"not null"}},
		{"C1: broken JSON", queuePolicy(none, definition(`{"max-length":`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"must be a JSON object"}},
		{"C1: two objects", queuePolicy(none, definition(`{"max-length":1}{}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"nothing behind it"}},
		{"C1: a part of a message", queuePolicy(none, definition(`{"max-length":1.5}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"whole number"}},
		{"C1: a number beyond all queues", queuePolicy(none, definition(`{"max-length":1e300}`)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"whole number"}},
		{"C1: no target of that name", queuePolicy(none, definition(`{"max-length":5}`), target("Queue")), "4.3.6", v1alpha1.ReasonUnsupportedByServer, []string{"not Queue"}},
		{"C8: no delivery limit on 3.10", queuePolicy(none, definition(`{"delivery-limit":-1}`)), "3.10.8", v1alpha1.ReasonInvalidSpec, []string{`"delivery-limit"`}},
		{"a key that the mode sets", queuePolicy(v1alpha1.HATwo, definition(`{"ha-sync-mode":"manual"}`)), "3.13", v1alpha1.ReasonInvalidSpec,
			[]string{`may not set "ha-sync-mode"`, "HATwo"}},
		{"a target that 3.10 does not have, with the way out", queuePolicy(v1alpha1.HATwo, target(v1alpha1.TargetClassicQueues)), "3.10.8", v1alpha1.ReasonUnsupportedByServer,
			[]string{"not ClassicQueues", "leave applyTo out"}},
		{"mirrors of exchanges", queuePolicy(v1alpha1.HATwo, target(v1alpha1.TargetExchanges)), "3.13", v1alpha1.ReasonInvalidSpec, []string{"contradicts replication mode HATwo"}},
		{"mirrors of quorum queues", queuePolicy(v1alpha1.HAThree, target(v1alpha1.TargetQuorumQueues)), "3.13", v1alpha1.ReasonInvalidSpec, []string{"contradicts"}},
		{"quorum membership of classic queues", queuePolicy(v1alpha1.ReplicationQuorum, target(v1alpha1.TargetClassicQueues)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"contradicts"}},
		{"quorum membership of streams", queuePolicy(v1alpha1.ReplicationQuorum, target(v1alpha1.TargetStreams)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"contradicts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Render(c.policy, capabilities(t, c.version))
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("rendered %+v (%v), want a refusal", got, err)
			}
			if refusal.Reason != c.reason {
				t.Errorf("reason %s, want %s", refusal.Reason, c.reason)
			}
			for _, words := range c.says {
				if !strings.Contains(refusal.Message, words) {
					t.Errorf("%q does not say %q", refusal.Message, words)
				}
			}
		})
	}
}

// E6: a message that names another key each time would be written to the status each time.
func TestARefusalIsTheSameEachTime(t *testing.T) {
	p := queuePolicy(v1alpha1.HATwo, definition(`{"ha-mode":"all","ha-params":2,"ha-sync-mode":"manual"}`))
	_, first := Render(p, capabilities(t, "3.13"))
	for range 50 {
		if _, err := Render(p, capabilities(t, "3.13")); err.Error() != first.Error() {
			t.Fatalf("%q, then %q", first, err)
		}
	}
}

// C1: numbers are compared with the broker's, so they have one form, at any size and depth.
func TestWholeNumbersStayWhole(t *testing.T) {
	p := queuePolicy(v1alpha1.ReplicationNone, definition(`{"max-length-bytes":9007199254740993,"message-ttl":60000.0,"expires":6e4}`))
	want := map[string]any{"max-length-bytes": int64(9007199254740993), "message-ttl": int64(60000), "expires": int64(60000)}
	if got := mustRender(t, p, "4.3.6").Definition; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRenderLeavesTheObjectAlone(t *testing.T) {
	p := queuePolicy(v1alpha1.HATwo, definition(`{"max-length":5}`))
	before := p.DeepCopy()
	mustRender(t, p, "3.13")
	if !reflect.DeepEqual(p, before) {
		t.Errorf("it became %+v", p.Spec)
	}
}

func TestDescribe(t *testing.T) {
	if got := Describe(map[string]any{"ha-params": int64(2), "ha-mode": "exactly"}); got != "ha-mode: exactly, ha-params: 2" {
		t.Errorf("%q", got)
	}
	if got := Describe(nil); got != "" {
		t.Errorf("nothing is described as %q", got)
	}
}
