package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/policy/rollout"
)

// Policy is what one pass saw and did for a QueuePolicy.
type Policy struct {
	Object *v1alpha1.QueuePolicy
	// Clusters that it is for, or has to leave, sorted by key.
	Clusters []PolicyOn
	// Problem that keeps it from all clusters; nil for none.
	Problem *Problem
	// DeletionBlocked says why the object cannot go; "" if nothing holds it.
	DeletionBlocked string
}

// PolicyOn is what one pass saw and did in one cluster.
type PolicyOn struct {
	// Cluster is the key of the entry in status.clusters.
	Cluster string
	// Owned to record from now on; nil for none.
	Owned *v1alpha1.OwnedPolicy
	// Leaving: the policy is not for this cluster any more, and has to go first. Why says why it is still there.
	Leaving bool
	// Unasked says why the broker was not asked, or did not answer; nil if it did.
	Unasked *Problem
	// Refused says why the policy cannot be in this broker; nil if it can.
	Refused *Problem
	// Standing among all that want this policy; the zero value when it was not judged.
	Standing policy.Standing
	// Overlap with another policy of equal priority; nil for none.
	Overlap *policy.Overlap
	// Actions that were decided, Wrote whether any was carried out, and Done whether the broker has all as it should be. Why
	// says what is waited for when not, with a reason for a condition.
	Actions        []policy.Action
	Wrote, Done    bool
	Why, WhyReason string
	// ReadAt is when the broker was asked for what was decided on, and LookAgain how soon to look again; 0 is at the next poll.
	ReadAt    time.Time
	LookAgain time.Duration
	// Effect on the queues; nil when they were not read.
	Effect *policy.Effect
	// Warnings about what is accepted and still dangerous.
	Warnings []string
	// Rollout is how far it is; nil when nothing is staged.
	Rollout *v1alpha1.RolloutStatus
}

const (
	// mostExamples is how many queue names a status lists for each reason.
	mostExamples = 3
	// mostWarnings is how many a status lists.
	mostWarnings = 10
	// mostClusterMessage is how long the message of one cluster may be, in bytes.
	mostClusterMessage = 1024
)

// ForPolicy is the status that follows from what a pass saw and did.
func ForPolicy(in Policy, now time.Time) v1alpha1.QueuePolicyStatus {
	out := v1alpha1.QueuePolicyStatus{
		ObservedGeneration: in.Object.Generation,
		Conditions:         slices.Clone(in.Object.Status.Conditions),
		Where:              where(in),
		InForce:            inForceOfAll(in.Clusters),
		Rollout:            rolloutOfAll(in.Clusters, in.Object),
	}
	for _, c := range in.Clusters {
		out.Clusters = append(out.Clusters, entry(c))
	}
	s := setter{conditions: &out.Conditions, generation: in.Object.Generation, now: now}
	accepted, conflict := in.worst(accepted, metav1.ConditionFalse), in.worst(conflict, metav1.ConditionTrue)
	inSync, inForce := in.worst(inSync, metav1.ConditionFalse), in.worst(inForce, metav1.ConditionFalse)
	s.set(v1alpha1.ConditionAccepted, accepted)
	s.set(v1alpha1.ConditionConflict, conflict)
	s.set(v1alpha1.ConditionInSync, inSync)
	s.set(v1alpha1.ConditionInForce, inForce)
	setDecision(s, in.Object, now)
	if in.DeletionBlocked != "" {
		s.set(v1alpha1.ConditionDeletionBlocked, yes(v1alpha1.ReasonPending, in.DeletionBlocked))
	} else {
		s.drop(v1alpha1.ConditionDeletionBlocked)
	}
	switch {
	case conflict.status == metav1.ConditionTrue:
		s.set(v1alpha1.ConditionReady, no(conflict.reason, conflict.message))
	case inForce.reason == v1alpha1.ReasonCannotEvaluate:
		// Nobody outside the broker can ever tell, so that alone does not make the policy unready.
		s.summarize(yes(inForce.reason, inForce.message), v1alpha1.ConditionAccepted, v1alpha1.ConditionInSync)
	default:
		s.summarize(yes(v1alpha1.ReasonReady, "the policy is in force on every matching queue"),
			v1alpha1.ConditionAccepted, v1alpha1.ConditionInSync, v1alpha1.ConditionInForce)
	}
	return out
}

