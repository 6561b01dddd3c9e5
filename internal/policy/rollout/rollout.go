// Package rollout decides every write of a QueuePolicy's policies to one broker: in which stages a policy reaches its
// queues, what must be in force before the next write, and how all of it goes back. It is pure. A pass either records the
// next step or carries out the recorded one; every step may be carried out again, so a crash at any point repeats it.
package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

const (
	// settle is how long queues must have said that they refuse publishers before a limit follows: what they say of
	// themselves is some seconds late, and may be what they said before somebody else's change.
	settle = 5 * time.Second
	// soon is when the next pass is after one that recorded or wrote something.
	soon = time.Second
	// again is how often what is waited for is looked at.
	again = 3 * time.Second
	// waveInterval is how often an earlier wave is looked at.
	waveInterval = 15 * time.Second
	// longest time between two looks at the gates of a batch that soaks.
	soakInterval = 30 * time.Second
	// What a backlog may grow by before it counts as growing: a tenth, and so many messages.
	backlogShare, backlogNoise = 10, 1000
)

// Input is all that a decision depends on.
type Input struct {
	// Object whose ownership of the policy is recorded.
	Object   *v1alpha1.QueuePolicy
	Rendered policy.Rendered
	// Vhost as it is after the writes of all earlier passes.
	Vhost *policy.Vhost
	// State that is recorded for this cluster; nil for none.
	State *v1alpha1.RolloutStatus
	// Settled: an earlier pass saw the broker have what this spec wants, so that a difference now is drift.
	Settled bool
	// OwnsOperator: the operator policy of this name is this object's to change and remove.
	OwnsOperator bool
	// Earlier are the QueuePolicies of lower waves on this cluster that are not done.
	Earlier []string
	Now     time.Time
}

// Decision is what to do in this pass.
type Decision struct {
	// Actions to carry out in order. With any, State differs from the recorded one in nothing that decides.
	Actions []policy.Action
	// State to record; nil when nothing is staged about the policy.
	State *v1alpha1.RolloutStatus
	// Reason and Message for a condition say what is waited for, "" and "" for nothing.
	Reason, Message string
	// LookAgain: when; 0 is at the next poll.
	LookAgain time.Duration
	// Written: the broker has the policy, whole, and nothing of a rollout is left.
	Written bool
	// LeftOut are matching queues on which a policy of higher or the same priority is in force, whatever is written.
	LeftOut []string
}

// NeedsCounts tells whether Next needs the queues' message counts.
func NeedsCounts(p *v1alpha1.QueuePolicy, state *v1alpha1.RolloutStatus) bool {
	return p.Spec.Rollout != nil && slices.Contains(p.Spec.Rollout.PauseOn, v1alpha1.PauseOnBacklogGrowth) &&
		(state == nil || state.Phase != v1alpha1.RolloutDone && state.Phase != v1alpha1.RolloutRolledBack)
}

// NeedsTaken tells whether Next needs what the queues' processes have taken of policies: limits are on their way.
func NeedsTaken(want policy.Rendered, state *v1alpha1.RolloutStatus) bool {
	if state == nil || !unfinished(state.Phase) || state.Phase == v1alpha1.RolloutWaiting {
		return false
	}
	if state.Phase == v1alpha1.RolloutRollingBack {
		return true // limits may come back
	}
	_, limited := policy.BeforeLimits(want.Policy)
	if want.Operator != nil {
		_, bounds := policy.BeforeLimits(broker.Policy{Definition: withOverflow(want.Operator.Definition)})
		limited = limited || bounds
	}
	return limited
}

// Next decides.
func Next(in Input) Decision {
	f := look(in)
	d := f.next()
	if len(d.Actions) == 0 && !in.Object.Spec.Paused && sameStep(d.State, in.State) {
		if d.Actions = f.grow(); len(d.Actions) > 0 {
			d.LookAgain = again
		}
	}
	return d
}

func sameStep(a, b *v1alpha1.RolloutStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.Phase == b.Phase && a.Batch == b.Batch
}

func (f *facts) next() Decision {
	switch {
	case f.Object.Spec.Paused:
		return f.paused()
	case f.rollsBack():
		return f.back()
	case f.begins():
		return f.begin()
	case f.spec == nil && (f.state.Phase == v1alpha1.RolloutWaiting || f.state.Phase == v1alpha1.RolloutBatches || f.state.Batch > 0):
		return f.record(v1alpha1.RolloutFinal, 0, "the rest goes at once: spec.rollout is gone")
	}
	switch f.state.Phase {
	case v1alpha1.RolloutWaiting:
		return f.waiting()
	case v1alpha1.RolloutBatches:
		return f.batch()
	case v1alpha1.RolloutOverflow:
		if f.state.Batch > 0 {
			return f.batch()
		}
		return f.overflow()
	case v1alpha1.RolloutFinal:
		return f.finish()
	case v1alpha1.RolloutCleanup:
		return f.cleanup()
	}
	return f.done()
}

// record answers a decision that only records the next step.
func (f *facts) record(phase v1alpha1.RolloutPhase, batch int, why string) Decision {
	next := f.fresh()
	next.Phase, next.Batch = phase, int32(batch)
	next.Since = stamp(f.Now)
	next.Backlog = f.backlog()
	if phase == v1alpha1.RolloutBatches || phase == v1alpha1.RolloutOverflow {
		next.Batches = max(next.Batches, int32(batch))
	}
	if phase == v1alpha1.RolloutDone || phase == v1alpha1.RolloutRolledBack {
		next.FormerIDs, next.Backlog = nil, nil
	}
	return f.decide(Decision{State: next, Reason: v1alpha1.ReasonRollingOut, Message: why, LookAgain: soon})
}

