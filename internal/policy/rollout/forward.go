package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// begins tells whether what is wanted is not what the recorded steps are about.
func (f *facts) begins() bool {
	return f.state == nil || f.state.ID != f.id ||
		f.state.Phase == v1alpha1.RolloutRollingBack || f.state.Phase == v1alpha1.RolloutRolledBack
}

// begin records the first step of what is wanted, or does at once what needs no steps.
func (f *facts) begin() Decision {
	if f.spec == nil {
		return f.beginAtOnce()
	}
	if f.complete() {
		f.state = f.beginning()
		return f.finished()
	}
	if refused := f.cannotStage(); refused != nil {
		return *refused
	}
	f.state = f.beginning()
	if len(f.Earlier) > 0 {
		return f.waiting()
	}
	return f.firstStep()
}

// beginAtOnce is for a policy without stages: one write, or two when overflow has to come before a limit.
func (f *facts) beginAtOnce() Decision {
	writes, bounded := f.lastWrites()
	open := f.needFirst(bounded)
	switch {
	case len(f.temps) > 0:
		f.state = f.beginning()
		return f.record(v1alpha1.RolloutFinal, 0, "the policy goes to all queues at once: there is no spec.rollout any more")
	case len(open) > 0:
		f.state = f.beginning()
		return f.record(v1alpha1.RolloutOverflow, 0, "a limit is to follow: "+examples(open))
	case len(writes) > 0:
		return f.decide(Decision{Actions: writes, LookAgain: soon})
	}
	return f.decide(Decision{Written: true})
}

// beginning is the state in which nothing is written yet.
func (f *facts) beginning() *v1alpha1.RolloutStatus {
	next := &v1alpha1.RolloutStatus{ID: f.id, Phase: v1alpha1.RolloutWaiting, Since: stamp(f.Now), Before: recordBefore(f.stored)}
	old := f.state
	for _, t := range f.temps {
		if t.id != f.id && !slices.Contains(next.FormerIDs, t.id) {
			next.FormerIDs = append(next.FormerIDs, t.id)
		}
	}
	if old == nil {
		return next
	}
	// What is on its way to the broker may be missing in what was read.
	if unfinished(old.Phase) && old.ID != f.id && !slices.Contains(next.FormerIDs, old.ID) {
		next.FormerIDs = append(next.FormerIDs, old.ID)
	}
	// A policy that is half way to its limits is nothing to go back to, and neither is what a rollback was leaving.
	if unfinished(old.Phase) && (old.ID == f.id || old.Phase == v1alpha1.RolloutOverflow && old.Batch == 0) {
		next.Before = old.Before
	}
	next.RollBackSpent = f.spec != nil && f.spec.RollBack
	return next
}

func unfinished(phase v1alpha1.RolloutPhase) bool {
	return phase != v1alpha1.RolloutDone && phase != v1alpha1.RolloutRolledBack
}

// cannotStage refuses what only the broker could stage.
func (f *facts) cannotStage() *Decision {
	if len(f.unknown) == 0 {
		return nil
	}
	slices.Sort(f.unknown)
	d := f.wait(v1alpha1.ReasonCannotStage, fmt.Sprintf("whether the pattern matches %s only the broker can tell, so batches cannot be made (%s): "+
		"write the pattern without what differs between regular expression engines, or remove spec.rollout to change all queues at once", many(len(f.unknown), "queue"), examples(f.unknown)), 0)
	return &d
}

func (f *facts) waiting() Decision {
	if len(f.Earlier) > 0 {
		f.state.Phase = v1alpha1.RolloutWaiting
		return f.wait(v1alpha1.ReasonWaitingForWave, "policies of earlier waves are not done: "+strings.Join(slices.Sorted(slices.Values(f.Earlier)), ", "), waveInterval)
	}
	if refused := f.cannotStage(); refused != nil {
		return *refused
	}
	return f.firstStep()
}

// firstStep records the first batch, or the final policy when no queue would change.
func (f *facts) firstStep() Decision {
	f.state.Batches = int32(f.lastBatch())
	return f.nextBatch()
}

// nextBatch records the next batch, or the final policy when no queue is left.
func (f *facts) nextBatch() Decision {
	left := f.uncovered()
	if len(left) == 0 {
		return f.record(v1alpha1.RolloutFinal, 0, "every queue is in a batch: the policy itself is next")
	}
	size, most := f.limits()
	if f.replicates() {
		size = min(size, most)
	}
	number := f.lastBatch() + 1
	f.state.Batches = int32(number - 1 + (len(left)+size-1)/size)
	return f.record(v1alpha1.RolloutBatches, number, fmt.Sprintf("batch %d is next", number))
}

// batch carries out a batch: names are chosen, overflow comes before limits, all gates hold, and so for some time.
func (f *facts) batch() Decision {
	if refused := f.cannotStage(); refused != nil {
		return *refused
	}
	number := int(f.state.Batch)
	temps := f.ofBatch(number)
	if repairs := f.repairs(); len(repairs) > 0 {
		return f.actAnew(repairs, "somebody changed a temporary policy")
	}
	if len(temps) == 0 {
		return f.writeBatch(number)
	}
	if raised := f.raise(); raised != nil {
		return *raised
	}
	gate := f.health()
	for _, t := range f.temps {
		if gate.open() && t.id == f.id {
			gate = f.inForce(t.policy, f.live(t.names))
		}
	}
	if !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	if soaking := f.well(fmt.Sprintf("batch %d", number)); soaking != nil {
		return *soaking
	}
	return f.afterBatch()
}

