package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

func cluster(key string, edits ...func(*v1alpha1.WorkloadCluster)) *v1alpha1.WorkloadCluster {
	namespace, name, _ := strings.Cut(key, "/")
	c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"}}
	c.Spec.WorkloadClass = "runtime"
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func grant(namespaces ...string) func(*v1alpha1.WorkloadCluster) {
	return func(c *v1alpha1.WorkloadCluster) { c.Spec.PolicyNamespaces = namespaces }
}

func dying(c *v1alpha1.WorkloadCluster) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }

func onCluster(namespace, name string) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) {
		p.Spec.ClusterRef = &v1alpha1.PolicyClusterReference{Namespace: namespace, Name: name}
	}
}

func onSelected(s v1alpha1.ClusterSelector) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.ClusterSelector = &s }
}

func onSecret(p *v1alpha1.QueuePolicy) {
	p.Spec.ConnectionSecretRef = &v1alpha1.LocalSecretReference{Name: "outside"}
}

func TestTargets(t *testing.T) {
	class := v1alpha1.ClusterSelector{WorkloadClass: "runtime"}
	for _, c := range []struct {
		name     string
		edit     func(*v1alpha1.QueuePolicy)
		clusters []*v1alpha1.WorkloadCluster
		want     []string // keys, with ! when it cannot be worked on
		refusal  string
	}{
		{"the named one", onCluster("", "runtime"), []*v1alpha1.WorkloadCluster{cluster("messaging/runtime"), cluster("messaging/other")}, []string{"messaging/runtime"}, ""},
		{"none of that name", onCluster("", "runtime"), []*v1alpha1.WorkloadCluster{cluster("shop/runtime")}, []string{"messaging/runtime!"}, ""},
		{"one that is being deleted", onCluster("", "runtime"), []*v1alpha1.WorkloadCluster{cluster("messaging/runtime", dying)}, []string{"messaging/runtime!"}, ""},
		{"in another namespace, without its leave", onCluster("shop", "runtime"), []*v1alpha1.WorkloadCluster{cluster("shop/runtime", grant("else"))}, []string{"shop/runtime!"}, ""},
		{"in another namespace, with its leave", onCluster("shop", "runtime"), []*v1alpha1.WorkloadCluster{cluster("shop/runtime", grant("else", "messaging"))}, []string{"shop/runtime"}, ""},
		{"in another namespace, with leave for all", onCluster("shop", "runtime"), []*v1alpha1.WorkloadCluster{cluster("shop/runtime", grant("*"))}, []string{"shop/runtime"}, ""},
		{"all of a class, in order", onSelected(class), []*v1alpha1.WorkloadCluster{cluster("messaging/b"), cluster("messaging/a"), cluster("shop/c", grant("*")), cluster("messaging/d", dying)},
			[]string{"messaging/a", "messaging/b"}, ""},
		{"in the named namespaces that let it", onSelected(v1alpha1.ClusterSelector{WorkloadClass: "runtime", Namespaces: []string{"shop", "lab"}}),
			[]*v1alpha1.WorkloadCluster{cluster("messaging/a"), cluster("shop/b", grant("messaging")), cluster("lab/c")}, []string{"shop/b"}, ""},
		{"class and labels", onSelected(v1alpha1.ClusterSelector{WorkloadClass: "runtime", MatchLabels: map[string]string{"fleet": ""}}),
			[]*v1alpha1.WorkloadCluster{cluster("messaging/a"), cluster("messaging/b", func(c *v1alpha1.WorkloadCluster) { c.Labels = map[string]string{"fleet": ""} })}, []string{"messaging/b"}, ""},
		{"none selected", onSelected(class), nil, nil, v1alpha1.ReasonClusterNotFound},
		{"more than a status can tell of", onSelected(class), slices.Repeat([]*v1alpha1.WorkloadCluster{cluster("messaging/a")}, 101), nil, v1alpha1.ReasonInvalidSpec},
		{"a Secret", onSecret, nil, []string{"secret/outside"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			targets, refusal := Targets(queuePolicy(v1alpha1.ReplicationNone, c.edit), c.clusters)
			var got []string
			for _, target := range targets {
				key := target.Key
				if target.Reason != "" {
					key += "!"
				}
				got = append(got, key)
			}
			if !slices.Equal(got, c.want) || (refusal == nil) != (c.refusal == "") || refusal != nil && refusal.Reason != c.refusal {
				t.Errorf("%q, %+v; want %q, %q", got, refusal, c.want, c.refusal)
			}
		})
	}
}

