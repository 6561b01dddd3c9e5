package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// nodesService gives each node a name before it is ready: nodes must find each other in order to become ready.
func nodesService(in Input) *corev1.Service {
	s := service(in, NodesServiceName(in.Cluster.Name),
		port("epmd", portEpmd), port("distribution", portDistribution), port("prometheus", PortPrometheus))
	s.Spec.ClusterIP = corev1.ClusterIPNone
	s.Spec.PublishNotReadyAddresses = true
	return s
}

func clientService(in Input) *corev1.Service {
	s := service(in, ClientServiceName(in.Cluster.Name),
		port("amqp", PortAMQP), port("management", PortManagement), port("prometheus", PortPrometheus))
	spec := in.Cluster.Spec.Service
	s.Labels, s.Annotations = with(spec.Labels, s.Labels), with(spec.Annotations, s.Annotations)
	s.Spec.Type = cmp.Or(spec.Type, corev1.ServiceTypeClusterIP)
	return s
}

func service(in Input, name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(in, name),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: SelectorLabels(in.Cluster.Name),
			Ports:    ports,
		},
	}
}

func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
}

// disruptionBudget lets one node go at a time.
func disruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(in, in.Cluster.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: SelectorLabels(in.Cluster.Name)},
		},
	}
}
