package policy

import (
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// MadeFor is the argument of exchanges and queues that Warren made; its value is the QueuePolicy that first wanted them. The
// broker keeps arguments that it does not know, and does not compare them when somebody declares the same again.
const MadeFor = "x-warren-made-for"

// deadLetterKeys give the keys of spec.deadLetter.
func deadLetterKeys(spec *v1alpha1.QueuePolicySpec, c broker.Capabilities) ([]setting, error) {
	dead := spec.DeadLetter
	if dead == nil {
		return nil, nil
	}
	keys := []setting{{"dead-letter-exchange", dead.Exchange, "deadLetter.exchange"}}
	if key := deadRoutingKey(dead); key != "" {
		keys = append(keys, setting{"dead-letter-routing-key", key, "deadLetter"})
	}
	switch dead.Strategy {
	case v1alpha1.AtLeastOnce:
		if !quorumOnly(spec) {
			return nil, invalid("deadLetter.strategy AtLeastOnce is for quorum queues, and RabbitMQ would skip the policy on all others: use replication mode Quorum, or AtMostOnce")
		}
		keys = append(keys, setting{"dead-letter-strategy", "at-least-once", "deadLetter.strategy"})
	case v1alpha1.AtMostOnce:
		if quorumOnly(spec) {
			keys = append(keys, setting{"dead-letter-strategy", "at-most-once", "deadLetter.strategy"})
		}
	}
	return keys, nil
}

// quorumOnly tells whether the spec is about quorum queues and no others.
func quorumOnly(spec *v1alpha1.QueuePolicySpec) bool {
	return spec.Replication.Mode == v1alpha1.ReplicationQuorum || spec.ApplyTo == v1alpha1.TargetQuorumQueues
}

// deadRoutingKey is that of dead messages; "" leaves each its own.
func deadRoutingKey(dead *v1alpha1.DeadLetterSpec) string {
	if dead.RoutingKey != "" {
		return dead.RoutingKey
	}
	return dead.Queue
}

// DeadLetterOf is what must exist before a policy with spec.deadLetter is sent; nil without one.
func DeadLetterOf(p *v1alpha1.QueuePolicy) (*DeadLetter, error) {
	dead := p.Spec.DeadLetter
	if dead == nil {
		return nil, nil
	}
	vhost := p.Spec.VHost
	made := p.Namespace + "/" + p.Name
	out := &DeadLetter{Exchange: broker.Exchange{VHost: vhost, Name: dead.Exchange, Type: "direct", Durable: true, Arguments: map[string]any{MadeFor: made}}}
	if dead.Queue == "" {
		return out, nil
	}
	if strings.ContainsAny(dead.Queue, "\r\n") || strings.HasPrefix(dead.Queue, "amq.") {
		return nil, invalid("deadLetter.queue %q is not a name that RabbitMQ lets anybody declare", dead.Queue)
	}
	arguments, err := deadLetterArguments(dead.Limits)
	if err != nil {
		return nil, err
	}
	arguments[MadeFor] = made
	kind := broker.Quorum
	if dead.QueueType == v1alpha1.DeadLetterClassic {
		kind = broker.Classic
	}
	out.Queue = &broker.Queue{VHost: vhost, Name: dead.Queue, Type: kind, Durable: true, Arguments: arguments}
	out.Binding = &broker.Binding{VHost: vhost, Source: dead.Exchange, Destination: dead.Queue, RoutingKey: deadRoutingKey(dead)}
	return out, nil
}

func deadLetterArguments(limits *v1alpha1.DeadLetterLimits) (map[string]any, error) {
	arguments := map[string]any{}
	if limits == nil {
		return arguments, nil
	}
	var keys keyList
	keys.whole("x-max-length", limits.MaxLength, "deadLetter.limits.maxLength")
	keys.bytes("x-max-length-bytes", limits.MaxLengthBytes, "deadLetter.limits.maxLengthBytes")
	keys.time("x-message-ttl", limits.MessageTTL, 0, "deadLetter.limits.messageTTL")
	for _, s := range keys.settings {
		arguments[s.key] = s.value
	}
	return arguments, keys.err
}
