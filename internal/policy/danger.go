package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Dangers are what a policy would do to the queues that are there.
type Dangers struct {
	// Refusals say why it must not be sent as it is, most telling first. They are about writing: a policy that the broker has
	// already, as it should be, needs none of it.
	Refusals []Refusal
	// Warnings about what is accepted and still dangerous. They hold no figure that changes from poll to poll.
	Warnings []string
	// Masked is what queues would lose, sorted by queue.
	Masked []Masked
}

// Masked is the keys that one queue has from a policy of lower priority and would have no longer.
type Masked struct {
	Queue, Policy string
	Keys          []string
}

// Needs is what a Vhost must hold for DangersOf and the plan of dead letters to decide.
type Needs struct {
	// Counts of messages, and Bytes: what comes with the broker's statistics, as the size of their bodies and what the queues'
	// processes have taken of policies.
	Counts, Bytes bool
	// Topology: exchanges and bindings.
	Topology bool
}

// NeedsOf says what has to be read before want may be sent.
func NeedsOf(want Rendered) Needs {
	var out Needs
	for _, definition := range []map[string]any{want.Policy.Definition, want.operator()} {
		_, length := definition["max-length"]
		_, size := definition["max-length-bytes"]
		_, dead := definition["dead-letter-exchange"]
		out.Counts = out.Counts || length || size
		out.Bytes = out.Bytes || size
		out.Topology = out.Topology || dead
	}
	_, inSteps := BeforeLimits(broker.Policy{Definition: broker.MergeOperator(want.Policy.Definition, want.operator())})
	out.Bytes = out.Bytes || inSteps
	out.Topology = out.Topology || want.DeadLetter != nil
	return out
}

// operator is the definition of the operator policy, nil for none.
func (r Rendered) operator() map[string]any {
	if r.Operator == nil {
		return nil
	}
	return r.Operator.Definition
}

// DangersOf judges what sending want would do. What the broker did not say counts as danger.
func DangersOf(p *v1alpha1.QueuePolicy, want Rendered, v Vhost) Dangers {
	a := assess(p, want, v)
	var out Dangers
	if p.Spec.AcceptDataLoss {
		out.Warnings = append(out.Warnings, a.acceptedLosses()...)
	} else {
		out.Refusals = append(out.Refusals, a.losses()...)
		out.Refusals = append(out.Refusals, a.unknownDepths()...)
	}
	if r := a.catchAll(); r != nil {
		out.Refusals = append(out.Refusals, *r)
	}
	masked, refusal := a.masked()
	out.Masked = masked
	if refusal != nil && !p.Spec.AcceptMaskedKeys {
		out.Refusals = append(out.Refusals, *refusal)
	}
	out.Warnings = append(out.Warnings, a.restartRisk()...)
	out.Warnings = append(out.Warnings, a.overridden()...)
	out.Warnings = append(out.Warnings, a.inert()...)
	out.Warnings = append(out.Warnings, fewNodes(p, v)...)
	return out
}

// assessment is one policy over one vhost.
type assessment struct {
	p    *v1alpha1.QueuePolicy
	want Rendered
	v    Vhost
	// policy and operator reach of want.
	policy, operator Reach
	queues           []outlook
}

// outlook is what is in force on a queue and what would be.
type outlook struct {
	queue *broker.Queue
	// sure: it would be in force; otherwise only the broker can tell.
	sure bool
	// now is nil when the broker did not say.
	now, then map[string]any
}

