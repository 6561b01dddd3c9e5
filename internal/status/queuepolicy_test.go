package status

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/policy"
)

// inForceEverywhere is a policy that is in force on four queues, changed by edits.
func inForceEverywhere(edits ...func(*Policy)) Policy {
	in := Policy{
		Object: &v1alpha1.QueuePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "orders", Generation: 2},
			Spec:       v1alpha1.QueuePolicySpec{VHost: "/", Pattern: "^orders", Replication: v1alpha1.ReplicationSpec{Mode: v1alpha1.HATwo}},
		},
		Clusters: []PolicyOn{{
			Cluster:  "messaging/runtime",
			Owned:    &v1alpha1.OwnedPolicy{ClusterUID: "uid", VHost: "/", Name: "orders"},
			Standing: policy.Standing{Owner: true},
			Done:     true,
			Effect:   &policy.Effect{Matched: ptr(4), InForce: 4},
		}},
	}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

// on is the only cluster.
func (in *Policy) on() *PolicyOn { return &in.Clusters[0] }

func groups(g ...policy.Group) func(*Policy) {
	return func(in *Policy) {
		in.on().Effect.NotInForce = g
		for _, group := range g {
			in.on().Effect.InForce -= len(group.Queues)
		}
	}
}

func group(reason string, queues ...string) policy.Group {
	return policy.Group{Reason: reason, Message: "because of " + reason, Queues: queues}
}

func unasked(reason string) func(*Policy) {
	return func(in *Policy) {
		in.on().Unasked, in.on().Standing, in.on().Effect, in.on().Done = &Problem{Reason: reason, Message: "not asked"}, policy.Standing{}, nil, false
	}
}

func refused(in *Policy) {
	in.on().Refused = &Problem{Reason: v1alpha1.ReasonUnsupportedByServer, Message: "use Quorum"}
	in.on().Standing, in.on().Effect, in.on().Done = policy.Standing{}, nil, false
}

func loses(reason string) func(*Policy) {
	return func(in *Policy) {
		in.on().Standing, in.on().Owned, in.on().Effect, in.on().Done = policy.Standing{Reason: reason, Message: "somebody else has it"}, nil, nil, false
	}
}

func pending(in *Policy) {
	in.on().Done, in.on().Effect, in.on().Why = false, nil, "about to be written"
}

func unevaluated(in *Policy) { in.on().Effect.Matched = nil }

