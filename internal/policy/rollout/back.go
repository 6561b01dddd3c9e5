package rollout

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// rollsBack tells whether the recorded rollout is to be taken back. What was rolled back stays so until the spec changes or
// rollBack is false.
func (f *facts) rollsBack() bool {
	if f.spec == nil || !f.spec.RollBack || f.state == nil {
		return f.spec != nil && f.spec.RollBack && f.state == nil
	}
	return !f.state.RollBackSpent && !(f.state.Phase == v1alpha1.RolloutRolledBack && f.state.ID != f.id)
}

// back takes a rollout back. While the policy itself is the new one, every queue gets a temporary policy that says the same;
// then the policy becomes what it was before, and the temporary policies go, the last batch first.
func (f *facts) back() Decision {
	if f.state == nil {
		return f.decide(Decision{Reason: v1alpha1.ReasonRollingBack, Message: "no rollout is recorded that could be taken back: set spec.rollout.rollBack to false to begin one"})
	}
	before, err := f.before()
	if err != nil {
		return f.wait(v1alpha1.ReasonCannotStage, err.Error(), 0)
	}
	switch f.state.Phase {
	case v1alpha1.RolloutRolledBack:
		return f.rolledBack(before)
	case v1alpha1.RolloutRollingBack:
	default:
		return f.record(v1alpha1.RolloutRollingBack, 0, "the rollout is taken back")
	}
	if gate := f.health(); !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	if f.state.Batch == 0 {
		if d := f.restore(before); d != nil {
			return *d
		}
		return f.nextRelease()
	}
	if write := f.beforeWrite(before); write != nil {
		write.Drift = true
		return f.act([]policy.Action{*write}, "somebody changed the policy")
	}
	return f.release(before)
}

// beforeWrite is the write that makes the policy what it was before, or nil.
func (f *facts) beforeWrite(before *broker.Policy) *policy.Action {
	switch {
	case before == nil && f.stored == nil:
		return nil
	case before == nil:
		return &policy.Action{Verb: policy.DeletePolicy, Policy: *f.stored, Why: "rolled back: there was no such policy before"}
	case policy.Same(*before, f.stored):
		return nil
	}
	return &policy.Action{Verb: policy.PutPolicy, Policy: *before, Why: "rolled back to the policy of before", Absent: f.stored == nil}
}

// restore makes the policy what it was before; first every queue that has it gets a temporary policy of the same content, so
// that no queue changes yet. nil means that it is done.
func (f *facts) restore(before *broker.Policy) *Decision {
	write := f.beforeWrite(before)
	if write == nil {
		return nil
	}
	var d Decision
	if f.stored != nil && (before == nil || !broker.EqualDefinitions(before.Definition, f.stored.Definition)) {
		names, pending := f.bare()
		switch {
		case len(names) > 0:
			number := f.lastBatch() + 1
			content := *f.stored
			d = f.act(f.temporaries(number, names, content, f.priority()), many(len(names), "queue")+" keep what they have until their batch is taken back")
			return &d
		case len(pending) > 0:
			d = f.wait(v1alpha1.ReasonNotYetApplied, "the broker has not applied the temporary policies yet: "+examples(pending), again)
			return &d
		}
	}
	d = f.act([]policy.Action{*write}, write.Why)
	return &d
}