func TestLeaving(t *testing.T) {
	recorded := func(key, uid string) func(*v1alpha1.QueuePolicy) {
		return func(p *v1alpha1.QueuePolicy) {
			p.Status.Clusters = append(p.Status.Clusters, v1alpha1.ClusterPolicyStatus{Cluster: key, Owned: &v1alpha1.OwnedPolicy{ClusterUID: uid, VHost: "/", Name: "orders"}})
		}
	}
	deleting := func(p *v1alpha1.QueuePolicy) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }
	here, external := cluster("messaging/runtime"), ExternalPrefix+"1"
	for _, c := range []struct {
		name  string
		edits []func(*v1alpha1.QueuePolicy)
		want  []string
	}{
		{"it stays", []func(*v1alpha1.QueuePolicy){onCluster("", "runtime"), recorded("messaging/runtime", "uid")}, nil},
		{"E5: it names another one now", []func(*v1alpha1.QueuePolicy){onCluster("", "other"), recorded("messaging/runtime", "uid")}, []string{"messaging/runtime"}},
		{"E1: the cluster of that time is gone", []func(*v1alpha1.QueuePolicy){onCluster("", "other"), recorded("messaging/runtime", "earlier")}, nil},
		{"nothing is recorded", []func(*v1alpha1.QueuePolicy){onCluster("", "other")}, nil},
		{"it goes", []func(*v1alpha1.QueuePolicy){onCluster("", "runtime"), recorded("messaging/runtime", "uid"), recorded("secret/outside", external), deleting}, []string{"messaging/runtime", "secret/outside"}},
		{"E2: it goes, and so did the cluster", []func(*v1alpha1.QueuePolicy){onCluster("", "runtime"), recorded("messaging/runtime", "earlier"), deleting}, nil},
		{"the Secret stays", []func(*v1alpha1.QueuePolicy){onSecret, recorded("secret/outside", external)}, nil},
		{"another Secret", []func(*v1alpha1.QueuePolicy){onSecret, recorded("secret/before", external)}, []string{"secret/before"}},
		{"a namespace called secret", []func(*v1alpha1.QueuePolicy){onCluster("", "other"), recorded("secret/runtime", "earlier")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, leave := range Leaving(queuePolicy(v1alpha1.ReplicationNone, c.edits...), []*v1alpha1.WorkloadCluster{here}) {
				got = append(got, leave.Key)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// C4: equal priority without a shared queue is no conflict, and the newer is the one that is not applied.
func TestOverlap(t *testing.T) {
	queues := []broker.Queue{{Name: "orders.eu.1", Type: broker.Quorum}, {Name: "payments", Type: broker.Classic}}
	want := broker.Policy{Name: "mine", Pattern: "^orders", Priority: 5, ApplyTo: broker.ApplyToQueues}
	other := func(name, pattern string, priority int) broker.Policy {
		return broker.Policy{Name: name, Pattern: pattern, Priority: priority, ApplyTo: broker.ApplyToQueues}
	}
	mine := claim("ns1/mine", 60, true, false)
	older, newer := claim("ns2/other", 61, true, false), claim("ns2/other", 59, false, false)
	contends := func(c Claim, p broker.Policy) []Contender { return []Contender{{Claim: c, Policy: p}} }
	for _, c := range []struct {
		name       string
		applied    bool
		policies   []broker.Policy
		contenders []Contender
		says       string // "" for no overlap
		first      bool
	}{
		{"C4: alone", false, nil, nil, "", false},
		{"C4: a foreign one", false, []broker.Policy{other("hand", ".*", 5)}, nil, `policy "hand", which no QueuePolicy made`, true},
		{"C4: a foreign one that came later", true, []broker.Policy{other("hand", ".*", 5)}, nil, `policy "hand"`, false},
		{"C4: another priority", false, []broker.Policy{other("hand", ".*", 4)}, nil, "", false},
		{"C4: no shared queue", false, []broker.Policy{other("hand", "^payments", 5)}, nil, "", false},
		{"C4: another QueuePolicy has it in the broker", false, []broker.Policy{other("other", "eu", 5)}, contends(older, other("other", "eu", 5)), "QueuePolicy ns2/other", true},
		{"C4: a newer one waits", true, nil, contends(newer, other("other", "eu", 5)), "QueuePolicy ns2/other", false},
		{"C4: both are not written, and this is the older", false, nil, contends(newer, other("other", "eu", 5)), "QueuePolicy ns2/other", false},
		{"C4: both are not written, and this is the newer", false, nil, contends(older, other("other", "eu", 5)), "QueuePolicy ns2/other", true},
		{"C4: kinds that never meet", false, []broker.Policy{{Name: "hand", Pattern: ".*", Priority: 5, ApplyTo: broker.ApplyToClassicQueues}}, nil, "", false},
		{"C4: a pattern that nobody here can evaluate is not guessed at", false, []broker.Policy{other("hand", `(?<!err)s`, 5)}, nil, "", false},
		{"C11: a temporary policy of a rollout", false, []broker.Policy{other("x~0123456789ab-1", ExactPatterns([]string{"orders.eu.1"})[0], 5)}, nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Vhost{Capabilities: capabilities(t, "4.3"), Queues: queues, Policies: c.policies}
			got := OverlapOf(mine, want, c.applied, v, c.contenders)
			switch {
			case got == nil && c.says == "":
			case got == nil || c.says == "":
				t.Errorf("%+v, want %q", got, c.says)
			case !strings.Contains(got.Message(), c.says) || got.First != c.first || got.Queue != "orders.eu.1":
				t.Errorf("%+v: %s", got, got.Message())
			}
		})
	}
}

func TestEarlierWaves(t *testing.T) {
	const uid, another = "uid", ExternalPrefix + "another"
	staged := func(wave int32, phase v1alpha1.RolloutPhase, seen int64, edits ...func(*v1alpha1.QueuePolicy)) *v1alpha1.QueuePolicy {
		return queuePolicy(v1alpha1.ReplicationNone, append([]func(*v1alpha1.QueuePolicy){func(p *v1alpha1.QueuePolicy) {
			p.UID, p.Spec.ClusterRef, p.Spec.ConnectionSecretRef = types.UID(fmt.Sprint("p", wave)), nil, &v1alpha1.LocalSecretReference{Name: "legacy"}
			p.Spec.Rollout, p.Generation, p.Status.ObservedGeneration = &v1alpha1.RolloutSpec{Wave: wave}, 2, 2
			if phase != "" {
				p.Status.Clusters = []v1alpha1.ClusterPolicyStatus{{
					Cluster: SecretKey("legacy"), Owned: &v1alpha1.OwnedPolicy{ClusterUID: uid},
					Rollout: &v1alpha1.RolloutStatus{Phase: phase, ObservedGeneration: seen},
				}}
			}
		}}, edits...)...)
	}
	by := func(secret string) func(*v1alpha1.QueuePolicy) {
		return func(p *v1alpha1.QueuePolicy) { p.Spec.ConnectionSecretRef.Name = secret }
	}
	of := func(uid string) func(*v1alpha1.QueuePolicy) {
		return func(p *v1alpha1.QueuePolicy) { p.Status.Clusters[0].Owned.ClusterUID = uid }
	}
	abroad := func(p *v1alpha1.QueuePolicy) { p.Namespace = "elsewhere" }
	p := staged(2, "", 0)
	for _, c := range []struct {
		name  string
		other *v1alpha1.QueuePolicy
		waits bool
	}{
		{"done", staged(1, v1alpha1.RolloutDone, 2), false},
		{"done before it was edited", staged(1, v1alpha1.RolloutDone, 1), true},
		{"under way", staged(1, v1alpha1.RolloutBatches, 2), true},
		{"not begun", staged(1, "", 2), true},
		{"rolled back", staged(1, v1alpha1.RolloutRolledBack, 2), true},
		{"to be rolled back, and the broker was silent since", staged(1, v1alpha1.RolloutDone, 1, func(p *v1alpha1.QueuePolicy) { p.Spec.Rollout.RollBack = true }), true},
		{"being rolled back", staged(1, v1alpha1.RolloutRollingBack, 2), true},
		{"done in another broker that the Secret named before", staged(1, v1alpha1.RolloutDone, 2, of(another)), true},
		{"of another broker", staged(1, v1alpha1.RolloutBatches, 2, by("other"), of(another)), false},
		{"by another Secret of this broker", staged(1, v1alpha1.RolloutBatches, 2, by("other")), true},
		{"by another Secret of this broker in another namespace", staged(1, v1alpha1.RolloutBatches, 2, abroad), true},
		{"by a Secret of this name in another namespace", staged(1, "", 0, abroad), false},
		{"of the same wave", staged(2, v1alpha1.RolloutBatches, 2), false},
		{"not staged", queuePolicy(v1alpha1.ReplicationNone), false},
	} {
		if got := EarlierWaves(p, []*v1alpha1.QueuePolicy{c.other}, Target{Key: SecretKey("legacy"), Secret: "legacy"}, uid); (len(got) > 0) != c.waits {
			t.Errorf("C11: %s: waits for %q", c.name, got)
		}
	}
	runtime := cluster("messaging/runtime")
	recreated := staged(1, v1alpha1.RolloutDone, 2, of("of the cluster before"), func(p *v1alpha1.QueuePolicy) {
		p.Spec.ConnectionSecretRef, p.Spec.ClusterRef = nil, &v1alpha1.PolicyClusterReference{Name: runtime.Name}
		p.Status.Clusters[0].Cluster = "messaging/runtime"
	})
	target := Target{Key: "messaging/runtime", Cluster: runtime}
	if got := EarlierWaves(p, []*v1alpha1.QueuePolicy{recreated}, target, uid); len(got) == 0 {
		t.Error("C11: a wave that was done in a cluster that is gone counts in the one that has its name now")
	}
}
