//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// hosts are the stages of what may happen to a host, in order.
var hosts = []struct {
	name string
	do   func(t *testing.T, host cluster.Host)
}{
	{"drained", drained},
	{"cut off", cutOff},
	{"without power", withoutPower},
}

// TestHostsComeAndGo drains a host, cuts one off and takes the power from one, while clients publish and consume on clusters of
// both lines, with a node on each host: nothing confirmed is lost, the other nodes serve, Warren says what it sees, and nobody
// has to do anything when the host is back (B8).
func TestHostsComeAndGo(t *testing.T) {
	if !*long {
		t.Skip("takes minutes, and stops other tests' nodes: make faults-cluster")
	}
	all, err := k.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Fatalf("%d nodes: this needs NODES=3", len(all))
	}
	flows := map[*line]*traffic{}
	for _, l := range lines {
		l.ready(t)
		queue := l.prefix + "hosts"
		if err := l.rabbit().Declare(t.Context(), l.queueType, queue); err != nil {
			t.Fatal(err)
		}
		l.replicated(t, queue)
		flows[l] = startTraffic(t, l.rabbit(), queue)
	}
	for _, stage := range hosts {
		ok := t.Run(stage.name, func(t *testing.T) {
			host := victim(t)
			t.Logf("host %s", host.Name)
			began := time.Now()
			stage.do(t, host)
			t.Logf("all well again %.0f s after it began", time.Since(began).Seconds())
			for _, l := range lines {
				t.Logf("%s: longest time without a confirm %.1f s", l.version, flows[l].longestPause().Seconds())
			}
		})
		if !ok {
			break
		}
	}
	for _, l := range lines {
		flows[l].finish(t)
	}
}

// victim is a host that has a node of each cluster, and neither the first one, which the API server reaches the pods by, nor
// Warren's: that Warren itself moves is another matter.
func victim(t *testing.T) cluster.Host {
	t.Helper()
	all, err := k.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := warrenPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range all[1:] {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == host.Name }) {
			return host
		}
	}
	t.Fatal("no host is free of Warren")
	return cluster.Host{}
}

// on is the pod of a cluster on a host.
func (l *line) on(t *testing.T, host cluster.Host) string {
	t.Helper()
	pods, err := l.rabbit().Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == host.Name {
			return pod.Name
		}
	}
	t.Fatalf("no node of %s is on %s", l.cluster, host.Name)
	return ""
}

// says waits until a condition of each cluster begins with a text and names what it must.
func says(t *testing.T, name, begins string, names func(l *line) string) {
	t.Helper()
	for _, l := range lines {
		said := ""
		eventually(t, 3*time.Minute, name+" of "+l.cluster, func(ctx context.Context) (string, error) {
			object, err := l.rabbit().Object(ctx)
			said = condition(object, object.Status.Conditions, name)
			if !strings.HasPrefix(said, begins) || !strings.Contains(said, names(l)) {
				return fmt.Sprintf("%q, wanted %q and %q", said, begins, names(l)), err
			}
			return "", err
		})
		t.Logf("%s: %s %s", l.version, name, said)
	}
}

func allReady(t *testing.T) {
	t.Helper()
	for _, l := range lines {
		waitCluster(t, l.namespace, l.cluster)
		waitPolicy(t, l.namespace, l.policy)
		l.replicated(t, l.prefix+"hosts")
	}
}

// drained: the budgets let one node of each cluster go and no second one; a pod whose volume is on the host waits for it.
func drained(t *testing.T, host cluster.Host) {
	drain := func(ctx context.Context, host string, limit time.Duration) (string, error) {
		return k.Kubectl(ctx, "drain", host, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", limit.String())
	}
	watches := map[*line]*podWatch{}
	for _, l := range lines {
		watches[l] = watchPods(t, l.rabbit())
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := k.Kubectl(ctx, "uncordon", host.Name); err != nil {
			t.Error(err)
		}
	})
	if out, err := drain(t.Context(), host.Name, 5*time.Minute); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	says(t, v1alpha1.ConditionSchedulable, "False "+v1alpha1.ReasonUnschedulable, func(l *line) string { return "pod " + l.cluster })
	next := victimsNeighbour(t, host)
	if out, err := drain(t.Context(), next, 20*time.Second); err == nil {
		t.Errorf("a second host could be drained too: %s", out)
	}
	for _, name := range []string{next, host.Name} {
		if _, err := k.Kubectl(t.Context(), "uncordon", name); err != nil {
			t.Fatal(err)
		}
	}
	allReady(t)
	for _, l := range lines {
		if fewest, _ := watches[l].seen(); fewest < 2 {
			t.Errorf("%s: at some time only %d of 3 nodes were ready", l.cluster, fewest)
		}
	}
}

// victimsNeighbour is a host that has nodes of the clusters and is not the one.
func victimsNeighbour(t *testing.T, host cluster.Host) string {
	t.Helper()
	all, err := k.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(h cluster.Host) bool { return h.Name != host.Name })].Name
}

// cutOff: the node on the host pauses, as the smaller part of its cluster, and joins again by itself.
func cutOff(t *testing.T, host cluster.Host) {
	if err := host.CutOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Join(context.Background()); err != nil {
			t.Error(err)
		}
	})
	says(t, v1alpha1.ConditionNodesReady, "False "+v1alpha1.ReasonNodeDown, func(l *line) string { return host.Name + ", where pod " + l.on(t, host) })
	if err := host.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	allReady(t)
}

// withoutPower: all processes of the host end at once. It comes back with its disk.
func withoutPower(t *testing.T, host cluster.Host) {
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Repair(context.Background()); err != nil {
			t.Error(err)
		}
	})
	says(t, v1alpha1.ConditionNodesReady, "False "+v1alpha1.ReasonNodeDown, func(l *line) string { return host.Name + ", where pod " + l.on(t, host) })
	if err := k.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	allReady(t)
}
