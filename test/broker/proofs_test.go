//go:build broker

package broker_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/test/brokers"
)

// proofs are what QueuePolicies promise about messages, on real brokers with real clients.
func proofs(at *brokers.Broker) []part {
	with := func(run func(*testing.T, world)) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) {
			client := s.client(t)
			run(t, world{s: s, at: at, client: client, vhost: s.vhost(t, client, "")})
		}
	}
	return []part{
		{"proof-a-limit-keeps-a-backlog", with(proveBacklog)},
		{"proof-C8-delivery-limit", with(proveDeliveryLimit)},
		{"proof-C9-expiry", with(proveExpiry)},
		{"proof-C13-dead-letters", with(proveDeadLetters)},
		{"proof-C13-default-dead-letters", with(proveDefaultDeadLetters)},
	}
}

// world is one vhost of a real broker.
type world struct {
	s      *subject
	at     *brokers.Broker
	client broker.Client
	vhost  string
}

// dial opens a channel that ends with the test.
func dial(t *testing.T, address, vhost string) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(strings.TrimSuffix(address, "/") + "/" + url.PathEscape(vhost))
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() }) // it is gone already when the broker was started again
	channel, err := connection.Channel()
	must(t, err)
	return channel
}

func (w world) queue(t *testing.T, name string, kind broker.QueueType) {
	t.Helper()
	must(t, w.client.PutQueue(context.Background(), broker.Queue{VHost: w.vhost, Name: name, Type: kind, Durable: true}))
}

// fill publishes n persistent messages, numbered, and waits until all are confirmed.
func (w world) fill(t *testing.T, queue string, n int) {
	t.Helper()
	channel := dial(t, w.at.AMQP, w.vhost)
	must(t, channel.Confirm(false))
	var waiting []*amqp.DeferredConfirmation
	for i := range n {
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, i)})
		must(t, err)
		waiting = append(waiting, confirmation)
	}
	for _, confirmation := range waiting {
		if !confirmation.Wait() {
			t.Fatal("a message was refused while the queue was filled")
		}
	}
}

// snapshot is the vhost as a pass sees it.
func (w world) snapshot(t *testing.T) policy.Vhost {
	t.Helper()
	ctx := context.Background()
	v := policy.Vhost{Name: w.vhost, Capabilities: w.s.caps, RunningNodes: 1, Counted: true}
	var err error
	v.Queues, err = w.client.Queues(ctx, w.vhost)
	must(t, err)
	v.Policies, err = w.client.Policies(ctx, w.vhost)
	must(t, err)
	v.OperatorPolicies, err = w.client.OperatorPolicies(ctx, w.vhost)
	must(t, err)
	v.Exchanges, err = w.client.Exchanges(ctx, w.vhost)
	must(t, err)
	v.Bindings, err = w.client.Bindings(ctx, w.vhost)
	must(t, err)
	return v
}

func (w world) queuePolicy(mode v1alpha1.ReplicationMode, edit func(*v1alpha1.QueuePolicySpec)) *v1alpha1.QueuePolicy {
	p := &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "proof"},
		Spec:       v1alpha1.QueuePolicySpec{VHost: w.vhost, Pattern: "^q", Replication: v1alpha1.ReplicationSpec{Mode: mode}},
	}
	edit(&p.Spec)
	return p
}

// bring does what a pass does: refuse, make what dead letters need, put what happens at the limit, see it in force, put
// the policy, see it in force.
func (w world) bring(t *testing.T, p *v1alpha1.QueuePolicy) policy.Rendered {
	t.Helper()
	want, err := policy.Render(p, w.s.caps)
	must(t, err)
	v := w.snapshot(t)
	if d := policy.DangersOf(p, want, v); len(d.Refusals) > 0 {
		t.Fatalf("refused: %+v", d.Refusals)
	}
	plan := policy.PlanDeadLetters(p, want, v)
	if len(plan.Refusals) > 0 {
		t.Fatalf("refused: %+v", plan.Refusals)
	}
	ctx := context.Background()
	for _, action := range plan.Actions {
		switch action.Verb {
		case policy.DeclareExchange:
			must(t, w.client.PutExchange(ctx, action.Exchange))
		case policy.DeclareQueue:
			must(t, w.client.PutQueue(ctx, action.Queue))
		case policy.Bind:
			must(t, w.client.PutBinding(ctx, action.Binding))
		default:
			t.Fatalf("unexpected action %+v", action)
		}
	}
	steps := []broker.Policy{want.Policy}
	if first, needed := policy.BeforeLimits(want.Policy); needed {
		steps = []broker.Policy{first, want.Policy}
	}
	for i, step := range steps {
		must(t, w.client.PutPolicy(ctx, step))
		w.inForce(t, step)
		if i+1 < len(steps) {
			w.taken(t, step)
		}
	}
	return want
}

