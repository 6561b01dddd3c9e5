package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// facts is what one pass sees of one policy.
type facts struct {
	Input
	spec  *v1alpha1.RolloutSpec
	state *v1alpha1.RolloutStatus
	want  broker.Policy
	id    string
	// stored is the broker's policy of the wanted name; nil for none.
	stored, operator *broker.Policy
	temps            []temporary
	byName           map[string]*broker.Policy
	// named says by which temporary policy of the present ID a queue is named.
	named map[string]int

	looked bool
	// reach are the queues on which the policy will be in force; masked those on which another one is; unknown those of
	// which only the broker knows whether the pattern matches.
	reach           []*broker.Queue
	masked, unknown []string
}

func look(in Input) *facts {
	f := &facts{Input: in, spec: in.Object.Spec.Rollout, state: in.State.DeepCopy(), want: in.Rendered.Policy}
	f.id = ID(f.want)
	f.stored = policy.Find(in.Vhost.Policies, f.want.Name)
	f.operator = policy.Find(in.Vhost.OperatorPolicies, f.want.Name)
	f.temps = ownTemporaries(f.want.Name, f.current(), f.known(), in.Vhost.Policies)
	f.named = map[string]int{}
	for i, t := range f.temps {
		if t.id == f.current() {
			for _, name := range t.names {
				f.named[name] = i
			}
		}
	}
	if !f.idle() {
		f.classify()
	}
	return f
}

// current is the ID of the rollout that the recorded step is of; a rollback is of the one that it takes back.
func (f *facts) current() string {
	if f.rollsBack() && f.state != nil {
		return f.state.ID
	}
	return f.id
}

// known are the IDs whose temporary policies are this object's.
func (f *facts) known() []string {
	if f.state == nil {
		return []string{f.id}
	}
	return append([]string{f.id, f.state.ID}, f.state.FormerIDs...)
}

// wanted tells whether there is a policy at all, beside the operator policy.
func (f *facts) wanted() bool { return len(f.want.Definition) > 0 }

// complete: the broker has everything as it is wanted, and nothing else of ours.
func (f *facts) complete() bool {
	same := f.stored == nil
	if f.wanted() {
		same = policy.Same(f.want, f.stored)
	}
	return same && f.operatorComplete() && len(f.temps) == 0
}

func (f *facts) operatorComplete() bool {
	if f.Rendered.Operator == nil {
		return f.operator == nil || !f.OwnsOperator
	}
	return policy.Same(*f.Rendered.Operator, f.operator)
}

// idle: a glance at the policies is enough, and the queues need not be looked at.
func (f *facts) idle() bool {
	finished := f.state == nil && f.spec == nil || f.state != nil && f.state.Phase == v1alpha1.RolloutDone && f.state.ID == f.id
	return finished && f.complete() && !f.rollsBack()
}

// classify looks at every queue of the vhost.
func (f *facts) classify() {
	f.byName = make(map[string]*broker.Policy, len(f.Vhost.Policies))
	for i := range f.Vhost.Policies {
		f.byName[f.Vhost.Policies[i].Name] = &f.Vhost.Policies[i]
	}
	f.looked = true
	want, rivals := f.want, f.rivals()
	if !f.wanted() {
		if f.Rendered.Operator == nil {
			return
		}
		want, rivals = *f.Rendered.Operator, nil
	}
	matcher := policy.NewMatcher(want.Pattern)
	for i := range f.Vhost.Queues {
		q := &f.Vhost.Queues[i]
		if !policy.CanReach(f.Object, want, *q, f.Vhost.Capabilities) {
			continue
		}
		matches, known := f.matches(matcher, q)
		switch {
		case !known:
			f.unknown = append(f.unknown, q.Name)
		case !matches:
		case f.isMasked(rivals, q):
			f.masked = append(f.masked, q.Name)
		default:
			f.reach = append(f.reach, q)
		}
	}
}

// matches asks the pattern, and where that cannot be evaluated what the broker did with it.
func (f *facts) matches(m policy.Matcher, q *broker.Queue) (matches, known bool) {
	if matches, known = m.Match(q.Name); known {
		return matches, true
	}
	if _, named := f.named[q.Name]; named {
		return true, true
	}
	if f.stored != nil && f.stored.Pattern == f.want.Pattern && f.stored.ApplyTo == f.want.ApplyTo && q.Policy != nil {
		if *q.Policy == f.want.Name {
			return true, true
		}
		if in := f.byName[*q.Policy]; *q.Policy == "" || in != nil && in.Priority < f.stored.Priority {
			return false, true
		}
	}
	return false, false
}

// rival is a policy of somebody else that hides ours where it matches.
type rival struct {
	policy  broker.Policy
	matcher policy.Matcher
}

