//go:build e2e

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var long = flag.Bool("long", false, "also what takes many minutes: five nodes, and what happens to hosts")

// TestNodesComeAndLeaveUnderTraffic: a cluster goes from three nodes to five and back while clients publish and consume. No
// confirmed message is lost, and nothing of the nodes that left is left in the broker (B5).
func TestNodesComeAndLeaveUnderTraffic(t *testing.T) {
	if !*long {
		t.Skip("takes many minutes: make faults-cluster")
	}
	for _, version := range []string{"4.3", "3.10"} {
		t.Run("RabbitMQ "+version, func(t *testing.T) {
			t.Parallel()
			namespace := "e2e-scaling-" + version[:1]
			makeNamespace(t, namespace)
			explainFailure(t, namespace)
			c := single(namespace, "scaling", version)
			c.Spec.Replicas, c.Spec.ScaleIn.Volumes = 3, v1alpha1.DeleteOnDelete
			if err := k.Client.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			waitCluster(t, namespace, c.Name)
			rabbit := k.Rabbit(namespace, c.Name)
			began := time.Now()
			patch(t, namespace, c.Name, `{"replicas":5}`)
			waitCluster(t, namespace, c.Name)
			t.Logf("3 to 5 nodes in %.0f s", time.Since(began).Seconds())
			var names []string
			for i := range 10 { // some have members on the new nodes
				names = append(names, fmt.Sprintf("scaling.%d", i))
			}
			if err := rabbit.Declare(t.Context(), "quorum", names...); err != nil {
				t.Fatal(err)
			}
			a, b := startTraffic(t, rabbit, names[0]), startTraffic(t, rabbit, names[9])
			began = time.Now()
			patch(t, namespace, c.Name, `{"replicas":3}`)
			waitCluster(t, namespace, c.Name)
			t.Logf("5 to 3 nodes in %.0f s", time.Since(began).Seconds())
			a.finish(t)
			b.finish(t)
			eventually(t, time.Minute, "three nodes, and all members on them", func(ctx context.Context) (string, error) {
				var nodes []struct{ Name string }
				if err := rabbit.Call(ctx, "GET", "nodes", nil, &nodes); err != nil || len(nodes) != 3 {
					return fmt.Sprintf("nodes: %v", nodes), err
				}
				var queues []struct {
					Name    string
					Members []string
				}
				err := rabbit.Call(ctx, "GET", "queues", nil, &queues)
				for _, q := range queues {
					if len(q.Members) != 3 {
						return fmt.Sprintf("queue %s has members %v", q.Name, q.Members), err
					}
				}
				return "", err
			})
		})
	}
}