// inForce waits until all queues that begin with q have the policy.
func (w world) inForce(t *testing.T, want broker.Policy) {
	t.Helper()
	eventually(t, func() (bool, string) {
		queues, err := w.client.Queues(context.Background(), w.vhost, broker.WithoutCounts)
		must(t, err)
		for _, q := range queues {
			if strings.HasPrefix(q.Name, "q") && (q.EffectiveDefinition == nil || !broker.EqualDefinitions(q.EffectiveDefinition, want.Definition)) {
				return false, fmt.Sprintf("%+v", q)
			}
		}
		return true, ""
	})
}

// taken waits until the processes of those queues say so themselves.
func (w world) taken(t *testing.T, want broker.Policy) {
	t.Helper()
	queues, err := w.client.Queues(context.Background(), w.vhost, broker.WithoutCounts)
	must(t, err)
	for _, q := range queues {
		if strings.HasPrefix(q.Name, "q") && q.Type == broker.Classic {
			stage{t: t, s: w.s, client: w.client, vhost: w.vhost}.taken(q.Name, want.Definition)
		}
	}
}

// drain takes messages until a queue is empty.
func (w world) drain(t *testing.T, queue string) (bodies []string) {
	t.Helper()
	channel := dial(t, w.at.AMQP, w.vhost)
	for {
		message, got, err := channel.Get(queue, true)
		must(t, err)
		if !got {
			return bodies
		}
		bodies = append(bodies, string(message.Body))
	}
}

// proveBacklog: a limit far below 3000 confirmed messages leaves every one of them, while publishers go on.
func proveBacklog(t *testing.T, w world) {
	const backlog = 3000
	w.queue(t, "q.classic", broker.Classic)
	w.queue(t, "q.quorum", broker.Quorum)
	w.fill(t, "q.classic", backlog)
	w.fill(t, "q.quorum", backlog)
	p := w.queuePolicy(v1alpha1.ReplicationNone, func(spec *v1alpha1.QueuePolicySpec) {
		spec.Limits = &v1alpha1.QueueLimits{MaxLength: ptr(int64(100))}
	})
	want, err := policy.Render(p, w.s.caps)
	must(t, err)
	eventually(t, func() (bool, string) { // the counts of quorum queues come late
		d := policy.DangersOf(p, want, w.snapshot(t))
		said := fmt.Sprint(d.Refusals)
		return strings.Contains(said, "2 queues (q.classic, q.quorum)") && strings.Contains(said, "about 5800 messages"), said
	})
	p.Spec.AcceptDataLoss = true

	stop := make(chan struct{})
	var confirmed, refused atomic.Int64
	var publishers sync.WaitGroup
	for _, queue := range []string{"q.classic", "q.quorum"} {
		channel := dial(t, w.at.AMQP, w.vhost)
		must(t, channel.Confirm(false))
		publishers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("more")})
				if err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				if confirmation.Wait() {
					confirmed.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	w.bring(t, p)
	eventually(t, func() (bool, string) { return refused.Load() > 100, "publishers are not refused" })
	close(stop)
	publishers.Wait()
	var got []string
	for _, queue := range []string{"q.classic", "q.quorum"} {
		got = append(got, w.drain(t, queue)...)
	}
	if int64(len(got)) != 2*backlog+confirmed.Load() {
		t.Errorf("%d messages are left of %d and %d that were confirmed meanwhile", len(got), 2*backlog, confirmed.Load())
	}
	slices.Sort(got)
	if distinct := len(slices.Compact(got)); distinct != backlog+1 {
		t.Errorf("%d different messages of %d", distinct, backlog+1)
	}
	t.Logf("%d confirmed before, %d meanwhile, %d refused, %d left", 2*backlog, confirmed.Load(), refused.Load(), len(got))
}

