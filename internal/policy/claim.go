package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
// total and stable: who owns already, then who was created first, then by name.
func Judge(mine Claim, others []Claim) Standing {
	claims := []Claim{mine}
	for _, other := range others {
		if other.title() != mine.title() && !other.Deleting {
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
	return Standing{Owner: true}
}

// Foreign says why what the broker has may not be taken over; nil if it may. A policy that no claim owns was made by somebody
// else, or by a QueuePolicy that is no more: it is taken over when it is just what is wanted, since that overwrites nothing.
// kind is "policy" or "operator policy"; want is nil when none is wanted.
func Foreign(kind string, others []Claim, want, have *broker.Policy, adopt bool) *Standing {
	handedOver := slices.ContainsFunc(others, func(c Claim) bool { return c.Deleting && c.Owns })
	if want == nil || have == nil || handedOver || Same(*want, have) {
		return nil
	}
	way := "choose another policyName, remove the broker's, or write what it says into the spec: one that is equal is taken over, and can be changed then"
	if !adopt {
		way += " (adopt: true tells in what they differ)"
	}
	message := fmt.Sprintf("the broker has %s %q that Warren did not make (pattern %q, priority %d, %s)", article(kind), have.Name, have.Pattern, have.Priority, Describe(have.Definition))
	if adopt {
		message += ", and it is not what the spec says: " + strings.Join(diff(*want, *have), "; ")
	}
	return &Standing{Reason: v1alpha1.ReasonForeignPolicy, Message: message + ": " + way}
}

func article(kind string) string {
	if strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
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
