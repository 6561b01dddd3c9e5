package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// roll decides what may happen next to the pods, and does it unless held. outdated says that this pass changed what it saw.
func (r *WorkloadClusterReconciler) roll(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker, outdated, held bool) (gate.Decision, error) {
	facts := observe.Rollout(c, seen, answered, outdated, r.Now())
	if len(facts.Pods) < facts.Wanted {
		refused, err := r.Reader.NotCreated(ctx, seen.StatefulSet)
		if err != nil {
			return gate.Decision{}, err
		}
		facts.NotCreated = refused
	}
	next := gate.Next(facts)
	if next.Verb == gate.AskQueues {
		queues, err := r.Reader.Queues(ctx, c, seen, answered, false)
		if err != nil {
			facts.QueuesSilent = err.Error()
		}
		facts.Queues, facts.QueuesRead = queues, err == nil
		next = gate.Next(facts)
	}
	if held && (next.Verb == gate.Evict || next.Verb == gate.Replace) {
		next.Verb, next.Why = gate.Wait, "nothing is changed now"
	}
	return r.carryOut(ctx, c, seen, next)
}

func (r *WorkloadClusterReconciler) carryOut(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, next gate.Decision) (gate.Decision, error) {
	i := slices.IndexFunc(seen.Pods, func(p corev1.Pod) bool { return p.Name == next.Pod })
	if i < 0 || next.Verb != gate.Evict && next.Verb != gate.Replace {
		return next, nil
	}
	pod := &seen.Pods[i]
	if next.Verb == gate.Replace {
		if err := r.Writer.Replace(ctx, pod); err != nil {
			return next, err
		}
		r.Events.Eventf(c, pod, corev1.EventTypeNormal, "PodReplaced", "Replace", "%s", note("replaced pod "+pod.Name+": "+next.Why))
		return next, nil
	}
	refused, err := r.Writer.Evict(ctx, pod)
	switch {
	case err != nil:
		return next, err
	case refused != "":
		next.Verb, next.Why = gate.Wait, "it may not be evicted now: "+refused
		return next, nil
	}
	r.Events.Eventf(c, pod, corev1.EventTypeNormal, "PodEvicted", "Evict", "%s", note("pod "+pod.Name+" restarts with the latest template: "+next.Why))
	return next, nil
}
