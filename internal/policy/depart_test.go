package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// leaving is a QueuePolicy that owns its policy and was deleted at the epoch.
func leaving(edits ...func(*v1alpha1.QueuePolicy)) *v1alpha1.QueuePolicy {
	p := queuePolicy(v1alpha1.HATwo, edits...)
	p.DeletionTimestamp = &metav1.Time{Time: epoch}
	if p.Status.Clusters == nil {
		p.Status.Clusters = owning("uid")
	}
	return p
}

func owning(uid string) []v1alpha1.ClusterPolicyStatus {
	return []v1alpha1.ClusterPolicyStatus{{
		Cluster: "shop/runtime", Owned: &v1alpha1.OwnedPolicy{ClusterUID: uid, VHost: "/", Name: "orders"},
	}}
}

func TestDepart(t *testing.T) {
	retain := func(p *v1alpha1.QueuePolicy) { p.Spec.DeletionPolicy = v1alpha1.RetainOnDelete }
	orphan := func(p *v1alpha1.QueuePolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationOrphan: "true"}
	}
	loser := func(p *v1alpha1.QueuePolicy) {
		p.Status.Clusters = owning("earlier")
	}
	waiting, taken := claim("ns2/x", time.Hour, false, false), claim("ns2/x", time.Hour, true, false)
	for _, c := range []struct {
		name   string
		policy *v1alpha1.QueuePolicy
		uid    string
		rivals []Claim
		after  time.Duration
		verb   DepartureVerb
		event  string
	}{
		{"E2: (a) the cluster is gone", leaving(), "", nil, 0, LetGo, EventKept},
		{"E2: (a) another cluster of the same name", leaving(), "another", nil, 0, LetGo, EventKept},
		{"E2: the broker has the policy", leaving(), "uid", nil, 0, RemovePolicy, EventRemoved},
		{"E4: a loser removes nothing", leaving(loser), "uid", []Claim{taken}, 0, LetGo, EventKept},
		{"E4: it was taken over", leaving(), "uid", []Claim{taken}, 0, LetGo, EventKept},
		{"E4: it waits to be taken over", leaving(), "uid", []Claim{waiting}, time.Second, Wait, ""},
		{"E4: but not for ever", leaving(), "uid", []Claim{waiting}, time.Minute, RemovePolicy, EventRemoved},
		{"E4: a rival that goes as well takes nothing over", leaving(), "uid", []Claim{claim("ns2/x", time.Hour, false, true)}, 0, RemovePolicy, EventRemoved},
		{"E5: Retain leaves it, and removes only what is temporary", leaving(retain), "uid", nil, 0, RemovePolicy, EventKept},
		{"E4: Retain hands over too, else the next one finds a policy that nobody made", leaving(retain), "uid", []Claim{waiting}, time.Second, Wait, ""},
		{"E5: Retain leaves it when nobody took it in time", leaving(retain), "uid", []Claim{waiting}, time.Minute, RemovePolicy, EventKept},
		{"E2: released by the annotation", leaving(orphan), "uid", []Claim{waiting}, 0, LetGo, EventOrphaned},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Depart(c.policy, c.uid, c.rivals, epoch, epoch.Add(c.after))
			if got.Verb != c.verb || got.Event != c.event || got.Why == "" {
				t.Errorf("%s, event %q, because %q; want %s, %q", got.Verb, got.Event, got.Why, c.verb, c.event)
			}
		})
	}
}

func TestAfterRemoval(t *testing.T) {
	refused := &broker.Error{Kind: broker.Unavailable, Op: "delete policy", Reason: "connection refused"}
	for _, c := range []struct {
		name    string
		after   time.Duration
		failure error
		verb    DepartureVerb
		event   string
		says    string
	}{
		{"E2: removed", 0, nil, LetGo, EventRemoved, "removed"},
		{"E2: (d) 404: gone already", 0, &broker.Error{Kind: broker.NotFound}, LetGo, EventRemoved, "removed"},
		{"E2: (c) connection refused", 0, refused, Wait, "", "connection refused"},
		{"E2: (c) still, a moment before the patience ends", OrphanAfter - time.Second, refused, Wait, "", "connection refused"},
		{"E2: (c) still, and the patience is over", OrphanAfter, refused, LetGo, EventOrphaned, "connection refused"},
		{"E2: (e) the Secret is gone", time.Second, errors.New("no Secret"), Wait, "", "no Secret"},
		{"E2: (f) 401", time.Second, &broker.Error{Kind: broker.Unauthorized, Reason: "401"}, Wait, "", "401"},
		{"E2: (f) 401, and the patience is over", time.Hour, &broker.Error{Kind: broker.Unauthorized, Reason: "401"}, LetGo, EventOrphaned, "401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := AfterRemoval(Depart(leaving(), "uid", nil, epoch, epoch.Add(c.after)), c.failure)
			if got.Verb != c.verb || got.Event != c.event || !strings.Contains(got.Why, c.says) {
				t.Errorf("%s, event %q, because %q; want %s, %q, %q", got.Verb, got.Event, got.Why, c.verb, c.event, c.says)
			}
		})
	}
}
