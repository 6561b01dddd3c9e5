//go:build broker

package policy_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/test/bench/figures"
)

// byHand is the policy that somebody made: mirrors on all nodes, which nobody fills.
var byHand = broker.Policy{Name: "ha-all", Pattern: ".*", ApplyTo: broker.ApplyToQueues, Definition: map[string]any{"ha-mode": "all"}}

// classes roll out in this order.
var classes = []string{"payments", "orders", "reports"}

// fleet is classic queues of three classes, spread over the nodes and loaded.
type fleet struct {
	*scene
	ledger *ledger
	queues []string
	// stop ends publishers; drain ends what slows consumers down, and end ends them.
	stop, drain, end context.CancelFunc
	publishers, all  sync.WaitGroup
}

const messageBytes = 1024

// newFleet has a backlog in each queue. The queues of the first class were declared after the policy, so that their mirrors
// have all; the mirrors of the others lack what was there before.
func newFleet(t *testing.T, s *scene, perClass, backlog int) *fleet {
	t.Helper()
	f := &fleet{scene: s, ledger: newLedger()}
	policy := byHand
	policy.VHost = s.vhost
	for i := len(classes) - 1; i >= 0; i-- {
		if i == 0 {
			must(t, s.cluster.api.PutPolicy(t.Context(), policy))
		}
		for node := range s.cluster.nodes {
			var names []string
			for n := node; n < perClass; n += len(s.cluster.nodes) {
				names = append(names, fmt.Sprintf("%s.%03d", classes[i], n))
			}
			address := s.cluster.amqp(node, s.vhost)
			declare(t, address, "classic", names...)
			p := publisher{
				ledger: f.ledger, address: func(int) string { return address }, queues: names, window: 500,
				body: body(messageBytes), most: backlog * len(names),
			}
			p.run(t.Context())
			f.queues = append(f.queues, names...)
		}
	}
	return f
}

// load begins: so many messages a second in and out, on two queues of three, on connections to all nodes.
func (f *fleet) load(rate int) {
	publishing, stop := context.WithCancel(context.Background())
	slow, drain := context.WithCancel(context.Background())
	consuming, end := context.WithCancel(context.Background())
	f.stop, f.drain, f.end = stop, drain, end
	f.t.Cleanup(func() { stop(); drain(); end(); f.publishers.Wait(); f.all.Wait() })
	const workers = 6
	for w := range workers {
		var mine, busy []string
		for i := w; i < len(f.queues); i += workers {
			mine = append(mine, f.queues[i])
			if len(mine)%3 > 0 {
				busy = append(busy, f.queues[i])
			}
		}
		address := func(attempt int) string { return f.cluster.amqp(w+attempt, f.vhost) }
		tick := time.Second * workers / time.Duration(rate)
		p := publisher{ledger: f.ledger, address: address, queues: busy, tick: tick, window: 100, body: body(messageBytes)}
		f.publishers.Go(func() { p.run(publishing) })
		var turn sync.Mutex
		c := consumer{address: address, queues: mine, prefetch: 5, handle: func(_ string, d amqp.Delivery) error {
			turn.Lock() // all consumers of the connection together are as fast as its publisher
			select {
			case <-slow.Done():
			case <-time.After(tick):
			}
			turn.Unlock()
			if err := d.Ack(false); err != nil {
				return err
			}
			f.ledger.take(d.MessageId)
			return nil
		}}
		f.all.Go(func() { c.run(consuming) })
	}
}

// settle ends the load, and waits until every confirmed message was consumed.
func (f *fleet) settle(patience time.Duration) {
	f.t.Helper()
	f.stop()
	f.publishers.Wait()
	f.drain()
	end := time.Now().Add(patience)
	for left := f.ledger.left(); len(left) > 0 && time.Now().Before(end); left = f.ledger.left() {
		time.Sleep(time.Second)
	}
	f.end()
	f.all.Wait()
}

// traffic is what nodes send each other in a window, and how many messages were published in it.
type traffic struct{ bytes, messages float64 }