func assess(p *v1alpha1.QueuePolicy, want Rendered, v Vhost) *assessment {
	a := &assessment{p: p, want: want, v: v}
	if len(want.Policy.Definition) > 0 {
		a.policy = ReachOf(want.Policy, v, v.Policies, policyInForce)
	}
	if want.Operator != nil {
		a.operator = ReachOf(*want.Operator, v, v.OperatorPolicies, operatorInForce)
	}
	type touch struct{ policy, operator, sure bool }
	touched := map[*broker.Queue]*touch{}
	var order []*broker.Queue
	mark := func(queues []*broker.Queue, set func(*touch)) {
		for _, q := range queues {
			if touched[q] == nil {
				touched[q] = &touch{}
				order = append(order, q)
			}
			set(touched[q])
		}
	}
	mark(a.policy.Queues, func(t *touch) { t.policy, t.sure = true, true })
	mark(a.operator.Queues, func(t *touch) { t.operator, t.sure = true, true })
	mark(a.policy.Unknown, func(t *touch) { t.policy = true })
	mark(a.operator.Unknown, func(t *touch) { t.operator = true })
	a.queues = make([]outlook, 0, len(order))
	merged := map[[2]string]map[string]any{} // by the names of both
	for _, q := range order {
		t := touched[q]
		names := [2]string{nameOf(q.Policy, t.policy), nameOf(q.OperatorPolicy, t.operator)}
		effective, known := merged[names]
		if !known {
			policy, operator := inForceNow(names[0], want.Policy.Definition, v.Policies), inForceNow(names[1], want.operator(), v.OperatorPolicies)
			effective = broker.MergeOperator(policy, operator)
			merged[names] = effective
		}
		o := outlook{queue: q, sure: t.sure, then: broker.WithArguments(q.Type, q.Arguments, effective)}
		if q.EffectiveDefinition != nil {
			o.now = broker.WithArguments(q.Type, q.Arguments, q.EffectiveDefinition)
		}
		a.queues = append(a.queues, o)
	}
	return a
}

// toBeSent stands for the name of the policy that is to be sent.
const toBeSent = "\x00"

// nameOf is the policy that will be in force; "" for none, and when the broker did not say.
func nameOf(name *string, willBe bool) string {
	switch {
	case willBe:
		return toBeSent
	case name == nil:
		return ""
	}
	return *name
}

func inForceNow(name string, want map[string]any, policies []broker.Policy) map[string]any {
	if name == toBeSent {
		return want
	}
	if found := Find(policies, name); found != nil {
		return found.Definition
	}
	return nil
}

// expiryFloor: below it an expiry was probably meant in other units.
const expiryFloor = 60 * 1000

// loss is one way in which the spec itself drops messages or queues, whatever is there now.
type loss struct {
	// key and what it does.
	key, does string
	// reaches tells which queues would lose by it that do not today.
	reaches func(outlook) bool
}

// lossKeys are the losses that the definitions ask for.
func (a *assessment) lossKeys() []loss {
	var out []loss
	together := broker.MergeOperator(a.want.Policy.Definition, a.want.operator())
	_, deadLetters := together["dead-letter-exchange"]
	if ttl, given := together["message-ttl"].(int64); given && !deadLetters {
		out = append(out, loss{"message-ttl", fmt.Sprintf("message-ttl %d ms drops every message that is older", ttl), changes("message-ttl")})
	} else if n, _ := a.count(expiresForGood); given && n > 0 {
		out = append(out, loss{"message-ttl", fmt.Sprintf("message-ttl %d ms drops every older message of queues where no dead-letter exchange is in force", ttl), expiresForGood})
	}
	if expires, given := together["expires"].(int64); given {
		does := fmt.Sprintf("expires %d ms deletes a queue, with its messages, that nobody uses for so long", expires)
		if expires < expiryFloor {
			does += " (it counts in milliseconds, and less than a minute deletes queues while their consumers reconnect)"
		}
		out = append(out, loss{"expires", does, changes("expires")})
	}
	if overflow, given := together["overflow"]; limitsLength(together) && (!given || overflow == dropHead) {
		if a.p.Spec.ApplyTo == v1alpha1.TargetStreams {
			out = append(out, loss{"max-length-bytes", "max-length-bytes drops the oldest messages of a stream that is larger", changes("max-length-bytes")})
		} else {
			does := "overflow drop-head drops the oldest messages above the limit"
			if !given {
				does = "a length limit without overflow drops the oldest messages above it"
			}
			out = append(out, loss{"overflow", does, changes("max-length", "max-length-bytes", "overflow")})
		}
	}
	if age, given := together["max-age"]; given {
		out = append(out, loss{"max-age", fmt.Sprintf("max-age %v drops older messages of streams", age), changes("max-age")})
	}
	return out
}

