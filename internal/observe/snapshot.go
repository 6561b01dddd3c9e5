package observe

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// Snapshots are what brokers said, shared by all passes: ten thousand policies of a hundred vhosts cost a hundred bulk reads.
// What nobody asks for any more is dropped.
type Snapshots struct {
	now  func() time.Time
	poll time.Duration

	mu      sync.Mutex
	brokers map[string]*brokerSnapshot // by cluster UID
	swept   time.Time
	secrets map[string]*cell[secret] // by namespace/name
}

// NewSnapshots shares answers for a poll interval.
func NewSnapshots(now func() time.Time, poll time.Duration) *Snapshots {
	return &Snapshots{now: now, poll: poll, brokers: map[string]*brokerSnapshot{}, secrets: map[string]*cell[secret]{}}
}

// brokerSnapshot is what one broker cluster said to one user.
type brokerSnapshot struct {
	target broker.Target
	facts  cell[clusterFacts]
	vhosts map[string]*vhostSnapshot
	used   time.Time
}

type vhostSnapshot struct {
	policies, operators cell[[]broker.Policy]
	queues              cell[*listing]
	exchanges           cell[[]broker.Exchange]
	bindings            cell[[]broker.Binding]
	used                time.Time
}

// clusterFacts are those that all vhosts of a cluster share.
type clusterFacts struct {
	capabilities broker.Capabilities
	nodes        []broker.Node
}

// listing is the queues of a vhost, and which of them patterns match.
type listing struct {
	queues         []broker.Queue
	counted, sized bool
	mu             sync.Mutex
	matches        map[string]*policy.Matches
}

// match answers from what an earlier pass found: many policies ask for the same pattern again and again.
func (l *listing) match(pattern string) *policy.Matches {
	l.mu.Lock()
	known := l.matches[pattern]
	l.mu.Unlock()
	if known != nil {
		return known
	}
	known = policy.MatchAll(pattern, l.queues)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.matches) < mostPatterns {
		l.matches[pattern] = known
	}
	return known
}

// mostPatterns bounds what one listing remembers.
const mostPatterns = 20_000

// Parts says what of a vhost has to be read beside its policies and queues.
type Parts struct {
	policy.Needs
	Operators bool
}

// evictAfter is how many polls may pass until what nobody asks for is dropped.
const evictAfter = 4

// of is the snapshot of a broker; one for other credentials than before starts anew.
func (s *Snapshots) of(target broker.Target) *brokerSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	b := s.brokers[target.Key]
	if b == nil || b.target != target {
		b = &brokerSnapshot{target: target, vhosts: map[string]*vhostSnapshot{}}
		s.brokers[target.Key] = b
	}
	b.used = now
	return b
}

func (s *Snapshots) vhost(b *brokerSnapshot, name string) *vhostSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := b.vhosts[name]
	if v == nil {
		v = &vhostSnapshot{}
		b.vhosts[name] = v
	}
	v.used = s.now()
	return v
}

// sweep drops what was not asked for, once a poll.
func (s *Snapshots) sweep(now time.Time) {
	if now.Sub(s.swept) < s.poll {
		return
	}
	s.swept = now
	oldest := now.Add(-evictAfter * s.poll)
	for key, b := range s.brokers {
		if b.used.Before(oldest) {
			delete(s.brokers, key)
			continue
		}
		for name, v := range b.vhosts {
			if v.used.Before(oldest) {
				delete(b.vhosts, name)
			}
		}
	}
	for name, c := range s.secrets {
		if c.asked().Before(oldest) {
			delete(s.secrets, name)
		}
	}
}

// Broker is one broker cluster for one pass.
type Broker struct {
	broker.Client
	// UID of the cluster: of the WorkloadCluster, or made of the address that a connection Secret names.
	UID       string
	snapshots *Snapshots
	shared    *brokerSnapshot
}

// Capabilities of the cluster's version, at most a poll old.
func (b Broker) Capabilities(ctx context.Context) (broker.Capabilities, error) {
	facts, _, err := b.facts(ctx)
	return facts.capabilities, err
}

func (b Broker) facts(ctx context.Context) (clusterFacts, time.Time, error) {
	s := b.snapshots
	return b.shared.facts.get(ctx, s, s.now().Add(-s.poll), anything[clusterFacts], func(ctx context.Context) (clusterFacts, error) {
		overview, err := b.Overview(ctx)
		if err != nil {
			return clusterFacts{}, err
		}
		version, err := broker.ParseVersion(overview.RabbitMQVersion)
		if err != nil {
			return clusterFacts{}, err
		}
		capabilities, err := broker.CapabilitiesOf(version)
		if err != nil {
			return clusterFacts{}, err
		}
		nodes, err := b.Nodes(ctx)
		return clusterFacts{capabilities: capabilities, nodes: nodes}, err
	})
}

func anything[T any](T) bool { return true }

