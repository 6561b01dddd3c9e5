package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/desired"
)

// CacheOptions keep only what Warren made in memory: on a large cluster everybody's Secrets and ConfigMaps would not fit.
// namespaces are those to watch; none means all.
func CacheOptions(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{desired.LabelManagedBy: desired.ManagedBy})}
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}: ours, &corev1.Service{}: ours, &corev1.ConfigMap{}: ours, &corev1.Secret{}: ours,
			&corev1.ServiceAccount{}: ours, &corev1.Pod{}: ours, &policyv1.PodDisruptionBudget{}: ours,
			&rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours,
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
