package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// DeadPlan is what has to happen so that dead messages arrive.
type DeadPlan struct {
	// Actions come before the policy, in order: exchange, queue, binding.
	Actions []Action
	// Refusals say why the policy must not be sent.
	Refusals []Refusal
	Warnings []string
}

func (d *DeadPlan) refuse(reason, format string, args ...any) {
	d.Refusals = append(d.Refusals, Refusal{reason, fmt.Sprintf(format, args...)})
}

func (d *DeadPlan) warn(format string, args ...any) {
	d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...))
}

// PlanDeadLetters decides what is made before a policy that dead-letters is sent, and whether it may be.
func PlanDeadLetters(p *v1alpha1.QueuePolicy, want Rendered, v Vhost) DeadPlan {
	var out DeadPlan
	exchange, points := want.Policy.Definition["dead-letter-exchange"].(string)
	if !points {
		return out
	}
	if v.Exchanges == nil {
		out.refuse(v1alpha1.ReasonUnknown, "the broker has not said which exchanges there are, so that it is not known where dead messages would go")
		return out
	}
	d := deadPlanner{p: p, want: want, v: v, plan: &out}
	if key, given := want.Policy.Definition["dead-letter-routing-key"].(string); given {
		d.key = &key
	}
	present := findExchange(v.Exchanges, exchange)
	switch {
	case want.DeadLetter != nil:
		d.typed(present)
	case exchange == "":
		d.defaultExchange()
	case present == nil:
		out.refuse(v1alpha1.ReasonDeadLetterMissing, "exchange %q of dead-letter-exchange does not exist, and RabbitMQ would drop dead messages without a word: make it, or use deadLetter instead of the definition", exchange)
	default:
		d.unbound(exchange)
		d.loops(exchange)
	}
	if len(out.Refusals) > 0 {
		out.Actions = nil
	}
	return out
}

type deadPlanner struct {
	p    *v1alpha1.QueuePolicy
	want Rendered
	v    Vhost
	plan *DeadPlan
	key  *string // routing key of dead messages; nil: each keeps its own
}

// typed plans spec.deadLetter.
func (d deadPlanner) typed(present *broker.Exchange) {
	dead := d.want.DeadLetter
	if !d.exchange(present) {
		return
	}
	if dead.Queue == nil {
		d.unbound(dead.Exchange.Name)
		d.loops(dead.Exchange.Name)
		return
	}
	d.self()
	d.queue()
	d.bind(present)
	d.loops(dead.Exchange.Name)
}

// exchange plans the dead-letter exchange; false says that there can be none.
func (d deadPlanner) exchange(present *broker.Exchange) bool {
	dead := d.want.DeadLetter
	switch {
	case present != nil:
		d.existing(*present)
	case strings.HasPrefix(dead.Exchange.Name, "amq."):
		d.plan.refuse(v1alpha1.ReasonDeadLetterUnusable, "deadLetter.exchange %q does not exist, and RabbitMQ lets nobody make exchanges called amq.*: choose another name", dead.Exchange.Name)
		return false
	default:
		d.plan.Actions = append(d.plan.Actions, Action{Verb: DeclareExchange, Exchange: dead.Exchange, Why: "dead messages need an exchange before a policy names it", Absent: true})
	}
	return true
}

// existing looks at an exchange that somebody else may have made; it is used as it is.
func (d deadPlanner) existing(e broker.Exchange) {
	if !e.Durable {
		d.plan.warn("the dead-letter exchange %q is not durable: after a restart of the cluster dead messages are dropped until somebody declares it again", e.Name)
	}
	if e.AutoDelete {
		d.plan.warn("the dead-letter exchange %q is deleted when its last binding goes, and dead messages are dropped from then on", e.Name)
	}
}

// queue plans the dead-letter queue.
func (d deadPlanner) queue() {
	wanted := *d.want.DeadLetter.Queue
	i := slices.IndexFunc(d.v.Queues, func(q broker.Queue) bool { return q.Name == wanted.Name })
	if i < 0 {
		d.plan.Actions = append(d.plan.Actions, Action{Verb: DeclareQueue, Queue: wanted, Why: "dead messages need a queue before a policy sends them there", Absent: true})
		return
	}
	q := d.v.Queues[i]
	switch {
	case q.Exclusive:
		d.plan.refuse(v1alpha1.ReasonDeadLetterUnusable, "the dead-letter queue %q exists and is exclusive to one connection: choose another name", q.Name)
	case q.AutoDelete:
		d.plan.warn("the dead-letter queue %q is deleted, with its messages, when its last consumer goes", q.Name)
	}
	if d.p.Spec.DeadLetter.QueueType != "" && q.Type != "" && q.Type != wanted.Type {
		d.plan.warn("the dead-letter queue %q exists with the type %s, not %s, and a queue's type cannot change", q.Name, q.Type, wanted.Type)
	}
	for _, key := range []string{"x-max-length", "x-max-length-bytes", "x-message-ttl"} {
		if !same(q.Arguments, wanted.Arguments, key) && wanted.Arguments[key] != nil {
			d.plan.warn("the dead-letter queue %q exists without the limits of deadLetter.limits, and a queue's arguments cannot change", q.Name)
			break
		}
	}
}

