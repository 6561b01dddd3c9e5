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
// policy is named; copies are the replicas wanted of each queue, 0 for any; nodes is the number of running nodes, or 0
// if that is not known.
func EffectOf(p *v1alpha1.QueuePolicy, want broker.Policy, policies []broker.Policy, queues []broker.Queue, c broker.Capabilities, nodes int) Effect {
	j := judge{
		want: want, policies: policies, capabilities: c, nodes: nodes,
		copies: copies(p.Spec.Replication), manualSync: p.Spec.Replication.Sync == v1alpha1.SyncManual,
		migrates: p.Spec.Replication.Mode == v1alpha1.ReplicationQuorum,
	}
	matcher := NewMatcher(want.Pattern)
	effect, matched, allKnown := Effect{}, 0, true
	groups := map[string]*Group{}
	for _, q := range queues {
		if !j.meant(q) {
			continue
		}
		has := q.Policy != nil && *q.Policy == want.Name
		matches, known := matcher.Match(q.Name)
		if !has && !known {
			allKnown = false
			continue
		}
		if !has && !matches {
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
	policies     []broker.Policy
	capabilities broker.Capabilities
	copies       int
	nodes        int
	manualSync   bool
	migrates     bool // a queue of another type is meant too, but has to become a quorum queue first
}

// meant tells whether the policy is meant for queues of this kind, or may be. Exclusive queues die with their
// connection and are never replicated.
func (j judge) meant(q broker.Queue) bool {
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

// fault answers why the policy is not in force on q, or "".
func (j judge) fault(q broker.Queue) (reason, message string) {
	if q.Policy == nil {
		return v1alpha1.ReasonUnknown, "the broker does not say which policy the queue has"
	}
	if q.Type == "" {
		return v1alpha1.ReasonUnknown, "the broker does not say which type the queue has"
	}
	if *q.Policy != j.want.Name {
		return j.absent(q)
	}
	if q.EffectiveDefinition == nil {
		return v1alpha1.ReasonUnknown, "the broker does not say which keys are in force"
	}
	for key, value := range j.want.Definition {
		got, ok := q.EffectiveDefinition[key]
		if !ok || !broker.EqualDefinitions(map[string]any{key: value}, map[string]any{key: got}) {
			return v1alpha1.ReasonNotYetApplied, "the broker has not applied the latest definition yet, or an operator policy overrides it"
		}
	}
	return j.replicas(q)
}

func (j judge) absent(q broker.Queue) (reason, message string) {
	if supported, key := j.capabilities.SupportsDefinition(q.Type, j.want.Definition); !supported || j.migrates && q.Type == broker.Classic {
		if j.migrates {
			return v1alpha1.ReasonNeedsMigration, "classic queues do not become quorum queues by a policy: their messages have to move to a new queue"
		}
		return v1alpha1.ReasonUnsupportedForType, fmt.Sprintf("queues of type %s do not support %q, and RabbitMQ then skips the whole policy", q.Type, key)
	}
	if *q.Policy != "" {
		other := Find(j.policies, *q.Policy)
		if other == nil || other.Priority >= j.want.Priority {
			return v1alpha1.ReasonMaskedByPriority, fmt.Sprintf("policy %q is in force instead: only the policy with the highest priority is, and definitions are never merged", *q.Policy)
		}
	}
	return v1alpha1.ReasonNotYetApplied, "the broker has not applied the policy to the queue yet"
}

func (j judge) replicas(q broker.Queue) (reason, message string) {
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

func quorumFault(q broker.Queue, wanted int) (reason, message string) {
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
