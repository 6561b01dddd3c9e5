//go:build api

package controllers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
)

// inBatches stages a policy without soaking.
func inBatches(size, wave int32) func(*v1alpha1.QueuePolicy) {
	return func(p *v1alpha1.QueuePolicy) {
		p.Spec.Rollout = &v1alpha1.RolloutSpec{BatchSize: size, Wave: wave, Soak: &metav1.Duration{}}
	}
}

// mirroredFleet is a cluster of 3.10 with n classic queues that do not synchronise before they are told to.
func mirroredFleet(t *testing.T, n int) (*v1alpha1.WorkloadCluster, *brokertest.Server) {
	t.Helper()
	c := newCluster(newNamespace(t), "legacy", "3.10")
	server := startCluster(t, c, brokertest.V3)
	for i := range n {
		server.AddQueue(broker.Queue{VHost: "/", Name: fmt.Sprintf("orders.%02d", i), Durable: true})
	}
	server.SetSynchronised(false)
	return c, server
}

func temporaryPolicies(server *brokertest.Server) []string {
	var out []string
	for _, p := range server.Policies("/") {
		if strings.Contains(p.Name, "~") {
			out = append(out, p.Name)
		}
	}
	return out
}

func rolloutIs(t *testing.T, p *v1alpha1.QueuePolicy, words string) {
	t.Helper()
	eventually(t, p.Name+"'s rollout is "+words, func() error {
		if err := get(t, p.Namespace, p.Name, p); err != nil {
			return err
		}
		if p.Status.Rollout != words {
			return fmt.Errorf("it is %q: %+v", p.Status.Rollout, p.Status.Clusters)
		}
		return nil
	})
}

// waits holds that one batch stays the only one.
func waits(t *testing.T, server *brokertest.Server) {
	t.Helper()
	throughout(t, "no further batch is written", func() error {
		if found := temporaryPolicies(server); len(found) != 1 {
			return fmt.Errorf("temporary policies: %v", found)
		}
		return nil
	})
}

func doneEverywhere(t *testing.T, server *brokertest.Server, p *v1alpha1.QueuePolicy, queues int) {
	t.Helper()
	rolloutIs(t, p, "done")
	readyPolicy(t, p)
	if want := fmt.Sprintf("%d/%d", queues, queues); p.Status.InForce != want {
		t.Errorf("in force is %q, want %s", p.Status.InForce, want)
	}
	if left := temporaryPolicies(server); len(left) > 0 {
		t.Errorf("temporary policies are left: %v", left)
	}
}

// C11: batch after batch, gated on the broker; writes that fail on the way are repeated; nothing temporary stays.
func TestAStagedRolloutReachesEveryQueue(t *testing.T) {
	c, server := mirroredFleet(t, 30)
	p := newPolicy(c, "mirrors", haTwo, inBatches(12, 2))
	must(t, kube.Create(t.Context(), p))
	rolloutIs(t, p, "wave 2, batch 1/3")
	eventually(t, "the first batch is written", func() error {
		if len(temporaryPolicies(server)) == 0 {
			return fmt.Errorf("no temporary policy")
		}
		return nil
	})
	waits(t, server)
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSynchronising)
	if have := find(t, admin(t, server), "/", "mirrors"); have != nil {
		t.Errorf("the policy itself is there before its queues are well: %+v", have)
	}
	failed := 0
	server.Observe(func(r brokertest.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && failed < 6 {
			failed++
			server.FailNext(1, http.StatusServiceUnavailable)
		}
	})
	server.SetSynchronised(true)
	doneEverywhere(t, server, p, 30)
	if failed < 6 {
		t.Errorf("only %d writes failed", failed)
	}
	server.Observe(nil)
	if p.Status.Clusters[0].Rollout.Done != 30 {
		t.Errorf("the rollout is %+v", p.Status.Clusters[0].Rollout)
	}
	server.ForgetRequests()
	throughout(t, "nothing is written any more", func() error {
		if n := server.Writes(); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
}

func TestWavesFollowOneAnother(t *testing.T) {
	c, server := mirroredFleet(t, 4)
	server.AddQueue(broker.Queue{VHost: "/", Name: "payments", Durable: true})
	first := newPolicy(c, "first", haTwo, inBatches(10, 1))
	second := newPolicy(c, "second", haTwo, inBatches(10, 2), func(p *v1alpha1.QueuePolicy) { p.Spec.Pattern = "^payments" })
	must(t, kube.Create(t.Context(), first))
	rolloutIs(t, first, "wave 1, batch 1/1")
	must(t, kube.Create(t.Context(), second))
	rolloutIs(t, second, "wave 2, waiting")
	policyIs(t, second, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWave)
	throughout(t, "the second wave writes nothing", func() error {
		for _, p := range server.Policies("/") {
			if strings.HasPrefix(p.Name, "second") {
				return fmt.Errorf("policy %s is there", p.Name)
			}
		}
		return nil
	})
	server.SetSynchronised(true)
	doneEverywhere(t, server, first, 4)
	doneEverywhere(t, server, second, 1)
}

func TestAPausedRolloutStandsStill(t *testing.T) {
	c, server := mirroredFleet(t, 12)
	p := newPolicy(c, "mirrors", haTwo, inBatches(4, 0))
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSynchronising)
	edit(t, p, func() { p.Spec.Paused = true })
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	server.SetSynchronised(true)
	waits(t, server)
	edit(t, p, func() { p.Spec.Paused = false })
	doneEverywhere(t, server, p, 12)
}

