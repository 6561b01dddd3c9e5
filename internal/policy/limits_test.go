package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/golden"
)

type edit = func(*v1alpha1.QueuePolicy)

func ptr[T any](v T) *T { return &v }

func bytes(text string) *resource.Quantity { return ptr(resource.MustParse(text)) }

func span(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func limits(l v1alpha1.QueueLimits) edit {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.Limits = &l }
}

func hardLimits(l v1alpha1.HardLimits) edit {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.HardLimits = &l }
}

func deadLetter(d v1alpha1.DeadLetterSpec) edit {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.DeadLetter = &d }
}

func delayedRetry(d v1alpha1.DelayedRetry) edit {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.DelayedRetry = &d }
}

func queueVersion(n int32) edit {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.QueueVersion = &n }
}

func decided(p *v1alpha1.QueuePolicy) {
	p.Spec.QuorumDecision = &v1alpha1.QuorumDecision{By: "2027-09-30"}
}

func accept(what ...string) edit {
	return func(p *v1alpha1.QueuePolicy) {
		for _, w := range what {
			switch w {
			case "loss":
				p.Spec.AcceptDataLoss = true
			case "masked":
				p.Spec.AcceptMaskedKeys = true
			case "mirror-all":
				p.Spec.AcceptMirrorAll = true
			}
		}
	}
}

// rendering is a spec and its name in the golden files.
type rendering struct {
	name   string
	policy *v1alpha1.QueuePolicy
}

func renderings() []rendering {
	const none, quorum, two = v1alpha1.ReplicationNone, v1alpha1.ReplicationQuorum, v1alpha1.HATwo
	length := v1alpha1.QueueLimits{MaxLength: ptr(int64(1000))}
	with := func(change func(*v1alpha1.QueueLimits)) v1alpha1.QueueLimits {
		l := v1alpha1.QueueLimits{}
		change(&l)
		return l
	}
	dlq := v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead"}
	hard := v1alpha1.HardLimits{MaxLength: ptr(int64(5000))}
	return []rendering{
		{"HATwo", queuePolicy(two, decided)},
		{"HAThree, filled by new messages only", queuePolicy(v1alpha1.HAThree, decided, manualSync)},
		{"C8: Quorum alone", queuePolicy(quorum)},
		{"C8: Quorum of five with dead letters", queuePolicy(quorum, size(5), deadLetter(dlq))},
		{"C8: Quorum without a delivery limit", queuePolicy(quorum, limits(with(func(l *v1alpha1.QueueLimits) { l.DeliveryLimit = ptr(int64(-1)) })))},
		{"C8: Quorum with a delivery limit", queuePolicy(quorum, limits(with(func(l *v1alpha1.QueueLimits) { l.DeliveryLimit = ptr(int64(5)) })))},
		{"a length limit", queuePolicy(none, limits(length))},
		{"a length limit of mirrored queues", queuePolicy(two, decided, limits(length))},
		{"a length limit of classic queues", queuePolicy(none, limits(length), target(v1alpha1.TargetClassicQueues))},
		{"all limits", queuePolicy(none, limits(v1alpha1.QueueLimits{
			MaxLength: ptr(int64(1000)), MaxLengthBytes: bytes("10Gi"), Overflow: v1alpha1.DropHead, MessageTTL: span(time.Hour),
			Expires: span(24 * time.Hour), ConsumerTimeout: span(30 * time.Minute), DeliveryLimit: ptr(int64(7)),
		}))},
		{"limits without a delivery limit", queuePolicy(none, limits(v1alpha1.QueueLimits{
			MaxLengthBytes: bytes("1500M"), MessageTTL: span(0), Expires: span(time.Minute),
		}))},
		{"the overflow of the definition counts", queuePolicy(none, limits(length), definition(`{"overflow":"drop-head"}`))},
		{"a limit of the definition means what it says", queuePolicy(none, definition(`{"max-length":5}`))},
		{"reject-publish-dlx", queuePolicy(none, limits(with(func(l *v1alpha1.QueueLimits) {
			l.MaxLength, l.Overflow = ptr(int64(5)), v1alpha1.RejectPublishDeadLetter
		})))},
		{"retention of streams", queuePolicy(none, limits(with(func(l *v1alpha1.QueueLimits) { l.MaxLengthBytes = bytes("1Gi") })), target(v1alpha1.TargetStreams))},
		{"a consumer timeout", queuePolicy(none, limits(with(func(l *v1alpha1.QueueLimits) { l.ConsumerTimeout = span(time.Hour) })))},
		{"hard limits alone", queuePolicy(none, hardLimits(hard))},
		{"a hard time to live alone", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MessageTTL: span(time.Hour)}))},
		{"hard limits of quorum queues", queuePolicy(quorum, hardLimits(v1alpha1.HardLimits{
			MaxLength: ptr(int64(5000)), MaxLengthBytes: bytes("1Gi"), Expires: span(time.Hour), DeliveryLimit: ptr(int64(3))}))},
		{"dead letters", queuePolicy(none, deadLetter(dlq))},
		{"dead letters that somebody else binds", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", RoutingKey: "k"}))},
		{"dead letters at least once", queuePolicy(quorum, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", RoutingKey: "k",
			Strategy: v1alpha1.AtLeastOnce, Limits: &v1alpha1.DeadLetterLimits{MaxLength: ptr(int64(9)), MaxLengthBytes: bytes("1Mi"), MessageTTL: span(720 * time.Hour)}}))},
		{"a classic dead-letter queue", queuePolicy(quorum, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", Strategy: v1alpha1.AtMostOnce, QueueType: v1alpha1.DeadLetterClassic}))},
		{"delayed retry", queuePolicy(quorum, deadLetter(dlq), delayedRetry(v1alpha1.DelayedRetry{Min: *span(time.Second), Max: span(time.Minute)}))},
		{"delayed retry of what failed", queuePolicy(quorum, deadLetter(dlq), delayedRetry(v1alpha1.DelayedRetry{Type: v1alpha1.RetryFailed, Min: *span(time.Second)}))},
		{"version 1 of classic queues", queuePolicy(none, queueVersion(1))},
		{"version 2 of classic queues", queuePolicy(none, queueVersion(2))},
		{"mirrors on all nodes", queuePolicy(none, definition(`{"ha-mode":"all"}`))},
		{"mirrors on all nodes, accepted", queuePolicy(none, definition(`{"ha-mode":"all"}`), accept("mirror-all"))},
		{"mirrors by hand", queuePolicy(none, definition(`{"ha-mode":"exactly","ha-params":2}`))},
		{"everything of quorum queues", queuePolicy(quorum, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(10)), DeliveryLimit: ptr(int64(4))}), hardLimits(hard),
			deadLetter(dlq), definition(`{"consumer-timeout":3600000}`))},
	}
}

