package brokertest

import (
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// vhost is the content of one vhost.
type vhost struct {
	description string
	tags        []string
	// queueType of queues that are declared without one; "" on brokers that have no such thing.
	queueType broker.QueueType

	queues   map[string]*queue
	sorted   []string // names of queues, nil after a change
	policies map[string]broker.Policy
	operator map[string]broker.Policy

	exchanges map[string]broker.Exchange
	bindings  []broker.Binding // without the default exchange's
}

func newVHost(caps broker.Capabilities) *vhost {
	v := &vhost{
		queues: map[string]*queue{}, policies: map[string]broker.Policy{}, operator: map[string]broker.Policy{},
		exchanges: ownExchanges(),
	}
	if caps.DefaultQueueType {
		v.queueType = broker.Classic
	}
	return v
}

func (v *vhost) put(q *queue) {
	v.queues[q.name] = q
	v.sorted = nil
}

func (v *vhost) remove(name string) {
	delete(v.queues, name)
	v.sorted = nil
	v.bindings = slices.DeleteFunc(v.bindings, func(b broker.Binding) bool { return !b.ToExchange && b.Destination == name })
}

// names of the queues, sorted once per change: a test lists thousands of queues page by page.
func (v *vhost) names() []string {
	if v.sorted == nil {
		v.sorted = slices.Sorted(maps.Keys(v.queues))
	}
	return v.sorted
}

// queue is a queue and what is in force on it.
type queue struct {
	name       string
	kind       broker.QueueType
	durable    bool
	autoDelete bool
	exclusive  bool
	arguments  map[string]any
	state      string
	node       string
	members    []string

	policy, operator *broker.Policy
	effective        map[string]any
	taken            map[string]any // by the queue's process
	mirrored         bool
	mirrors, synced  []string

	ready, unacknowledged, consumers int64
	// dropped messages that nothing else got; overflow is what the process does at its limit.
	dropped  int64
	overflow string
}

// AddVHost makes a vhost if it does not exist.
func (s *Server) AddVHost(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vhosts[name] == nil {
		s.vhosts[name] = newVHost(s.caps)
	}
}

// AddQueue makes or replaces a queue without HTTP, in a vhost that it makes too. Type defaults to classic. Counts,
// State, Node and Members are taken when set; policies apply at once.
func (s *Server) AddQueue(q broker.Queue) {
	s.AddVHost(q.VHost)
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.newQueue(q)
	if q.State != "" {
		made.state = q.State
	}
	if q.Node != "" {
		made.node = q.Node
	}
	if q.Members != nil {
		made.members = slices.Clone(q.Members)
	}
	made.exclusive = q.Exclusive
	for into, from := range map[*int64]*int64{&made.ready: q.Ready, &made.unacknowledged: q.Unacknowledged, &made.consumers: q.Consumers} {
		if from != nil {
			*into = *from
		}
	}
	s.vhosts[q.VHost].put(made)
	s.applyTo(s.vhosts[q.VHost], made)
}

// RemoveQueue removes a queue without HTTP.
func (s *Server) RemoveQueue(vhost, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vhosts[vhost]; v != nil {
		v.remove(name)
	}
}

// SetCounts sets the messages and consumers of a queue; it tells whether the queue exists.
func (s *Server) SetCounts(vhost, name string, ready, unacknowledged, consumers int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vhosts[vhost]
	if v == nil || v.queues[name] == nil {
		return false
	}
	q := v.queues[name]
	q.ready, q.unacknowledged, q.consumers = ready, unacknowledged, consumers
	return true
}

// SetPolicy stores a policy without HTTP and without a check, as another tool would have done.
func (s *Server) SetPolicy(p broker.Policy) {
	s.AddVHost(p.VHost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ApplyTo == "" {
		p.ApplyTo = broker.ApplyToAll
	}
	p.Definition = broker.NormalizeDefinition(p.Definition)
	s.vhosts[p.VHost].policies[p.Name] = p
	s.applyPolicies(p.VHost)
}

// RemovePolicy removes a policy without HTTP.
func (s *Server) RemovePolicy(vhost, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vhosts[vhost]; v != nil {
		delete(v.policies, name)
		s.applyPolicies(vhost)
	}
}

// Policies of a vhost, sorted by name.
func (s *Server) Policies(vhost string) []broker.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vhosts[vhost]
	if v == nil {
		return nil
	}
	return sortedPolicies(v.policies)
}

// SetOperatorPolicy stores an operator policy without HTTP and without a check.
func (s *Server) SetOperatorPolicy(p broker.Policy) {
	s.AddVHost(p.VHost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ApplyTo == "" {
		p.ApplyTo = broker.ApplyToAll
	}
	p.Definition = broker.NormalizeDefinition(p.Definition)
	s.vhosts[p.VHost].operator[p.Name] = p
	s.applyPolicies(p.VHost)
}

// OperatorPolicies of a vhost, sorted by name.
func (s *Server) OperatorPolicies(vhost string) []broker.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vhosts[vhost]
	if v == nil {
		return nil
	}
	return sortedPolicies(v.operator)
}

// SetSynchronised leaves mirrors that come from now on out of sync when off, and brings all in sync when on.
func (s *Server) SetSynchronised(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synchronised = on
	for _, v := range s.vhosts {
		for _, q := range v.queues {
			if on {
				q.synced = slices.Clone(q.mirrors)
			}
		}
	}
}

// newQueue is a queue as the broker would declare it.
func (s *Server) newQueue(q broker.Queue) *queue {
	made := &queue{
		name: q.Name, kind: q.Type, durable: q.Durable, autoDelete: q.AutoDelete, state: "running",
		arguments: broker.NormalizeDefinition(q.Arguments), overflow: "drop-head",
	}
	if made.arguments == nil {
		made.arguments = map[string]any{}
	}
	if kind, ok := made.arguments["x-queue-type"].(string); ok && made.kind == "" {
		made.kind = broker.QueueType(kind)
	}
	if v := s.vhosts[q.VHost]; v != nil && made.kind == "" && made.durable && !made.autoDelete && !q.Exclusive {
		made.kind = v.queueType
	}
	if made.kind == "" {
		made.kind = broker.Classic
	}
	if !s.mirrors || made.kind != broker.Classic {
		made.arguments["x-queue-type"] = string(made.kind) // 4.x adds the default type too
	}
	running := s.runningNodes()
	if len(running) > 0 {
		made.node = running[0]
	}
	if made.kind != broker.Classic {
		const groupSize = 3
		made.members = slices.Clone(running[:min(groupSize, len(running))])
		slices.Sort(made.members)
	}
	return made
}

func sortedPolicies(policies map[string]broker.Policy) []broker.Policy {
	out := make([]broker.Policy, 0, len(policies))
	for _, policy := range policies {
		policy.Definition = broker.NormalizeDefinition(policy.Definition)
		out = append(out, policy)
	}
	slices.SortFunc(out, func(a, b broker.Policy) int { return strings.Compare(a.Name, b.Name) })
	return out
}
