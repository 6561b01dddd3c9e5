package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// fault is why a gate is closed; the zero value is an open one.
type fault struct{ reason, message string }

func (g fault) open() bool { return g.reason == "" }

// health of the cluster: nothing is staged while there is an alarm, or while nobody knows.
func (f *facts) health() fault {
	switch {
	case len(f.Vhost.Alarms) > 0:
		return fault{v1alpha1.ReasonAlarmActive, "stopped until it is over: " + strings.Join(f.Vhost.Alarms, ", ")}
	case !f.Vhost.AlarmsKnown:
		return fault{v1alpha1.ReasonAlarmActive, "stopped: a node does not say whether it has an alarm"}
	}
	return f.growth()
}

// growth of the backlog since the present batch was begun.
func (f *facts) growth() fault {
	if f.state == nil || !NeedsCounts(f.Object, f.state) {
		return fault{}
	}
	now := f.backlog()
	switch {
	case now == nil:
		return fault{v1alpha1.ReasonBacklogGrows, "stopped: the broker does not say how many messages the queues hold"}
	case f.state.Backlog == nil:
		return fault{}
	case *now > *f.state.Backlog+max(*f.state.Backlog/backlogShare, backlogNoise):
		return fault{v1alpha1.ReasonBacklogGrows, fmt.Sprintf("stopped while the backlog is above what it was: %d messages, %d when the batch began", *now, *f.state.Backlog)}
	}
	return fault{}
}

// backlog of the queues that the policy reaches; nil when it is not asked for or not known.
func (f *facts) backlog() *int64 {
	if !f.Vhost.Counted || !f.looked || !NeedsCounts(f.Object, nil) {
		return nil
	}
	var sum int64
	for _, q := range f.reach {
		if q.Messages == nil {
			return nil
		}
		sum += *q.Messages
	}
	return &sum
}

// batchSize and the most queues that may be unsynchronised.
func (f *facts) limits() (batch, unsynchronised int) {
	const usual = 20
	batch = int(f.spec.BatchSize)
	if batch < 1 {
		batch = usual
	}
	if f.spec.MaxUnsynchronised != nil {
		return batch, int(*f.spec.MaxUnsynchronised)
	}
	return batch, batch
}

func (f *facts) soak() time.Duration {
	if f.spec == nil || f.spec.Soak == nil {
		return time.Minute
	}
	return f.spec.Soak.Duration
}

// budget is how many more queues may begin to synchronise, and how many do.
func (f *facts) budget() (free, busy int) {
	promised := f.promised()
	for i := range f.Vhost.Queues {
		q := &f.Vhost.Queues[i]
		if promised[q.Name] || f.unsynchronised(q) {
			busy++
		}
	}
	_, most := f.limits()
	return max(0, most-busy), busy
}

// unsynchronised tells whether a replica of q lacks messages, may lack some, or is about to be made.
func (f *facts) unsynchronised(q *broker.Queue) bool {
	switch {
	case q.Exclusive, q.Type == broker.Stream:
		return false
	case q.Type == broker.Quorum:
		return q.Members == nil || q.Online == nil || len(q.Online) < len(q.Members)
	case !f.Vhost.Capabilities.MirroredQueues:
		return false
	case q.EffectiveDefinition == nil:
		return true
	case q.EffectiveDefinition["ha-mode"] == nil:
		return len(q.SynchronisedMirrors) < len(q.Mirrors)
	case q.EffectiveDefinition["ha-sync-mode"] != "automatic":
		return false // nobody copies anything
	case q.Mirrors == nil || q.SynchronisedMirrors == nil:
		return true
	}
	return len(q.SynchronisedMirrors) < max(len(q.Mirrors), f.mirrorsWanted(q.EffectiveDefinition))
}

// mirrorsWanted by a definition, as far as there are nodes for them.
func (f *facts) mirrorsWanted(definition map[string]any) int {
	most := f.Vhost.RunningNodes - 1
	switch definition["ha-mode"] {
	case "exactly":
		count, _ := definition["ha-params"].(int64)
		if f.Vhost.RunningNodes == 0 {
			return int(count) - 1
		}
		return min(int(count)-1, most)
	case "all":
		return max(0, most)
	}
	return 0
}

// promised are the queues that some temporary policy, of whomever, is about to mirror: the broker has the policy, and the
// queue does not show it yet.
func (f *facts) promised() map[string]bool {
	out := map[string]bool{}
	for i := range f.Vhost.Policies {
		p := &f.Vhost.Policies[i]
		if p.Definition["ha-mode"] == nil || !ofSomeRollout(*p) {
			continue
		}
		names, _ := policy.ExactNames(p.Pattern)
		for _, q := range f.live(names) {
			if q.Type == broker.Classic && !q.Exclusive && (q.Policy == nil || *q.Policy != p.Name && !f.above(*q.Policy, p.Priority)) {
				out[q.Name] = true
			}
		}
	}
	return out
}