// expiresForGood: messages would expire that do not today, and nothing would take them.
func expiresForGood(o outlook) bool {
	_, expires := o.then["message-ttl"]
	_, kept := o.then["dead-letter-exchange"]
	return expires && !kept && changes("message-ttl", "dead-letter-exchange")(o)
}

// changes tells whether one of these keys would not be what it is now.
func changes(keys ...string) func(outlook) bool {
	return func(o outlook) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return o.now == nil || !same(o.now, o.then, key) })
	}
}

func same(a, b map[string]any, key string) bool {
	x, hasX := a[key]
	y, hasY := b[key]
	switch x := x.(type) {
	case int64:
		if y, ok := y.(int64); ok {
			return x == y
		}
	case string:
		if y, ok := y.(string); ok {
			return x == y
		}
	}
	return hasX == hasY && broker.EqualDefinitions(map[string]any{key: x}, map[string]any{key: y})
}

// losses are the refusals of what acceptDataLoss would allow.
func (a *assessment) losses() []Refusal {
	var out []Refusal
	for _, l := range a.lossKeys() {
		n, examples := a.count(l.reaches)
		out = append(out, Refusal{v1alpha1.ReasonNeedsAcceptDataLoss, fmt.Sprintf("%s, and would reach %s now%s: set acceptDataLoss: true if that is meant",
			l.does, queuesOf(n, examples), a.cannotTell())})
	}
	if over := a.overLimit(); over.queues > 0 {
		out = append(out, Refusal{v1alpha1.ReasonNeedsAcceptDataLoss, over.message() + a.cannotTell() +
			": drain them, raise the limit, or set acceptDataLoss: true"})
	}
	if n, examples := a.count(a.dropsByArgument); n > 0 {
		out = append(out, Refusal{v1alpha1.ReasonNeedsAcceptDataLoss, fmt.Sprintf("%s would drop the oldest messages at the limit, since overflow reject-publish of a policy does not count there: "+
			"the queue's own argument x-overflow does, or another policy, or the type has no such overflow; set acceptDataLoss: true if that is meant", queuesOf(n, examples))})
	}
	return out
}

// acceptedLosses are the same, in words that do not change.
func (a *assessment) acceptedLosses() []string {
	var out []string
	for _, l := range a.lossKeys() {
		out = append(out, l.does+" (accepted)")
	}
	if n, _ := a.count(a.dropsByArgument); n > 0 {
		out = append(out, "some queues drop their oldest messages at the limit, since an argument of theirs or their type decides that (accepted)")
	}
	return out
}

// cannotTell says that more queues than those counted for sure were counted.
func (a *assessment) cannotTell() string {
	if len(a.policy.Unknown)+len(a.operator.Unknown) == 0 {
		return ""
	}
	return " (only the broker can evaluate the pattern, so every queue that it might match is counted)"
}

func (a *assessment) count(counts func(outlook) bool) (int, []string) {
	n, examples := 0, []string(nil)
	for _, o := range a.queues {
		if counts(o) {
			n++
			examples = addExample(examples, o.queue.Name)
		}
	}
	return n, examples
}

// addExample keeps the three names that come first.
func addExample(examples []string, name string) []string {
	examples = append(examples, name)
	slices.Sort(examples)
	return examples[:min(len(examples), 3)]
}

func queuesOf(n int, examples []string) string {
	switch {
	case n == 0:
		return "no queue"
	case n == 1:
		return fmt.Sprintf("1 queue (%s)", examples[0])
	case n > len(examples):
		return fmt.Sprintf("%d queues (%s, …)", n, strings.Join(examples, ", "))
	}
	return fmt.Sprintf("%d queues (%s)", n, strings.Join(examples, ", "))
}