// proveDeliveryLimit is case C8: a consumer that returns odd messages 25 times before it would acknowledge them.
func proveDeliveryLimit(t *testing.T, w world) {
	dead := &v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead"}
	for _, c := range []struct {
		name       string
		limit      *int64
		deadLetter *v1alpha1.DeadLetterSpec
		acked      int
		dead       int
		on         func(broker.Capabilities) bool
	}{
		{"the default of the version, with dead letters", nil, dead, 5, 5, func(c broker.Capabilities) bool { return c.DefaultDeliveryLimit != nil }},
		{"the default of the version, which has none", nil, dead, 10, 0, func(c broker.Capabilities) bool { return c.DefaultDeliveryLimit == nil }},
		{"a limit with dead letters", ptr(int64(4)), dead, 5, 5, func(broker.Capabilities) bool { return true }},
		{"without limit", ptr(int64(-1)), nil, 10, 0, func(c broker.Capabilities) bool { return c.UnlimitedDelivery }},
		{"without dead letters they are gone", ptr(int64(4)), nil, 5, 0, func(broker.Capabilities) bool { return true }},
	} {
		if !c.on(w.s.caps) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			vhost := w.s.vhost(t, w.client, "")
			w := world{s: w.s, at: w.at, client: w.client, vhost: vhost}
			w.queue(t, "q", broker.Quorum)
			want := w.bring(t, w.queuePolicy(v1alpha1.ReplicationQuorum, func(spec *v1alpha1.QueuePolicySpec) {
				spec.DeadLetter = c.deadLetter
				if c.limit != nil {
					spec.Limits = &v1alpha1.QueueLimits{DeliveryLimit: c.limit}
				}
			}))
			w.noDrift(t, want)
			w.fill(t, "q", 10)
			acked := w.consumeReturning(t, "q", 25)
			letters := 0
			if c.deadLetter != nil {
				eventually(t, func() (bool, string) {
					letters += len(w.drain(t, "dead"))
					return letters >= c.dead, fmt.Sprintf("%d dead letters", letters)
				})
			}
			if acked != c.acked || letters != c.dead {
				t.Errorf("%d acknowledged and %d dead letters, want %d and %d", acked, letters, c.acked, c.dead)
			}
		})
	}
}

// noDrift: what the broker answers of a policy is what was sent, so that a pass has nothing to do.
func (w world) noDrift(t *testing.T, want policy.Rendered) {
	t.Helper()
	policies, err := w.client.Policies(context.Background(), w.vhost)
	must(t, err)
	if change := policy.Plan(&want.Policy, policy.Find(policies, want.Policy.Name), true, true); change.Verb != policy.Keep {
		t.Errorf("a pass would %s: %s", change.Verb, change.Why)
	}
}

