package management

import (
	"encoding/json"

	"github.com/warren-mq/warren/internal/broker"
)

// queueReply is one queue in any of the broker's listings.
type queueReply struct {
	VHost               string          `json:"vhost"`
	Name                string          `json:"name"`
	Type                string          `json:"type"`
	Durable             json.RawMessage `json:"durable"`
	AutoDelete          json.RawMessage `json:"auto_delete"`
	Exclusive           json.RawMessage `json:"exclusive"`
	Arguments           json.RawMessage `json:"arguments"`
	State               string          `json:"state"`
	Node                string          `json:"node"`
	Leader              json.RawMessage `json:"leader"`
	Policy              json.RawMessage `json:"policy"`
	OperatorPolicy      json.RawMessage `json:"operator_policy"`
	EffectiveDefinition json.RawMessage `json:"effective_policy_definition"`
	Mirrors             json.RawMessage `json:"slave_nodes"`
	SynchronisedMirrors json.RawMessage `json:"synchronised_slave_nodes"`
	Members             json.RawMessage `json:"members"`
	Online              json.RawMessage `json:"online"`
	Messages            json.RawMessage `json:"messages"`
	Ready               json.RawMessage `json:"messages_ready"`
	Unacknowledged      json.RawMessage `json:"messages_unacknowledged"`
	Consumers           json.RawMessage `json:"consumers"`
	MessageBytes        json.RawMessage `json:"message_bytes"`
}

// described is what the listing without statistics says: straight from the metadata store, complete and current.
func (r queueReply) described() broker.Queue {
	return broker.Queue{
		VHost: r.VHost, Name: r.Name, Type: broker.QueueType(r.Type),
		Durable: isTrue(r.Durable), AutoDelete: isTrue(r.AutoDelete), Exclusive: isTrue(r.Exclusive),
		Arguments:           optionalTable(r.Arguments),
		State:               r.state(),
		Node:                r.node(),
		Policy:              optionalName(r.Policy),
		OperatorPolicy:      optionalName(r.OperatorPolicy),
		EffectiveDefinition: optionalTable(r.EffectiveDefinition),
		Mirrors:             optionalNames(r.Mirrors),
		SynchronisedMirrors: optionalNames(r.SynchronisedMirrors),
		Members:             optionalNames(r.Members),
		Online:              optionalNames(r.Online),
	}
}

// state: up to 4.1 the metadata store calls a queue live that is running.
func (r queueReply) state() string {
	if r.State == "live" {
		return "running"
	}
	return r.State
}

func (r queueReply) node() string {
	if leader := optionalName(r.Leader); r.Node == "" && leader != nil {
		return *leader
	}
	return r.Node
}

// count fills the counts of q that are still unknown.
func (r queueReply) count(q *broker.Queue) {
	fill(&q.Messages, r.Messages)
	fill(&q.Ready, r.Ready)
	fill(&q.Unacknowledged, r.Unacknowledged)
	fill(&q.Consumers, r.Consumers)
	fill(&q.MessageBytes, r.MessageBytes)
}

func fill(into **int64, raw json.RawMessage) {
	if *into == nil {
		*into = optionalInt(raw)
	}
}