// bind plans the binding, as the type of the exchange wants it.
func (d deadPlanner) bind(present *broker.Exchange) {
	binding := *d.want.DeadLetter.Binding
	if present != nil {
		switch present.Type {
		case "direct", "topic":
		case "fanout", "headers": // headers: a binding that asks for nothing gets everything
			binding.RoutingKey = ""
		default:
			d.plan.refuse(v1alpha1.ReasonDeadLetterUnusable, "exchange %q has the type %s, for which Warren knows no binding that surely brings dead messages to %q: bind a queue yourself and leave deadLetter.queue out, or choose another exchange",
				present.Name, present.Type, binding.Destination)
			return
		}
	}
	for _, b := range d.v.Bindings {
		if b.Source == binding.Source && b.Destination == binding.Destination && !b.ToExchange && present != nil && surely(present.Type, b, &binding.RoutingKey) {
			return
		}
	}
	d.plan.Actions = append(d.plan.Actions, Action{Verb: Bind, Binding: binding, Why: "dead messages need a way from their exchange to their queue", Absent: true})
}

// self refuses a dead-letter queue that the policy may be in force on. Where it surely would be, the pattern leaves it out.
func (d deadPlanner) self() {
	name := d.want.DeadLetter.Queue.Name
	const out = "name it outside the pattern, narrow the pattern, or give the queue a policy of its own with a higher priority"
	if _, maybe := d.reaches(name); maybe && !d.p.Spec.AcceptDataLoss {
		d.plan.refuse(v1alpha1.ReasonNeedsAcceptDataLoss, "only the broker can tell whether the pattern matches the dead-letter queue %q itself, whose messages would then die again: %s, or set acceptDataLoss: true", name, out)
	}
}

// reaches tells whether the policy or the operator policy would be in force on a queue, one that does not exist yet included.
func (d deadPlanner) reaches(name string) (sure, maybe bool) {
	v := Vhost{Name: d.v.Name, Capabilities: d.v.Capabilities}
	if i := slices.IndexFunc(d.v.Queues, func(q broker.Queue) bool { return q.Name == name }); i >= 0 {
		v.Queues = d.v.Queues[i : i+1]
	} else if d.want.DeadLetter != nil && d.want.DeadLetter.Queue != nil && d.want.DeadLetter.Queue.Name == name {
		q := *d.want.DeadLetter.Queue
		q.Policy, q.OperatorPolicy = d.highest(d.v.Policies, &q), d.highest(d.v.OperatorPolicies, &q)
		v.Queues = []broker.Queue{q}
	}
	reach := ReachOf(d.want.Policy, v, d.v.Policies, policyInForce)
	sure, maybe = len(reach.Queues) > 0, len(reach.Unknown) > 0 && !brokerSaysNo(d.want.Policy, d.v.Policies, v.Queues, policyInForce)
	if d.want.Operator != nil {
		hard := ReachOf(*d.want.Operator, v, d.v.OperatorPolicies, operatorInForce)
		sure = sure || len(hard.Queues) > 0
		maybe = maybe || len(hard.Unknown) > 0 && !brokerSaysNo(*d.want.Operator, d.v.OperatorPolicies, v.Queues, operatorInForce)
	}
	return sure, maybe
}

// brokerSaysNo: the broker has a policy of this name, pattern and priority, and it is not in force on the queue, nor is one
// that stands above it: so the pattern does not match.
func brokerSaysNo(want broker.Policy, have []broker.Policy, queues []broker.Queue, inForce func(*broker.Queue) *string) bool {
	there := Find(have, want.Name)
	if there == nil || there.Pattern != want.Pattern || there.ApplyTo != want.ApplyTo || len(queues) == 0 {
		return false
	}
	name := inForce(&queues[0])
	if name == nil || *name == want.Name {
		return false
	}
	other := Find(have, *name)
	return other == nil || other.Priority <= want.Priority
}

