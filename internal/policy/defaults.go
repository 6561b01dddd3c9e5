package policy

import (
	"cmp"
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// DefaultVHost is the one that spec.defaults of a WorkloadCluster is about: it is there from the first start.
const DefaultVHost = "/"

const alternateExchange = "alternate-exchange"

// DefaultsSeen is what the broker said of what spec.defaults is about.
type DefaultsSeen struct {
	// QueueType that the vhost has by default; "" when the broker did not say.
	QueueType broker.QueueType
	// Vhost with the dead-letter queue, if it exists, and with all exchanges and bindings.
	Vhost Vhost
	// Complete: all nodes run in one cluster.
	Complete bool
}

// DefaultsPlan is what has to happen so that the broker has spec.defaults.
type DefaultsPlan struct {
	DeadPlan
	// Waits says what the rest waits for; "" for nothing.
	Waits string
}

// DefaultDeadLetters are the objects of spec.defaults.deadLetter.
type DefaultDeadLetters struct {
	// Exchange, and Rest: its alternate exchange, which gets what no binding of Exchange takes.
	Exchange, Rest broker.Exchange
	Queue          broker.Queue
}

// DefaultDeadLettersOf are what a cluster's spec asks for; nil for nothing.
func DefaultDeadLettersOf(c *v1alpha1.WorkloadCluster) *DefaultDeadLetters {
	if c.Spec.Defaults == nil || c.Spec.Defaults.DeadLetter == nil {
		return nil
	}
	dead := c.Spec.Defaults.DeadLetter
	name := cmp.Or(dead.Exchange, "dlx") // the schema's default
	rest := name + ".unrouted"
	return &DefaultDeadLetters{
		Exchange: broker.Exchange{VHost: DefaultVHost, Name: name, Type: "direct", Durable: true, Arguments: map[string]any{alternateExchange: rest}},
		Rest:     broker.Exchange{VHost: DefaultVHost, Name: rest, Type: "fanout", Durable: true},
		Queue: broker.Queue{
			VHost: DefaultVHost, Name: cmp.Or(dead.Queue, c.Spec.WorkloadClass+".dead-letters"), Type: broker.Quorum, Durable: true,
		},
	}
}

// Names tells whether one of them is what a QueuePolicy would take away.
func (d *DefaultDeadLetters) Names(dead *DeadLetter) bool {
	return d != nil && (dead.Exchange.VHost == DefaultVHost && (dead.Exchange.Name == d.Exchange.Name || dead.Exchange.Name == d.Rest.Name) ||
		dead.Queue != nil && dead.Queue.VHost == DefaultVHost && dead.Queue.Name == d.Queue.Name)
}

// PlanDefaults decides what is made so that the broker has spec.defaults. Nothing is ever deleted.
func PlanDefaults(c *v1alpha1.WorkloadCluster, seen DefaultsSeen) DefaultsPlan {
	var out DefaultsPlan
	if kind := defaultTypeOf(c); kind != "" && kind != seen.QueueType {
		switch {
		case seen.QueueType != "":
			out.Actions = append(out.Actions, Action{
				Verb: SetDefaultQueueType, Queue: broker.Queue{VHost: DefaultVHost, Type: kind},
				Why: fmt.Sprintf("queues that are declared without a type are to be %s, not %s", kind, seen.QueueType),
			})
		case kind != broker.Classic: // which is what they are where there is nothing to set
			out.refuse(v1alpha1.ReasonUnsupportedByServer, "the broker has no default queue type, so defaults.queueType Quorum needs RabbitMQ 3.11.1 or later: clients must say x-queue-type until then")
		}
	}
	dead := DefaultDeadLettersOf(c)
	if dead == nil {
		return out
	}
	if !seen.Complete {
		out.Waits = fmt.Sprintf("the dead-letter queue %q waits until all nodes run: a quorum queue gets its members when it is made", dead.Queue.Name)
		return out
	}
	planDefaultDeadLetters(*dead, seen.Vhost, &out.DeadPlan)
	return out
}

func defaultTypeOf(c *v1alpha1.WorkloadCluster) broker.QueueType {
	if c.Spec.Defaults == nil {
		return ""
	}
	return map[v1alpha1.DefaultQueueType]broker.QueueType{
		v1alpha1.DefaultQuorum: broker.Quorum, v1alpha1.DefaultClassic: broker.Classic,
	}[c.Spec.Defaults.QueueType]
}

// planDefaultDeadLetters has the exchange made last: as soon as a message can get there, it gets to the queue.
func planDefaultDeadLetters(want DefaultDeadLetters, v Vhost, plan *DeadPlan) {
	present, rest := findExchange(v.Exchanges, want.Exchange.Name), findExchange(v.Exchanges, want.Rest.Name)
	via := &DeadLetter{Exchange: want.Rest, Queue: &want.Queue, Binding: &broker.Binding{VHost: DefaultVHost, Source: want.Rest.Name, Destination: want.Queue.Name}}
	if present != nil && present.Arguments[alternateExchange] != want.Rest.Name {
		via.Exchange, rest = *present, present
		via.Binding.Source, via.Binding.RoutingKey = present.Name, catchAllKey(present.Type, want.Queue.Name)
		if present.Type == "direct" {
			plan.warn("the exchange %q is not Warren's and has no alternate exchange %q: only dead messages with the routing key %q get to the queue, and RabbitMQ drops those that no other binding takes; delete the exchange, and Warren makes it anew, or choose another name",
				present.Name, want.Rest.Name, want.Queue.Name)
		}
	}
	d := deadPlanner{p: &v1alpha1.QueuePolicy{Spec: v1alpha1.QueuePolicySpec{DeadLetter: &v1alpha1.DeadLetterSpec{QueueType: v1alpha1.DeadLetterQuorum}}},
		want: Rendered{DeadLetter: via}, v: v, plan: plan}
	d.exchange(rest)
	d.queue()
	d.bind(rest)
	if present == nil {
		d.want.DeadLetter = &DeadLetter{Exchange: want.Exchange}
	}
	d.exchange(present)
}

// catchAllKey binds to all messages where the type of the exchange can, or else to those that name the queue.
func catchAllKey(kind, queue string) string {
	if kind == "topic" {
		return "#"
	}
	return queue
}