func TestConditionsOfAPolicy(t *testing.T) {
	type expected struct {
		status metav1.ConditionStatus
		reason string
	}
	yes := func(reason string) expected { return expected{metav1.ConditionTrue, reason} }
	no := func(reason string) expected { return expected{metav1.ConditionFalse, reason} }
	unknown := func(reason string) expected { return expected{metav1.ConditionUnknown, reason} }
	const expectedReason = v1alpha1.ReasonAsExpected
	for _, c := range []struct {
		name                                        string
		edit                                        func(*Policy)
		accepted, conflict, inSync, inForce, summed expected
	}{
		{"in force everywhere", func(*Policy) {},
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), yes(expectedReason), yes(v1alpha1.ReasonReady)},
		{"about to be written", pending,
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), no(v1alpha1.ReasonPending), unknown(v1alpha1.ReasonPending), no(v1alpha1.ReasonPending)},
		{"some queues have it not yet", groups(group(v1alpha1.ReasonSynchronising, "orders.1")),
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), no(v1alpha1.ReasonSynchronising), no(v1alpha1.ReasonSynchronising)},
		{"the largest group speaks", groups(group(v1alpha1.ReasonBelowTargetSize, "orders.1"), group(v1alpha1.ReasonMaskedByPriority, "orders.2", "orders.3")),
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), no(v1alpha1.ReasonMaskedByPriority), no(v1alpha1.ReasonMaskedByPriority)},
		{"G2: what is not known speaks last", groups(group(v1alpha1.ReasonSynchronising, "orders.1"), group(v1alpha1.ReasonUnknown, "orders.2", "orders.3")),
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), no(v1alpha1.ReasonSynchronising), no(v1alpha1.ReasonSynchronising)},
		{"G2: not known is neither in force nor not", groups(group(v1alpha1.ReasonUnknown, "orders.2")),
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), unknown(v1alpha1.ReasonUnknown), unknown(v1alpha1.ReasonUnknown)},
		{"C3: a pattern that only the broker can evaluate", unevaluated,
			yes(expectedReason), no(v1alpha1.ReasonNoConflict), yes(expectedReason), unknown(v1alpha1.ReasonCannotEvaluate), yes(v1alpha1.ReasonCannotEvaluate)},
		{"C7: refused", refused,
			no(v1alpha1.ReasonUnsupportedByServer), unknown(v1alpha1.ReasonUnknown), no(v1alpha1.ReasonUnsupportedByServer), unknown(v1alpha1.ReasonPending), no(v1alpha1.ReasonUnsupportedByServer)},
		{"E4: another QueuePolicy has it", loses(v1alpha1.ReasonOtherQueuePolicy),
			yes(expectedReason), yes(v1alpha1.ReasonOtherQueuePolicy), no(v1alpha1.ReasonPending), unknown(v1alpha1.ReasonPending), no(v1alpha1.ReasonOtherQueuePolicy)},
		{"E4: somebody made it by hand", loses(v1alpha1.ReasonForeignPolicy),
			yes(expectedReason), yes(v1alpha1.ReasonForeignPolicy), no(v1alpha1.ReasonPending), unknown(v1alpha1.ReasonPending), no(v1alpha1.ReasonForeignPolicy)},
		{"D5: nothing is concluded from a 401", unasked(v1alpha1.ReasonAuthFailed),
			unknown(v1alpha1.ReasonAuthFailed), unknown(v1alpha1.ReasonUnknown), unknown(v1alpha1.ReasonAuthFailed), unknown(v1alpha1.ReasonAuthFailed), unknown(v1alpha1.ReasonAuthFailed)},
		{"no cluster", unasked(v1alpha1.ReasonClusterNotFound),
			unknown(v1alpha1.ReasonClusterNotFound), unknown(v1alpha1.ReasonUnknown), unknown(v1alpha1.ReasonClusterNotFound), unknown(v1alpha1.ReasonClusterNotFound), unknown(v1alpha1.ReasonClusterNotFound)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ForPolicy(inForceEverywhere(c.edit), noon).Conditions
			for kind, want := range map[string]expected{
				v1alpha1.ConditionAccepted: c.accepted, v1alpha1.ConditionConflict: c.conflict, v1alpha1.ConditionInSync: c.inSync,
				v1alpha1.ConditionInForce: c.inForce, v1alpha1.ConditionReady: c.summed,
			} {
				expectCondition(t, got, kind, want.status, want.reason, "")
			}
		})
	}
}

func TestCountsOfAPolicy(t *testing.T) {
	got := ForPolicy(inForceEverywhere(func(in *Policy) { in.on().Effect.Matched, in.on().Effect.InForce = ptr(9), 9 },
		groups(group(v1alpha1.ReasonSynchronising, "q1", "q2", "q3", "q4"), group(v1alpha1.ReasonUnknown, "q5"))), noon)
	want := &v1alpha1.PolicyQueues{Matched: ptr(int32(9)), InForce: 4, NotInForce: []v1alpha1.QueueGroup{
		{Reason: v1alpha1.ReasonSynchronising, Count: 4, Examples: []string{"q1", "q2", "q3"}, Message: "because of Synchronising"},
		{Reason: v1alpha1.ReasonUnknown, Count: 1, Examples: []string{"q5"}, Message: "because of Unknown"},
	}}
	if got.InForce != "4/9" || !reflect.DeepEqual(got.Clusters[0].Queues, want) {
		t.Errorf("%q, %+v", got.InForce, got.Clusters[0].Queues)
	}
	expectCondition(t, got.Conditions, v1alpha1.ConditionInForce, metav1.ConditionFalse, v1alpha1.ReasonSynchronising, `4 queues, as "q1": because of Synchronising`)
}

// C3: "cannot preview" is never "0 queues"; queues that were not looked at are not counted at all.
func TestUnknownCountsAreNotZero(t *testing.T) {
	got := ForPolicy(inForceEverywhere(unevaluated), noon)
	if got.InForce != "4/?" || got.Clusters[0].Queues.Matched != nil {
		t.Errorf("%q, %+v", got.InForce, got.Clusters[0].Queues)
	}
	got = ForPolicy(inForceEverywhere(unasked(v1alpha1.ReasonUnreachable)), noon)
	if got.InForce != "" || got.Clusters[0].Queues != nil {
		t.Errorf("%q, %+v though no queue was read", got.InForce, got.Clusters[0].Queues)
	}
}

