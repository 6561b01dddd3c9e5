//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/policy"
)

func selecting(s v1alpha1.ClusterSelector) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) { p.Spec.ClusterRef, p.Spec.ClusterSelector = nil, &s }
}

// A selector's clusters come and go: each has the policy, one that is silent keeps no other from it, and one that does not
// match any more loses it.
func TestSelectedClustersHaveThePolicy(t *testing.T) {
	namespace := newNamespace(t)
	labelled := func(c *v1alpha1.WorkloadCluster) { c.Labels = map[string]string{"fleet": "one"} }
	first, second := newCluster(namespace, "first", "4.3", labelled), newCluster(namespace, "second", "4.3", labelled)
	one, two := startCluster(t, first, brokertest.V4), startCluster(t, second, brokertest.V4)
	two.Unavailable(true)
	p := newPolicy(first, "limits", selecting(v1alpha1.ClusterSelector{WorkloadClass: "runtime", MatchLabels: map[string]string{"fleet": "one"}}))
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable)
	eventually(t, "the cluster that answers has it", func() error {
		if find(t, admin(t, one), "/", "limits") == nil {
			return errors.New("not yet")
		}
		return nil
	})
	two.Unavailable(false)
	readyPolicy(t, p)
	if p.Status.Where != "2 clusters" || len(p.Status.Clusters) != 2 || p.Status.Clusters[1].Cluster != namespace+"/second" {
		t.Errorf("where %q, clusters %+v", p.Status.Where, p.Status.Clusters)
	}
	edit(t, second, func() { second.Labels = nil })
	eventually(t, "the cluster that is not selected any more loses it", func() error {
		must(t, get(t, p.Namespace, p.Name, p))
		if len(two.Policies("/")) > 0 || len(p.Status.Clusters) != 1 {
			return fmt.Errorf("it has %+v, the status %+v", two.Policies("/"), p.Status.Clusters)
		}
		return nil
	})
	readyPolicy(t, p)
	if len(one.Policies("/")) != 1 {
		t.Error("the other cluster lost it too")
	}
}

// A cluster lets in policies of other namespaces only by name, and those that it lets in no more have to go.
func TestPoliciesOfOtherNamespacesNeedAGrant(t *testing.T) {
	home, guest := newNamespace(t), newNamespace(t)
	c := newCluster(home, "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	p := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) {
		p.Namespace, p.Spec.ClusterRef.Namespace = guest, home
	})
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotFound)
	edit(t, c, func() { c.Spec.PolicyNamespaces = []string{guest} })
	readyPolicy(t, p)
	rival := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), rival))
	policyIs(t, rival, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonOtherQueuePolicy)
	edit(t, c, func() { c.Spec.PolicyNamespaces = nil })
	readyPolicy(t, rival) // E4: the next one takes over
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotFound)
	if n := len(server.Policies("/")); n != 1 {
		t.Errorf("%d policies", n)
	}
}

func connectionSecret(namespace, host, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "outside"}, StringData: map[string]string{
		"managementUri": "https://" + host, "username": "warren", "password": password,
	}}
}

// D4: a RabbitMQ that Warren does not run; a changed password is read again when the broker refuses the old one.
func TestConnectionSecret(t *testing.T) {
	namespace := newNamespace(t)
	server := brokertest.New(t, brokertest.V4)
	server.SetCredentials("warren", "first")
	brokers.set(namespace, "outside", server)
	secret := connectionSecret(namespace, "outside."+namespace+".svc:15671", "first")
	p := newPolicy(newCluster(namespace, "none", "4.3"), "limits", func(p *v1alpha1.QueuePolicy) {
		p.Spec.ClusterRef, p.Spec.ConnectionSecretRef = nil, &v1alpha1.LocalSecretReference{Name: secret.Name}
	})
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady)
	must(t, kube.Create(t.Context(), secret))
	readyPolicy(t, p)
	if p.Status.Where != "secret/outside" || len(server.Policies("/")) != 1 {
		t.Errorf("where %q, policies %+v", p.Status.Where, server.Policies("/"))
	}
	server.SetCredentials("warren", "second")
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonAuthFailed)
	edit(t, secret, func() { secret.StringData = map[string]string{"password": "second"} })
	readyPolicy(t, p)
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	if left := server.Policies("/"); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// outside is a RabbitMQ that Warren does not run, of this name.
func outside(t *testing.T, namespace, name, version string) *brokertest.Server {
	t.Helper()
	server := brokertest.New(t, version)
	server.SetCredentials("warren", "secret")
	server.SetNodes(brokertest.Node("rabbit@a"), brokertest.Node("rabbit@b"), brokertest.Node("rabbit@c"))
	brokers.set(namespace, name, server)
	return server
}

func bySecret(p *v1alpha1.QueuePolicy) {
	p.Spec.ClusterRef, p.Spec.ConnectionSecretRef = nil, &v1alpha1.LocalSecretReference{Name: "outside"}
}

