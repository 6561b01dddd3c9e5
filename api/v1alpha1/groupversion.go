package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of Warren's Kinds.
var GroupVersion = schema.GroupVersion{Group: "rabbitmq.warren.dev", Version: "v1alpha1"}

// AddToScheme registers the Kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&WorkloadCluster{}, &WorkloadClusterList{},
		&QueuePolicy{}, &QueuePolicyList{},
		&Benchmark{}, &BenchmarkList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
