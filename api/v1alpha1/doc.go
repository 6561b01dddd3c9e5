// Package v1alpha1 holds the Kinds of rabbitmq.warren.dev/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=rabbitmq.warren.dev
package v1alpha1