// A Secret that names another RabbitMQ: what Warren made in the former one stays there, and an event says what to do. The
// rollout of before was the former one's: it begins anew, and never goes to all queues at once.
func TestASecretThatNamesAnotherBroker(t *testing.T) {
	namespace := newNamespace(t)
	former, next := outside(t, namespace, "former", brokertest.V3), outside(t, namespace, "next", brokertest.V3)
	for _, server := range []*brokertest.Server{former, next} {
		for i := range 6 {
			server.AddQueue(broker.Queue{VHost: "/", Name: fmt.Sprintf("orders.%d", i), Durable: true})
		}
	}
	secret := connectionSecret(namespace, "former."+namespace+".svc:15671", "secret")
	must(t, kube.Create(t.Context(), secret))
	p := newPolicy(newCluster(namespace, "none", "3.10"), "mirrors", haTwo, inBatches(3, 0), bySecret)
	must(t, kube.Create(t.Context(), p))
	doneEverywhere(t, former, p, 6)
	next.SetSynchronised(false)
	edit(t, secret, func() {
		secret.StringData = map[string]string{"managementUri": "https://next." + namespace + ".svc:15671"}
	})
	rolloutIs(t, p, "wave 0, batch 1/2")
	eventually(t, "an event says what stays", func() error { return hasEvent(t, namespace, p.Name, "Orphaned", "LeaveBroker") })
	eventually(t, "the first batch is written", func() error {
		if len(temporaryPolicies(next)) == 0 {
			return errors.New("no temporary policy")
		}
		return nil
	})
	waits(t, next)
	if find(t, admin(t, next), "/", "mirrors") != nil {
		t.Error("the policy went to all queues of the other broker at once")
	}
	next.SetSynchronised(true)
	doneEverywhere(t, next, p, 6)
	if left := former.Policies("/"); len(left) != 1 || left[0].Name != "mirrors" {
		t.Errorf("the former broker has %+v", left)
	}
}

// Waves hold for a RabbitMQ that Warren does not run as well, and one that is rolled back is not done.
func TestWavesOfAConnectionSecret(t *testing.T) {
	namespace := newNamespace(t)
	server := outside(t, namespace, "outside", brokertest.V3)
	for _, queue := range []string{"orders.1", "payments.1"} {
		server.AddQueue(broker.Queue{VHost: "/", Name: queue, Durable: true})
	}
	must(t, kube.Create(t.Context(), connectionSecret(namespace, "outside."+namespace+".svc:15671", "secret")))
	none := newCluster(namespace, "none", "3.10")
	first := newPolicy(none, "first", haTwo, inBatches(10, 1), bySecret)
	second := newPolicy(none, "second", haTwo, inBatches(10, 2), bySecret, func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "^payments" })
	must(t, kube.Create(t.Context(), first))
	doneEverywhere(t, server, first, 1)
	edit(t, first, func() { first.Spec.Rollout.RollBack = true })
	rolloutIs(t, first, "rolled back")
	must(t, kube.Create(t.Context(), second))
	rolloutIs(t, second, "wave 2, waiting")
	throughout(t, "the second wave writes nothing", func() error {
		if left := server.Policies("/"); len(left) > 0 {
			return fmt.Errorf("there are %+v", left)
		}
		return nil
	})
	edit(t, first, func() { first.Spec.Rollout.RollBack = false })
	doneEverywhere(t, server, first, 1)
	doneEverywhere(t, server, second, 1)
}

// C4: of two policies of equal priority on one queue the newer is not applied, both say so, and the status names a queue.
func TestEqualPriorityOnOneQueue(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	declare(t, admin(t, server), "/", "orders.eu.1", broker.Quorum)
	first := newPolicy(c, "first")
	must(t, kube.Create(t.Context(), first))
	readyPolicy(t, first)
	second := newPolicy(c, "second", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = `^orders\.eu` })
	must(t, kube.Create(t.Context(), second))
	apart := newPolicy(c, "apart", func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = `^payments` })
	must(t, kube.Create(t.Context(), apart))
	for _, p := range []*v1alpha1.QueuePolicy{first, second} {
		policyIs(t, p, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonEqualPriority)
		if message := p.Status.Clusters[0].Message; !strings.Contains(message, `"orders.eu.1"`) {
			t.Errorf("%s does not name the queue: %q", p.Name, message)
		}
	}
	readyPolicy(t, apart)
	if find(t, admin(t, server), "/", "second") != nil || find(t, admin(t, server), "/", "first") == nil {
		t.Errorf("the broker has %+v", server.Policies("/"))
	}
	edit(t, second, func() { second.Spec.Priority, second.Spec.AcceptMaskedKeys = 5, true })
	readyPolicy(t, second)
	foreign := broker.Policy{VHost: "/", Name: "by-hand", Pattern: ".*", Priority: 5, ApplyTo: broker.ApplyToAll, Definition: map[string]any{"max-length": int64(7)}}
	server.SetPolicy(foreign)
	policyIs(t, second, v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonEqualPriority)
	if !slices.ContainsFunc(server.Policies("/"), func(p broker.Policy) bool { return p.Name == foreign.Name }) {
		t.Error("somebody else's policy was removed")
	}
}