func TestAnAlarmStopsARollout(t *testing.T) {
	c, server := mirroredFleet(t, 12)
	p := newPolicy(c, "mirrors", haTwo, inBatches(4, 0))
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSynchronising)
	nodes := nodesOf(c, []string{"legacy-0", "legacy-1", "legacy-2"})
	raised, clear := true, false
	for i := range nodes {
		nodes[i].MemoryAlarm, nodes[i].DiskAlarm = &clear, &clear
	}
	calm := append([]broker.Node(nil), nodes...)
	nodes[1].MemoryAlarm = &raised
	server.SetNodes(nodes...)
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAlarmActive)
	server.SetSynchronised(true)
	waits(t, server)
	server.SetNodes(calm...)
	doneEverywhere(t, server, p, 12)
}

func TestARolloutIsRolledBack(t *testing.T) {
	c, server := mirroredFleet(t, 10)
	server.SetSynchronised(true)
	p := newPolicy(c, "mirrors", haTwo, inBatches(4, 0))
	must(t, kube.Create(t.Context(), p))
	doneEverywhere(t, server, p, 10)
	edit(t, p, func() { p.Spec.Rollout.RollBack = true })
	rolloutIs(t, p, "rolled back")
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
	if left := server.Policies("/"); len(left) > 0 {
		t.Errorf("there was no policy before, and now there is %+v", left)
	}
	server.ForgetRequests()
	throughout(t, "what was rolled back stays so", func() error {
		if n := server.Writes(); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	edit(t, p, func() { p.Spec.Rollout.RollBack = false })
	doneEverywhere(t, server, p, 10)
}

// Deletion in the middle takes everything of the rollout away and nothing else.
func TestDeletionInARolloutLeavesNothing(t *testing.T) {
	c, server := mirroredFleet(t, 10)
	foreign := broker.Policy{VHost: "/", Name: "mirrors~0123456789ab-1", Pattern: "^unrelated", Definition: map[string]any{"max-length": int64(5)}}
	server.SetPolicy(foreign)
	p := newPolicy(c, "mirrors", haTwo, inBatches(4, 0))
	must(t, kube.Create(t.Context(), p))
	policyIs(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSynchronising)
	must(t, kube.Delete(t.Context(), p))
	gonePolicy(t, p)
	left := server.Policies("/")
	if len(left) != 1 || left[0].Name != foreign.Name {
		t.Errorf("left: %+v", left)
	}
}

// F0 of limits: on a classic queue that holds messages, a limit follows its overflow, without a rollout too.
func TestALimitIsWrittenAfterItsOverflow(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	ready := int64(900)
	server.AddQueue(broker.Queue{VHost: "/", Name: "orders.1", Durable: true, Ready: &ready})
	length := int64(1000)
	p := newPolicy(c, "limits", func(p *v1alpha1.QueuePolicy) {
		p.Spec.Definition, p.Spec.Limits = nil, &v1alpha1.QueueLimits{MaxLength: &length}
	})
	server.ForgetRequests()
	must(t, kube.Create(t.Context(), p))
	rolloutIs(t, p, "overflow before limits")
	readyPolicy(t, p)
	writes := 0
	for _, r := range server.Requests() {
		if r.Method == http.MethodPut {
			writes++
		}
	}
	if have := find(t, admin(t, server), "/", "limits"); writes != 2 || have.Definition["max-length"] != int64(1000) || have.Definition["overflow"] != "reject-publish" {
		t.Errorf("%d writes, and then %+v", writes, have)
	}
	if p.Status.Rollout != "" || p.Status.Clusters[0].Rollout != nil {
		t.Errorf("a rollout is left in the status: %+v", p.Status)
	}
}
