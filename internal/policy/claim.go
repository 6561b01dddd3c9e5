package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Claim is one QueuePolicy's wish to own a policy of a broker cluster.
type Claim struct {
	Namespace, Name string
	Created         time.Time
	// Owns: its status records the broker's policy, of this very cluster, as its own.
	Owns bool
	// Deleting: the object is on its way out. It wants nothing more, but what it owns may be taken over from it.
	Deleting bool
}

func (c Claim) title() string { return c.Namespace + "/" + c.Name }

// ClaimOf reads the claim of a QueuePolicy on the policy that it names, in the cluster with this UID.
func ClaimOf(p *v1alpha1.QueuePolicy, clusterUID string) Claim {
	return Claim{
		Namespace: p.Namespace,
		Name:      p.Name,
		Created:   p.CreationTimestamp.Time,
		Deleting:  !p.DeletionTimestamp.IsZero(),
		Owns:      p.Status.Owns(clusterUID, p.Spec.VHost, p.BrokerPolicyName()),
	}
}

// Standing says whether a QueuePolicy may write the broker's policy.
type Standing struct {
	// Owner: it may write once its status records the ownership.
	Owner bool
	// Reason and Message say why not.
	Reason, Message string
}

// Judge decides whether mine is the owner among all claims on the same policy (mine may be among others). The order is
// total and stable: who owns already, then who was created first, then by name. A policy in the broker that no claim
// owns was made by somebody else, or by a QueuePolicy that is no more; it is taken only with adopt.
func Judge(mine Claim, others []Claim, have *broker.Policy, adopt bool) Standing {
	claims := []Claim{mine}
	handedOver := false
	for _, other := range others {
		switch {
		case other.title() == mine.title():
		case other.Deleting:
			handedOver = handedOver || other.Owns
		default:
			claims = append(claims, other)
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(
			-cmp.Compare(rank(a), rank(b)),
			a.Created.Compare(b.Created),
			cmp.Compare(a.title(), b.title()),
		)
	})
	if first := claims[0]; first.title() != mine.title() {
		return Standing{Reason: v1alpha1.ReasonOtherQueuePolicy, Message: fmt.Sprintf(
			"QueuePolicy %s owns this policy: give this one another policyName or delete it", first.title())}
	}
	if have != nil && !mine.Owns && !handedOver && !adopt {
		return Standing{Reason: v1alpha1.ReasonForeignPolicy, Message: fmt.Sprintf(
			"the broker has a policy %q that Warren did not make (pattern %q, %s): set adopt: true to take it over, or choose another policyName",
			have.Name, have.Pattern, Describe(have.Definition))}
	}
	return Standing{Owner: true}
}

func rank(c Claim) int {
	if c.Owns {
		return 1
	}
	return 0
}

// Successor is a live claim that has taken over what mine owned, or that waits to: the broker's policy then stays.
func Successor(mine Claim, others []Claim) (taken, waiting bool) {
	for _, other := range others {
		if other.title() == mine.title() || other.Deleting {
			continue
		}
		waiting = true
		taken = taken || other.Owns
	}
	return taken, waiting
}