// worst is the verdict of the cluster that is furthest from well; bad is the value of the condition that is the worst.
// Of equal ones the first cluster speaks. With several clusters it is named.
func (in Policy) worst(of func(PolicyOn) verdict, bad metav1.ConditionStatus) verdict {
	if in.Problem != nil {
		return of(PolicyOn{Unasked: in.Problem})
	}
	var out verdict
	most, same, several := -1, 0, len(in.Clusters) > 1
	for _, c := range in.Clusters {
		v := of(c)
		switch badness := v.badness(bad); {
		case badness > most:
			out, most, same = v, badness, 0
			if several && badness > 0 {
				out.message = c.Cluster + ": " + out.message
			}
		case badness == most:
			same++
		}
	}
	switch {
	case most < 0:
		return of(PolicyOn{Unasked: &Problem{Reason: v1alpha1.ReasonUnknown, Message: "not looked at"}})
	case most > 0 && same > 0:
		out.message += fmt.Sprintf(" (%d more clusters are no better)", same)
	case most == 0 && several:
		out.message = fmt.Sprintf("in all %d clusters: %s", len(in.Clusters), out.message)
	}
	return out
}

// badness orders verdicts: what nobody can ever tell counts when all else is well.
func (v verdict) badness(bad metav1.ConditionStatus) int {
	switch {
	case v.status == bad:
		return 3
	case v.reason == v1alpha1.ReasonCannotEvaluate:
		return 1
	case v.status == metav1.ConditionUnknown:
		return 2
	}
	return 0
}

func entry(c PolicyOn) v1alpha1.ClusterPolicyStatus {
	out := v1alpha1.ClusterPolicyStatus{
		Cluster: c.Cluster, Owned: c.Owned, Rollout: c.Rollout, Warnings: c.Warnings[:min(len(c.Warnings), mostWarnings)],
	}
	if c.Effect != nil {
		out.Queues = queues(*c.Effect)
	}
	out.Reason, out.Message = reasonOf(c)
	out.Message = cut(out.Message, mostClusterMessage)
	return out
}

// reasonOf says why a cluster is not as it should be; "Ready" if it is.
func reasonOf(c PolicyOn) (reason, message string) {
	if v := conflict(c); v.status == metav1.ConditionTrue {
		return v.reason, v.message
	}
	for _, wanted := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, v := range []verdict{accepted(c), inSync(c), inForce(c)} {
			if v.status == wanted && v.reason != v1alpha1.ReasonCannotEvaluate {
				return v.reason, v.message
			}
		}
	}
	return v1alpha1.ReasonReady, ""
}

func where(in Policy) string {
	var keys []string
	for _, c := range in.Clusters {
		if !c.Leaving {
			keys = append(keys, c.Cluster)
		}
	}
	if len(keys) != 1 {
		return fmt.Sprintf("%d clusters", len(keys))
	}
	return strings.TrimPrefix(keys[0], in.Object.Namespace+"/")
}

// inForceOfAll sums up the clusters: one of which the number of matching queues is not known makes the sum unknown.
func inForceOfAll(clusters []PolicyOn) string {
	inForce, matched, known, looked := 0, 0, true, false
	for _, c := range clusters {
		switch {
		case c.Leaving:
		case c.Effect == nil && c.Rollout != nil && c.Rollout.Total > 0:
			inForce, matched, looked = inForce+int(c.Rollout.Done), matched+int(c.Rollout.Total), true
		case c.Effect == nil:
			known = false
		case c.Effect.Matched == nil:
			inForce, known, looked = inForce+c.Effect.InForce, false, true
		default:
			inForce, matched, looked = inForce+c.Effect.InForce, matched+*c.Effect.Matched, true
		}
	}
	switch {
	case !looked:
		return ""
	case !known:
		return fmt.Sprintf("%d/?", inForce)
	}
	return fmt.Sprintf("%d/%d", inForce, matched)
}

func accepted(c PolicyOn) verdict {
	switch {
	case c.Leaving:
		return yes(v1alpha1.ReasonAsExpected, "to be removed")
	case c.Unasked != nil:
		return unknown(c.Unasked.Reason, c.Unasked.Message)
	case c.Refused != nil:
		return no(c.Refused.Reason, c.Refused.Message)
	}
	return yes(v1alpha1.ReasonAsExpected, "this version of RabbitMQ takes the policy")
}

func conflict(c PolicyOn) verdict {
	switch {
	case c.Leaving:
		return no(v1alpha1.ReasonNoConflict, "to be removed")
	case c.Standing.Owner && c.Overlap != nil:
		return yes(v1alpha1.ReasonEqualPriority, c.Overlap.Message())
	case c.Standing.Owner:
		return no(v1alpha1.ReasonNoConflict, "nobody else wants a policy of this name")
	case c.Standing.Reason != "":
		return yes(c.Standing.Reason, c.Standing.Message)
	}
	return unknown(v1alpha1.ReasonUnknown, "not looked at")
}

