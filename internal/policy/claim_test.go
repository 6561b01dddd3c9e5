package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func claim(title string, age time.Duration, owns, deleting bool) Claim {
	namespace, name, _ := strings.Cut(title, "/")
	return Claim{Namespace: namespace, Name: name, Created: epoch.Add(-age), Owns: owns, Deleting: deleting}
}

func TestJudge(t *testing.T) {
	foreign := &broker.Policy{Name: "limits", Pattern: ".*", Definition: map[string]any{"max-length": int64(1)}}
	equal := &broker.Policy{Name: "limits", Pattern: "^orders", Definition: map[string]any{"max-length": int64(1)}}
	mine := claim("ns1/limits", time.Minute, false, false)
	owning := claim("ns1/limits", time.Minute, true, false)
	for _, c := range []struct {
		name   string
		mine   Claim
		others []Claim
		have   *broker.Policy
		adopt  bool
		reason string // "" for owner
		says   string
	}{
		{"alone", mine, nil, nil, false, "", ""},
		{"mine among all", mine, []Claim{mine}, nil, false, "", ""},
		{"E4: created in the same second, the first by name", mine, []Claim{claim("ns2/limits", time.Minute, false, false)}, nil, false, "", ""},
		{"E4: created in the same second, the second by name", claim("ns2/limits", time.Minute, false, false), []Claim{mine}, nil, false, v1alpha1.ReasonOtherQueuePolicy, "ns1/limits"},
		{"E4: the older wins", mine, []Claim{claim("ns2/limits", time.Hour, false, false)}, nil, false, v1alpha1.ReasonOtherQueuePolicy, "ns2/limits"},
		{"E4: an older rival does not take from an owner", owning, []Claim{claim("ns2/limits", time.Hour, false, false)}, foreign, false, "", ""},
		{"E4: whoever owns keeps", mine, []Claim{claim("ns2/limits", time.Second, true, false)}, foreign, false, v1alpha1.ReasonOtherQueuePolicy, "ns2/limits"},
		{"E4: a deleting owner hands over what is there", mine, []Claim{claim("ns2/limits", time.Hour, true, true)}, foreign, false, "", ""},
		{"E4: of two that wait, the older takes over", mine,
			[]Claim{claim("ns2/limits", time.Hour, true, true), claim("ns3/limits", 2*time.Minute, false, false)}, foreign, false, v1alpha1.ReasonOtherQueuePolicy, "ns3/limits"},
		{"E4: a deleting loser hands nothing over", mine, []Claim{claim("ns2/limits", time.Hour, false, true)}, foreign, false, v1alpha1.ReasonForeignPolicy, "adopt: true"},
		{"E4: a policy made by hand is not overwritten", mine, nil, foreign, false, v1alpha1.ReasonForeignPolicy, `"limits" that Warren did not make (pattern ".*", priority 0, max-length: 1)`},
		{"E4: not even with adopt, which says what differs", mine, nil, foreign, true, v1alpha1.ReasonForeignPolicy, `pattern is .*, wanted ^orders`},
		{"E4: unless it is just what is wanted", mine, nil, equal, false, "", ""},
		{"E4: adopt takes nothing from another QueuePolicy", mine, []Claim{claim("ns2/limits", time.Second, true, false)}, foreign, true, v1alpha1.ReasonOtherQueuePolicy, "ns2/limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Judge(c.mine, c.others)
			want := &broker.Policy{Name: "limits", Pattern: "^orders", Definition: map[string]any{"max-length": int64(1)}}
			if foreign := Foreign("policy", c.others, want, c.have, c.adopt); got.Owner && !c.mine.Owns && foreign != nil {
				got = *foreign
			}
			if got.Owner != (c.reason == "") || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want reason %q saying %q", got, c.reason, c.says)
			}
		})
	}
}

// E4: whatever claims there are, in whatever order they are seen, exactly one of the living is the owner, and it is one
// that owns already if there is any.
func TestOfAllLivingClaimsExactlyOneIsTheOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "claims")
		claims := make([]Claim, n)
		for i := range claims {
			claims[i] = claim(fmt.Sprintf("ns%d/p%d", i/2, i), time.Duration(rapid.IntRange(0, 2).Draw(t, "age"))*time.Second,
				rapid.Bool().Draw(t, "owns"), rapid.Bool().Draw(t, "deleting"))
		}
		living := slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return c.Deleting })
		owners := func(seen []Claim) (out []Claim) {
			for _, mine := range living {
				if Judge(mine, seen).Owner {
					out = append(out, mine)
				}
			}
			return out
		}
		first, second := owners(claims), owners(rapid.Permutation(claims).Draw(t, "order"))
		if len(living) == 0 {
			return
		}
		if len(first) != 1 || len(second) != 1 || first[0] != second[0] {
			t.Fatalf("owners %v, and in another order %v", first, second)
		}
		if slices.ContainsFunc(living, func(c Claim) bool { return c.Owns }) && !first[0].Owns {
			t.Fatalf("%v took over from an owner", first[0])
		}
	})
}

func TestClaimOf(t *testing.T) {
	owned := func(edit func(*v1alpha1.OwnedPolicy)) *v1alpha1.QueuePolicy {
		p := queuePolicy(v1alpha1.HATwo)
		owned := &v1alpha1.OwnedPolicy{ClusterUID: "uid", VHost: "/", Name: "orders"}
		edit(owned)
		p.Status.Clusters = []v1alpha1.ClusterPolicyStatus{{Cluster: "shop/runtime", Owned: owned}}
		return p
	}
	for _, c := range []struct {
		name   string
		policy *v1alpha1.QueuePolicy
		owns   bool
	}{
		{"E1: recorded", owned(func(*v1alpha1.OwnedPolicy) {}), true},
		{"E1: of an earlier cluster of the same name", owned(func(o *v1alpha1.OwnedPolicy) { o.ClusterUID = "earlier" }), false},
		{"D1: of another vhost", owned(func(o *v1alpha1.OwnedPolicy) { o.VHost = "team/a" }), false},
		{"of another name", owned(func(o *v1alpha1.OwnedPolicy) { o.Name = "other" }), false},
		{"not recorded", queuePolicy(v1alpha1.HATwo), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ClaimOf(c.policy, "uid"); got.Owns != c.owns || got.Deleting {
				t.Errorf("%+v, want owns %v", got, c.owns)
			}
		})
	}
	p := queuePolicy(v1alpha1.HATwo)
	p.DeletionTimestamp = &metav1.Time{Time: epoch}
	if !ClaimOf(p, "uid").Deleting {
		t.Error("a QueuePolicy that is being deleted claims like one that lives")
	}
}
