package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Effect is what became of a policy on the queues of its vhost.
type Effect struct {
	// Matched queues by pattern and kind; nil when the pattern cannot be evaluated as the broker does for every queue.
	Matched *int
	// InForce counts the queues that have the policy, all its keys, and the replicas it asks for.
	InForce int
	// NotInForce groups the rest by reason, sorted by reason.
	NotInForce []Group
}

// Group is the queues that share a reason.
type Group struct {
	Reason, Message string
	Queues          []string // sorted
}

// All tells whether every queue that the policy is meant for has it; false also when that is not known.
func (e Effect) All() bool { return e.Matched != nil && len(e.NotInForce) == 0 }

// EffectOf judges every queue. want is the policy as it was sent; policies are all of the vhost's, by which a masking
// policy is named; nodes is the number of running nodes, or 0 if that is not known.
func EffectOf(p *v1alpha1.QueuePolicy, want broker.Policy, policies []broker.Policy, queues []broker.Queue, c broker.Capabilities, nodes int) Effect {
	return EffectIn(p, Rendered{Policy: want}, &Vhost{Policies: policies, Queues: queues, Capabilities: c, RunningNodes: nodes})
}

// EffectIn judges every queue of a vhost. Hard limits alone are judged by the operator policy.
func EffectIn(p *v1alpha1.QueuePolicy, want Rendered, v *Vhost) Effect {
	j := judge{
		want: want.Policy, operator: want.Operator, policies: v.Policies, capabilities: v.Capabilities, nodes: v.RunningNodes,
		copies: copies(p.Spec.Replication), manualSync: p.Spec.Replication.Sync == v1alpha1.SyncManual,
		migrates: p.Spec.Replication.Mode == v1alpha1.ReplicationQuorum,
	}
	if len(want.Policy.Definition) == 0 && want.Operator != nil {
		j.want, j.policies, j.hard = *want.Operator, v.OperatorPolicies, true
	}
	matches := v.matches(j.want.Pattern)
	effect, matched, allKnown := Effect{}, 0, true
	groups := map[string]*Group{}
	for i := range v.Queues {
		q := &v.Queues[i]
		is, known := matches.At(i)
		if known && !is && !j.has(q) || !j.meant(q) {
			continue
		}
		if !j.has(q) && !known {
			allKnown = false
			continue
		}
		matched++
		reason, message := j.fault(q)
		if reason == "" {
			effect.InForce++
			continue
		}
		if groups[reason] == nil {
			groups[reason] = &Group{Reason: reason, Message: message}
		}
		groups[reason].Queues = append(groups[reason].Queues, q.Name)
	}
	if allKnown {
		effect.Matched = &matched
	}
	for _, g := range groups {
		slices.Sort(g.Queues)
		effect.NotInForce = append(effect.NotInForce, *g)
	}
	slices.SortFunc(effect.NotInForce, func(a, b Group) int { return strings.Compare(a.Reason, b.Reason) })
	return effect
}

type judge struct {
	want         broker.Policy
	operator     *broker.Policy // of hard limits, that go with want
	hard         bool           // want is an operator policy itself
	policies     []broker.Policy
	capabilities broker.Capabilities
	copies       int
	nodes        int
	manualSync   bool
	migrates     bool // a queue of another type is meant too, but has to become a quorum queue first
}

// meant tells whether the policy is meant for queues of this kind, or may be. Exclusive queues die with their
// connection and are never replicated.
func (j judge) meant(q *broker.Queue) bool {
	switch {
	case j.want.ApplyTo == broker.ApplyToExchanges, q.Exclusive && j.copies > 0:
		return false
	case q.Type == "": // the broker did not say
		return true
	}
	switch j.want.ApplyTo {
	case broker.ApplyToClassicQueues:
		return q.Type == broker.Classic
	case broker.ApplyToQuorumQueues:
		return q.Type == broker.Quorum || j.migrates && q.Type == broker.Classic
	case broker.ApplyToStreams:
		return q.Type == broker.Stream
	}
	// On versions that cannot name a type, a mirroring policy is not meant for quorum queues and streams.
	if _, mirrors := j.want.Definition["ha-mode"]; mirrors {
		return q.Type == broker.Classic
	}
	if j.migrates {
		return q.Type != broker.Stream
	}
	return true
}

// inForce is the policy, or for hard limits the operator policy, that the queue has; nil when the broker did not say.
func (j judge) inForce(q *broker.Queue) *string {
	if j.hard {
		return q.OperatorPolicy
	}
	return q.Policy
}

func (j judge) has(q *broker.Queue) bool {
	name := j.inForce(q)
	return name != nil && *name == j.want.Name
}

