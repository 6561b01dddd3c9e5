package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/warren-mq/warren/internal/broker/management"
)

func testNodes(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	t.Run("overview-names-the-version", func(t *testing.T) {
		overview, err := client.Overview(ctx)
		must(t, err)
		if overview.RabbitMQVersion != s.version.String() || overview.ClusterName == "" || overview.Node == "" || overview.ErlangVersion == "" {
			t.Errorf("got %+v", overview)
		}
	})
	t.Run("A3-memory-and-disk-limits", func(t *testing.T) {
		eventually(t, func() (bool, string) {
			nodes, err := client.Nodes(ctx)
			must(t, err)
			node := nodes[0]
			said := node.Running && node.MemoryLimit != nil && node.MemoryUsed != nil && node.DiskFree != nil && node.DiskFreeLimit != nil
			ok := said && *node.MemoryLimit > 0 && *node.DiskFreeLimit > 0 && node.MemoryAlarm != nil && node.DiskAlarm != nil
			return ok && len(node.EnabledPlugins) > 0, fmt.Sprintf("%+v", node)
		})
	})
	t.Run("node-names-its-version", func(t *testing.T) {
		nodes, err := client.Nodes(ctx)
		must(t, err)
		if nodes[0].RabbitMQVersion != s.version.String() {
			t.Errorf("got %q", nodes[0].RabbitMQVersion)
		}
		if drains := nodes[0].BeingDrained != nil; drains == s.caps.MirroredQueues {
			t.Errorf("being_drained on %s: %v", s.version, nodes[0].BeingDrained)
		}
	})
	t.Run("A3-a-node-says-its-limits-itself", func(t *testing.T) { testOwnFigures(t, s) })
	t.Run("A1-schedulers-are-those-of-the-VM", func(t *testing.T) { testSchedulers(t, s) })
}

// testSchedulers compares the Prometheus endpoint with what the VM says of itself in its banner, where there is one.
func testSchedulers(t *testing.T, s *subject) {
	runtime, err := management.NewConnector(management.Options{}).Runtime(context.Background(), s.prometheus)
	must(t, err)
	if runtime.Schedulers == nil || runtime.SchedulersOnline == nil {
		t.Fatalf("got %+v", runtime)
	}
	_, overview := s.raw(t, http.MethodGet, "/api/overview", "")
	banner, _ := overview["erlang_full_version"].(string)
	smp := regexp.MustCompile(`\[smp:(\d+):(\d+)\]`).FindStringSubmatch(banner)
	if smp == nil {
		t.Fatalf("no [smp:N:M] in the banner %q", banner)
	}
	if got := fmt.Sprint(*runtime.Schedulers, " ", *runtime.SchedulersOnline); got != smp[1]+" "+smp[2] {
		t.Errorf("schedulers %s, the banner says %s %s", got, smp[1], smp[2])
	}
}

// testOwnFigures compares what a node's Prometheus endpoint says of its limits and alarms with what the management API says, as
// soon as it does: until then Warren goes by the former.
func testOwnFigures(t *testing.T, s *subject) {
	own, err := management.NewConnector(management.Options{}).Runtime(context.Background(), s.prometheus)
	must(t, err)
	if own.MemoryUsed == nil || own.MemoryLimit == nil || own.DiskFreeLimit == nil || own.MemoryAlarm == nil || own.DiskAlarm == nil {
		t.Fatalf("the node does not say all of it: %+v", own)
	}
	nodes, err := s.client(t).Nodes(context.Background())
	must(t, err)
	node := nodes[0]
	if *own.MemoryLimit != *node.MemoryLimit || *own.DiskFreeLimit != *node.DiskFreeLimit || *own.MemoryAlarm != *node.MemoryAlarm || *own.DiskAlarm != *node.DiskAlarm {
		t.Errorf("the node says %d %d %t %t, the management API %d %d %t %t", *own.MemoryLimit, *own.DiskFreeLimit, *own.MemoryAlarm, *own.DiskAlarm,
			*node.MemoryLimit, *node.DiskFreeLimit, *node.MemoryAlarm, *node.DiskAlarm)
	}
}