// A paused policy is not written, not even back after a drift, and still reports.
func TestPausedPolicyIsNotWritten(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	p := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) { p.Spec.Paused = true })
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionInSync, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	server.ForgetRequests()
	throughout(t, "nothing is written", func() error {
		if n := server.Writes(); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	edit(t, p, func() { p.Spec.Paused = false })
	readyPolicy(t, p)
	edit(t, p, func() { p.Spec.Paused = true })
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	if find(t, admin(t, server), "/", "limits") != nil {
		t.Error("the deletion of a paused policy left it behind")
	}
}

// Hard limits are an operator policy of the same name, that goes with the object; one that somebody else made is a conflict.
func TestHardLimitsAreAnOperatorPolicy(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	api := admin(t, server)
	five := int64(5000)
	p := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) { p.Spec.HardLimits = &v1alpha1.HardLimits{MaxLength: &five} })
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	operators, err := api.OperatorPolicies(t.Context(), "/")
	must(t, err)
	if len(operators) != 1 || operators[0].Definition["max-length"] != int64(5000) || !p.Status.Clusters[0].Owned.Operator {
		t.Errorf("operator policies %+v, recorded %+v", operators, p.Status.Clusters[0].Owned)
	}
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	if operators, err = api.OperatorPolicies(t.Context(), "/"); err != nil || len(operators) > 0 {
		t.Errorf("left: %+v, %v", operators, err)
	}
}

var labelPatch = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"by-somebody"}}}`))

// E1, E6: the event of a correction comes at once, and the correction writes the policy once.
func TestDriftIsToldOnceAndCorrectedOnce(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	p := newPolicy(c, "limits")
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	server.ForgetRequests()
	told := make(chan error, 1)
	server.Observe(func(r brokertest.Request) {
		if r.Method != http.MethodPut {
			return
		}
		// Somebody else's write makes the status write after the correction conflict.
		err := kube.Patch(t.Context(), p.DeepCopy(), labelPatch)
		select {
		case told <- err:
		default:
		}
	})
	server.RemovePolicy("/", "limits")
	must(t, <-told)
	server.Observe(nil)
	eventually(t, "an event tells of it", func() error { return hasEvent(t, p.Namespace, p.Name, "DriftCorrected", "CreatePolicy") })
	readyPolicy(t, p)
	throughout(t, "it is written once", func() error {
		if n := server.Writes(); n != 1 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
}

// G1: however many policies a vhost has, a poll costs two bulk reads of it, and none of single queues.
func TestPoliciesOfAVHostShareTheirReads(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	var all []*v1alpha1.QueuePolicy
	for i := range 12 {
		p := newPolicy(c, fmt.Sprintf("p-%d", i), func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = fmt.Sprintf("^q%d", i) })
		must(t, kube.Create(t.Context(), p))
		all = append(all, p)
	}
	for _, p := range all {
		readyPolicy(t, p)
	}
	server.ForgetRequests()
	reads := func() (policies int) {
		for _, request := range server.Requests() {
			switch {
			case strings.HasPrefix(request.Path, "/api/queues/%2F/"):
				t.Errorf("a single queue was read: %s", request.Path)
			case strings.HasPrefix(request.Path, "/api/policies/"):
				policies++
			}
		}
		return policies
	}
	throughout(t, "reads are shared", func() error { return nil })
	if n := reads(); n == 0 || n > 8 { // four polls
		t.Errorf("the policies of the vhost were read %d times in four polls by twelve QueuePolicies", n)
	}
	if server.Writes() > 0 {
		t.Errorf("%d writes", server.Writes())
	}
}

// The sums of the metrics follow, and an object that is gone is in none of them.
func TestMetricsOfPolicies(t *testing.T) {
	c := newCluster(newNamespace(t), "legacy", "3.10")
	startCluster(t, c, brokertest.V3)
	p := newPolicy(c, "mirrored", haTwo)
	must(t, kube.Create(t.Context(), p))
	readyPolicy(t, p)
	policies := func() float64 {
		families, err := metricsOfTest.Gather()
		must(t, err)
		for _, family := range families {
			if family.GetName() != "warren_queuepolicy_policies" {
				continue
			}
			for _, m := range family.Metric {
				for _, label := range m.Label {
					if label.GetName() == "cluster" && label.GetValue() == policy.ClusterKey(c.Namespace, c.Name) {
						return m.GetGauge().GetValue()
					}
				}
			}
		}
		return 0
	}
	eventually(t, "the policy is counted", func() error {
		if n := policies(); n != 1 {
			return fmt.Errorf("%v policies", n)
		}
		return nil
	})
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	eventually(t, "the policy is counted no more", func() error {
		if n := policies(); n != 0 {
			return fmt.Errorf("%v policies", n)
		}
		return nil
	})
}
