package desired

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Ports of a RabbitMQ node.
const (
	PortAMQP         = 5672
	PortManagement   = 15672
	PortPrometheus   = 15692
	portEpmd         = 4369
	portDistribution = 25672
)

// Names of labels that every object has.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	// LabelManagedBy marks what Warren made; its caches hold nothing else.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "warren"

	component = "rabbitmq"
)

// StatefulSetName is the cluster's own name, as that of the client Service is.
func StatefulSetName(cluster string) string { return cluster }

// PodName is the name of the pod with an index.
func PodName(cluster string, index int) string {
	return fmt.Sprintf("%s-%d", StatefulSetName(cluster), index)
}

// ClientServiceName is the Service through which clients connect.
func ClientServiceName(cluster string) string { return cluster }

// NodesServiceName is the headless Service that gives each node its name.
func NodesServiceName(cluster string) string { return cluster + "-nodes" }

// ConfigMapName holds rabbitmq.conf and the plugins.
func ConfigMapName(cluster string) string { return cluster + "-config" }

// AdminSecretName holds the administrator's credentials.
func AdminSecretName(cluster string) string { return cluster + "-admin" }

// CookieSecretName holds the Erlang cookie.
func CookieSecretName(cluster string) string { return cluster + "-erlang-cookie" }

func accountName(cluster string) string { return cluster + "-rabbitmq" }

// ManagementURL is the management API behind the client Service.
func ManagementURL(namespace, cluster string) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", ClientServiceName(cluster), namespace, PortManagement)
}

// PrometheusURL is the Prometheus endpoint of one node.
func PrometheusURL(namespace, cluster, pod string) string {
	return fmt.Sprintf("http://%s.%s.%s.svc:%d", pod, NodesServiceName(cluster), namespace, PortPrometheus)
}

// NodeName is the Erlang name of the node in a pod. It holds no cluster domain: the resolver's search list completes it.
func NodeName(namespace, cluster, pod string) string {
	return fmt.Sprintf("rabbit@%s.%s.%s", pod, NodesServiceName(cluster), namespace)
}

// SelectorLabels pick the pods of one cluster and nothing else. They never change, and no user label enters them.
func SelectorLabels(cluster string) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cluster, labelComponent: component}
}

func labels(c *v1alpha1.WorkloadCluster) map[string]string {
	return map[string]string{
		labelName:                   "rabbitmq",
		labelInstance:               c.Name,
		labelComponent:              component,
		LabelManagedBy:              ManagedBy,
		v1alpha1.LabelCluster:       c.Name,
		v1alpha1.LabelWorkloadClass: c.Spec.WorkloadClass,
	}
}

// claimLabels are fewer than other objects have, and must never change: a StatefulSet's claim templates cannot.
func claimLabels(c *v1alpha1.WorkloadCluster) map[string]string {
	out := SelectorLabels(c.Name)
	out[LabelManagedBy] = ManagedBy
	return out
}

// meta is the metadata of an object that goes with the cluster.
func meta(in Input, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            name,
		Namespace:       in.Cluster.Namespace,
		Labels:          labels(in.Cluster),
		OwnerReferences: []metav1.OwnerReference{ownerReference(in.Cluster)},
	}
}

// keptMeta is the metadata of an object without which kept volumes are of no use: it goes with them.
func keptMeta(in Input, name string) metav1.ObjectMeta {
	m := meta(in, name)
	if keepsData(in.Cluster) {
		m.OwnerReferences = nil
	}
	return m
}

func ownerReference(c *v1alpha1.WorkloadCluster) metav1.OwnerReference {
	return *metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("WorkloadCluster"))
}
