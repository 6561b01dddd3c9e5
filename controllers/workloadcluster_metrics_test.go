//go:build api

package controllers_test

import (
	"fmt"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/tuning"
)

// gaugesOf are the values of a metric of one cluster, by one of its labels.
func gaugesOf(t *testing.T, metric string, c *v1alpha1.WorkloadCluster, by string) map[string]float64 {
	t.Helper()
	families, err := metricsOfTest.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.Metric {
			if labelOf(m, "namespace") == c.Namespace && labelOf(m, "name") == c.Name {
				out[labelOf(m, by)] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

func labelOf(m *dto.Metric, name string) string {
	for _, label := range m.Label {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// The gauges follow the cluster, what the broker does not say has none, and a cluster that is gone is in none of them.
func TestMetricsOfClusters(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	server := startCluster(t, c, brokertest.V4)
	want := func(what, metric, by string, value map[string]float64) {
		t.Helper()
		eventually(t, what, func() error {
			if got := gaugesOf(t, metric, c, by); fmt.Sprint(got) != fmt.Sprint(value) {
				return fmt.Errorf("%s by %s is %v, want %v", metric, by, got, value)
			}
			return nil
		})
	}
	want("the cluster is named with its class", "warren_workloadcluster_info", "class", map[string]float64{c.Spec.WorkloadClass: 1})
	want("all nodes are ready", "warren_workloadcluster_nodes", "state", map[string]float64{"ready": 3, "wanted": 3})
	want("no alarm", "warren_workloadcluster_nodes_with_alarm", "alarm", map[string]float64{"disk": 0, "memory": 0})
	want("no restart is pending", "warren_workloadcluster_nodes_pending_restart", "name", map[string]float64{c.Name: 0})
	if got := gaugesOf(t, "warren_workloadcluster_condition", c, "condition"); got[v1alpha1.ConditionReady] != 1 {
		t.Errorf("conditions %v", got)
	}
	server.SetStatistics(false)
	want("an alarm that is not said has no gauge", "warren_workloadcluster_nodes_with_alarm", "alarm", map[string]float64{})
	server.SetStatistics(true)
	old := &corev1.Pod{}
	must(t, get(t, c.Namespace, c.Name+"-1", old))
	old.Labels["controller-revision-hash"] = "zero"
	must(t, kube.Update(t.Context(), old))
	want("a restart is pending", "warren_workloadcluster_nodes_pending_restart", "name", map[string]float64{c.Name: 1})
	must(t, kube.Delete(t.Context(), c))
	want("a cluster that is gone is counted no more", "warren_workloadcluster_info", "class", map[string]float64{})
}

// A cluster is Ready as soon as its nodes say that they are as tuned, before the management API has collected its first figures.
func TestReadyByTheNodesOwnFigures(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	must(t, kube.Create(t.Context(), c))
	server := brokertest.New(t, brokertest.V4)
	brokers.set(c.Namespace, c.Name, server)
	server.SetStatistics(false)
	playKubelet(t, c, server)
	eventually(t, "the broker is asked, and not Ready without figures", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionAlarmsClear, "Unknown", v1alpha1.ReasonUnknown)
	})
	settings, no := tuning.Decide(c.Spec), false
	schedulers := int(*settings.Schedulers)
	server.SetRuntime(broker.Runtime{
		Schedulers: &schedulers, SchedulersOnline: &schedulers, MemoryLimit: settings.MemoryHighWatermark, DiskFreeLimit: settings.DiskFreeLimit,
		MemoryAlarm: &no, DiskAlarm: &no,
	})
	eventually(t, "the cluster is ready", func() error { return ready(t, c) })
}
