//go:build api

package controllers_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

func TestDefaultsAreInForceFromTheFirstDay(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Defaults = &v1alpha1.ClusterDefaults{QueueType: v1alpha1.DefaultQuorum, DeadLetter: &v1alpha1.DefaultDeadLetter{}}
	})
	server := startCluster(t, c, brokertest.V4)
	api, err := brokertest.Network(func(string) *brokertest.Server { return server }, management.Options{}).Connect(server.Target("test"))
	must(t, err)
	is := func(what string) {
		t.Helper()
		eventually(t, what, func() error {
			kind, err := api.DefaultQueueType(t.Context(), "/")
			must(t, err)
			bindings := server.Bindings("/")
			var exchanges []string
			for _, e := range server.Exchanges("/") {
				exchanges = append(exchanges, e.Name)
			}
			if kind != broker.Quorum || !slices.Equal(exchanges, []string{"dlx", "dlx.unrouted"}) || len(bindings) != 1 || bindings[0].Destination != "runtime.dead-letters" {
				return fmt.Errorf("default type %q, exchanges %q, bindings %+v", kind, exchanges, bindings)
			}
			must(t, get(t, c.Namespace, c.Name, c))
			return conditionIs(c.Status.Conditions, v1alpha1.ConditionDefaultsInForce, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
		})
	}
	is("a ready cluster has its defaults")
	queue, err := api.Queue(t.Context(), "/", "runtime.dead-letters")
	must(t, err)
	if queue.Type != broker.Quorum || !queue.Durable {
		t.Errorf("the dead-letter queue is %+v", queue)
	}
	server.ForgetRequests()
	throughout(t, "nothing is written while nothing changes", func() error {
		if n := server.Writes(); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	must(t, api.SetDefaultQueueType(t.Context(), "/", broker.Classic))
	server.RemoveQueue("/", "runtime.dead-letters")
	is("drift is repaired")
	edit(t, c, func() { c.Spec.Defaults = nil })
	eventually(t, "the condition goes", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		if conditionIs(c.Status.Conditions, v1alpha1.ConditionDefaultsInForce, "", "").Error() != "condition DefaultsInForce is absent" {
			return fmt.Errorf("%+v", c.Status.Conditions)
		}
		return nil
	})
	if _, err := api.Queue(t.Context(), "/", "runtime.dead-letters"); err != nil {
		t.Errorf("the dead-letter queue did not stay: %v", err)
	}
}

func TestDefaultQueueTypeNeedsABrokerThatHasOne(t *testing.T) {
	c := newCluster(newNamespace(t), "legacy", "3.10", func(c *v1alpha1.WorkloadCluster) {
		c.Spec.Defaults = &v1alpha1.ClusterDefaults{QueueType: v1alpha1.DefaultQuorum}
	})
	must(t, kube.Create(t.Context(), c))
	eventually(t, "it is refused", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	})
}