// highest names the policy that would be in force on a queue that is to be made, as far as patterns can be evaluated.
func (d deadPlanner) highest(policies []broker.Policy, q *broker.Queue) *string {
	none := ""
	best := &none
	priority := 0
	for i := range policies {
		p := &policies[i]
		if p.Name == d.want.Policy.Name || !takesPart(*p, d.v.Capabilities, q) {
			continue
		}
		if matches, known := NewMatcher(p.Pattern).Match(q.Name); matches && known && (*best == "" || p.Priority > priority) {
			best, priority = &p.Name, p.Priority
		}
	}
	return best
}

// defaultExchange checks a raw definition that dead-letters to the default exchange, which knows queues by their names.
func (d deadPlanner) defaultExchange() {
	if d.key == nil {
		d.plan.refuse(v1alpha1.ReasonDeadLetterLoop, "dead-letter-exchange \"\" without dead-letter-routing-key sends dead messages back to the queue that they were sent to first: name a queue in dead-letter-routing-key")
		return
	}
	if !slices.ContainsFunc(d.v.Queues, func(q broker.Queue) bool { return q.Name == *d.key }) {
		d.plan.refuse(v1alpha1.ReasonDeadLetterMissing, "dead messages would go to the queue %q, which does not exist, and RabbitMQ would drop them without a word: make it, or use deadLetter instead of the definition", *d.key)
		return
	}
	d.loops("")
}

// unbound warns of an exchange that leads nowhere.
func (d deadPlanner) unbound(exchange string) {
	if sure, maybe := routes(d.v, exchange, d.key); len(sure)+len(maybe) == 0 {
		d.plan.warn("nothing is bound to the dead-letter exchange %q for these messages, and RabbitMQ drops them without a word: bind a queue, or name one in deadLetter.queue", exchange)
	}
}

// loops refuses dead letters that surely come back to a queue of the policy, and warns of those that may.
func (d deadPlanner) loops(exchange string) {
	sure, maybe := routes(d.v, exchange, d.key)
	for _, name := range sure {
		if d.want.DeadLetter != nil && d.want.DeadLetter.Queue != nil && d.want.DeadLetter.Queue.Name == name {
			continue // self
		}
		if reached, _ := d.reaches(name); reached {
			d.plan.refuse(v1alpha1.ReasonDeadLetterLoop, "exchange %q leads back to queue %q, which the policy matches: dead messages would go round in a circle; unbind it, or choose another exchange", exchange, name)
			return
		}
	}
	for _, name := range maybe {
		if reached, _ := d.reaches(name); reached {
			d.plan.warn("exchange %q may lead back to queue %q, which the policy matches: it depends on the routing key of the message", exchange, name)
			return
		}
	}
}

func findExchange(exchanges []broker.Exchange, name string) *broker.Exchange {
	for i := range exchanges {
		if exchanges[i].Name == name && name != "" {
			return &exchanges[i]
		}
	}
	return nil
}

// routes are the queues that a message gets to from an exchange, for sure or perhaps; key nil is any.
func routes(v Vhost, exchange string, key *string) (sure, maybe []string) {
	if exchange == "" {
		if key != nil {
			sure = append(sure, *key)
		}
		return sure, nil
	}
	w := walk{v: v, key: key, exchanges: map[string]bool{}, queues: map[string]bool{}}
	w.from(exchange, true)
	for name, is := range w.queues {
		if is {
			sure = append(sure, name)
		} else {
			maybe = append(maybe, name)
		}
	}
	slices.Sort(sure)
	slices.Sort(maybe)
	return sure, maybe
}

// walk follows bindings; the values say whether what it came to is reached for sure.
type walk struct {
	v                 Vhost
	key               *string
	exchanges, queues map[string]bool
}

func (w walk) from(exchange string, certain bool) {
	if was, seen := w.exchanges[exchange]; seen && (was || !certain) {
		return
	}
	w.exchanges[exchange] = certain
	e := findExchange(w.v.Exchanges, exchange)
	if e == nil {
		return
	}
	for _, b := range w.v.Bindings {
		if b.Source != exchange || never(e.Type, b, w.key) {
			continue
		}
		is := certain && surely(e.Type, b, w.key)
		if b.ToExchange {
			w.from(b.Destination, is)
		} else {
			w.queues[b.Destination] = w.queues[b.Destination] || is
		}
	}
}