// dropsByArgument: the policy asks for reject-publish and the queue would drop its oldest messages all the same. A classic
// queue heeds its own argument, a queue under another policy that one, and a quorum queue knows no reject-publish-dlx.
func (a *assessment) dropsByArgument(o outlook) bool {
	if !limitsLength(o.then) || !changes("max-length", "max-length-bytes", "overflow")(o) {
		return false
	}
	together := broker.MergeOperator(a.want.Policy.Definition, a.want.operator())
	meant, given := together["overflow"]
	if !limitsLength(together) || !given || meant == dropHead {
		return false // said already
	}
	return drops(o)
}

// drops tells whether a queue drops its oldest messages at its limit.
func drops(o outlook) bool {
	switch o.then["overflow"] {
	case rejectPublish:
		return o.queue.Type == broker.Stream
	case rejectPublishDLX:
		return o.queue.Type != broker.Classic && o.queue.Type != ""
	}
	return true
}

// catchAll refuses to bring destructive keys to every queue of the vhost at once.
func (a *assessment) catchAll() *Refusal {
	losses := a.lossKeys()
	if len(losses) == 0 || a.p.Spec.Rollout != nil || !CatchAll(a.want.Policy.Pattern) {
		return nil
	}
	anyOf := func(o outlook) bool {
		return slices.ContainsFunc(losses, func(l loss) bool { return l.reaches(o) })
	}
	n, examples := a.count(anyOf)
	if n == 0 && len(a.queues) > 0 {
		return nil // it is in force already
	}
	return &Refusal{v1alpha1.ReasonNeedsRollout, fmt.Sprintf("the pattern %q matches every queue of the vhost and %s; it would reach %s at once: set rollout so that it begins with a few, or narrow the pattern",
		a.want.Policy.Pattern, losses[0].does, queuesOf(n, examples))}
}

// masked are the keys that queues have from policies of lower priority and would lose.
func (a *assessment) masked() ([]Masked, *Refusal) {
	var out []Masked
	collect := func(reach Reach, want broker.Policy, policies []broker.Policy, inForce func(*broker.Queue) *string) (unknown int) {
		for _, q := range append(slices.Clone(reach.Queues), reach.Unknown...) {
			switch name := inForce(q); {
			case name == nil && len(policies) > 0:
				unknown++
			case name == nil, *name == "", *name == want.Name:
			default:
				if lost := lostKeys(Find(policies, *name), want, q, a.v.Capabilities); len(lost) > 0 {
					out = append(out, Masked{Queue: q.Name, Policy: *name, Keys: lost})
				}
			}
		}
		return unknown
	}
	unknown := collect(a.policy, a.want.Policy, others(a.v.Policies, a.want.Policy), policyInForce)
	if a.want.Operator != nil {
		unknown += collect(a.operator, *a.want.Operator, others(a.v.OperatorPolicies, *a.want.Operator), operatorInForce)
	}
	slices.SortFunc(out, func(x, y Masked) int { return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Policy, y.Policy)) })
	switch {
	case len(out) > 0:
		return out, &Refusal{v1alpha1.ReasonNeedsAcceptMaskedKeys, "definitions are never merged, and queues would lose keys that another policy gives them: " + summary(out) + a.cannotTell() +
			"; repeat the keys here, lower the priority, or set acceptMaskedKeys: true"}
	case unknown > 0:
		return nil, &Refusal{v1alpha1.ReasonNeedsAcceptMaskedKeys, fmt.Sprintf("the broker does not say which policy %d of the queues have now, so that keys might be lost: "+
			"wait until their nodes are back, or set acceptMaskedKeys: true", unknown)}
	}
	return nil, nil
}

// others are the policies that might be in force instead of want.
func others(policies []broker.Policy, want broker.Policy) []broker.Policy {
	var out []broker.Policy
	for _, p := range policies {
		if p.Name != want.Name && p.Priority <= want.Priority {
			out = append(out, p)
		}
	}
	return out
}

// lostKeys are those of other that want does not set. A leader locator is read when a queue is declared, and never after.
func lostKeys(other *broker.Policy, want broker.Policy, q *broker.Queue, c broker.Capabilities) []string {
	if other == nil {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(other.Definition)) {
		_, kept := want.Definition[key]
		inert := !c.KnowsPolicyKey(key) || key == "queue-leader-locator"
		if supported, _ := c.SupportsDefinition(q.Type, map[string]any{key: nil}); !kept && !inert && supported {
			out = append(out, key)
		}
	}
	return out
}