func TestRenderingsOfEveryLine(t *testing.T) {
	for _, version := range []string{"3.10.8", "3.11.28", "3.12.14", "3.13.7", "4.0.9", "4.1.8", "4.2.9", "4.3.6"} {
		var out strings.Builder
		c := capabilities(t, version)
		for _, r := range renderings() {
			fmt.Fprintf(&out, "# %s\n%s\n", r.name, describeRendering(Render(r.policy, c)))
		}
		golden.Equal(t, filepath.Join("testdata", "render", c.Version.Line()+".txt"), []byte(out.String()))
	}
}

func describeRendering(r Rendered, err error) string {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return fmt.Sprintf("refused, %s: %s\n", refusal.Reason, refusal.Message)
	}
	var out strings.Builder
	if len(r.Policy.Definition) > 0 {
		fmt.Fprintf(&out, "policy    %s {%s}\n", r.Policy.ApplyTo, Describe(r.Policy.Definition))
	}
	if r.Operator != nil {
		fmt.Fprintf(&out, "operator  %s {%s}\n", r.Operator.ApplyTo, Describe(r.Operator.Definition))
	}
	if d := r.DeadLetter; d != nil {
		fmt.Fprintf(&out, "exchange  %s, %s, durable %v\n", d.Exchange.Name, d.Exchange.Type, d.Exchange.Durable)
		if d.Queue != nil {
			fmt.Fprintf(&out, "queue     %s, %s {%s}\n", d.Queue.Name, d.Queue.Type, Describe(d.Queue.Arguments))
			fmt.Fprintf(&out, "binding   %s -> %s by %q\n", d.Binding.Source, d.Binding.Destination, d.Binding.RoutingKey)
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&out, "warning   %s\n", w)
	}
	return out.String()
}

