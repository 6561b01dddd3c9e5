package status

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/gate"
)

// lostMost is how much of what would be lost is listed.
const lostMost = 20

// scaling is what becomes of nodes that are to leave. That nothing would be lost is recorded before anything is done, and stays
// so while something else is waited for.
func scaling(in Cluster) *v1alpha1.ScalingStatus {
	d, before, to := in.Scale, in.Object.Status.Scaling, in.Object.Spec.Replicas
	if d.Verb == gate.ScaleRest || d.Verb == "" {
		return nil
	}
	out := &v1alpha1.ScalingStatus{From: int32(in.HaveNodes), To: to, Node: d.Node, Message: cut(d.Why, messageMost), Verdict: v1alpha1.ScalingSafe}
	if before != nil && before.Verdict == v1alpha1.ScalingSafe {
		out.From = max(out.From, before.From)
	}
	switch d.Verb {
	case gate.ScaleRefuse:
		out.Verdict = v1alpha1.ScalingRefused
	case gate.ScaleWait:
		if !d.Gone && (before == nil || before.To != to || before.Verdict != v1alpha1.ScalingSafe) {
			out.Verdict = v1alpha1.ScalingWaiting
		}
	case gate.ScaleMove:
		left := int32(d.Left)
		out.QueuesLeft = &left
	}
	for i, lost := range d.Lost {
		if i == lostMost {
			break
		}
		out.Lost = append(out.Lost, cut(lost, 512))
	}
	return out
}

// scaledIn is the verdict on nodes that are all ready, some of which may be to leave.
func scaledIn(in Cluster, ready int32) verdict {
	says := fmt.Sprintf("%d nodes ready", ready)
	to := in.Object.Spec.Replicas
	switch d := in.Scale; {
	case d.Verb == gate.ScaleRest || d.Verb == "":
		return yes(v1alpha1.ReasonAsExpected, says)
	case d.Verb == gate.ScaleRefuse:
		return no(v1alpha1.ReasonScaleInRefused, fmt.Sprintf("%s; %d are wanted: %s", says, to, d.Why))
	case in.Object.Spec.ScaleIn.Mode == v1alpha1.ScaleInDryRun:
		return yes(v1alpha1.ReasonAsExpected, fmt.Sprintf("%s; a dry run for %d: %s", says, to, d.Why))
	default:
		return no(v1alpha1.ReasonScalingIn, fmt.Sprintf("%s; %d are wanted, and node %s leaves: %s", says, to, d.Node, d.Why))
	}
}