// fault answers why the policy is not in force on q, or "".
func (j judge) fault(q *broker.Queue) (reason, message string) {
	switch {
	case q.State == "down" || q.State == "stopped":
		return v1alpha1.ReasonUnknown, "the queue does not run, so that nothing is in force on it: its node is down"
	case j.inForce(q) == nil:
		return v1alpha1.ReasonUnknown, "the broker does not say which policy the queue has"
	case q.Type == "":
		return v1alpha1.ReasonUnknown, "the broker does not say which type the queue has"
	case !j.has(q):
		return j.absent(q)
	case q.EffectiveDefinition == nil:
		return v1alpha1.ReasonUnknown, "the broker does not say which keys are in force"
	}
	if key := j.differs(q); key != "" {
		if other := q.OperatorPolicy; !j.hard && other != nil && *other != "" && (j.operator == nil || *other != j.operator.Name) {
			return v1alpha1.ReasonOverriddenByOperatorPolicy, fmt.Sprintf("operator policy %q sets another %s, and of both the lower counts", *other, key)
		}
		return v1alpha1.ReasonNotYetApplied, "the broker has not applied the latest definition to the queue yet"
	}
	if key, argument, is := broker.Overriding(q.Type, q.Arguments, j.want.Definition); is {
		return v1alpha1.ReasonOverriddenByArgument, fmt.Sprintf("the queue was declared with %s, which counts instead of %s of the policy: it has to be declared anew without it", argument, key)
	}
	return j.replicas(q)
}

// differs names a key that is not in force as it is wanted, or answers "". Our own operator policy may lower it.
func (j judge) differs(q *broker.Queue) string {
	expected := j.want.Definition
	if j.operator != nil && !j.hard && q.OperatorPolicy != nil && *q.OperatorPolicy == j.operator.Name {
		expected = broker.MergeOperator(expected, j.operator.Definition)
	}
	differing := ""
	for key := range j.want.Definition {
		got, ok := q.EffectiveDefinition[key]
		if same := ok && broker.EqualValues(expected[key], got); same || j.hard && ok && lowerOf(got, expected[key]) {
			continue
		}
		if differing == "" || key < differing {
			differing = key
		}
	}
	return differing
}

// lowerOf tells whether got is a lower number than want: a policy below a hard limit.
func lowerOf(got, want any) bool {
	a, isNumber := got.(int64)
	b, both := want.(int64)
	return isNumber && both && a < b
}

func (j judge) absent(q *broker.Queue) (reason, message string) {
	if supported, key := j.capabilities.SupportsDefinition(q.Type, j.want.Definition); !supported || j.migrates && q.Type == broker.Classic {
		if j.migrates {
			return v1alpha1.ReasonNeedsMigration, "classic queues do not become quorum queues by a policy: their messages have to move to a new queue"
		}
		return v1alpha1.ReasonUnsupportedForType, fmt.Sprintf("queues of type %s do not support %q, and RabbitMQ then skips the whole policy", q.Type, key)
	}
	if name := *j.inForce(q); name != "" {
		other := Find(j.policies, name)
		if other == nil || other.Priority >= j.want.Priority {
			return v1alpha1.ReasonMaskedByPriority, fmt.Sprintf("policy %q is in force instead: only the policy with the highest priority is, and definitions are never merged", name)
		}
	}
	return v1alpha1.ReasonNotYetApplied, "the broker has not applied the policy to the queue yet"
}

func (j judge) replicas(q *broker.Queue) (reason, message string) {
	wanted := j.copies
	if wanted == 0 {
		return "", ""
	}
	if j.migrates {
		return quorumFault(q, wanted)
	}
	if q.Mirrors == nil {
		return v1alpha1.ReasonUnknown, "the broker does not say where the mirrors are"
	}
	if len(q.Mirrors) < wanted-1 {
		return v1alpha1.ReasonBelowTargetSize, fmt.Sprintf("fewer than %d nodes have the queue%s", wanted, j.nodesHint(wanted))
	}
	if j.manualSync {
		return "", ""
	}
	if q.SynchronisedMirrors == nil {
		return v1alpha1.ReasonUnknown, "the broker does not say which mirrors have all messages"
	}
	if len(q.SynchronisedMirrors) < wanted-1 {
		return v1alpha1.ReasonSynchronising, "a mirror does not have all messages yet"
	}
	return "", ""
}

func (j judge) nodesHint(wanted int) string {
	if j.nodes > 0 && j.nodes < wanted {
		return fmt.Sprintf(": only %d run", j.nodes)
	}
	return ""
}

func quorumFault(q *broker.Queue, wanted int) (reason, message string) {
	switch {
	case q.Members == nil || q.Online == nil:
		return v1alpha1.ReasonUnknown, "the broker does not say which nodes have the queue"
	case len(q.Members) < wanted:
		return v1alpha1.ReasonBelowTargetSize, fmt.Sprintf("the queue has fewer than %d members", wanted)
	case len(q.Online) < wanted:
		return v1alpha1.ReasonSynchronising, "a member of the queue is not online"
	}
	return "", ""
}
