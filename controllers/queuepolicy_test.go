//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/policy"
)

// newPolicy limits the queues of a pattern; edit makes it something else.
func newPolicy(c *v1alpha1.WorkloadCluster, name string, edit ...func(*v1alpha1.QueuePolicy)) *v1alpha1.QueuePolicy {
	p := &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
		Spec: v1alpha1.QueuePolicySpec{
			ClusterRef:  &v1alpha1.PolicyClusterReference{Name: c.Name},
			Pattern:     "^orders",
			Replication: v1alpha1.ReplicationSpec{Mode: v1alpha1.ReplicationNone},
			Definition:  &runtime.RawExtension{Raw: []byte(`{"max-length": 1000, "overflow": "reject-publish"}`)},
		},
	}
	for _, f := range edit {
		f(p)
	}
	return p
}

func haTwo(p *v1alpha1.QueuePolicy) {
	p.Spec.Replication.Mode, p.Spec.Definition = v1alpha1.HATwo, nil
	p.Spec.QuorumDecision = &v1alpha1.QuorumDecision{By: "2099-09-30", Owner: "team"}
}

func quorum(p *v1alpha1.QueuePolicy) {
	p.Spec.Replication.Mode, p.Spec.Definition = v1alpha1.ReplicationQuorum, nil
}

func named(name string) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.PolicyName = name }
}

// admin reaches the fake broker as Warren does.
func admin(t *testing.T, server *brokertest.Server) broker.Client {
	t.Helper()
	connector := management.NewConnector(management.Options{})
	t.Cleanup(func() { connector.Forget(t.Name()) })
	api, err := connector.Connect(server.Target(t.Name()))
	must(t, err)
	return api
}

func find(t *testing.T, api broker.Client, vhost, name string) *broker.Policy {
	t.Helper()
	policies, err := api.Policies(t.Context(), vhost)
	must(t, err)
	return policy.Find(policies, name)
}

func policyIs(t *testing.T, p *v1alpha1.QueuePolicy, condition string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %s is %s, %s", p.Name, condition, status, reason), func() error {
		if err := get(t, p.Namespace, p.Name, p); err != nil {
			return err
		}
		return conditionIs(p.Status.Conditions, condition, status, reason)
	})
}

func readyPolicy(t *testing.T, p *v1alpha1.QueuePolicy) {
	t.Helper()
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

func gonePolicy(t *testing.T, p *v1alpha1.QueuePolicy) {
	t.Helper()
	eventually(t, p.Name+" is gone", func() error {
		if err := get(t, p.Namespace, p.Name, p); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want not found, got %v: %+v", err, p.Status.Conditions)
		}
		return nil
	})
}

func declare(t *testing.T, api broker.Client, vhost, name string, kind broker.QueueType) {
	t.Helper()
	must(t, api.PutQueue(t.Context(), broker.Queue{
		VHost: vhost, Name: name, Durable: true, Arguments: map[string]any{"x-queue-type": string(kind)},
	}))
}

func TestPolicyIsWrittenOnceAndInForce(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	declare(t, api, "/", "orders.1", broker.Quorum)
	declare(t, api, "/", "orders.old", broker.Classic)
	declare(t, api, "/", "payments", broker.Quorum)
	p := newPolicy(c, "runtime-ha", quorum)
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNeedsMigration)
	if p.Status.InForce != "1/2" {
		t.Errorf("in force is %q, want 1/2", p.Status.InForce)
	}
	must(t, api.DeleteQueue(t.Context(), "/", "orders.old"))
	readyPolicy(t, p)
	if p.Status.InForce != "1/1" {
		t.Errorf("in force is %q, want 1/1", p.Status.InForce)
	}

	version := p.ResourceVersion
	server.ForgetRequests()
	throughout(t, "nothing is written in steady state", func() error {
		must(t, get(t, p.Namespace, p.Name, p))
		if p.ResourceVersion != version {
			return fmt.Errorf("status written: %+v", p.Status)
		}
		return nil
	})
	if server.Reads() == 0 || server.Writes() != 0 {
		t.Errorf("the broker saw %d reads and %d writes, want some and none", server.Reads(), server.Writes())
	}
}

