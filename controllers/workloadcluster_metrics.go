package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/observe"
)

// ClusterMetrics are gauges of every WorkloadCluster, as its last pass saw it. What the broker did not say has no series.
type ClusterMetrics struct {
	info, condition, nodes, alarms, outdated, volumes *prometheus.Desc

	mu       sync.Mutex
	clusters map[types.NamespacedName]clusterFigures
}

// clusterFigures are the figures of one cluster.
type clusterFigures struct {
	class, version string
	conditions     []metav1.Condition
	wanted, ready  int
	alarms         map[string]int // nil when the broker did not say
	outdated       int
	smallVolumes   int
}

// NewClusterMetrics registers the gauges.
func NewClusterMetrics(registry prometheus.Registerer) (*ClusterMetrics, error) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("warren_workloadcluster_"+name, help, append([]string{"namespace", "name", "class"}, labels...), nil)
	}
	m := &ClusterMetrics{
		clusters:  map[types.NamespacedName]clusterFigures{},
		info:      desc("info", "1 for every WorkloadCluster.", "version"),
		condition: desc("condition", "1 for the status that each condition has (Ready is the summary), with its reason.", "condition", "status", "reason"),
		nodes:     desc("nodes", "RabbitMQ nodes: those that the spec wants, and those that are ready.", "state"),
		alarms:    desc("nodes_with_alarm", "Nodes with an alarm that blocks publishers; absent while the broker does not say.", "alarm"),
		outdated:  desc("nodes_pending_restart", "Nodes whose pod is older than the latest template."),
		volumes:   desc("volumes_too_small", "Volumes that have less than storage.size."),
	}
	return m, registry.Register(m)
}

// Describe implements prometheus.Collector.
func (m *ClusterMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.info, m.condition, m.nodes, m.alarms, m.outdated, m.volumes} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *ClusterMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, f := range m.clusters {
		gauge := func(d *prometheus.Desc, value int, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), append([]string{key.Namespace, key.Name, f.class}, labels...)...)
		}
		gauge(m.info, 1, f.version)
		for _, c := range f.conditions {
			gauge(m.condition, 1, c.Type, string(c.Status), c.Reason)
		}
		gauge(m.nodes, f.wanted, "wanted")
		gauge(m.nodes, f.ready, "ready")
		for alarm, n := range f.alarms {
			gauge(m.alarms, n, alarm)
		}
		gauge(m.outdated, f.outdated)
		gauge(m.volumes, f.smallVolumes)
	}
}

// show makes the figures of a cluster what its last pass saw.
func (m *ClusterMetrics) show(c *v1alpha1.WorkloadCluster, seen observe.Cluster, next v1alpha1.WorkloadClusterStatus) {
	if m == nil {
		return
	}
	f := clusterFigures{
		class: c.Spec.WorkloadClass, version: next.Version, wanted: int(c.Spec.Replicas),
		conditions: make([]metav1.Condition, 0, len(next.Conditions)), outdated: outdatedPods(seen),
	}
	for _, condition := range next.Conditions { // without messages, which quote at length
		f.conditions = append(f.conditions, metav1.Condition{Type: condition.Type, Status: condition.Status, Reason: condition.Reason})
	}
	for _, node := range next.Nodes {
		if node.Ready {
			f.ready++
		}
	}
	if condition := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionAlarmsClear); condition != nil && condition.Status != metav1.ConditionUnknown {
		f.alarms = map[string]int{"memory": 0, "disk": 0}
		for _, node := range next.Nodes {
			for _, alarm := range node.Alarms {
				f.alarms[alarm]++
			}
		}
	}
	if next.Storage != nil {
		for _, volume := range next.Storage.Volumes {
			if volume.Capacity != nil && volume.Capacity.Cmp(c.Spec.Storage.Size) < 0 {
				f.smallVolumes++
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = f
}

func outdatedPods(seen observe.Cluster) int {
	if seen.StatefulSet == nil || seen.StatefulSet.Status.UpdateRevision == "" {
		return 0
	}
	n := 0
	for i := range seen.Pods {
		if revision := seen.Pods[i].Labels["controller-revision-hash"]; revision != "" && revision != seen.StatefulSet.Status.UpdateRevision {
			n++
		}
	}
	return n
}

// forget drops the figures of a cluster that is gone.
func (m *ClusterMetrics) forget(key types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key)
}