// consumeReturning acknowledges even messages and returns odd ones so many times; it ends when the queue is empty.
func (w world) consumeReturning(t *testing.T, queue string, times int) (acked int) {
	t.Helper()
	channel := dial(t, w.at.AMQP, w.vhost)
	must(t, channel.Qos(1, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(t, err)
	returned := map[string]int{}
	quiet := time.NewTimer(time.Hour)
	defer quiet.Stop()
	for {
		quiet.Reset(3 * time.Second) // nothing is left when nothing has come for so long
		select {
		case d := <-deliveries:
			number := string(d.Body)
			if odd := (d.Body[len(d.Body)-1]-'0')%2 == 1; odd && returned[number] < times {
				returned[number]++
				must(t, d.Reject(true)) // 4.3 does not count basic.nack
				continue
			}
			must(t, d.Ack(false))
			acked++
		case <-quiet.C:
			return acked
		}
	}
}

// proveExpiry is case C9: an expiry of two milliseconds is refused with numbers; accepted, it does what was said.
func proveExpiry(t *testing.T, w world) {
	w.queue(t, "q.idle", broker.Classic)
	w.fill(t, "q.idle", 3)
	p := w.queuePolicy(v1alpha1.ReplicationNone, func(spec *v1alpha1.QueuePolicySpec) {
		spec.Definition = &runtime.RawExtension{Raw: []byte(`{"expires":2}`)}
	})
	want, err := policy.Render(p, w.s.caps)
	must(t, err)
	said := fmt.Sprint(policy.DangersOf(p, want, w.snapshot(t)).Refusals)
	if !strings.Contains(said, "expires 2 ms") || !strings.Contains(said, "1 queue (q.idle)") || !strings.Contains(said, "milliseconds") {
		t.Errorf("refused with %s", said)
	}
	p.Spec.Pattern, p.Spec.AcceptDataLoss = ".*", true
	want, err = policy.Render(p, w.s.caps)
	must(t, err)
	if d := policy.DangersOf(p, want, w.snapshot(t)); len(d.Refusals) != 1 || d.Refusals[0].Reason != v1alpha1.ReasonNeedsRollout {
		t.Errorf("on every queue at once: %+v", d.Refusals)
	}
	p.Spec.Pattern = "^q"
	want, err = policy.Render(p, w.s.caps)
	must(t, err)
	if d := policy.DangersOf(p, want, w.snapshot(t)); len(d.Refusals) > 0 {
		t.Fatalf("accepted, and refused: %+v", d.Refusals)
	}
	must(t, w.client.PutPolicy(context.Background(), want.Policy))
	eventually(t, func() (bool, string) {
		queues, err := w.client.Queues(context.Background(), w.vhost, broker.WithoutCounts)
		must(t, err)
		return len(queues) == 0, "the queue is still there"
	})
}

// proveDeadLetters is case C13: no dead letter is lost at any moment, since the way is there before the policy, and the
// dead-letter queue stays for as long as it holds messages.
func proveDeadLetters(t *testing.T, w world) {
	ctx := context.Background()
	w.queue(t, "q", broker.Quorum)
	w.fill(t, "q", 500)
	p := w.queuePolicy(v1alpha1.ReplicationQuorum, func(spec *v1alpha1.QueuePolicySpec) {
		spec.Limits = &v1alpha1.QueueLimits{MaxLength: ptr(int64(100)), Overflow: v1alpha1.DropHead}
		spec.DeadLetter = &v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", Limits: &v1alpha1.DeadLetterLimits{MaxLength: ptr(int64(10_000))}}
		spec.AcceptDataLoss = true
	})
	want := w.bring(t, p)
	w.noDrift(t, want)
	if plan := policy.PlanDeadLetters(p, want, w.snapshot(t)); len(plan.Actions)+len(plan.Refusals)+len(plan.Warnings) > 0 {
		t.Errorf("there is still something to do: %+v", plan)
	}
	wantReady(t, w.client, w.vhost, map[string]int64{"q": 100, "dead": 400})

	must(t, w.client.DeletePolicy(ctx, w.vhost, want.Policy.Name))
	if actions, kept := policy.DepartDeadLetters(want.DeadLetter, w.snapshot(t)); len(actions) > 0 || len(kept) != 2 {
		t.Errorf("with 400 dead letters: %+v, kept %q", actions, kept)
	}
	if got := len(w.drain(t, "dead")); got != 400 {
		t.Errorf("%d dead letters", got)
	}
	var actions []policy.Action
	eventually(t, func() (bool, string) {
		var kept []string
		actions, kept = policy.DepartDeadLetters(want.DeadLetter, w.snapshot(t))
		return len(actions) == 2, fmt.Sprintf("kept %q", kept)
	})
	eventually(t, func() (bool, string) { // until the statistics say so too
		err := w.client.DeleteEmptyQueue(ctx, w.vhost, actions[0].Queue.Name)
		return err == nil, fmt.Sprint(err)
	})
	must(t, w.client.DeleteUnusedExchange(ctx, w.vhost, actions[1].Exchange.Name))
}

// proveDefaultDeadLetters: what nothing else takes gets to the default queue whatever its routing key is, and what has a queue of
// its own gets only there.
func proveDefaultDeadLetters(t *testing.T, w world) {
	ctx := context.Background()
	cluster := &v1alpha1.WorkloadCluster{Spec: v1alpha1.WorkloadClusterSpec{
		WorkloadClass: "runtime", Defaults: &v1alpha1.ClusterDefaults{DeadLetter: &v1alpha1.DefaultDeadLetter{}},
	}}
	plan := func() []policy.Action {
		got := policy.PlanDefaults(cluster, policy.DefaultsSeen{Vhost: w.snapshot(t), Complete: true})
		if len(got.Refusals)+len(got.Warnings) > 0 {
			t.Errorf("refused or warned: %+v", got)
		}
		return got.Actions
	}
	for _, a := range plan() {
		a.Exchange.VHost, a.Queue.VHost, a.Binding.VHost = w.vhost, w.vhost, w.vhost
		switch a.Verb {
		case policy.DeclareExchange:
			must(t, w.client.PutExchange(ctx, a.Exchange))
		case policy.DeclareQueue:
			must(t, w.client.PutQueue(ctx, a.Queue))
		case policy.Bind:
			must(t, w.client.PutBinding(ctx, a.Binding))
		default:
			t.Errorf("not expected: %+v", a)
		}
	}
	if again := plan(); len(again) > 0 {
		t.Errorf("there is still something to do: %+v", again)
	}
	w.queue(t, "own", broker.Quorum)
	must(t, w.client.PutBinding(ctx, broker.Binding{VHost: w.vhost, Source: "dlx", Destination: "own", RoutingKey: "b"}))
	for _, name := range []string{"a", "b"} {
		must(t, w.client.PutQueue(ctx, broker.Queue{VHost: w.vhost, Name: name, Durable: true, Type: broker.Classic,
			Arguments: map[string]any{"x-dead-letter-exchange": "dlx", "x-message-ttl": 1}}))
		w.fill(t, name, 50)
	}
	wantReady(t, w.client, w.vhost, map[string]int64{"a": 0, "b": 0, "own": 50, "runtime.dead-letters": 50})
}

func ptr[T any](v T) *T { return &v }
