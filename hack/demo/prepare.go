package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/cluster"
)

const namespace = "demo"

// queues that an application might declare on each cluster.
var queues = []struct {
	cluster, queueType string
	names              []string
}{
	{"runtime", "quorum", []string{
		"runtime.orders", "runtime.sessions", "runtime.prices", "worker.resize", "worker.mail", "worker.invoices",
	}},
	{"legacy", "classic", []string{"payments.captures", "payments.refunds", "payments.payouts", "payments.disputes"}},
}

// patience is how long all of it may take on a slow machine.
const patience = 10 * time.Minute

// prepare applies the samples, waits for the clusters, declares queues, and waits until every policy is in force.
func prepare(ctx context.Context, c *cluster.Cluster) error {
	if err := progress.Step("apply config/samples/demo", func() error { return applySamples(ctx, c) }); err != nil {
		return err
	}
	if err := progress.Step("wait for the RabbitMQ clusters", func() error { return waitReady(ctx, c, &v1alpha1.WorkloadClusterList{}) }); err != nil {
		return err
	}
	for _, q := range queues {
		err := progress.Step(fmt.Sprintf("declare %d %s queues on %s by AMQP", len(q.names), q.queueType, q.cluster), func() error {
			return c.Rabbit(namespace, q.cluster).Declare(ctx, q.queueType, q.names...)
		})
		if err != nil {
			return err
		}
	}
	return progress.Step("wait until the policies are in force", func() error {
		err := cluster.Wait(ctx, patience, func(ctx context.Context) (string, error) { return outOfForce(ctx, c) })
		if err != nil {
			return err
		}
		return waitReady(ctx, c, &v1alpha1.QueuePolicyList{})
	})
}

func applySamples(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.Kubectl(ctx, "get", "namespace", namespace)
	if err != nil {
		if _, err := c.Kubectl(ctx, "create", "namespace", namespace); err != nil {
			return err
		}
	}
	_, err = c.Kubectl(ctx, "apply", "--namespace", namespace, "-f", "config/samples/demo")
	return err
}

// waitReady waits until every object of a list is Ready for its latest spec; it says what is missing when that changes.
func waitReady(ctx context.Context, c *cluster.Cluster, list client.ObjectList) error {
	said := ""
	return cluster.Wait(ctx, patience, func(ctx context.Context) (string, error) {
		if err := c.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		missing := strings.Join(unready(list), "; ")
		if missing != said && missing != "" {
			progress.Say("  %s", missing)
		}
		said = missing
		return missing, nil
	})
}

// unready says of each object that is not Ready why.
func unready(list client.ObjectList) (missing []string) {
	judge := func(object client.Object, conditions []metav1.Condition) {
		ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil:
			missing = append(missing, object.GetName()+": no status yet")
		case ready.Status != "True" || ready.ObservedGeneration != object.GetGeneration():
			missing = append(missing, fmt.Sprintf("%s: %s: %s", object.GetName(), ready.Reason, ready.Message))
		}
	}
	switch list := list.(type) {
	case *v1alpha1.WorkloadClusterList:
		for i := range list.Items {
			judge(&list.Items[i], list.Items[i].Status.Conditions)
		}
	case *v1alpha1.QueuePolicyList:
		for i := range list.Items {
			judge(&list.Items[i], list.Items[i].Status.Conditions)
		}
	}
	return missing
}

// outOfForce says what the brokers still miss of the policies on the demo's queues.
func outOfForce(ctx context.Context, c *cluster.Cluster) (string, error) {
	effects, err := effectsOf(ctx, c)
	if err != nil {
		return "", err
	}
	var missing []string
	for _, e := range effects {
		if e.fault() != "" {
			missing = append(missing, e.fault())
		}
	}
	return strings.Join(missing, "; "), nil
}