// above tells whether the policy called name has at least this priority.
func (f *facts) above(name string, priority int) bool {
	in := f.byName[name]
	return in != nil && in.Priority >= priority
}

// inForce is the gate of queues that must have a policy: all of them do, with the replicas it asks for, but for those that
// never will.
func (f *facts) inForce(want broker.Policy, queues []broker.Queue) fault {
	if len(queues) == 0 {
		return fault{}
	}
	effect := policy.EffectOf(f.Object, want, f.Vhost.Policies, queues, f.Vhost.Capabilities, f.Vhost.RunningNodes)
	for _, reason := range []string{
		v1alpha1.ReasonUnknown, v1alpha1.ReasonNotYetApplied, v1alpha1.ReasonMaskedByPriority, v1alpha1.ReasonBelowTargetSize, v1alpha1.ReasonSynchronising,
	} {
		for _, group := range effect.NotInForce {
			if group.Reason != reason || reason == v1alpha1.ReasonBelowTargetSize && f.staysSmall() {
				continue
			}
			names := group.Queues
			if reason == v1alpha1.ReasonMaskedByPriority {
				names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return f.trulyMasked(name, want) })
			}
			if len(names) > 0 {
				return fault{reason, fmt.Sprintf("%s: %s: %s", many(len(names), "queue"), group.Message, examples(names))}
			}
		}
	}
	return fault{}
}

// staysSmall tells whether neither the broker nor Warren can add members to quorum queues: rabbitmq-queues has to.
func (f *facts) staysSmall() bool {
	c := f.Vhost.Capabilities
	return f.Object.Spec.Replication.Mode == v1alpha1.ReplicationQuorum && !c.MembershipReconciliation && !c.GrowsOnRequest
}

// trulyMasked tells a queue on which another policy stands above from one that still shows a policy that is gone.
func (f *facts) trulyMasked(name string, want broker.Policy) bool {
	q := f.queue(name)
	return q == nil || q.Policy != nil && f.above(*q.Policy, want.Priority)
}

// unprotected are the queues among these that would drop messages at a limit that comes now: on a classic queue a limit is
// obeyed before the overflow that comes with it, and a process that has no time comes to both as one. So what is stored is no
// proof: the process must say itself that it has the overflow. Who accepts losses need not wait for a broker that does not
// collect statistics.
func (f *facts) unprotected(queues []broker.Queue) []string {
	var out []string
	for _, q := range queues {
		// What it says may be from before the last change: then it is not what is stored.
		taken := refusesAtLimit(q.Taken) && broker.EqualDefinitions(q.Taken, q.EffectiveDefinition) || q.Taken == nil && f.Object.Spec.AcceptDataLoss
		if (q.Type == broker.Classic || q.Type == "") && !(taken && refusesAtLimit(q.EffectiveDefinition)) {
			out = append(out, q.Name)
		}
	}
	return out
}

// fresh are the queues among these to which a limit would be new: what they do at it has to be in force first, and for a
// while, also where it is shown already.
func fresh(queues []broker.Queue) []string {
	var out []string
	for _, q := range queues {
		_, limited := policy.BeforeLimits(broker.Policy{Definition: q.EffectiveDefinition})
		if (q.Type == broker.Classic || q.Type == "") && !(limited && refusesAtLimit(q.EffectiveDefinition)) {
			out = append(out, q.Name)
		}
	}
	return out
}

// inSteps is the policy without what has to follow it, and whether there is such a step. Limits follow their overflow; and
// at-least-once follows the dead-letter exchange: on 4.3 the process that moves a queue's dead letters begins when it hears of
// the strategy, and may look before its node has the rest of the policy. It keeps what it found until the next change of the
// policy: dead letters of a queue without an exchange stay where they are.
func inSteps(want broker.Policy) (broker.Policy, bool) {
	first, limited := policy.BeforeLimits(want)
	if !assured(want.Definition) {
		return first, limited
	}
	first.Definition = broker.NormalizeDefinition(first.Definition)
	delete(first.Definition, "dead-letter-strategy")
	return first, true
}

func assured(definition map[string]any) bool {
	return definition["dead-letter-strategy"] == "at-least-once"
}