// E1: removed or edited behind Warren's back, it returns within one poll, and an event says so.
func TestDriftIsCorrected(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	p := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	want := find(t, api, "/", "limits")
	for what, harm := range map[string]func(){
		"removed": func() { must(t, api.DeletePolicy(t.Context(), "/", "limits")) },
		"edited": func() {
			edited := *want
			edited.Definition = map[string]any{"max-length": int64(5)}
			must(t, api.PutPolicy(t.Context(), edited))
		},
		"broker replaced by an empty one": func() {
			server.Reset()
			server.SetNodes(nodesOf(c, []string{"runtime-0", "runtime-1", "runtime-2"})...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			harm()
			eventually(t, "the policy is back", func() error {
				have := find(t, api, "/", "limits")
				if have == nil || !broker.EqualDefinitions(have.Definition, want.Definition) {
					return fmt.Errorf("broker has %+v", have)
				}
				return nil
			})
		})
	}
	for _, action := range []string{"CreatePolicy", "UpdatePolicy"} {
		eventually(t, "an event tells of each kind of correction", func() error { return hasEvent(t, p.Namespace, p.Name, "DriftCorrected", action) })
	}
}

// The API server refuses events with a text above 1024 bytes, and then nobody is told.
func TestDriftOfALongPatternIsTold(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	api := admin(t, startCluster(t, c, brokertest.V4))
	p := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "^" + strings.Repeat("日", 700) })
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	edited := *find(t, api, "/", "limits")
	edited.Pattern = "^another"
	must(t, api.PutPolicy(t.Context(), edited))
	eventually(t, "an event tells of the correction", func() error { return hasEvent(t, p.Namespace, p.Name, "DriftCorrected") })
}

func hasEvent(t *testing.T, namespace, object, reason string, actions ...string) error {
	t.Helper()
	var list corev1.EventList
	must(t, kube.List(t.Context(), &list, client.InNamespace(namespace)))
	for _, event := range list.Items {
		if event.InvolvedObject.Name == object && event.Reason == reason && (len(actions) == 0 || slices.Contains(actions, event.Action)) {
			return nil
		}
	}
	return fmt.Errorf("no event %s %v of %s", reason, actions, object)
}

// C7: mirrored on 3.10, refused on 4.3 with the way out, and nothing is sent.
func TestMirroringIsRefusedWhereItDoesNotExist(t *testing.T) {
	namespace := newNamespace(t)
	old, current := newCluster(namespace, "legacy", "3.10"), newCluster(namespace, "runtime", "4.3")
	oldServer, currentServer := startCluster(t, old, brokertest.V3), startCluster(t, current, brokertest.V4)
	declare(t, admin(t, oldServer), "/", "orders.1", broker.Classic)
	mirrored, refused := newPolicy(old, "on-310", haTwo), newPolicy(current, "on-43", haTwo)
	currentServer.ForgetRequests()
	must(t, kube.Create(t.Context(), mirrored))
	must(t, kube.Create(t.Context(), refused))
	readyPolicy(t, mirrored)
	if got := find(t, admin(t, oldServer), "/", "on-310"); got == nil || got.Definition["ha-mode"] != "exactly" || got.Definition["ha-params"] != int64(2) {
		t.Errorf("3.10 has %+v", got)
	}
	policyIs(t, refused, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonUnsupportedByServer)
	for _, condition := range refused.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady && !strings.Contains(condition.Message, "mode: Quorum") {
			t.Errorf("no way out in %q", condition.Message)
		}
	}
	if n := currentServer.Writes(); n != 0 {
		t.Errorf("4.3 was sent %d writes", n)
	}
}

