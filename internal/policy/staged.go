package policy

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// CanReach tells whether a policy with the content of want can be in force on queues of q's kind; true also when the broker
// does not say which kind that is. Names and patterns play no part.
func CanReach(p *v1alpha1.QueuePolicy, want broker.Policy, q broker.Queue, c broker.Capabilities) bool {
	j := judge{want: want, copies: copies(p.Spec.Replication), migrates: p.Spec.Replication.Mode == v1alpha1.ReplicationQuorum}
	if !j.meant(&q) || j.migrates && q.Type == broker.Classic {
		return false
	}
	return takesPart(want, c, &q)
}

// AppliesTo tells whether a policy of anybody is in force on queues of q's kind where it matches; true also when the kind is
// not known.
func AppliesTo(o broker.Policy, q broker.Queue, c broker.Capabilities) bool {
	return takesPart(o, c, &q)
}