// surely tells whether a binding takes a message with this routing key, whatever its headers are.
func surely(kind string, b broker.Binding, key *string) bool {
	switch kind {
	case "fanout":
		return true
	case "direct":
		return key != nil && *key == b.RoutingKey
	case "topic":
		return b.RoutingKey == "#" || key != nil && topicMatches(b.RoutingKey, *key)
	case "headers":
		for argument := range b.Arguments {
			if argument != "x-match" {
				return false
			}
		}
		return b.Arguments["x-match"] == nil || b.Arguments["x-match"] == "all"
	}
	return false
}

// never tells whether a binding takes no message with this routing key.
func never(kind string, b broker.Binding, key *string) bool {
	return key != nil && (kind == "direct" || kind == "topic") && !surely(kind, b, key)
}

// topicMatches works on words between dots: * is one of them, # any number.
func topicMatches(pattern, key string) bool {
	words := strings.Split(key, ".")
	// reached[i]: the pattern so far takes the first i words.
	reached := make([]bool, len(words)+1)
	reached[0] = true
	for _, part := range strings.Split(pattern, ".") {
		next := make([]bool, len(words)+1)
		for i := range reached {
			if part == "#" {
				next[i] = reached[i] || i > 0 && next[i-1]
			} else {
				next[i] = i > 0 && reached[i-1] && (part == "*" || part == words[i-1])
			}
		}
		reached = next
	}
	return reached[len(words)]
}

// DepartDeadLetters decides what of dead may go once no policy sends messages there any more: what Warren made, nobody else
// uses, and holds nothing. v is read after the policy is gone. kept says why something stays.
func DepartDeadLetters(dead *DeadLetter, v Vhost) (actions []Action, kept []string) {
	exchange := findExchange(v.Exchanges, dead.Exchange.Name)
	if by := pointsTo(v, dead.Exchange.Name); by != "" {
		return nil, []string{fmt.Sprintf("the dead-letter exchange %q stays, since %s uses it", dead.Exchange.Name, by)}
	}
	queueGoes := false
	if dead.Queue != nil {
		action, why := departQueue(*dead, v)
		if action != nil {
			actions, queueGoes = append(actions, *action), true
		} else if why != "" {
			kept = append(kept, why)
		}
	}
	if exchange == nil {
		return actions, kept
	}
	if _, ours := exchange.Arguments[MadeFor]; !ours {
		return actions, append(kept, fmt.Sprintf("the dead-letter exchange %q stays, since Warren did not make it", exchange.Name))
	}
	for _, b := range v.Bindings {
		if b.Source == exchange.Name && (b.ToExchange || dead.Queue == nil || b.Destination != dead.Queue.Name || !queueGoes) {
			return actions, append(kept, fmt.Sprintf("the dead-letter exchange %q stays, since %q is bound to it", exchange.Name, b.Destination))
		}
	}
	return append(actions, Action{Verb: DeleteExchange, Exchange: *exchange, Why: "no policy sends dead messages there any more"}), kept
}

// pointsTo names what still dead-letters to an exchange.
func pointsTo(v Vhost, exchange string) string {
	for _, p := range v.Policies {
		if p.Definition["dead-letter-exchange"] == exchange {
			return fmt.Sprintf("policy %q", p.Name)
		}
	}
	for _, q := range v.Queues {
		if q.Arguments["x-dead-letter-exchange"] == exchange {
			return fmt.Sprintf("queue %q", q.Name)
		}
	}
	return ""
}

// departQueue decides about the dead-letter queue; its bindings go with it.
func departQueue(dead DeadLetter, v Vhost) (*Action, string) {
	i := slices.IndexFunc(v.Queues, func(q broker.Queue) bool { return q.Name == dead.Queue.Name })
	if i < 0 {
		return nil, ""
	}
	q := v.Queues[i]
	stays := func(why string) (*Action, string) {
		return nil, fmt.Sprintf("the dead-letter queue %q stays, since %s", q.Name, why)
	}
	if _, ours := q.Arguments[MadeFor]; !ours {
		return stays("Warren did not make it")
	}
	for _, b := range v.Bindings {
		if b.Destination == q.Name && !b.ToExchange && b.Source != dead.Exchange.Name {
			return stays(fmt.Sprintf("exchange %q leads to it too", b.Source))
		}
	}
	switch {
	case q.Messages == nil:
		return stays("the broker does not say what it holds")
	case *q.Messages > 0:
		return stays("it holds messages")
	}
	return &Action{Verb: DeleteQueue, Queue: q, Why: "no policy sends dead messages there any more, and it is empty"}, ""
}