// unassured are the queues among these that have to get the dead-letter exchange before at-least-once. Where one has
// at-least-once already there is no such step: taking it away would drop the dead letters that wait.
func (f *facts) unassured(queues []broker.Queue) []string {
	if !assured(f.want.Definition) {
		return nil
	}
	var out []string
	for _, q := range queues {
		switch {
		case assured(q.EffectiveDefinition):
			return nil
		case q.Type != broker.Classic && q.EffectiveDefinition["dead-letter-exchange"] != f.want.Definition["dead-letter-exchange"]:
			out = append(out, q.Name)
		}
	}
	return out
}

// needFirst are the queues among these that must have the first step before the policy.
func (f *facts) needFirst(queues []broker.Queue) []string {
	return append(fresh(queues), f.unassured(queues)...)
}

// unready are the queues among these that do not have the first step yet. A broker that does not say what is in force on a
// queue is waited for only for some seconds where no message can be lost.
func (f *facts) unready(queues []broker.Queue) []string {
	known := slices.DeleteFunc(slices.Clone(queues), func(q broker.Queue) bool { return q.EffectiveDefinition == nil })
	return append(f.unprotected(queues), f.unassured(known)...)
}

// refusesAtLimit tells whether a definition keeps what a queue holds when it is over a limit.
func refusesAtLimit(definition map[string]any) bool {
	return definition["overflow"] == "reject-publish" || definition["overflow"] == "reject-publish-dlx"
}

// settled counts how long queues have been protected; it gives the state to record, or nil when it is as recorded.
func (f *facts) settled() (done bool, next *v1alpha1.RolloutStatus) {
	if f.state.ProtectedSince == nil {
		next = f.state.DeepCopy()
		next.ProtectedSince = stamp(f.Now)
		return false, next
	}
	return f.Now.Sub(f.state.ProtectedSince.Time) >= settle, nil
}

// protect is the gate before a limit. It is open when no queue would drop messages and that has been so for a while; until
// then wait is what to do.
func (f *facts) protect(open []string) (wait *Decision) {
	if len(open) > 0 {
		d := f.wait(v1alpha1.ReasonOverflowFirst, f.follows(open), again)
		if d.State != nil {
			d.State.ProtectedSince = nil
		}
		return &d
	}
	done, next := f.settled()
	if done {
		return nil
	}
	if next == nil {
		next = f.state.DeepCopy()
	}
	d := f.decide(Decision{State: next, Reason: v1alpha1.ReasonOverflowFirst, Message: f.followsSoon(), LookAgain: again})
	return &d
}

// follows says what is waited for before the rest of the policy comes.
func (f *facts) follows(open []string) string {
	if len(f.unassured(f.live(open))) > 0 {
		return fmt.Sprintf("at-least-once follows when the dead-letter exchange is in force on %s: %s", many(len(open), "queue"), examples(open))
	}
	return fmt.Sprintf("the limit follows when the processes of %s say, in the broker's statistics, that they refuse publishers at it: %s", many(len(open), "queue"), examples(open))
}

func (f *facts) followsSoon() string {
	if assured(f.want.Definition) {
		return "the dead-letter exchange is in force on all queues; at-least-once follows in some seconds"
	}
	return "all queues refuse publishers at a limit; the limit follows in some seconds"
}

// protected tells whether the gate before a limit was open and still is.
func (f *facts) protected(queues []broker.Queue) bool {
	return f.state.ProtectedSince != nil && f.Now.Sub(f.state.ProtectedSince.Time) >= settle && len(f.unready(queues)) == 0
}

// actAnew is act for what comes before limits: how long queues have been protected is counted anew from it.
func (f *facts) actAnew(actions []policy.Action, why string) Decision {
	if f.state.ProtectedSince == nil {
		return f.act(actions, why)
	}
	d := f.wait(v1alpha1.ReasonRollingOut, why, soon)
	d.State.ProtectedSince = nil
	return d
}

// well counts how long the gates have held; it gives nil when that is long enough.
func (f *facts) well(what string) *Decision {
	next := f.state.DeepCopy()
	if next.WellSince == nil {
		next.WellSince = stamp(f.Now)
	}
	left := f.soak() - f.Now.Sub(next.WellSince.Time)
	if left <= 0 && f.state.WellSince != nil {
		return nil
	}
	if left <= 0 {
		left = soon
	}
	d := f.decide(Decision{
		State: next, Reason: v1alpha1.ReasonSoaking, LookAgain: min(left, max(again, min(f.soak()/10, soakInterval))),
		Message: fmt.Sprintf("%s is well since %s and has to stay so for %s", what, next.WellSince.UTC().Format(time.TimeOnly), f.soak()),
	})
	return &d
}
