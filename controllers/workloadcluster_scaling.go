package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/gate"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/status"
)

// nodesNow is how many nodes the StatefulSet is to have: as many as it has while some are to leave, which package gate decides,
// and no more than it has while volumes of nodes that left are in the way.
func nodesNow(c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker) (*int32, *status.Problem) {
	have, want := observe.HaveNodes(c, seen), int(c.Spec.Replicas)
	if have == 0 || have == want {
		return nil, nil
	}
	n := int32(have)
	if have > want {
		return &n, nil
	}
	if slices.ContainsFunc(seen.Jobs, func(job batchv1.Job) bool { ended, _ := desired.JobEnd(&job); return ended.IsZero() }) {
		return &n, nil // a node that is being forgotten must not come back meanwhile
	}
	if !answered.Asked || answered.Err != nil {
		return nil, nil
	}
	left := observe.LeftVolumes(c, seen, answered, have, want)
	if len(left) == 0 {
		return nil, nil
	}
	var names []string
	for _, claim := range left {
		names = append(names, claim.Name)
	}
	return &n, &status.Problem{Reason: v1alpha1.ReasonVolumeInTheWay, Message: fmt.Sprintf(
		"nodes that have left cannot come back with what their volumes hold, since the cluster has forgotten them: delete the volume claims %s when nobody needs what is on them",
		gate.List(names))}
}

// scale takes the next step towards fewer nodes, unless held.
func (r *WorkloadClusterReconciler) scale(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker, rollout gate.Decision, held bool) (gate.ScaleDecision, error) {
	facts := observe.ScaleIn(c, seen, answered, observe.Rollout(c, seen, answered, false, r.Now()), rollout)
	next := gate.NextScaleIn(facts)
	if next.Verb == gate.ScaleAsk {
		queues, err := r.Reader.Queues(ctx, c, seen, answered, true)
		if err != nil {
			facts.QueuesSilent = err.Error()
		}
		facts.Queues, facts.QueuesRead = queues, err == nil
		next = gate.NextScaleIn(facts)
	}
	if held {
		if next.Verb != gate.ScaleRest && next.Verb != gate.ScaleRefuse {
			next.Verb, next.Why = gate.ScaleWait, "nothing is changed now"
		}
		return next, nil
	}
	return r.takeStep(ctx, c, seen, answered, next)
}

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete

func (r *WorkloadClusterReconciler) takeStep(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker, next gate.ScaleDecision) (gate.ScaleDecision, error) {
	var err error
	waits := ""
	switch next.Verb {
	case gate.ScaleRest:
		return next, r.removeVolumes(ctx, c, seen, answered)
	case gate.ScaleMove:
		waits, err = r.move(ctx, c, seen, answered, next)
	case gate.ScaleForget:
		waits, err = r.act(ctx, c, seen, desired.Forget(next.Through, next.Node))
	case gate.ScaleDrop:
		waits, err = r.drop(ctx, c, seen, next.Drops)
	case gate.ScaleReturn:
		err = r.Writer.Edits(ctx, desired.SetNodes(c, seen.StatefulSet, next.Index+1))
		r.Events.Eventf(c, nil, corev1.EventTypeWarning, "NodeReturns", "ScaleIn", "%s", note("node "+next.Node+" is started again: "+next.Why))
	case gate.ScaleStop:
		err = r.Writer.Edits(ctx, desired.SetNodes(c, seen.StatefulSet, next.Index))
		if err == nil {
			r.Events.Eventf(c, nil, corev1.EventTypeNormal, "NodeLeaves", "ScaleIn", "%s", note("node "+next.Node+" stops for ever: "+next.Why))
		}
	}
	if waits != "" {
		next.Why += "; " + waits
	}
	return next, err
}

// move members as the broker can: over its API, or by its command line.
func (r *WorkloadClusterReconciler) move(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker, next gate.ScaleDecision) (waits string, err error) {
	version, err := broker.ParseVersion(answered.Overview.RabbitMQVersion)
	if err != nil {
		return "", err
	}
	capabilities, err := broker.CapabilitiesOf(version)
	if err != nil {
		return "", err
	}
	if !capabilities.GrowsOnRequest {
		action := desired.Action{Name: "members"}
		for _, m := range next.Moves {
			action.Commands = append(action.Commands, desired.MemberCommand(next.Through, m.VHost, m.Queue, m.Node, m.Add))
		}
		return r.act(ctx, c, seen, action)
	}
	api, err := r.connect(c, seen)
	if err != nil {
		return "", err
	}
	for _, m := range next.Moves {
		change := api.ShrinkQueue
		if m.Add {
			change = api.GrowQueue
		}
		if err := change(ctx, m.VHost, m.Queue, m.Node); err != nil {
			return err.Error(), nil // the next pass sees what came of it, and goes on from there
		}
	}
	return "", nil
}

// drop empty queues. The broker keeps one that holds a message or has a consumer by then.
func (r *WorkloadClusterReconciler) drop(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, queues []broker.Queue) (waits string, err error) {
	api, err := r.connect(c, seen)
	if err != nil {
		return "", err
	}
	for i := range queues {
		if err := api.DeleteEmptyQueue(ctx, queues[i].VHost, queues[i].Name); err != nil && !broker.IsNotFound(err) {
			return err.Error(), nil
		}
	}
	return "", nil
}

func (r *WorkloadClusterReconciler) connect(c *v1alpha1.WorkloadCluster, seen observe.Cluster) (broker.Client, error) {
	target, err := observe.Target(c, seen.Identity.Admin)
	if err != nil {
		return nil, err
	}
	return r.Connector.Connect(target)
}

// actionPause is how long an action that ended without effect stays before it is tried again.
const actionPause = time.Minute

// act has an action done by a Job. What an action that has ended did is seen in the broker: one that still has to be done
// a minute later is done again.
func (r *WorkloadClusterReconciler) act(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, action desired.Action) (waits string, err error) {
	name := desired.ActionName(c.Name, action)
	for i := range seen.Jobs {
		job := &seen.Jobs[i]
		ended, failed := desired.JobEnd(job)
		switch {
		case ended.IsZero():
			return "Job " + job.Name + " is at it", nil
		case job.Name != name:
			continue
		case r.Now().Sub(ended) > actionPause:
			job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
			return "Job " + name + " is made again", r.Writer.Delete(ctx, job)
		case failed:
			said, err := r.Reader.JobSays(ctx, job)
			return fmt.Sprintf("Job %s failed and is made again: %s", name, said), err
		}
		return "Job " + name + " has ended", nil
	}
	return "Job " + name + " is made", r.Writer.Make(ctx, desired.ActionJob(c, seen.StatefulSet, action))
}

// removeVolumes deletes the claims of nodes that have left, once nothing more is to be done for them.
func (r *WorkloadClusterReconciler) removeVolumes(ctx context.Context, c *v1alpha1.WorkloadCluster, seen observe.Cluster, answered status.Broker) error {
	scaling := c.Status.Scaling
	if scaling == nil || scaling.Verdict != v1alpha1.ScalingSafe || c.Spec.ScaleIn.Volumes != v1alpha1.DeleteOnDelete {
		return nil
	}
	from := max(observe.HaveNodes(c, seen), int(c.Spec.Replicas))
	for _, claim := range observe.LeftVolumes(c, seen, answered, from, int(scaling.From)) {
		claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		if err := r.Writer.Delete(ctx, &claim); err != nil {
			return err
		}
		r.Events.Eventf(c, nil, corev1.EventTypeNormal, "VolumeDeleted", "ScaleIn", "%s", note("deleted volume claim "+claim.Name+" of a node that has left"))
	}
	return nil
}