func TestWhatLimitsAreRefused(t *testing.T) {
	const none, quorum, two = v1alpha1.ReplicationNone, v1alpha1.ReplicationQuorum, v1alpha1.HATwo
	for _, c := range []struct {
		name    string
		policy  *v1alpha1.QueuePolicy
		version string
		reason  string
		says    []string
	}{
		{"C8: no delivery limit on 3.10", queuePolicy(quorum, limits(v1alpha1.QueueLimits{DeliveryLimit: ptr(int64(-1))})), "3.10.8",
			v1alpha1.ReasonUnsupportedByServer, []string{"since RabbitMQ 4.0", "leave it out"}},
		{"a delivery limit of classic queues", queuePolicy(two, limits(v1alpha1.QueueLimits{DeliveryLimit: ptr(int64(5))})), "3.13",
			v1alpha1.ReasonInvalidSpec, []string{"in force nowhere", `classic queues do not support "delivery-limit"`}},
		{"a hard delivery limit of classic queues", queuePolicy(two, hardLimits(v1alpha1.HardLimits{DeliveryLimit: ptr(int64(5))})), "3.13",
			v1alpha1.ReasonInvalidSpec, []string{"in force nowhere"}},
		{"keys that exclude each other", queuePolicy(none, definition(`{"queue-mode":"lazy","delivery-limit":5}`)), "4.3.6",
			v1alpha1.ReasonInvalidSpec, []string{"in force nowhere", `classic queues do not support "delivery-limit"`, `quorum queues do not support "queue-mode"`}},
		{"half a byte", queuePolicy(none, limits(v1alpha1.QueueLimits{MaxLengthBytes: bytes("1500m")})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.maxLengthBytes", "1500m"}},
		{"no bytes", queuePolicy(none, limits(v1alpha1.QueueLimits{MaxLengthBytes: bytes("0")})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.maxLengthBytes"}},
		{"fewer than no bytes", queuePolicy(none, limits(v1alpha1.QueueLimits{MaxLengthBytes: bytes("-1Gi")})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.maxLengthBytes"}},
		{"C9: half a millisecond", queuePolicy(none, limits(v1alpha1.QueueLimits{Expires: span(500 * time.Microsecond)})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.expires", "milliseconds"}},
		{"C9: an expiry of nothing", queuePolicy(none, limits(v1alpha1.QueueLimits{Expires: span(0)})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.expires"}},
		{"a time before now", queuePolicy(none, limits(v1alpha1.QueueLimits{MessageTTL: span(-time.Second)})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.messageTTL"}},
		{"a consumer timeout on 3.10", queuePolicy(none, limits(v1alpha1.QueueLimits{ConsumerTimeout: span(time.Hour)})), "3.10.8", v1alpha1.ReasonUnsupportedByServer, []string{"since RabbitMQ 3.12"}},
		{"reject-publish-dlx of quorum queues", queuePolicy(quorum, limits(v1alpha1.QueueLimits{Overflow: v1alpha1.RejectPublishDeadLetter})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"classic queues"}},
		{"the overflow twice", queuePolicy(none, limits(v1alpha1.QueueLimits{Overflow: v1alpha1.DropHead}), definition(`{"overflow":"drop-head"}`)), "4.3.6",
			v1alpha1.ReasonInvalidSpec, []string{`may not set "overflow": limits.overflow does`}},
		{"at least once with drop-head", queuePolicy(quorum, limits(v1alpha1.QueueLimits{Overflow: v1alpha1.DropHead}), deadLetter(v1alpha1.DeadLetterSpec{Exchange: "x", Strategy: v1alpha1.AtLeastOnce})), "4.3.6",
			v1alpha1.ReasonInvalidSpec, []string{"only with overflow reject-publish"}},
		{"at least once by hand with drop-head", queuePolicy(quorum, definition(`{"dead-letter-strategy":"at-least-once","overflow":"drop-head","dead-letter-exchange":"x"}`)), "4.3.6",
			v1alpha1.ReasonInvalidSpec, []string{"only with overflow reject-publish"}},
		{"at least once of classic queues", queuePolicy(two, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "x", Strategy: v1alpha1.AtLeastOnce})), "3.13", v1alpha1.ReasonInvalidSpec, []string{"quorum queues"}},
		{"at least once of all queues", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "x", Strategy: v1alpha1.AtLeastOnce})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"use replication mode Quorum"}},
		{"limits of exchanges", queuePolicy(none, limits(v1alpha1.QueueLimits{MaxLength: ptr(int64(1))}), target(v1alpha1.TargetExchanges)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"limits.maxLength", "about queues"}},
		{"hard limits of exchanges", queuePolicy(none, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(1))}), definition(`{"alternate-exchange":"x"}`), target(v1alpha1.TargetExchanges)), "4.3.6",
			v1alpha1.ReasonInvalidSpec, []string{"hardLimits"}},
		{"hard limits that say nothing", queuePolicy(none, hardLimits(v1alpha1.HardLimits{})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"says nothing"}},
		{"delayed retry before 4.3", queuePolicy(quorum, delayedRetry(v1alpha1.DelayedRetry{Min: *span(time.Second)})), "4.2.9", v1alpha1.ReasonUnsupportedByServer, []string{"since RabbitMQ 4.3.1"}},
		{"delayed retry of classic queues", queuePolicy(none, delayedRetry(v1alpha1.DelayedRetry{Min: *span(time.Second)}), target(v1alpha1.TargetClassicQueues)), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"quorum queues"}},
		{"delayed retry that shrinks", queuePolicy(quorum, delayedRetry(v1alpha1.DelayedRetry{Min: *span(time.Minute), Max: span(time.Second)})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"must not be smaller"}},
		{"version 1 on 4.x", queuePolicy(none, queueVersion(1)), "4.0", v1alpha1.ReasonUnsupportedByServer, []string{"removed in RabbitMQ 4.0"}},
		{"a version of quorum queues", queuePolicy(quorum, queueVersion(2)), "3.13", v1alpha1.ReasonInvalidSpec, []string{"classic queues"}},
		{"mirrors on named nodes", queuePolicy(none, definition(`{"ha-mode":"nodes","ha-params":["a"]}`)), "3.10.8", v1alpha1.ReasonInvalidSpec, []string{"acceptMirrorAll: true", "HATwo"}},
		{"a dead-letter queue of the broker's own", queuePolicy(none, deadLetter(v1alpha1.DeadLetterSpec{Exchange: "x", Queue: "amq.dead"})), "4.3.6", v1alpha1.ReasonInvalidSpec, []string{"deadLetter.queue"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Render(c.policy, capabilities(t, c.version))
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("rendered %+v (%v), want a refusal", got, err)
			}
			if refusal.Reason != c.reason {
				t.Errorf("reason %s, want %s: %s", refusal.Reason, c.reason, refusal.Message)
			}
			for _, words := range c.says {
				if !strings.Contains(refusal.Message, words) {
					t.Errorf("%q does not say %q", refusal.Message, words)
				}
			}
		})
	}
}

func TestOverflowComesBeforeTheLimit(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name       string
		definition m
		first      m // nil: there is no such step
	}{
		{"refusing publishers", m{"max-length": int64(5), "overflow": "reject-publish", "expires": int64(60000)}, m{"overflow": "reject-publish", "expires": int64(60000)}},
		{"by bytes", m{"max-length-bytes": int64(5), "max-length": int64(5), "overflow": "reject-publish-dlx"}, m{"overflow": "reject-publish-dlx"}},
		{"the oldest are dropped anyway", m{"max-length": int64(5), "overflow": "drop-head"}, nil},
		{"and by default", m{"max-length": int64(5)}, nil},
		{"no limit", m{"overflow": "reject-publish"}, nil},
	} {
		want := broker.Policy{Name: "p", Definition: c.definition}
		first, needed := BeforeLimits(want)
		if needed != (c.first != nil) || needed && !reflect.DeepEqual(first.Definition, c.first) {
			t.Errorf("%s: %v %v", c.name, needed, first.Definition)
		}
		if len(want.Definition) != len(c.definition) {
			t.Errorf("%s: the policy itself became %v", c.name, want.Definition)
		}
	}
}