// summary groups by policy and keys: `"ha" gives ha-mode to 12 queues (a, b, c, …)`.
func summary(masked []Masked) string {
	type group struct {
		n        int
		examples []string
	}
	groups := map[string]*group{}
	for _, m := range masked {
		title := fmt.Sprintf("%q gives %s to", m.Policy, strings.Join(m.Keys, ", "))
		if groups[title] == nil {
			groups[title] = &group{}
		}
		groups[title].n++
		groups[title].examples = addExample(groups[title].examples, m.Queue)
	}
	var out []string
	for _, title := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, title+" "+queuesOf(groups[title].n, groups[title].examples))
	}
	return strings.Join(out, "; ")
}

// restartRisk: a new process of a classic queue begins with drop-head and sees the limit first.
func (a *assessment) restartRisk() []string {
	dead := false
	n, _ := a.count(func(o outlook) bool {
		risky := o.queue.Type == broker.Classic && limitsLength(o.then) && !drops(o)
		_, kept := o.then["dead-letter-exchange"]
		dead = dead || risky && kept
		return risky
	})
	switch {
	case n == 0:
		return nil
	case dead:
		return []string{"when the process of a classic queue starts again (a node restarts or a mirror takes over), RabbitMQ dead-letters what is above the limit, " +
			"messages that were not acknowledged included: overflow has no effect yet at that moment"}
	}
	return []string{"when the process of a classic queue starts again (a node restarts or a mirror takes over), RabbitMQ drops what is above the limit, " +
		"messages that were not acknowledged included: overflow has no effect yet at that moment; deadLetter keeps them, and quorum queues do not do so"}
}

// overridden names the arguments of queues that count instead of the policy.
func (a *assessment) overridden() []string {
	type group struct {
		n        int
		examples []string
	}
	groups := map[string]*group{}
	for _, q := range a.policy.Queues {
		_, argument, is := broker.Overriding(q.Type, q.Arguments, a.want.Policy.Definition)
		if !is {
			continue
		}
		if groups[argument] == nil {
			groups[argument] = &group{}
		}
		groups[argument].n++
		groups[argument].examples = addExample(groups[argument].examples, q.Name)
	}
	var out []string
	for _, argument := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, fmt.Sprintf("the argument %s of %s counts there instead of the policy", argument, queuesOf(groups[argument].n, groups[argument].examples)))
	}
	return out
}

// inert names policies in force on the queues with keys that this version has no more, as those of mirrors after an upgrade.
func (a *assessment) inert() []string {
	keys := map[string][]string{}
	for _, o := range a.queues {
		name := o.queue.Policy
		if name == nil || keys[*name] != nil {
			continue
		}
		keys[*name] = []string{}
		for _, key := range slices.Sorted(maps.Keys(inForceNow(*name, nil, a.v.Policies))) {
			if !a.v.Capabilities.KnowsPolicyKey(key) && slices.Contains(broker.AllPolicyKeys(), key) {
				keys[*name] = append(keys[*name], key)
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if len(keys[name]) > 0 {
			out = append(out, fmt.Sprintf("policy %q still has keys that RabbitMQ %s ignores: %s", name, a.v.Capabilities.Version, strings.Join(keys[name], ", ")))
		}
	}
	return out
}

// fewNodes: copies that there are no nodes for.
func fewNodes(p *v1alpha1.QueuePolicy, v Vhost) []string {
	wanted := copies(p.Spec.Replication)
	if v.RunningNodes == 0 || v.RunningNodes >= wanted {
		return nil
	}
	return []string{fmt.Sprintf("replication mode %s wants each queue on %d nodes, and %d run: the policy cannot be in force in full", p.Spec.Replication.Mode, wanted, v.RunningNodes)}
}

// roughly is a number that does not change with every message.
func roughly(n int64) string {
	scale := int64(1)
	for n/scale >= 100 {
		scale *= 10
	}
	if scale == 1 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("about %d", n/scale*scale)
}