// Days begin and end in UTC; the day itself is still in time.
func TestTheQuorumDecisionIsDueTheDayAfter(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	by := func(day string, mode v1alpha1.ReplicationMode) func(*Policy) {
		return func(in *Policy) {
			in.Object.Spec.Replication.Mode = mode
			in.Object.Spec.QuorumDecision = &v1alpha1.QuorumDecision{By: day, Owner: "team-payments"}
		}
	}
	for _, c := range []struct {
		name, now string
		edit      func(*Policy)
		status    metav1.ConditionStatus // "": no such condition
		reason    string
		says      string
	}{
		{"long before", "2027-01-01T00:00:00Z", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDateInFuture, "by 2027-09-30"},
		{"the last second of the day", "2027-09-30T23:59:59Z", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDueSoon, "less than 30 days"},
		{"31 days before", "2027-08-31T23:59:59Z", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDateInFuture, ""},
		{"30 days before", "2027-09-01T00:00:00Z", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDueSoon, `owner "team-payments"`},
		{"the first second of the next", "2027-10-01T00:00:00Z", by("2027-09-30", v1alpha1.HAThree), metav1.ConditionTrue, v1alpha1.ReasonDatePassed, `owner "team-payments"`},
		{"the next day in the east is still the day", "2027-10-01T01:59:59+02:00", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDueSoon, ""},
		{"the day in the west is the next already", "2027-09-30T20:00:00-04:00", by("2027-09-30", v1alpha1.HATwo), metav1.ConditionTrue, v1alpha1.ReasonDatePassed, ""},
		{"a leap day", "2028-02-29T23:59:59Z", by("2028-02-29", v1alpha1.HATwo), metav1.ConditionFalse, v1alpha1.ReasonDueSoon, ""},
		{"no day", "2027-09-30T00:00:00Z", by("2027-02-30", v1alpha1.HATwo), metav1.ConditionUnknown, v1alpha1.ReasonInvalidSpec, "2027-02-30"},
		{"nothing to decide", "2027-10-01T00:00:00Z", func(*Policy) {}, "", "", ""},
		{"decided: the queues are not mirrored any more", "2027-10-01T00:00:00Z", by("2027-09-30", v1alpha1.ReplicationQuorum), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := inForceEverywhere(c.edit)
			in.Object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQuorumDecisionDue, Status: metav1.ConditionTrue, Reason: "Before"}}
			got := ForPolicy(in, at(c.now)).Conditions
			if c.status == "" {
				if left := meta.FindStatusCondition(got, v1alpha1.ConditionQuorumDecisionDue); left != nil {
					t.Errorf("%+v is left", left)
				}
				return
			}
			expectCondition(t, got, v1alpha1.ConditionQuorumDecisionDue, c.status, c.reason, c.says)
			expectCondition(t, got, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
		})
	}
}

// E2: what holds an object that is being deleted is said, and no longer than it holds.
func TestABlockedDeletionIsSaid(t *testing.T) {
	in := inForceEverywhere(func(in *Policy) { in.DeletionBlocked = "connection refused" })
	in.Object.Status = ForPolicy(in, noon)
	expectCondition(t, in.Object.Status.Conditions, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending, "connection refused")
	in.DeletionBlocked = ""
	if got := meta.FindStatusCondition(ForPolicy(in, noon).Conditions, v1alpha1.ConditionDeletionBlocked); got != nil {
		t.Errorf("%+v is left", got)
	}
}

// E4: the status records what is owned, and forgets what is not.
func TestOwnershipIsRecorded(t *testing.T) {
	if got := ForPolicy(inForceEverywhere(), noon).Clusters[0].Owned; got == nil || got.Name != "orders" {
		t.Errorf("owned %+v", got)
	}
	in := inForceEverywhere(loses(v1alpha1.ReasonOtherQueuePolicy))
	in.Object.Status.Clusters = []v1alpha1.ClusterPolicyStatus{{Cluster: "messaging/runtime", Owned: &v1alpha1.OwnedPolicy{Name: "orders"}}}
	if got := ForPolicy(in, noon).Clusters[0].Owned; got != nil {
		t.Errorf("a loser still records %+v", got)
	}
}