// bare are queues on which the policy itself is in force and that no temporary policy names, at most a batch of them;
// pending are those that a temporary policy names and that do not show it yet.
func (f *facts) bare() (names, pending []string) {
	size, _ := f.limits()
	matcher := policy.NewMatcher(f.stored.Pattern)
	for i := range f.Vhost.Queues {
		q := &f.Vhost.Queues[i]
		_, named := f.named[q.Name]
		matches, known := matcher.Match(q.Name)
		switch {
		case known && !matches:
		case q.Policy == nil:
			pending = append(pending, q.Name)
		case *q.Policy != f.want.Name, q.Exclusive, !policy.Nameable(q.Name):
		case named:
			pending = append(pending, q.Name)
		case len(names) < size:
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return names, pending
}

// groups are the batches whose temporary policies are there, in the order in which they were made: the last goes first.
func (f *facts) groups() [][]temporary {
	var out [][]temporary
	for _, t := range f.temps {
		if n := len(out); n > 0 && out[n-1][0].id == t.id && out[n-1][0].batch == t.batch {
			out[n-1] = append(out[n-1], t)
			continue
		}
		out = append(out, []temporary{t})
	}
	return out
}

// nextRelease records which batch goes next: as many as there are, and with it gone one less.
func (f *facts) nextRelease() Decision {
	left := len(f.groups())
	if left == 0 {
		d := f.record(v1alpha1.RolloutRolledBack, 0, "")
		d.Reason, d.Message, d.LookAgain = v1alpha1.ReasonRolledBack, rolledBackMessage, 0
		return d
	}
	return f.record(v1alpha1.RolloutRollingBack, left, "left to take back: "+manyBatches(left))
}

const rolledBackMessage = "rolled back: the queues have what was in force before; change the spec or set spec.rollout.rollBack to false to roll out again"

// release takes the last batch away, and waits until its queues are well with what they had before.
func (f *facts) release(before *broker.Policy) Decision {
	groups := f.groups()
	if hidden := f.hidden(groups); hidden != nil {
		return f.act(hidden, "temporary policies of an earlier edit, in force nowhere, are removed")
	}
	if gate := f.settledBack(); !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	if len(groups) >= int(f.state.Batch) {
		return f.takeAway(groups[len(groups)-1], before)
	}
	if soaking := f.well("what was taken back"); soaking != nil {
		return *soaking
	}
	return f.nextRelease()
}

// hidden are temporary policies of former IDs whose every queue the present ID names too.
func (f *facts) hidden(groups [][]temporary) []policy.Action {
	for _, group := range groups {
		var out []policy.Action
		for _, t := range group {
			bare := slices.ContainsFunc(f.live(t.names), func(q broker.Queue) bool { _, named := f.named[q.Name]; return !named })
			if t.id != f.current() && !bare && t.names != nil {
				out = append(out, policy.Action{Verb: policy.DeletePolicy, Policy: t.policy, Why: "it is in force nowhere"})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// takeAway releases the queues of one temporary policy, as many as may synchronise.
func (f *facts) takeAway(group []temporary, before *broker.Policy) Decision {
	t := group[len(group)-1]
	queues := f.live(t.names)
	if len(queues) == 0 {
		return f.act([]policy.Action{{Verb: policy.DeletePolicy, Policy: t.policy, Why: "its queues are gone"}}, "rolling back")
	}
	if d := f.protectBack(t, queues, before); d != nil {
		return *d
	}
	free, busy := f.budget()
	if free == 0 {
		_, most := f.limits()
		return f.wait(v1alpha1.ReasonSynchronising, fmt.Sprintf("of the vhost's queues %d synchronise, or may do, and maxUnsynchronised is %d", busy, most), again)
	}
	if free >= len(queues) {
		return f.act([]policy.Action{{Verb: policy.DeletePolicy, Policy: t.policy, Why: fmt.Sprintf("batch %d is taken back", t.batch)}}, "rolling back")
	}
	var rest []string
	for _, q := range queues[:len(queues)-free] {
		rest = append(rest, q.Name)
	}
	p := t.policy
	p.Pattern = policy.ExactPatterns(rest)[0]
	return f.act([]policy.Action{{Verb: policy.PutPolicy, Policy: p, Why: fmt.Sprintf("%s of batch %d are taken back", many(free, "queue"), t.batch)}}, "rolling back")
}

// protectBack: when limits come back into force on a classic queue, what happens at them comes first. nil means go on.
func (f *facts) protectBack(t temporary, queues []broker.Queue, before *broker.Policy) *Decision {
	var limited []broker.Queue
	for _, q := range queues {
		if under := f.underneath(q, before); under != nil {
			if _, limits := policy.BeforeLimits(*under); limits {
				limited = append(limited, q)
			}
		}
	}
	if len(limited) == 0 {
		return nil
	}
	open := f.unprotected(limited)
	if len(open) > 0 && !refusesAtLimit(t.policy.Definition) {
		p := t.policy
		p.Definition = withOverflow(p.Definition)
		first, _ := policy.BeforeLimits(p)
		d := f.actAnew([]policy.Action{{Verb: policy.PutPolicy, Policy: first, Why: "limits come back: overflow comes before them"}}, "overflow comes before the limits of before")
		return &d
	}
	return f.protect(open)
}

func withOverflow(definition map[string]any) map[string]any {
	out := broker.NormalizeDefinition(definition)
	out["overflow"] = "reject-publish"
	return out
}

// underneath is what will be in force on q when nothing of the rollout is, as far as that can be known.
func (f *facts) underneath(q broker.Queue, before *broker.Policy) *broker.Policy {
	var best *broker.Policy
	consider := func(p broker.Policy) {
		matches, known := policy.NewMatcher(p.Pattern).Match(q.Name)
		if known && matches && policy.AppliesTo(p, q, f.Vhost.Capabilities) && (best == nil || p.Priority > best.Priority) {
			best = &p
		}
	}
	if before != nil {
		consider(*before)
	}
	for _, p := range f.Vhost.Policies {
		if p.Name != f.want.Name && !f.isTemporary(p.Name) {
			consider(p)
		}
	}
	return best
}

// settledBack is the gate on queues that a temporary policy named and names no more: they show another policy, and their
// replicas are in step.
func (f *facts) settledBack() fault {
	var late, behind []string
	for _, q := range f.reach {
		if _, named := f.named[q.Name]; named {
			continue
		}
		switch {
		case q.Policy == nil, q.EffectiveDefinition == nil, *q.Policy != "" && f.byName[*q.Policy] == nil:
			late = append(late, q.Name)
		case f.unsynchronised(q):
			behind = append(behind, q.Name)
		}
	}
	switch {
	case len(late) > 0:
		return fault{v1alpha1.ReasonNotYetApplied, many(len(late), "queue") + " do not show yet what was in force before: " + examples(late)}
	case len(behind) > 0:
		return fault{v1alpha1.ReasonSynchronising, "a mirror or member without all messages: " + many(len(behind), "queue") + ": " + examples(behind)}
	}
	return fault{}
}

// rolledBack keeps what was in force before.
func (f *facts) rolledBack(before *broker.Policy) Decision {
	if len(f.temps) > 0 {
		return f.record(v1alpha1.RolloutRollingBack, 0, "temporary policies came back")
	}
	d := f.decide(Decision{State: f.state.DeepCopy(), Reason: v1alpha1.ReasonRolledBack, Message: rolledBackMessage})
	d.State.WaitsFor = ""
	if before == nil {
		return d // a policy of this name that is there now is somebody else's
	}
	if write := f.beforeWrite(before); write != nil {
		write.Drift = true
		d.Actions, d.LookAgain = []policy.Action{*write}, soon
	}
	return d
}