// Vhost is what the broker has in one vhost, asked for at notOlderThan or later. What it answers is complete or an error. It
// is shared and must not be changed.
func (b Broker) Vhost(ctx context.Context, name string, parts Parts, notOlderThan time.Time) (*policy.Vhost, error) {
	facts, _, err := b.facts(ctx)
	if err != nil {
		return nil, err
	}
	s, v := b.snapshots, b.snapshots.vhost(b.shared, name)
	out := &policy.Vhost{Name: name, Capabilities: facts.capabilities}
	nodesInto(out, facts.nodes)
	var begun time.Time
	older := func(t time.Time) {
		if out.ReadAt.IsZero() || t.Before(out.ReadAt) {
			out.ReadAt = t
		}
	}
	list := func(store func(context.Context, string) ([]broker.Policy, error)) func(context.Context) ([]broker.Policy, error) {
		return func(ctx context.Context) ([]broker.Policy, error) { return store(ctx, name) }
	}
	if out.Policies, begun, err = v.policies.get(ctx, s, notOlderThan, anything[[]broker.Policy], list(b.Policies)); err != nil {
		return nil, err
	}
	older(begun)
	if parts.Operators {
		if out.OperatorPolicies, begun, err = v.operators.get(ctx, s, notOlderThan, anything[[]broker.Policy], list(b.OperatorPolicies)); err != nil {
			return nil, err
		}
		older(begun)
	}
	if parts.Topology {
		if err := b.topology(ctx, v, notOlderThan, out, older); err != nil {
			return nil, err
		}
	}
	queues, begun, err := v.queues.get(ctx, s, notOlderThan, func(l *listing) bool {
		return (l.counted || !parts.Counts) && (l.sized || !parts.Bytes)
	}, func(ctx context.Context) (*listing, error) { return b.list(ctx, name, parts) })
	if err != nil {
		return nil, err
	}
	older(begun)
	out.Queues, out.Counted, out.Match = queues.queues, queues.counted, queues.match
	return out, nil
}

func (b Broker) topology(ctx context.Context, v *vhostSnapshot, notOlderThan time.Time, out *policy.Vhost, older func(time.Time)) error {
	exchanges, begun, err := v.exchanges.get(ctx, b.snapshots, notOlderThan, anything[[]broker.Exchange], func(ctx context.Context) ([]broker.Exchange, error) {
		return b.Exchanges(ctx, out.Name)
	})
	if err != nil {
		return err
	}
	older(begun)
	bindings, begun, err := v.bindings.get(ctx, b.snapshots, notOlderThan, anything[[]broker.Binding], func(ctx context.Context) ([]broker.Binding, error) {
		return b.Bindings(ctx, out.Name)
	})
	if err != nil {
		return err
	}
	older(begun)
	out.Exchanges, out.Bindings = exchanges, bindings
	if out.Exchanges == nil {
		out.Exchanges = []broker.Exchange{}
	}
	return nil
}

func (b Broker) list(ctx context.Context, name string, parts Parts) (*listing, error) {
	var options []broker.ListOption
	if !parts.Counts && !parts.Bytes {
		options = append(options, broker.WithoutCounts)
	}
	if parts.Bytes {
		options = append(options, broker.WithStatistics)
	}
	queues, err := b.Queues(ctx, name, options...)
	if err != nil {
		return nil, err
	}
	compact(queues)
	return &listing{queues: queues, counted: parts.Counts || parts.Bytes, sized: parts.Bytes, matches: map[string]*policy.Matches{}}, nil
}

// nodesInto says what the nodes are: one that runs and does not say whether it has an alarm makes all of them unknown.
func nodesInto(v *policy.Vhost, nodes []broker.Node) {
	v.AlarmsKnown = true
	for _, node := range nodes {
		if !node.Running {
			continue
		}
		v.RunningNodes++
		v.Nodes = append(v.Nodes, node.Name)
		for what, alarm := range map[string]*bool{"memory": node.MemoryAlarm, "disk": node.DiskAlarm} {
			switch {
			case alarm == nil:
				v.AlarmsKnown = false
			case *alarm:
				v.Alarms = append(v.Alarms, what+" alarm on "+node.Name)
			}
		}
	}
}

// compact makes equal tables of queues the same one: twenty thousand queues have a handful of them.
func compact(queues []broker.Queue) {
	seen := map[string]map[string]any{}
	words := map[string]string{}
	one := func(table map[string]any) map[string]any {
		if table == nil {
			return nil
		}
		text, err := json.Marshal(table)
		if err != nil {
			return table
		}
		if known, has := seen[string(text)]; has {
			return known
		}
		seen[string(text)] = table
		return table
	}
	word := func(s string) string {
		if known, has := words[s]; has {
			return known
		}
		words[s] = s
		return s
	}
	list := func(names []string) {
		for i := range names {
			names[i] = word(names[i])
		}
	}
	names := map[string]*string{}
	name := func(s *string) *string {
		if s == nil {
			return nil
		}
		if names[*s] == nil {
			names[*s] = s
		}
		return names[*s]
	}
	for i := range queues {
		q := &queues[i]
		q.VHost, q.State, q.Node, q.Type = word(q.VHost), word(q.State), word(q.Node), broker.QueueType(word(string(q.Type)))
		q.Arguments, q.EffectiveDefinition = one(q.Arguments), one(q.EffectiveDefinition)
		q.Policy, q.OperatorPolicy = name(q.Policy), name(q.OperatorPolicy)
		list(q.Mirrors)
		list(q.SynchronisedMirrors)
		list(q.Members)
		list(q.Online)
	}
}