// C1: what the broker would refuse is refused before it is asked, and other policies go on.
func TestWrongDefinitionsAreRefused(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	server.ForgetRequests()
	for name, definition := range map[string]string{
		"quoted-number": `{"max-length": "1000"}`, "misspelt": `{"max-lenght": 5}`, "empty": `{}`,
	} {
		p := newPolicy(c, name, func(p *v1alpha1.QueuePolicy) { p.Spec.Definition.Raw = []byte(definition) })
		must(t, kube.Create(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	}
	if n := server.Writes(); n != 0 {
		t.Errorf("the broker was sent %d writes", n)
	}
	pattern := newPolicy(c, "pattern", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "^(unclosed" })
	must(t, kube.Create(t.Context(), pattern))
	policyIs(t, pattern, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonRefusedByServer)
	writes := server.Writes()
	throughout(t, "a refused policy is not sent again and again", func() error {
		if n := server.Writes(); n > writes {
			return fmt.Errorf("%d more writes", n-writes)
		}
		return nil
	})
	good := newPolicy(c, "good")
	must(t, kube.Create(t.Context(), good))
	readyPolicy(t, good)
}

// E4: one owner, by a stable order; the loser's deletion sends nothing; the owner's deletion hands the policy over.
func TestTwoPoliciesOneName(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	first := newPolicy(c, "b-first", named("limits"))
	must(t, kube.Create(t.Context(), first))
	readyPolicy(t, first)
	second := newPolicy(c, "a-second", named("limits"), func(p *v1alpha1.QueuePolicy) {
		p.Spec.Definition.Raw = []byte(`{"max-length": 2, "overflow": "reject-publish"}`)
	})
	must(t, kube.Create(t.Context(), second))
	policyIs(t, second, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonOtherQueuePolicy)
	loser := newPolicy(c, "loser", named("limits"))
	must(t, kube.Create(t.Context(), loser))
	policyIs(t, loser, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonOtherQueuePolicy)

	server.ForgetRequests()
	must(t, kube.Delete(t.Context(), loser))
	gonePolicy(t, loser)
	if n := server.Writes(); n != 0 {
		t.Errorf("the loser's deletion sent %d writes", n)
	}
	absent := false
	server.Observe(func(r brokertest.Request) {
		if r.Method == http.MethodDelete {
			absent = true
		}
	})
	must(t, kube.Delete(t.Context(), first))
	gonePolicy(t, first)
	readyPolicy(t, second)
	server.Observe(nil)
	if absent {
		t.Error("the policy was deleted on the way from one owner to the next")
	}
	if got := find(t, api, "/", "limits"); got == nil || got.Definition["max-length"] != int64(2) {
		t.Errorf("the next owner's definition is not in force: %+v", got)
	}
}

// E4: somebody's policy of the same name is not touched without adopt, neither on the way in nor on the way out.
func TestForeignPolicyIsNotTouched(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	foreign := broker.Policy{VHost: "/", Name: "limits", Pattern: ".*", ApplyTo: broker.ApplyToAll, Definition: map[string]any{"max-length": int64(7)}}
	must(t, api.PutPolicy(t.Context(), foreign))
	p := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForeignPolicy)
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	if got := find(t, api, "/", "limits"); got == nil || got.Pattern != ".*" {
		t.Fatalf("the foreign policy is %+v", got)
	}
	adopter := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) { p.Spec.Adopt = true })
	must(t, kube.Create(t.Context(), adopter))
	policyIs(t, adopter, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonForeignPolicy)
	if message := adopter.Status.Clusters[0].Message; !strings.Contains(message, "pattern is .*, wanted ^orders") {
		t.Errorf("the conflict does not say in what they differ: %q", message)
	}
	edit(t, adopter, func() {
		adopter.Spec.Pattern, adopter.Spec.ApplyTo, adopter.Spec.Definition.Raw = ".*", v1alpha1.TargetAll, []byte(`{"max-length": 7}`)
		adopter.Spec.AcceptDataLoss = true
	})
	server.ForgetRequests()
	readyPolicy(t, adopter)
	if n := server.Writes(); n != 0 || adopter.Status.Clusters[0].Owned == nil {
		t.Errorf("an equal policy was taken over with %d writes, recorded as %+v", n, adopter.Status.Clusters[0].Owned)
	}
}

