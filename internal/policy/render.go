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

// Render answers the policy that the broker should have, or a *Refusal.
func Render(p *v1alpha1.QueuePolicy, c broker.Capabilities) (broker.Policy, error) {
	replication, err := replicationKeys(p.Spec.Replication, c)
	if err != nil {
		return broker.Policy{}, err
	}
	definition, err := extraKeys(p)
	if err != nil {
		return broker.Policy{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(replication)) {
		if _, twice := definition[key]; twice {
			return broker.Policy{}, invalid("definition may not set %q: replication mode %s does", key, p.Spec.Replication.Mode)
		}
		definition[key] = replication[key]
	}
	if faults := c.ValidateDefinition(definition); len(faults) > 0 {
		return broker.Policy{}, invalid("RabbitMQ %s would refuse the definition: %s", c.Version, strings.Join(faults, "; "))
	}
	applyTo, err := applyTo(p, c)
	if err != nil {
		return broker.Policy{}, err
	}
	return broker.Policy{
		VHost:      p.Spec.VHost,
		Name:       p.BrokerPolicyName(),
		Pattern:    p.Spec.Pattern,
		ApplyTo:    applyTo,
		Priority:   int(p.Spec.Priority),
		Definition: definition,
	}, nil
}

func invalid(format string, args ...any) *Refusal {
	return &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *Refusal {
	return &Refusal{Reason: v1alpha1.ReasonUnsupportedByServer, Message: fmt.Sprintf(format, args...)}
}

func replicationKeys(r v1alpha1.ReplicationSpec, c broker.Capabilities) (map[string]any, error) {
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
		return map[string]any{"ha-mode": "exactly", "ha-params": int64(copies(r)), "ha-sync-mode": sync}, nil
	case v1alpha1.ReplicationQuorum:
		keys := map[string]any{"queue-leader-locator": "balanced"}
		if c.MembershipReconciliation {
			keys["target-group-size"] = int64(copies(r))
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

// Describe is the definition in one line with its keys in order, as `ha-mode: exactly, ha-params: 2`.
func Describe(definition map[string]any) string {
	words := make([]string, 0, len(definition))
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		words = append(words, fmt.Sprintf("%s: %v", key, definition[key]))
	}
	return strings.Join(words, ", ")
}