func (f *facts) rivals() []rival {
	var out []rival
	for _, p := range f.Vhost.Policies {
		if f.hides(p) {
			out = append(out, rival{p, policy.NewMatcher(p.Pattern)})
		}
	}
	return out
}

// hides tells whether a policy of somebody else has at least our priority. A temporary policy stands above what it is
// for, and only for a time.
func (f *facts) hides(p broker.Policy) bool {
	if p.Name == f.want.Name || f.isTemporary(p.Name) {
		return false
	}
	priority := p.Priority
	if ofSomeRollout(p) {
		priority--
	}
	return priority >= f.want.Priority
}

func (f *facts) isTemporary(name string) bool {
	return slices.ContainsFunc(f.temps, func(t temporary) bool { return t.policy.Name == name })
}

func (f *facts) isMasked(rivals []rival, q *broker.Queue) bool {
	for _, r := range rivals {
		if q.Policy != nil && *q.Policy == r.policy.Name {
			return true
		}
		if !policy.AppliesTo(r.policy, *q, f.Vhost.Capabilities) {
			continue
		}
		if matches, known := r.matcher.Match(q.Name); known && matches {
			return true
		}
	}
	return false
}

// covered tells whether the wanted definition is in force on q, or a temporary policy names it.
func (f *facts) covered(q *broker.Queue) bool {
	if _, named := f.named[q.Name]; named {
		return true
	}
	return f.hasIt(q)
}

// hasIt tells whether the policy in force on q says what is wanted.
func (f *facts) hasIt(q *broker.Queue) bool {
	if q.Policy == nil {
		return false
	}
	in := f.byName[*q.Policy]
	return in != nil && broker.EqualDefinitions(in.Definition, f.want.Definition)
}

func (f *facts) haveIt() int {
	n := 0
	for _, q := range f.reach {
		if f.hasIt(q) {
			n++
		}
	}
	return n
}

// uncovered are the names of queues that a batch is still to name, sorted. Exclusive queues end with their connection and get
// the policy at the end, as do those whose names no pattern can hold.
func (f *facts) uncovered() []string {
	var out []string
	if !f.wanted() {
		return nil
	}
	for _, q := range f.reach {
		if !q.Exclusive && policy.Nameable(q.Name) && !f.covered(q) {
			out = append(out, q.Name)
		}
	}
	slices.Sort(out)
	return out
}

// lastBatch is the highest number among the present ID's temporary policies.
func (f *facts) lastBatch() int {
	n := 0
	for _, t := range f.temps {
		if t.id == f.current() {
			n = max(n, t.batch)
		}
	}
	return n
}

// ofBatch are the temporary policies of one batch of the present ID.
func (f *facts) ofBatch(batch int) []temporary {
	var out []temporary
	for _, t := range f.temps {
		if t.id == f.current() && t.batch == batch {
			out = append(out, t)
		}
	}
	return out
}

// priority of the temporary policies: above the policy, the one before, and what others roll out below it. It stays what it
// was while one of them is there.
func (f *facts) priority() int {
	above := f.want.Priority
	if f.stored != nil {
		above = max(above, f.stored.Priority)
	}
	if f.state != nil && f.state.Before != nil {
		above = max(above, int(f.state.Before.Priority))
	}
	for _, t := range f.temps {
		if t.id != f.current() {
			above = max(above, t.policy.Priority)
		}
	}
	above = f.noTie(above)
	lowest := 0
	for _, t := range f.temps {
		if t.id == f.current() && t.policy.Priority > above && (lowest == 0 || t.policy.Priority < lowest) {
			lowest = t.policy.Priority
		}
	}
	if lowest > 0 {
		return lowest
	}
	return above + 1
}

// noTie steps over temporary policies of somebody else: between equals the broker's choice follows no rule.
func (f *facts) noTie(above int) int {
	for _, p := range f.Vhost.Policies {
		if p.Priority == above+1 && ofSomeRollout(p) && !f.isTemporary(p.Name) {
			return f.noTie(above + 1)
		}
	}
	return above
}

func (f *facts) queue(name string) *broker.Queue {
	at, found := slices.BinarySearchFunc(f.Vhost.Queues, name, func(q broker.Queue, name string) int { return strings.Compare(q.Name, name) })
	if !found {
		return nil
	}
	return &f.Vhost.Queues[at]
}

// live are the queues of those names that exist.
func (f *facts) live(names []string) []broker.Queue {
	var out []broker.Queue
	for _, name := range names {
		if q := f.queue(name); q != nil {
			out = append(out, *q)
		}
	}
	return out
}

func encode(definition map[string]any) []byte {
	text, err := json.Marshal(definition)
	if err != nil {
		return []byte("{}") // a definition that was read from JSON goes back into it
	}
	return text
}

// examples names some queues.
func examples(names []string) string {
	const most = 3
	quoted := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// many things, or one.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func manyBatches(n int) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}