// E5: a QueuePolicy that is created again finds the policy that an earlier one left, and takes it over when it is the same.
func TestRecreatedPolicyFindsWhatIsThere(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	kept := func(p *v1alpha1.QueuePolicy) { p.Spec.DeletionPolicy = v1alpha1.RetainOnDelete }
	p := newPolicy(c, "limits", kept)
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	server.ForgetRequests()
	again := newPolicy(c, "limits", kept)
	must(t, kube.Create(t.Context(), again))
	readyPolicy(t, again)
	if n := server.Writes(); n != 0 {
		t.Errorf("%d writes for a policy that is as it should be", n)
	}
}

// What was read before a deletion does not show it: an object that is created again right after it writes its policy.
func TestRecreatedAtOnceIsWritten(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	api := admin(t, startCluster(t, c, brokertest.V4))
	for range 3 {
		p := newPolicy(c, "limits")
		must(t, kube.Create(t.Context(), p))
		readyPolicy(t, p)
		if find(t, api, "/", "limits") == nil {
			t.Fatal("Ready, and the broker has no such policy")
		}
		must(t, kube.Delete(t.Context(), p))
		gonePolicy(t, p)
		if find(t, api, "/", "limits") != nil {
			t.Fatal("gone, and the broker has the policy")
		}
	}
}

// D1, D2: names reach the broker byte for byte.
func TestAwkwardNames(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	for i, vhost := range []string{"team/a", "/logs", "a%2Fb", "ünï", "with space", "q?x#y"} {
		must(t, api.PutVHost(t.Context(), vhost))
		name := "limits " + vhost
		p := newPolicy(c, fmt.Sprintf("awkward-%d", i), named(name), func(p *v1alpha1.QueuePolicy) { p.Spec.VHost = vhost })
		must(t, kube.Create(t.Context(), p))
		readyPolicy(t, p)
		if find(t, api, vhost, name) == nil {
			t.Errorf("vhost %q has no policy %q", vhost, name)
		}
		must(t, kube.Delete(t.Context(), p))
		gonePolicy(t, p)
		if find(t, api, vhost, name) != nil {
			t.Errorf("policy %q is still in vhost %q", name, vhost)
		}
	}
	missing := newPolicy(c, "missing-vhost", func(p *v1alpha1.QueuePolicy) { p.Spec.VHost = "nowhere" })
	must(t, kube.Create(t.Context(), missing))
	policyIs(t, missing, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonVHostNotFound)
}