// fresh is the recorded state without what belongs to one step.
func (f *facts) fresh() *v1alpha1.RolloutStatus {
	next := f.state.DeepCopy()
	if next == nil {
		next = &v1alpha1.RolloutStatus{ID: f.id}
	}
	next.WellSince, next.ProtectedSince, next.Backlog, next.WaitsFor = nil, nil, nil, ""
	return next
}

// act answers a decision that carries out the recorded step.
func (f *facts) act(actions []policy.Action, why string) Decision {
	return f.decide(Decision{Actions: actions, State: f.state.DeepCopy(), Reason: v1alpha1.ReasonRollingOut, Message: why, LookAgain: soon})
}

// wait answers a decision to look again later; the batch is not well meanwhile.
func (f *facts) wait(reason, why string, when time.Duration) Decision {
	next := f.state.DeepCopy()
	if next != nil {
		next.WellSince = nil
	}
	return f.decide(Decision{State: next, Reason: reason, Message: why, LookAgain: when})
}

// decide completes a decision with what every status says.
func (f *facts) decide(d Decision) Decision {
	d.LeftOut = f.masked
	if d.State == nil {
		return d
	}
	if f.spec == nil || !f.spec.RollBack {
		d.State.RollBackSpent = false
	}
	d.State.WaitsFor = short(d.Message)
	if d.State.Phase != v1alpha1.RolloutDone || d.Written {
		d.State.ObservedGeneration = f.Object.Generation
	}
	if d.State.Phase == v1alpha1.RolloutRollingBack && d.Reason == v1alpha1.ReasonRollingOut {
		d.Reason = v1alpha1.ReasonRollingBack
	}
	if d.State.Phase != v1alpha1.RolloutDone && d.State.Phase != v1alpha1.RolloutRolledBack {
		d.State.Done, d.State.Total = int32(f.haveIt()), int32(len(f.reach))
	}
	return d
}

func (f *facts) paused() Decision {
	why := "spec.paused: nothing is written"
	d := f.wait(v1alpha1.ReasonPaused, why, 0)
	if d.State != nil && (d.State.Phase == v1alpha1.RolloutDone || d.State.Phase == v1alpha1.RolloutRolledBack) {
		d.State.WaitsFor = ""
	}
	d.Written = f.complete()
	if d.Written && d.State != nil && d.State.Phase == v1alpha1.RolloutDone {
		d.State.ObservedGeneration = f.Object.Generation
	}
	return d
}

// Warning says which queues stay out of a rollout that is on its way; "" for none.
func (d Decision) Warning() string {
	if len(d.LeftOut) == 0 || d.State == nil || !unfinished(d.State.Phase) {
		return ""
	}
	return "a policy of the same or higher priority keeps the rollout from " + many(len(d.LeftOut), "queue") + ": " + examples(d.LeftOut)
}

func stamp(t time.Time) *metav1.Time {
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}

// short keeps a text within what the status takes.
func short(s string) string {
	const longest = 1024
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest-len("…")], "") + "…"
}

func recordBefore(p *broker.Policy) *v1alpha1.PolicyBefore {
	if p == nil {
		return nil
	}
	text := encode(p.Definition)
	return &v1alpha1.PolicyBefore{
		Pattern: p.Pattern, ApplyTo: string(p.ApplyTo), Priority: int32(p.Priority), Definition: runtime.RawExtension{Raw: text},
	}
}

// before is the policy to go back to; nil for none.
func (f *facts) before() (*broker.Policy, error) {
	if f.state == nil || f.state.Before == nil {
		return nil, nil
	}
	definition, err := broker.DecodeDefinition(f.state.Before.Definition.Raw)
	if err != nil {
		return nil, fmt.Errorf("status.rollout.before cannot be read: %w", err)
	}
	return &broker.Policy{
		VHost: f.want.VHost, Name: f.want.Name, Pattern: f.state.Before.Pattern, ApplyTo: broker.ApplyTo(f.state.Before.ApplyTo),
		Priority: int(f.state.Before.Priority), Definition: definition,
	}, nil
}

// Words tells in a few words how far a rollout is, as "wave 2, batch 13/31"; "" when nothing is staged.
func Words(p *v1alpha1.QueuePolicy, state *v1alpha1.RolloutStatus) string {
	if state == nil {
		return ""
	}
	words := ""
	switch state.Phase {
	case v1alpha1.RolloutDone:
		return "done"
	case v1alpha1.RolloutRolledBack:
		return "rolled back"
	case v1alpha1.RolloutRollingBack:
		words = "rolling back"
		if state.Batch > 0 {
			words += ", " + manyBatches(int(state.Batch)) + " left"
		}
		return words
	case v1alpha1.RolloutWaiting:
		words = "waiting"
	case v1alpha1.RolloutBatches, v1alpha1.RolloutOverflow:
		words = fmt.Sprintf("batch %d/%d", state.Batch, state.Batches)
		if state.Batch == 0 {
			words = "overflow before limits"
		}
	case v1alpha1.RolloutFinal:
		words = "final policy"
	case v1alpha1.RolloutCleanup:
		words = "cleaning up"
	}
	if p.Spec.Rollout != nil {
		words = fmt.Sprintf("wave %d, %s", p.Spec.Rollout.Wave, words)
	}
	return words
}
