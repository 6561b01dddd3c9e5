// Package policy decides what a QueuePolicy means for one broker: which policy it should have, what to change, who
// may change it, and what became of it on the queues. It is pure.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Refusal says why a QueuePolicy cannot be sent to a broker, and what to do.
type Refusal struct {
	// Reason for a condition, as UnsupportedByServer.
	Reason string
	// Message for a person.
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// defaultGroupSize is the number of members of a quorum queue when the spec does not say.
const defaultGroupSize = 3

// Render answers what the broker should have, or a *Refusal. It knows the spec and the version alone; what it would do to
// the queues that are there is for DangersOf.
func Render(p *v1alpha1.QueuePolicy, c broker.Capabilities) (Rendered, error) {
	definition, err := definitionOf(p, c)
	if err != nil {
		return Rendered{}, err
	}
	hard, err := hardKeys(p.Spec.HardLimits)
	if err != nil {
		return Rendered{}, err
	}
	if overflowFor(p, hard) && len(definition) == 0 && c.KnowsOperatorKey("overflow") {
		// An operator policy of its own hides no other policy, as one that only says overflow would.
		hard["overflow"] = rejectPublish
	} else if err := completeOverflow(p, definition, hard); err != nil {
		return Rendered{}, err
	}
	if err := valid(c, definition, hard); err != nil {
		return Rendered{}, err
	}
	target, err := applyTo(p, c)
	if err != nil {
		return Rendered{}, err
	}
	for _, keys := range []map[string]any{definition, hard} {
		if err := reachesSomething(p, c, target, keys); err != nil {
			return Rendered{}, err
		}
	}
	dead, err := DeadLetterOf(p)
	if err != nil {
		return Rendered{}, err
	}
	if n := len(patternOf(p)); n > MaxPattern && n > len(p.Spec.Pattern) {
		return Rendered{}, invalid("the pattern matches the dead-letter queue %q, and has no room left to leave it out (%d bytes of %d): shorten it, or name the queue outside of it", dead.Queue.Name, n, MaxPattern)
	}
	policy := broker.Policy{
		VHost: p.Spec.VHost, Name: p.BrokerPolicyName(), Pattern: patternOf(p),
		ApplyTo: target, Priority: int(p.Spec.Priority), Definition: definition,
	}
	out := Rendered{Policy: policy, DeadLetter: dead, Warnings: specWarnings(p, c, definition, hard)}
	if len(hard) > 0 {
		operator := policy
		operator.Definition = hard
		out.Operator = &operator
	}
	return out, nil
}

func invalid(format string, args ...any) *Refusal {
	return &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *Refusal {
	return &Refusal{Reason: v1alpha1.ReasonUnsupportedByServer, Message: fmt.Sprintf(format, args...)}
}

// setting is a policy key that a field of the spec sets.
type setting struct {
	key   string
	value any
	field string
}

// definitionOf collects the keys of all fields and of the raw definition; nobody may set one twice.
func definitionOf(p *v1alpha1.QueuePolicy, c broker.Capabilities) (map[string]any, error) {
	definition, err := extraKeys(p)
	if err != nil {
		return nil, err
	}
	if mode, given := definition["ha-mode"]; given && (mode == "all" || mode == "nodes") && c.MirroredQueues && !p.Spec.AcceptMirrorAll {
		return nil, invalid("ha-mode %s makes every node that it names work for every queue: use replication mode HATwo or HAThree, or set acceptMirrorAll: true", mode)
	}
	for _, part := range []func(*v1alpha1.QueuePolicySpec, broker.Capabilities) ([]setting, error){
		replicationKeys, limitKeys, deadLetterKeys, retryKeys, versionKeys,
	} {
		settings, err := part(&p.Spec, c)
		if err != nil {
			return nil, err
		}
		if len(settings) > 0 && p.Spec.ApplyTo == v1alpha1.TargetExchanges {
			return nil, invalid("applyTo Exchanges contradicts %s, which is about queues: the policy would be in force nowhere; leave applyTo out", settings[0].field)
		}
		for _, s := range settings {
			if _, twice := definition[s.key]; twice {
				return nil, invalid("definition may not set %q: %s does", s.key, s.field)
			}
			definition[s.key] = s.value
		}
	}
	return definition, nil
}

// valid holds both definitions against what the version takes. A policy may be absent when there is an operator policy.
func valid(c broker.Capabilities, definition, hard map[string]any) error {
	if len(definition) > 0 || len(hard) == 0 {
		if faults := c.ValidateDefinition(definition); len(faults) > 0 {
			return invalid("RabbitMQ %s would refuse the definition: %s", c.Version, strings.Join(faults, "; "))
		}
	}
	if len(hard) > 0 {
		if faults := c.ValidateOperatorDefinition(hard); len(faults) > 0 {
			return invalid("RabbitMQ %s would refuse hardLimits: %s", c.Version, strings.Join(faults, "; "))
		}
	}
	return nil
}

func replicationKeys(spec *v1alpha1.QueuePolicySpec, c broker.Capabilities) ([]setting, error) {
	r := spec.Replication
	field := fmt.Sprintf("replication mode %s", r.Mode)
	switch r.Mode {
	case v1alpha1.HATwo, v1alpha1.HAThree:
		if !c.MirroredQueues {
			return nil, unsupported("RabbitMQ %s has no mirrored queues (removed in 4.0), so %s cannot be in force; "+
				"use replication {mode: Quorum, size: %d} with queues of type quorum", c.Version, r.Mode, defaultGroupSize)
		}
		sync := "automatic"
		if r.Sync == v1alpha1.SyncManual {
			sync = "manual"
		}
		return []setting{{"ha-mode", "exactly", field}, {"ha-params", int64(copies(r)), field}, {"ha-sync-mode", sync, field}}, nil
	case v1alpha1.ReplicationQuorum:
		keys := []setting{{"queue-leader-locator", "balanced", field}}
		if c.MembershipReconciliation {
			keys = append(keys, setting{"target-group-size", int64(copies(r)), field})
		}
		return keys, nil
	}
	return nil, nil
}

// copies is how many nodes are to have each queue.
func copies(r v1alpha1.ReplicationSpec) int {
	switch {
	case r.Mode == v1alpha1.HATwo:
		return 2
	case r.Mode == v1alpha1.HAThree:
		return 3
	case r.Mode == v1alpha1.ReplicationQuorum && r.Size != nil:
		return int(*r.Size)
	case r.Mode == v1alpha1.ReplicationQuorum:
		return defaultGroupSize
	}
	return 0
}

// extraKeys reads the raw definition; whole numbers become int64 so that they compare with the broker's.
func extraKeys(p *v1alpha1.QueuePolicy) (map[string]any, error) {
	if p.Spec.Definition == nil || len(p.Spec.Definition.Raw) == 0 {
		return map[string]any{}, nil
	}
	keys, err := broker.DecodeDefinition(p.Spec.Definition.Raw)
	if err != nil {
		return nil, invalid("definition: %v", err)
	}
	return keys, nil
}

var targets = map[v1alpha1.PolicyTarget]broker.ApplyTo{
	v1alpha1.TargetQueues:        broker.ApplyToQueues,
	v1alpha1.TargetClassicQueues: broker.ApplyToClassicQueues,
	v1alpha1.TargetQuorumQueues:  broker.ApplyToQuorumQueues,
	v1alpha1.TargetStreams:       broker.ApplyToStreams,
	v1alpha1.TargetExchanges:     broker.ApplyToExchanges,
	v1alpha1.TargetAll:           broker.ApplyToAll,
}

func applyTo(p *v1alpha1.QueuePolicy, c broker.Capabilities) (broker.ApplyTo, error) {
	if p.Spec.ApplyTo != "" {
		target := targets[p.Spec.ApplyTo]
		if wrong := contradicts(p.Spec.Replication.Mode, p.Spec.ApplyTo); wrong {
			return "", invalid("applyTo %s contradicts replication mode %s, which is about other queues: the policy would be in force nowhere; leave applyTo out",
				p.Spec.ApplyTo, p.Spec.Replication.Mode)
		}
		if p.Spec.ApplyTo == v1alpha1.TargetExchanges && p.Spec.HardLimits != nil {
			return "", invalid("applyTo Exchanges contradicts hardLimits, which are about queues; leave applyTo out")
		}
		if !c.CanApplyTo(target) {
			return "", unsupported("RabbitMQ %s knows only applyTo Queues, Exchanges and All, not %s; "+
				"leave applyTo out: the keys of the definition keep the policy off other queue types", c.Version, p.Spec.ApplyTo)
		}
		return target, nil
	}
	wanted := broker.ApplyToQueues
	switch p.Spec.Replication.Mode {
	case v1alpha1.HATwo, v1alpha1.HAThree:
		wanted = broker.ApplyToClassicQueues
	case v1alpha1.ReplicationQuorum:
		wanted = broker.ApplyToQuorumQueues
	}
	if !c.CanApplyTo(wanted) {
		wanted = broker.ApplyToQueues
	}
	return wanted, nil
}

// contradicts tells whether a target leaves out all that a replication mode is about.
func contradicts(mode v1alpha1.ReplicationMode, target v1alpha1.PolicyTarget) bool {
	switch target {
	case v1alpha1.TargetExchanges, v1alpha1.TargetStreams:
		return copies(v1alpha1.ReplicationSpec{Mode: mode}) > 0
	case v1alpha1.TargetClassicQueues:
		return mode == v1alpha1.ReplicationQuorum
	case v1alpha1.TargetQuorumQueues:
		return mode == v1alpha1.HATwo || mode == v1alpha1.HAThree
	}
	return false
}

// reachesSomething refuses keys that no queue type supports which the policy is for: one of them makes the broker skip the
// whole policy.
func reachesSomething(p *v1alpha1.QueuePolicy, c broker.Capabilities, target broker.ApplyTo, definition map[string]any) error {
	types := meantTypes(p.Spec.Replication.Mode, target)
	if len(types) == 0 || len(definition) == 0 {
		return nil
	}
	var faults []string
	for _, t := range types {
		supported, key := c.SupportsDefinition(t, definition)
		if supported {
			return nil
		}
		faults = append(faults, fmt.Sprintf("%s queues do not support %q", t, key))
	}
	return invalid("the policy would be in force nowhere, since RabbitMQ %s skips a policy with a key that a queue's type does not support: %s",
		c.Version, strings.Join(faults, ", "))
}

// meantTypes are the queue types that a policy is for; none when it is not about queues alone.
func meantTypes(mode v1alpha1.ReplicationMode, target broker.ApplyTo) []broker.QueueType {
	switch {
	case target == broker.ApplyToExchanges, target == broker.ApplyToAll && mode == v1alpha1.ReplicationNone:
		return nil
	case target == broker.ApplyToStreams:
		return []broker.QueueType{broker.Stream}
	case target == broker.ApplyToClassicQueues, mode == v1alpha1.HATwo, mode == v1alpha1.HAThree:
		return []broker.QueueType{broker.Classic}
	case target == broker.ApplyToQuorumQueues, mode == v1alpha1.ReplicationQuorum:
		return []broker.QueueType{broker.Quorum}
	}
	return []broker.QueueType{broker.Classic, broker.Quorum, broker.Stream}
}

// Describe is the definition in one line with its keys in order, as `ha-mode: exactly, ha-params: 2`.
func Describe(definition map[string]any) string {
	words := make([]string, 0, len(definition))
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		words = append(words, fmt.Sprintf("%s: %v", key, definition[key]))
	}
	return strings.Join(words, ", ")
}