// E2: a deletion waits for no broker that is gone, and not for ever for one that does not answer.
func TestDeletionWithoutBroker(t *testing.T) {
	setUp := func(t *testing.T) (*v1alpha1.WorkloadCluster, *brokertest.Server, *v1alpha1.QueuePolicy) {
		c := newCluster(newNamespace(t), "runtime", "4.3")
		server := startCluster(t, c, brokertest.V4)
		p := newPolicy(c, "limits")
		must(t, kube.Create(t.Context(), p))
		readyPolicy(t, p)
		return c, server, p
	}
	t.Run("a: cluster gone", func(t *testing.T) {
		c, server, p := setUp(t)
		server.Unavailable(true)
		must(t, kube.Delete(t.Context(), c))
		must(t, kube.Delete(t.Context(), p))
		gonePolicy(t, p)
	})
	t.Run("c: unreachable, released by annotation", func(t *testing.T) {
		_, server, p := setUp(t)
		server.Unavailable(true)
		must(t, kube.Delete(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending)
		edit(t, p, func() { p.Annotations = map[string]string{v1alpha1.AnnotationOrphan: "true"} })
		gonePolicy(t, p)
		eventually(t, "an event tells of the orphan", func() error { return hasEvent(t, p.Namespace, p.Name, policy.EventOrphaned) })
	})
	t.Run("c: unreachable, released by time", func(t *testing.T) {
		_, server, p := setUp(t)
		server.Unavailable(true)
		must(t, kube.Delete(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending)
		now.advance(t, policy.OrphanAfter)
		gonePolicy(t, p)
	})
	t.Run("c: reachable again", func(t *testing.T) {
		_, server, p := setUp(t)
		server.Unavailable(true)
		must(t, kube.Delete(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending)
		server.Unavailable(false)
		gonePolicy(t, p)
		if find(t, admin(t, server), "/", "limits") != nil {
			t.Error("the policy is still there")
		}
	})
	t.Run("d: already gone in the broker", func(t *testing.T) {
		_, server, p := setUp(t)
		server.Observe(func(r brokertest.Request) {
			if r.Method == http.MethodDelete {
				server.Observe(nil)
				server.FailNext(1, http.StatusNotFound)
			}
		})
		must(t, kube.Delete(t.Context(), p))
		gonePolicy(t, p)
	})
	t.Run("e: Secret gone", func(t *testing.T) {
		c, _, p := setUp(t)
		must(t, kube.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: desired.AdminSecretName(c.Name)}}))
		must(t, kube.Delete(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending)
	})
	t.Run("f: credentials refused", func(t *testing.T) {
		_, server, p := setUp(t)
		server.Unauthorized(true)
		must(t, kube.Delete(t.Context(), p))
		policyIs(t, p, v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, v1alpha1.ReasonPending)
		server.Unauthorized(false)
		gonePolicy(t, p)
	})
	t.Run("deletionPolicy Retain", func(t *testing.T) {
		c, server, _ := setUp(t)
		kept := newPolicy(c, "kept", func(p *v1alpha1.QueuePolicy) { p.Spec.DeletionPolicy = v1alpha1.RetainOnDelete })
		must(t, kube.Create(t.Context(), kept))
		readyPolicy(t, kept)
		must(t, kube.Delete(t.Context(), kept))
		gonePolicy(t, kept)
		if find(t, admin(t, server), "/", "kept") == nil {
			t.Error("the policy was removed")
		}
	})
}

// A crash between the record of ownership and the write leaves nothing behind that nobody owns: the record comes first.
func TestOwnershipIsRecordedBeforeTheFirstWrite(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	recorded := make(chan error, 16)
	server.Observe(func(r brokertest.Request) {
		if r.Method != http.MethodPut {
			return
		}
		p := &v1alpha1.QueuePolicy{}
		err := get(t, c.Namespace, "limits", p)
		if err == nil && (len(p.Status.Clusters) == 0 || p.Status.Clusters[0].Owned == nil) {
			err = errors.New("the policy is written before its ownership is recorded")
		}
		recorded <- err
	})
	p := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	select {
	case err := <-recorded:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("no write was seen")
	}
}

func TestPolicyWaitsForItsCluster(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	p := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotFound)
	startCluster(t, c, brokertest.V4)
	readyPolicy(t, p)
}

// The day of quorumDecision passes without the policy being touched.
func TestQuorumDecisionFallsDue(t *testing.T) {
	c := newCluster(newNamespace(t), "legacy", "3.10")
	startCluster(t, c, brokertest.V3)
	p := newPolicy(c, "mirrored", haTwo, func(p *v1alpha1.QueuePolicy) {
		p.Spec.QuorumDecision.By = time.Now().UTC().AddDate(0, 0, 60).Format(time.DateOnly)
	})
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionQuorumDecisionDue, metav1.ConditionFalse, v1alpha1.ReasonDateInFuture)
	for _, step := range []struct {
		days   int
		status metav1.ConditionStatus
		reason string
	}{{35, metav1.ConditionFalse, v1alpha1.ReasonDueSoon}, {30, metav1.ConditionTrue, v1alpha1.ReasonDatePassed}} {
		now.advance(t, time.Duration(step.days)*24*time.Hour)
		policyIs(t, p, v1alpha1.ConditionQuorumDecisionDue, step.status, step.reason)
		eventually(t, "an event tells of it", func() error { return hasEvent(t, p.Namespace, p.Name, "QuorumDecision"+step.reason) })
	}
	readyPolicy(t, p)
}
