package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
)

// Policy is what one pass saw and did for a QueuePolicy.
type Policy struct {
	Object *v1alpha1.QueuePolicy
	// Owned to record from now on; nil for none.
	Owned *v1alpha1.OwnedPolicy
	// Unasked says why the broker was not asked at all; nil if it was.
	Unasked *Problem
	// Refused says why the policy cannot be in this broker; nil if it can.
	Refused *Problem
	// Standing among all that want this policy; the zero value when it was not judged.
	Standing policy.Standing
	// Change that was decided, and Done whether it was carried out.
	Change policy.Change
	Done   bool
	// Effect on the queues; nil when they were not read.
	Effect *policy.Effect
	// DeletionBlocked says why the object cannot go; "" if nothing holds it.
	DeletionBlocked string
}

// mostExamples is how many queue names a status lists for each reason.
const mostExamples = 3

// ForPolicy is the status that follows from what a pass saw and did.
func ForPolicy(in Policy, now time.Time) v1alpha1.QueuePolicyStatus {
	before := in.Object.Status
	out := v1alpha1.QueuePolicyStatus{
		ObservedGeneration: in.Object.Generation,
		Conditions:         slices.Clone(before.Conditions),
		Owned:              in.Owned,
	}
	if in.Effect != nil {
		out.Queues, out.InForce = queues(*in.Effect)
	}
	s := setter{conditions: &out.Conditions, generation: in.Object.Generation, now: now}
	s.set(v1alpha1.ConditionAccepted, accepted(in))
	s.set(v1alpha1.ConditionConflict, conflict(in))
	s.set(v1alpha1.ConditionInSync, inSync(in))
	s.set(v1alpha1.ConditionInForce, inForce(in))
	setDecision(s, in.Object, now)
	if in.DeletionBlocked != "" {
		s.set(v1alpha1.ConditionDeletionBlocked, yes(v1alpha1.ReasonPending, in.DeletionBlocked))
	} else {
		s.drop(v1alpha1.ConditionDeletionBlocked)
	}
	if c := conflict(in); c.status == "True" {
		s.set(v1alpha1.ConditionReady, no(c.reason, c.message))
		return out
	}
	if v := inForce(in); v.reason == v1alpha1.ReasonCannotEvaluate {
		// Nobody outside the broker can ever tell, so that alone does not make the policy unready.
		s.summarize(yes(v.reason, v.message), v1alpha1.ConditionAccepted, v1alpha1.ConditionInSync)
		return out
	}
	s.summarize(yes(v1alpha1.ReasonReady, "the policy is in force on every matching queue"),
		v1alpha1.ConditionAccepted, v1alpha1.ConditionInSync, v1alpha1.ConditionInForce)
	return out
}

func accepted(in Policy) verdict {
	switch {
	case in.Unasked != nil:
		return unknown(in.Unasked.Reason, in.Unasked.Message)
	case in.Refused != nil:
		return no(in.Refused.Reason, in.Refused.Message)
	}
	return yes(v1alpha1.ReasonAsExpected, "this version of RabbitMQ takes the policy")
}

func conflict(in Policy) verdict {
	switch {
	case in.Standing.Owner:
		return no(v1alpha1.ReasonNoConflict, "nobody else wants a policy of this name")
	case in.Standing.Reason != "":
		return yes(in.Standing.Reason, in.Standing.Message)
	}
	return unknown(v1alpha1.ReasonUnknown, "not looked at")
}

func inSync(in Policy) verdict {
	switch {
	case in.Unasked != nil:
		return unknown(in.Unasked.Reason, in.Unasked.Message)
	case in.Refused != nil:
		return no(in.Refused.Reason, "the broker does not have the policy as the spec says: "+in.Refused.Message)
	case !in.Standing.Owner:
		return no(v1alpha1.ReasonPending, "the broker's policy of this name is not managed by this object")
	case !in.Done:
		return no(v1alpha1.ReasonPending, in.Change.Why)
	}
	return yes(v1alpha1.ReasonAsExpected, "the broker has the policy as it should be")
}

func inForce(in Policy) verdict {
	switch {
	case in.Unasked != nil:
		return unknown(in.Unasked.Reason, in.Unasked.Message)
	case in.Effect == nil:
		return unknown(v1alpha1.ReasonPending, "the queues were not looked at")
	case len(in.Effect.NotInForce) > 0:
		return notInForce(in.Effect.NotInForce)
	case in.Effect.Matched == nil:
		return unknown(v1alpha1.ReasonCannotEvaluate, fmt.Sprintf(
			"in force on %d queues; only the broker can tell which other queues the pattern means", in.Effect.InForce))
	}
	return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("in force on all %d matching queues", in.Effect.InForce))
}

// notInForce speaks of the largest group. Queues of which nothing is known count only when there are no others.
func notInForce(groups []policy.Group) verdict {
	rank := func(g policy.Group) (known, size int) {
		if g.Reason != v1alpha1.ReasonUnknown {
			known = 1
		}
		return known, len(g.Queues)
	}
	worst := slices.MaxFunc(groups, func(a, b policy.Group) int {
		knownA, sizeA := rank(a)
		knownB, sizeB := rank(b)
		return cmp.Or(cmp.Compare(knownA, knownB), cmp.Compare(sizeA, sizeB))
	})
	message := fmt.Sprintf("%d queues, as %q: %s", len(worst.Queues), worst.Queues[0], worst.Message)
	if worst.Reason == v1alpha1.ReasonUnknown {
		return unknown(worst.Reason, message)
	}
	return no(worst.Reason, message)
}

// setDecision compares the day of quorumDecision.by with today, both UTC.
func setDecision(s setter, p *v1alpha1.QueuePolicy, now time.Time) {
	decision, mode := p.Spec.QuorumDecision, p.Spec.Replication.Mode
	if decision == nil || mode != v1alpha1.HATwo && mode != v1alpha1.HAThree {
		s.drop(v1alpha1.ConditionQuorumDecisionDue)
		return
	}
	by, err := time.Parse(time.DateOnly, decision.By)
	switch {
	case err != nil:
		s.set(v1alpha1.ConditionQuorumDecisionDue, unknown(v1alpha1.ReasonInvalidSpec, err.Error()))
	case now.UTC().Before(by.AddDate(0, 0, 1)):
		s.set(v1alpha1.ConditionQuorumDecisionDue, no(v1alpha1.ReasonDateInFuture, "mirrored queues are to become quorum queues by "+decision.By))
	default:
		s.set(v1alpha1.ConditionQuorumDecisionDue, yes(v1alpha1.ReasonDatePassed, fmt.Sprintf(
			"the queues were to become quorum queues by %s (owner %q) and are still mirrored", decision.By, decision.Owner)))
	}
}

func queues(e policy.Effect) (*v1alpha1.PolicyQueues, string) {
	out := &v1alpha1.PolicyQueues{InForce: int32(e.InForce)}
	matched := "?"
	if e.Matched != nil {
		n := int32(*e.Matched)
		out.Matched = &n
		matched = fmt.Sprint(n)
	}
	for _, g := range e.NotInForce {
		out.NotInForce = append(out.NotInForce, v1alpha1.QueueGroup{
			Reason: g.Reason, Message: g.Message, Count: int32(len(g.Queues)),
			Examples: g.Queues[:min(len(g.Queues), mostExamples)],
		})
	}
	return out, fmt.Sprintf("%d/%s", e.InForce, matched)
}
