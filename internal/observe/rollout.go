package observe

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/status"
)

// Rollout is what package gate decides by, as far as it costs nothing more to know. outdated says that this pass changed
// the StatefulSet that was seen.
func Rollout(c *v1alpha1.WorkloadCluster, seen Cluster, b status.Broker, outdated bool, now time.Time) gate.Facts {
	out := gate.Facts{Wanted: int(c.Spec.Replicas), Nodes: b.Nodes}
	switch {
	case !b.Asked:
		out.BrokerSilent = "no node is ready to be asked"
	case b.Err != nil:
		out.BrokerSilent = b.Err.Error()
	}
	set := seen.StatefulSet
	if set == nil {
		return out
	}
	out.Wanted = min(out.Wanted, HaveNodes(c, seen))
	out.Settled = !outdated && set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != ""
	for i := range seen.Pods {
		node := desired.NodeName(c.Namespace, c.Name, seen.Pods[i].Name)
		out.Pods = append(out.Pods, gate.PodOf(&seen.Pods[i], node, set.Status.UpdateRevision, now))
	}
	return out
}

// Queues are all queues of the cluster. Their messages are counted when asked for, and where mirrors may be out of step.
func (r Reader) Queues(ctx context.Context, c *v1alpha1.WorkloadCluster, seen Cluster, b status.Broker, counted bool) ([]broker.Queue, error) {
	target, err := Target(c, seen.Identity.Admin)
	if err != nil {
		return nil, err
	}
	api, err := r.Connector.Connect(target)
	if err != nil {
		return nil, err
	}
	vhosts, err := api.VHosts(ctx)
	if err != nil {
		return nil, err
	}
	options := []broker.ListOption{broker.WithoutCounts}
	if counted {
		options = nil
	}
	if version, err := broker.ParseVersion(b.Overview.RabbitMQVersion); err == nil {
		if capabilities, err := broker.CapabilitiesOf(version); err == nil && capabilities.MirroredQueues {
			options = nil
		}
	}
	var out []broker.Queue
	for _, vhost := range vhosts {
		queues, err := api.Queues(ctx, vhost, options...)
		if broker.IsNotFound(err) { // it went meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, queues...)
	}
	return out, nil
}

// NotCreated is why the API server refuses the pods of a StatefulSet, in the words of its controller; "" if it did not say so.
func (r Reader) NotCreated(ctx context.Context, set *appsv1.StatefulSet) (string, error) {
	if set == nil {
		return "", nil
	}
	var events corev1.EventList
	err := r.Direct.List(ctx, &events, client.InNamespace(set.Namespace), client.MatchingFields{
		"involvedObject.uid": string(set.UID), "reason": "FailedCreate",
	})
	if err != nil {
		return "", fmt.Errorf("list events of StatefulSet %s: %w", set.Name, err)
	}
	var newest *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; newest == nil || saidAt(newest).Before(saidAt(e)) {
			newest = e
		}
	}
	if newest == nil {
		return "", nil
	}
	return newest.Message, nil
}

func saidAt(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}