func inSync(c PolicyOn) verdict {
	switch {
	case c.Leaving:
		return no(v1alpha1.ReasonLeaving, "the policy is not for this cluster any more and still in it: "+c.Why)
	case c.Unasked != nil:
		return unknown(c.Unasked.Reason, c.Unasked.Message)
	case c.Refused != nil:
		return no(c.Refused.Reason, "the broker does not have the policy as the spec says: "+c.Refused.Message)
	case !c.Standing.Owner:
		return no(v1alpha1.ReasonPending, "the broker's policy of this name is not managed by this object")
	case c.Overlap != nil && c.Overlap.First:
		return no(v1alpha1.ReasonEqualPriority, "not applied: "+c.Overlap.Message())
	case !c.Done:
		return no(cmp.Or(c.WhyReason, v1alpha1.ReasonPending), c.Why)
	}
	return yes(v1alpha1.ReasonAsExpected, "the broker has the policy as it should be")
}

func inForce(c PolicyOn) verdict {
	switch {
	case c.Leaving:
		return yes(v1alpha1.ReasonAsExpected, "to be removed")
	case c.Unasked != nil:
		return unknown(c.Unasked.Reason, c.Unasked.Message)
	case c.Effect == nil:
		return unknown(v1alpha1.ReasonPending, "the queues have not been looked at since")
	case c.Effect.Matched != nil && *c.Effect.Matched == 0:
		return yes(v1alpha1.ReasonMatchesNothing, "no queue matches the pattern yet")
	case len(c.Effect.NotInForce) > 0:
		return notInForce(c.Effect.NotInForce)
	case c.Effect.Matched == nil:
		return unknown(v1alpha1.ReasonCannotEvaluate, fmt.Sprintf(
			"in force on %d queues; only the broker can tell which other queues the pattern means", c.Effect.InForce))
	}
	return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("in force on all %d matching queues", c.Effect.InForce))
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
	end := by.AddDate(0, 0, 1)
	switch {
	case err != nil:
		s.set(v1alpha1.ConditionQuorumDecisionDue, unknown(v1alpha1.ReasonInvalidSpec, err.Error()))
	case now.UTC().Before(end.AddDate(0, 0, -decisionWarning)):
		s.set(v1alpha1.ConditionQuorumDecisionDue, no(v1alpha1.ReasonDateInFuture, "mirrored queues are to become quorum queues by "+decision.By))
	case now.UTC().Before(end):
		s.set(v1alpha1.ConditionQuorumDecisionDue, no(v1alpha1.ReasonDueSoon, fmt.Sprintf(
			"mirrored queues are to become quorum queues by %s (owner %q): that is less than %d days away", decision.By, decision.Owner, decisionWarning)))
	default:
		s.set(v1alpha1.ConditionQuorumDecisionDue, yes(v1alpha1.ReasonDatePassed, fmt.Sprintf(
			"the queues were to become quorum queues by %s (owner %q) and are still mirrored", decision.By, decision.Owner)))
	}
}

// decisionWarning is how many days before quorumDecision.by its approach is told.
const decisionWarning = 30

func queues(e policy.Effect) *v1alpha1.PolicyQueues {
	out := &v1alpha1.PolicyQueues{InForce: int32(e.InForce)}
	if e.Matched != nil {
		n := int32(*e.Matched)
		out.Matched = &n
	}
	for _, g := range e.NotInForce {
		out.NotInForce = append(out.NotInForce, v1alpha1.QueueGroup{
			Reason: g.Reason, Message: g.Message, Count: int32(len(g.Queues)),
			Examples: g.Queues[:min(len(g.Queues), mostExamples)],
		})
	}
	return out
}

// rolloutOfAll says in a few words how far the cluster is that is furthest behind.
func rolloutOfAll(clusters []PolicyOn, p *v1alpha1.QueuePolicy) string {
	var slowest *v1alpha1.RolloutStatus
	behind := func(r *v1alpha1.RolloutStatus) float64 {
		switch {
		case r.Phase == v1alpha1.RolloutDone:
			return 2
		case r.Total == 0:
			return 0
		}
		return float64(r.Done) / float64(r.Total)
	}
	for _, c := range clusters {
		if c.Rollout != nil && !c.Leaving && (slowest == nil || behind(c.Rollout) < behind(slowest)) {
			slowest = c.Rollout
		}
	}
	return rollout.Words(p, slowest)
}