func (f *fleet) traffic(window time.Duration) traffic {
	f.t.Helper()
	count := func() traffic {
		confirmed, _, _, _ := f.ledger.counts()
		return traffic{f.cluster.sent(f.t), float64(confirmed)}
	}
	first := count()
	time.Sleep(window)
	second := count()
	return traffic{second.bytes - first.bytes, second.messages - first.messages}
}

// sent is how much the nodes have sent each other, by their own count.
func (c *cluster) sent(t *testing.T) (bytes float64) {
	t.Helper()
	var nodes []struct {
		Links []struct {
			Bytes float64 `json:"send_bytes"`
		} `json:"cluster_links"`
	}
	must(t, c.ask(t.Context(), 0, "/nodes", &nodes))
	for _, n := range nodes {
		for _, link := range n.Links {
			bytes += link.Bytes
		}
	}
	return bytes
}

// watch looks at the queues again and again, past all of Warren's code.
type watch struct {
	most, looks, failed int
	storms, early       []string
	end                 func()
}

// seen is a queue as the broker tells of it.
type seen struct {
	Name        string   `json:"name"`
	Policy      string   `json:"policy"`
	State       string   `json:"state"`
	Mirrors     []string `json:"slave_nodes"`
	InStep      []string `json:"synchronised_slave_nodes"`
	SyncedSoFar *int     `json:"sync_messages"`
}

// unsynchronised because of the rollout: a policy of Warren is on it, and its mirror is not there or lacks messages.
func (q seen) unsynchronised() bool {
	return q.rolled() && (len(q.InStep) < 1 || len(q.InStep) < len(q.Mirrors) || q.SyncedSoFar != nil || strings.Contains(q.State, "sync"))
}

// rolled tells whether a policy of Warren is on it.
func (q seen) rolled() bool { return q.Policy != "" && q.Policy != byHand.Name }

func (f *fleet) watch(limit int) *watch {
	w := &watch{}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(250 * time.Millisecond) {
			var queues []seen
			const columns = "?columns=name,policy,state,slave_nodes,synchronised_slave_nodes,sync_messages"
			if err := f.cluster.ask(ctx, w.looks, "/queues/"+url.PathEscape(f.vhost)+columns, &queues); err != nil {
				w.failed++
				continue
			}
			w.looks++
			w.judge(queues, limit)
		}
	})
	w.end = func() { cancel(); done.Wait() }
	f.t.Cleanup(w.end)
	return w
}

func (w *watch) judge(queues []seen, limit int) {
	var behind []string
	rolled, all := map[string]int{}, map[string]int{}
	for _, q := range queues {
		class, _, _ := strings.Cut(q.Name, ".")
		all[class]++
		if q.rolled() {
			rolled[class]++
		}
		if q.unsynchronised() {
			behind = append(behind, fmt.Sprintf("%s (%s: mirrors %v, in step %v)", q.Name, q.Policy, q.Mirrors, q.InStep))
		}
	}
	w.most = max(w.most, len(behind))
	if len(behind) > limit && len(w.storms) < 3 {
		w.storms = append(w.storms, fmt.Sprintf("%d queues: %s", len(behind), strings.Join(behind, ", ")))
	}
	for i, class := range classes[1:] {
		if before := classes[i]; rolled[class] > 0 && rolled[before] < all[before] {
			w.early = append(w.early, fmt.Sprintf("%d queues of %s when %s had %d of %d", rolled[class], class, before, rolled[before], all[before]))
		}
	}
}

// stage the three classes, in waves of batches.
func (f *fleet) stage(batch, most int) {
	for wave, class := range classes {
		f.policy(class, `^`+class+`\.`, v1alpha1.HATwo, func(spec *v1alpha1.QueuePolicySpec) {
			spec.Replication.Sync = v1alpha1.SyncAutomatic
			spec.QuorumDecision = &v1alpha1.QuorumDecision{By: "2099-09-30", Owner: "team"}
			spec.Rollout = &v1alpha1.RolloutSpec{
				Wave: int32(wave + 1), BatchSize: int32(batch), MaxUnsynchronised: ptr(int32(most)),
				Soak: &metav1.Duration{Duration: time.Second}, PauseOn: []v1alpha1.RolloutPause{v1alpha1.PauseOnAlarms},
			}
		})
	}
}

