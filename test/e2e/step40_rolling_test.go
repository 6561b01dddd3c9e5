//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// TestEditRollsOneNodeAtATimeAndLosesNothing: a new CPU limit rolls the nodes one by one, the schedulers follow in the
// same rollout (A1), clients that publish and consume all the while lose no confirmed message, and it makes no
// difference that Warren is killed in the middle.
func TestEditRollsOneNodeAtATimeAndLosesNothing(t *testing.T) {
	var kill sync.Once
	eachLine(t, func(t *testing.T, l *line) {
		rabbit, queue := l.rabbit(), l.prefix+"rolling"
		if err := rabbit.Declare(t.Context(), l.queueType, queue); err != nil {
			t.Fatal(err)
		}
		l.replicated(t, queue)
		traffic := startTraffic(t, rabbit, queue)
		pods := watchPods(t, rabbit)
		before := uids(t, rabbit)
		began := time.Now()
		patch(t, l.namespace, l.cluster, `{"resources":{"limits":{"cpu":"2"}}}`)
		eventually(t, patience, "the first pod is replaced", func(context.Context) (string, error) {
			if maps.Equal(uids(t, rabbit), before) {
				return "no pod is replaced yet", nil
			}
			return "", nil
		})
		kill.Do(func() { killWarren(t) })
		waitCluster(t, l.namespace, l.cluster)
		t.Logf("3 nodes rolled in %.0f s", time.Since(began).Seconds())
		fewest, replaced := pods.seen()
		traffic.finish(t)
		if fewest < 2 {
			t.Errorf("at some time only %d of 3 nodes were ready", fewest)
		}
		if slices.Sort(replaced); len(replaced) != 3 || len(slices.Compact(replaced)) != 3 {
			t.Errorf("replaced pods: %v, wanted each of three once", replaced)
		}
		checkTwoCPUs(t, l)
		waitPolicy(t, l.namespace, l.policy)
	})
}

func checkTwoCPUs(t *testing.T, l *line) {
	t.Helper()
	object, err := l.rabbit().Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := l.rabbit().Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		if err := cluster.CheckNode(object, node); err != nil {
			t.Error(err)
		}
		if node.CPULimit != 2 || node.Schedulers != 2 || node.Online != 2 {
			t.Errorf("node %s: CPU limit %v, schedulers %d:%d, wanted 2 and 2:2", node.Pod, node.CPULimit, node.Schedulers, node.Online)
		}
	}
	pods, err := l.rabbit().Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if text := fmt.Sprint(pod.Spec.Containers[0].Env); !strings.Contains(text, "+S 2:2") {
			t.Errorf("pod %s has no +S 2:2: %s", pod.Name, text)
		}
	}
}

// TestStuckRolloutIsExplainedAndRecovers: an image that does not exist stops the rollout at one pod, the status says
// why, the other pods stay; correcting the spec is all that is needed (B1).
func TestStuckRolloutIsExplainedAndRecovers(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		rabbit, before := l.rabbit(), uids(t, l.rabbit())
		patch(t, l.namespace, l.cluster, `{"image":"localhost/warren/rabbitmq:%s-no-such-image"}`, l.version)
		said := ""
		eventually(t, patience, "NodesReady says why", func(ctx context.Context) (string, error) {
			object, err := rabbit.Object(ctx)
			said = condition(object, object.Status.Conditions, v1alpha1.ConditionNodesReady)
			if !strings.HasPrefix(said, "False "+v1alpha1.ReasonNodeNotReady) || !strings.Contains(said, "no-such-image") {
				return said, err
			}
			return "", err
		})
		t.Log(said)
		if !strings.Contains(said, l.cluster+"-2") {
			t.Errorf("the pod is not named: %s", said)
		}
		stuck := uids(t, rabbit)
		for _, pod := range []string{l.cluster + "-0", l.cluster + "-1"} {
			if stuck[pod] != before[pod] {
				t.Errorf("pod %s was replaced while %s-2 is broken", pod, l.cluster)
			}
		}
		patch(t, l.namespace, l.cluster, `{"image":null}`)
		waitCluster(t, l.namespace, l.cluster)
		after := uids(t, rabbit)
		for _, pod := range []string{l.cluster + "-0", l.cluster + "-1"} {
			if after[pod] != before[pod] {
				t.Errorf("pod %s was replaced although its template is the same again", pod)
			}
		}
		if after[l.cluster+"-2"] == stuck[l.cluster+"-2"] {
			t.Error("the broken pod was not replaced")
		}
	})
}