// afterBatch: queues that came during the last batch, and are fewer than a batch, get the policy itself; else new ones that
// come and go would keep a rollout from its end.
func (f *facts) afterBatch() Decision {
	size, _ := f.limits()
	free, _ := f.budget()
	if left := f.uncovered(); len(left) > 0 && len(left) <= min(size, free) && f.state.Batch >= f.state.Batches {
		return f.record(v1alpha1.RolloutFinal, 0, "the last "+many(len(left), "queue")+" get the policy itself")
	}
	return f.nextBatch()
}

// writeBatch chooses the names of a batch that the broker does not have yet, and writes it.
func (f *facts) writeBatch(number int) Decision {
	left := f.uncovered()
	if len(left) == 0 {
		return f.nextBatch()
	}
	if gate := f.health(); !gate.open() {
		return f.wait(gate.reason, gate.message, again)
	}
	size, most := f.limits()
	free, busy := f.budget()
	if f.replicates() {
		size = min(size, free)
	} else if busy > most {
		size = 0
	}
	if size == 0 {
		return f.wait(v1alpha1.ReasonSynchronising, fmt.Sprintf("batch %d waits: of the vhost's queues %d synchronise, or may do, and maxUnsynchronised is %d", number, busy, most), again)
	}
	names := left[:min(size, len(left))]
	content := f.want
	first, limited := inSteps(f.want)
	if limited && len(f.needFirst(f.live(names))) > 0 {
		if f.state.Phase != v1alpha1.RolloutOverflow {
			return f.record(v1alpha1.RolloutOverflow, number, fmt.Sprintf("batch %d gets its overflow before its limits", number))
		}
		content = first
	}
	return f.actAnew(f.temporaries(number, names, content, f.priority()), fmt.Sprintf("batch %d of %s is written", number, many(len(names), "queue")))
}

// replicates tells whether the policy may make queues copy messages.
func (f *facts) replicates() bool {
	_, mirrors := f.want.Definition["ha-mode"]
	return mirrors || f.Object.Spec.Replication.Mode == v1alpha1.ReplicationQuorum
}

// temporaries are the writes of a batch.
func (f *facts) temporaries(number int, names []string, content broker.Policy, priority int) []policy.Action {
	var out []policy.Action
	for i, pattern := range policy.ExactPatterns(names) {
		p := content
		p.Name, p.Pattern, p.Priority = temporaryName(f.want.Name, f.current(), number, i+1), pattern, priority
		out = append(out, policy.Action{
			Verb: policy.PutPolicy, Policy: p, Absent: policy.Find(f.Vhost.Policies, p.Name) == nil,
			Why: fmt.Sprintf("batch %d/%d", number, f.state.Batches),
		})
	}
	return out
}

// raise brings batches from their overflow to their limits; nil when there is none.
func (f *facts) raise() *Decision {
	var queues []broker.Queue
	var writes []policy.Action
	for _, t := range f.temps {
		if t.id != f.id || broker.EqualDefinitions(t.policy.Definition, f.want.Definition) {
			continue
		}
		queues = append(queues, f.live(t.names)...)
		p := t.policy
		p.Definition = f.want.Definition
		writes = append(writes, policy.Action{Verb: policy.PutPolicy, Policy: p, Why: fmt.Sprintf("batch %d/%d: overflow is in force, the limits follow", t.batch, f.state.Batches)})
	}
	inOverflow := f.state.Phase == v1alpha1.RolloutOverflow
	if len(writes) == 0 && !inOverflow {
		return nil
	}
	var d Decision
	if len(writes) > 0 {
		if gate := f.health(); f.spec != nil && !gate.open() {
			d = f.wait(gate.reason, gate.message, again)
			return &d
		}
		if wait := f.protect(f.unready(queues)); wait != nil {
			return wait
		}
	}
	if !inOverflow {
		d = f.act(writes, "overflow is in force, the limits follow")
		return &d
	}
	d = f.record(v1alpha1.RolloutBatches, int(f.state.Batch), fmt.Sprintf("batch %d: overflow is in force", f.state.Batch))
	d.State.ProtectedSince, d.State.Backlog = f.state.ProtectedSince, f.state.Backlog
	return &d
}

// repairs bring back temporary policies that somebody changed. One whose names are lost is removed: its queues join a batch
// again.
func (f *facts) repairs() []policy.Action {
	first, limited := inSteps(f.want)
	priority := f.priority()
	var out []policy.Action
	for _, t := range f.temps {
		if t.id != f.id {
			continue
		}
		if t.names == nil {
			out = append(out, policy.Action{Verb: policy.DeletePolicy, Policy: t.policy, Why: "somebody changed its pattern", Drift: true})
			continue
		}
		p := t.policy
		p.ApplyTo, p.Priority = f.want.ApplyTo, priority
		isFirst := limited && broker.EqualDefinitions(p.Definition, first.Definition)
		if !broker.EqualDefinitions(p.Definition, f.want.Definition) && !isFirst {
			p.Definition = f.want.Definition
			if limited && len(f.needFirst(f.live(t.names))) > 0 {
				p.Definition = first.Definition
			}
		}
		if !policy.Same(p, &t.policy) {
			out = append(out, policy.Action{Verb: policy.PutPolicy, Policy: p, Why: "somebody changed a temporary policy", Drift: true})
		}
	}
	return out
}
