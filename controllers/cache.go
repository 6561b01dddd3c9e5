package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
)

// CacheOptions keep only what Warren made in memory: on a large cluster everybody's Secrets and ConfigMaps would not fit.
// namespaces are those to watch; none means all.
func CacheOptions(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{desired.LabelManagedBy: desired.ManagedBy})}
	figures := ours
	figures.Transform = withoutFigures
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}: ours, &corev1.Service{}: ours, &corev1.ConfigMap{}: figures, &corev1.Secret{}: ours,
			&corev1.ServiceAccount{}: ours, &corev1.Pod{}: ours, &policyv1.PodDisruptionBudget{}: ours,
			&rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours, &batchv1.Job{}: ours,
			&corev1.PersistentVolumeClaim{}: ours,
		},
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// withoutFigures keeps the results of benchmarks out of memory; they are read from the API server when they are needed.
func withoutFigures(object any) (any, error) {
	if m, ok := object.(*corev1.ConfigMap); ok && m.Labels[v1alpha1.LabelBenchmark] != "" {
		m.Data, m.BinaryData = nil, nil
	}
	return cache.TransformStripManagedFields()(object)
}