// onCluster is a PolicyOn of a cluster of this name.
func onCluster(name string, edits ...func(*Policy)) PolicyOn {
	c := inForceEverywhere(edits...).Clusters[0]
	c.Cluster = "messaging/" + name
	return c
}

// Several clusters by a selector: the one that is furthest from well speaks and is named, counts add up only where they are
// known, and each cluster has its own entry.
func TestSeveralClusters(t *testing.T) {
	const done, silent, taken, late, refuses, leaves = "done", "silent", "taken", "late", "refuses", "leaves"
	all := map[string]PolicyOn{
		done:    onCluster(done),
		silent:  onCluster(silent, unasked(v1alpha1.ReasonUnreachable)),
		taken:   onCluster(taken, loses(v1alpha1.ReasonForeignPolicy)),
		late:    onCluster(late, groups(group(v1alpha1.ReasonSynchronising, "orders.1"))),
		refuses: onCluster(refuses, refused),
		leaves: onCluster(leaves, func(in *Policy) {
			in.on().Leaving, in.on().Why, in.on().Effect = true, "the broker does not answer", nil
		}),
	}
	for _, c := range []struct {
		name          string
		clusters      []string
		where, counts string
		// what the conditions are
		ready, accepted, conflict, inSync, inForce string
		says                                       string // Ready
	}{
		{"all are well", []string{done, done}, "2 clusters", "8/8",
			"True/Ready", "True/AsExpected", "False/NoConflict", "True/AsExpected", "True/AsExpected", "on every matching queue"},
		{"one is silent, one in conflict, one done", []string{done, silent, taken}, "3 clusters", "4/?",
			"False/ForeignPolicy", "Unknown/Unreachable", "True/ForeignPolicy", "False/Pending", "Unknown/Unreachable", "messaging/taken: somebody else has it"},
		{"the order of the clusters does not matter", []string{taken, silent, done}, "3 clusters", "4/?",
			"False/ForeignPolicy", "Unknown/Unreachable", "True/ForeignPolicy", "False/Pending", "Unknown/Pending", "messaging/taken: somebody else has it"},
		{"one is silent, one done", []string{done, silent}, "2 clusters", "4/?",
			"Unknown/Unreachable", "Unknown/Unreachable", "Unknown/Unknown", "Unknown/Unreachable", "Unknown/Unreachable", "messaging/silent: not asked"},
		{"what is wrong comes before what is not known", []string{silent, late}, "2 clusters", "3/?",
			"False/Synchronising", "Unknown/Unreachable", "Unknown/Unknown", "Unknown/Unreachable", "False/Synchronising", "messaging/late: 1 queues"},
		{"one refuses it, one has not all yet", []string{done, late, refuses}, "3 clusters", "7/?",
			"False/UnsupportedByServer", "False/UnsupportedByServer", "Unknown/Unknown", "False/UnsupportedByServer", "False/Synchronising", "messaging/refuses: use Quorum"},
		{"two are silent", []string{silent, silent}, "2 clusters", "",
			"Unknown/Unreachable", "Unknown/Unreachable", "Unknown/Unknown", "Unknown/Unreachable", "Unknown/Unreachable", "(1 more clusters are no better)"},
		{"one that is left counts neither as a place nor as queues", []string{done, leaves}, "done", "4/4",
			"False/Leaving", "True/AsExpected", "False/NoConflict", "False/Leaving", "True/AsExpected", "messaging/leaves: the policy is not for this cluster any more and still in it: the broker does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := inForceEverywhere()
			in.Clusters = nil
			for _, name := range c.clusters {
				in.Clusters = append(in.Clusters, all[name])
			}
			got := ForPolicy(in, noon)
			if got.Where != c.where || got.InForce != c.counts || len(got.Clusters) != len(c.clusters) {
				t.Errorf("where %q, counts %q, %d entries", got.Where, got.InForce, len(got.Clusters))
			}
			for kind, want := range map[string]string{
				v1alpha1.ConditionReady: c.ready, v1alpha1.ConditionAccepted: c.accepted, v1alpha1.ConditionConflict: c.conflict,
				v1alpha1.ConditionInSync: c.inSync, v1alpha1.ConditionInForce: c.inForce,
			} {
				status, reason, _ := strings.Cut(want, "/")
				says := ""
				if kind == v1alpha1.ConditionReady {
					says = c.says
				}
				expectCondition(t, got.Conditions, kind, metav1.ConditionStatus(status), reason, says)
			}
			wanted := map[string]string{
				done: v1alpha1.ReasonReady, silent: v1alpha1.ReasonUnreachable, taken: v1alpha1.ReasonForeignPolicy,
				late: v1alpha1.ReasonSynchronising, refuses: v1alpha1.ReasonUnsupportedByServer, leaves: v1alpha1.ReasonLeaving,
			}
			for i, name := range c.clusters {
				if entry := got.Clusters[i]; entry.Cluster != "messaging/"+name || entry.Reason != wanted[name] {
					t.Errorf("the entry of %s is %+v", name, entry)
				}
			}
		})
	}
}