// C11: mirrors on all nodes become two, class after class and batch after batch, under load: no more queues synchronise than
// may, no message is lost, and nodes send each other less than before.
func proveMirrors(t *testing.T, c *cluster) {
	perClass, backlog, rate, most := size(10, 100), size(60, 200), size(100, 300), size(4, 10)
	window := time.Duration(size(10, 40)) * time.Second
	what := fmt.Sprintf("%d classic queues on 3 nodes of %s, %d messages a second of %d bytes", 3*perClass, oldVersion, rate, messageBytes)
	f := newFleet(t, newScene(t, c, "mirrors"), perClass, backlog)
	f.load(rate)
	time.Sleep(5 * time.Second)
	before := f.traffic(window)

	w := f.watch(most)
	f.stage(2*most, most)
	began := time.Now()
	f.warren()
	f.ready(time.Duration(size(8, 30))*time.Minute, perClass, classes...)
	took := time.Since(began)
	w.end()
	for _, class := range classes {
		if words := f.get(class).Status.Rollout; !strings.HasSuffix(words, "done") {
			t.Errorf("the rollout of %s is %q", class, words)
		}
	}
	f.onlyThePoliciesAreLeft()
	after := f.traffic(window)
	f.settle(4 * time.Minute)

	confirmed, refused, taken, twice := f.ledger.counts()
	left := f.ledger.left()
	slices.Sort(left)
	found.add(t, "mirrors: queues that lacked a mirror's messages at once", float64(w.most), "queues", fmt.Sprintf("at most %d", most), w.most <= most,
		fmt.Sprintf("%s; %d looks, %d failed; %s", what, w.looks, w.failed, strings.Join(w.storms, "; ")))
	found.add(t, "mirrors: queues reached before their wave", float64(len(w.early)), "looks", "0", len(w.early) == 0, strings.Join(w.early[:min(1, len(w.early))], ""))
	found.add(t, "mirrors: confirmed messages lost", float64(len(left)), "messages", "0", len(left) == 0 && confirmed > 0,
		fmt.Sprintf("%d confirmed, %d refused, %d consumed, %d of them twice", confirmed, refused, taken, twice))
	found.add(t, "mirrors: rollout", took.Seconds(), "s", figures.NoGoal, true, what)
	perMessage := func(t traffic) float64 { return t.bytes / max(t.messages, 1) }
	found.add(t, "mirrors: bytes between nodes for each message, ha-all", perMessage(before), "B", figures.NoGoal, true, what)
	found.add(t, "mirrors: bytes between nodes for each message, HATwo", perMessage(after), "B", figures.NoGoal, true, what)
	ratio := perMessage(after) / perMessage(before)
	found.add(t, "mirrors: traffic between nodes, HATwo by ha-all", ratio, "ratio", "below 0.9", ratio < 0.9, fmt.Sprintf("%.0f and %.0f bytes/s", before.bytes/window.Seconds(), after.bytes/window.Seconds()))
	if len(left) > 0 {
		t.Errorf("lost: %v", left[:min(10, len(left))])
	}
}

// onlyThePoliciesAreLeft: what somebody made is as it was, and nothing of a rollout remains.
func (f *fleet) onlyThePoliciesAreLeft() {
	f.t.Helper()
	policies, err := f.cluster.api.Policies(f.t.Context(), f.vhost)
	must(f.t, err)
	var names []string
	for _, p := range policies {
		names = append(names, p.Name)
		if p.Name == byHand.Name && (!broker.EqualDefinitions(p.Definition, byHand.Definition) || p.Pattern != byHand.Pattern) {
			f.t.Errorf("somebody else's policy became %+v", p)
		}
	}
	slices.Sort(names)
	if want := []string{byHand.Name, "orders", "payments", "reports"}; !slices.Equal(names, want) {
		f.t.Errorf("the broker has policies %v, want %v", names, want)
	}
}
