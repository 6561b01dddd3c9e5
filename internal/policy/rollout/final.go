package rollout

import (
	"fmt"
	"strconv"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// lastWrites are the writes that make the broker's policy, and operator policy, what is wanted. bounded are the queues that
// limits among them may reach.
func (f *facts) lastWrites() (writes []policy.Action, bounded []broker.Queue) {
	if f.idle() {
		return nil, nil
	}
	_, limited := inSteps(f.want)
	risky := false
	if !f.wanted() && f.stored != nil {
		writes = append(writes, policy.Action{Verb: policy.DeletePolicy, Policy: *f.stored, Why: "only the operator policy is left of it"})
	}
	if f.wanted() && !policy.Same(f.want, f.stored) {
		writes = append(writes, f.put(policy.PutPolicy, f.want, f.stored))
		risky = limited
	}
	operator := f.Rendered.Operator
	switch {
	case operator == nil && f.operator != nil && f.OwnsOperator:
		writes = append(writes, policy.Action{Verb: policy.DeleteOperatorPolicy, Policy: *f.operator, Why: "there are no hard limits any more"})
	case operator != nil && !policy.Same(*operator, f.operator):
		writes = append(writes, f.put(policy.PutOperatorPolicy, *operator, f.operator))
		_, bounds := policy.BeforeLimits(broker.Policy{Definition: withOverflow(operator.Definition)})
		risky = risky || bounds && (refusesAtLimit(f.want.Definition) || refusesAtLimit(operator.Definition))
	}
	if risky {
		bounded = f.bounded()
	}
	return writes, bounded
}

func (f *facts) put(verb policy.ActionVerb, want broker.Policy, have *broker.Policy) policy.Action {
	change := policy.Plan(&want, have, true, f.Settled)
	return policy.Action{Verb: verb, Policy: want, Why: change.Why, Drift: change.Drift, Absent: change.Absent}
}

// bounded are the queues that limits among the last writes may reach.
func (f *facts) bounded() []broker.Queue {
	var out []broker.Queue
	for _, q := range f.reach {
		out = append(out, *q)
	}
	out = append(out, f.live(f.unknown)...)
	return out
}

// firstWrites are lastWrites without the limits.
func (f *facts) firstWrites() []policy.Action {
	var out []policy.Action
	if first, ok := inSteps(f.want); f.wanted() && !policy.Same(f.want, f.stored) {
		if !ok {
			first = f.want
		}
		if !policy.Same(first, f.stored) {
			out = append(out, f.put(policy.PutPolicy, first, f.stored))
		}
	}
	if operator := f.Rendered.Operator; operator != nil && !policy.Same(*operator, f.operator) {
		if first, ok := policy.BeforeLimits(*operator); ok && !policy.Same(first, f.operator) {
			out = append(out, f.put(policy.PutOperatorPolicy, first, f.operator))
		}
	}
	for i := range out {
		out[i].Why += "; overflow comes before the limits"
	}
	return out
}

// overflow carries out the step before the final policy: the same without its limits.
func (f *facts) overflow() Decision {
	if f.spec != nil {
		if gate := f.health(); !gate.open() {
			return f.wait(gate.reason, gate.message, again)
		}
	}
	writes, bounded := f.lastWrites()
	if len(writes) == 0 {
		return f.record(v1alpha1.RolloutFinal, 0, "the broker has the policy")
	}
	if first := f.firstWrites(); len(first) > 0 {
		return f.actAnew(first, "overflow is written, the limits follow")
	}
	if wait := f.protect(f.unready(bounded)); wait != nil {
		return *wait
	}
	d := f.record(v1alpha1.RolloutFinal, 0, "overflow is in force: the limits follow")
	d.State.ProtectedSince = f.state.ProtectedSince
	return d
}

// finish writes the policy itself and waits until it is in force.
func (f *facts) finish() Decision {
	if repairs := f.repairs(); len(repairs) > 0 {
		return f.actAnew(repairs, "somebody changed a temporary policy")
	}
	if raised := f.raise(); raised != nil {
		return *raised
	}
	if f.spec != nil {
		if gate := f.health(); !gate.open() {
			return f.wait(gate.reason, gate.message, again)
		}
	}
	writes, bounded := f.lastWrites()
	switch open := f.needFirst(bounded); {
	case len(open) > 0 && !f.protected(bounded):
		return f.record(v1alpha1.RolloutOverflow, 0, "a limit is to follow: "+examples(open))
	case len(writes) > 0:
		return f.act(writes, "the policy itself is written")
	case len(f.temps) > 0:
		return f.record(v1alpha1.RolloutCleanup, 0, "the temporary policies are removed")
	}
	if gate := f.released(); f.spec != nil && !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	return f.finished()
}

// released is the gate on the queues that no temporary policy names.
func (f *facts) released() fault {
	if !f.wanted() {
		return fault{}
	}
	named := map[string]bool{}
	for _, t := range f.temps {
		for _, name := range t.names {
			named[name] = true
		}
	}
	var queues []broker.Queue
	for _, q := range f.reach {
		if !named[q.Name] {
			queues = append(queues, *q)
		}
	}
	return f.inForce(f.want, queues)
}

// cleanup removes the temporary policies, one batch at a time: the policy itself takes their place.
func (f *facts) cleanup() Decision {
	writes, _ := f.lastWrites()
	switch gate := f.released(); {
	case len(writes) > 0:
		return f.record(v1alpha1.RolloutFinal, 0, "somebody changed the policy: it is written again first")
	case len(f.temps) == 0 && f.spec == nil:
		return f.finished()
	case !gate.open():
		return f.wait(gate.reason, gate.message, again)
	case len(f.temps) == 0:
		return f.finished()
	}
	if gate := f.health(); f.spec != nil && !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	one := f.temps[0]
	var out []policy.Action
	for _, t := range f.temps {
		if t.id == one.id && t.batch == one.batch {
			out = append(out, policy.Action{Verb: policy.DeletePolicy, Policy: t.policy, Why: fmt.Sprintf("batch %d has the policy itself", t.batch)})
		}
	}
	return f.act(out, "temporary policies left to remove: "+strconv.Itoa(len(f.temps)))
}

// finished is the end: nothing of the rollout is left.
func (f *facts) finished() Decision {
	if f.spec == nil {
		return f.decide(Decision{Written: true})
	}
	d := f.record(v1alpha1.RolloutDone, 0, "")
	d.State.Done, d.State.Total, d.State.ObservedGeneration = int32(len(f.reach)), int32(len(f.reach)), f.Object.Generation
	d.Reason, d.LookAgain, d.Written = "", 0, true
	return d
}

// done keeps the policy as it is: what differs is somebody else's work.
func (f *facts) done() Decision {
	if len(f.temps) > 0 {
		return f.record(v1alpha1.RolloutCleanup, 0, "temporary policies came back")
	}
	if f.spec == nil {
		return f.beginAtOnce()
	}
	writes, bounded := f.lastWrites()
	switch open := f.needFirst(bounded); {
	case len(open) > 0:
		return f.record(v1alpha1.RolloutOverflow, 0, "a limit is to follow: "+examples(open))
	case len(writes) > 0:
		d := f.act(writes, "")
		d.Reason = ""
		return d
	}
	return f.decide(Decision{State: f.state.DeepCopy(), Written: true})
}

// Removals is everything of a QueuePolicy that is to leave the broker, the policy itself first: removing what stands above it
// first would show the policy of before for a moment. keep leaves the policy itself, but nothing temporary.
func Removals(in Input, keep bool) []policy.Action {
	f := &facts{Input: in, spec: in.Object.Spec.Rollout, state: in.State, want: in.Rendered.Policy}
	f.want.VHost, f.want.Name = in.Object.Spec.VHost, in.Object.BrokerPolicyName()
	f.id = ID(f.want)
	var out []policy.Action
	if stored := policy.Find(in.Vhost.Policies, f.want.Name); stored != nil && !keep {
		out = append(out, policy.Action{Verb: policy.DeletePolicy, Policy: *stored, Why: "the QueuePolicy is being deleted"})
	}
	if operator := policy.Find(in.Vhost.OperatorPolicies, f.want.Name); operator != nil && !keep && in.OwnsOperator {
		out = append(out, policy.Action{Verb: policy.DeleteOperatorPolicy, Policy: *operator, Why: "the QueuePolicy is being deleted"})
	}
	for _, t := range ownTemporaries(f.want.Name, f.id, f.known(), in.Vhost.Policies) {
		out = append(out, policy.Action{Verb: policy.DeletePolicy, Policy: t.policy, Why: "the QueuePolicy is being deleted"})
	}
	return out
}