// The words on a rollout are those of the cluster that is furthest behind, and its queues count as far as they have it.
func TestSeveralRollouts(t *testing.T) {
	at := func(name string, phase v1alpha1.RolloutPhase, done, total int32) PolicyOn {
		c := onCluster(name, pending)
		c.Rollout = &v1alpha1.RolloutStatus{Phase: phase, Batch: done / 10, Batches: total / 10, Done: done, Total: total}
		return c
	}
	in := inForceEverywhere()
	in.Object.Spec.Rollout = &v1alpha1.RolloutSpec{Wave: 2}
	in.Clusters = []PolicyOn{at("a", v1alpha1.RolloutDone, 20, 20), at("b", v1alpha1.RolloutBatches, 10, 40), at("c", v1alpha1.RolloutBatches, 20, 40), onCluster("d")}
	if got := ForPolicy(in, noon); got.Rollout != "wave 2, batch 1/4" || got.InForce != "54/104" {
		t.Errorf("%q, %q", got.Rollout, got.InForce)
	}
	in.Clusters[1].Leaving = true
	if got := ForPolicy(in, noon); got.Rollout != "wave 2, batch 2/4" || got.InForce != "44/64" {
		t.Errorf("without the one that is left: %q, %q", got.Rollout, got.InForce)
	}
}

// E6: a pass that sees the same as before has nothing to write, whenever it is.
func TestTheSameOutcomeIsTheSameStatus(t *testing.T) {
	for i, edit := range []func(*Policy){func(*Policy) {}, pending, refused, unevaluated, loses(v1alpha1.ReasonForeignPolicy), unasked(v1alpha1.ReasonUnreachable),
		groups(group(v1alpha1.ReasonSynchronising, "a"), group(v1alpha1.ReasonUnknown, "b"))} {
		t.Run(fmt.Sprintf("E6: %d", i), func(t *testing.T) {
			in := inForceEverywhere(edit)
			first := ForPolicy(in, noon)
			in.Object.Status = first
			if second := ForPolicy(in, noon.Add(time.Hour)); !reflect.DeepEqual(first, second) {
				t.Errorf("%+v\nbecame %+v", first, second)
			}
		})
	}
}

func TestAnEmptyPolicyIsNoPanic(t *testing.T) {
	got := ForPolicy(Policy{Object: &v1alpha1.QueuePolicy{}}, noon)
	if meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) {
		t.Error("a policy of which nothing is known is ready")
	}
}

// A status with a message above 32 KiB is refused as a whole, and the object would say nothing at all.
func TestLongMessagesAreCut(t *testing.T) {
	p := &v1alpha1.QueuePolicy{}
	for _, letter := range []string{"x", "日"} {
		long := strings.Repeat(letter, 40_000)
		got := ForPolicy(Policy{Object: p, Clusters: []PolicyOn{{Refused: &Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: long}}}}, time.Unix(0, 0))
		for _, c := range got.Conditions {
			if len(c.Message) > messageMost || !utf8.ValidString(c.Message) {
				t.Errorf("%s: %d bytes, valid: %t", c.Type, len(c.Message), utf8.ValidString(c.Message))
			}
		}
	}
}
