package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Contender is another QueuePolicy of the same vhost of the same cluster.
type Contender struct {
	Claim
	// Policy that it asks for, as far as that can be told without the cluster: name, pattern, priority.
	Policy broker.Policy
}

// ContenderOf reads what a QueuePolicy asks for.
func ContenderOf(p *v1alpha1.QueuePolicy, clusterUID string) Contender {
	return Contender{Claim: ClaimOf(p, clusterUID), Policy: broker.Policy{
		Name: p.BrokerPolicyName(), Pattern: patternOf(p), Priority: int(p.Spec.Priority), ApplyTo: targets[p.Spec.ApplyTo],
	}}
}

// Overlap says that another policy of equal priority matches a queue too, so that nobody can tell which of both is in force.
type Overlap struct {
	// Other in words, and Queue that both match.
	Other, Queue string
	// First: the other one was there first, and this one is not applied.
	First bool
}

// Message for a condition.
func (o Overlap) Message() string {
	way := "give one of them another priority, or patterns that no queue matches both of"
	if o.First {
		return fmt.Sprintf("%s has the same priority and matches queue %q too, and RabbitMQ does not say which of both is in force: this one, the newer, is not applied; %s", o.Other, o.Queue, way)
	}
	return fmt.Sprintf("%s has the same priority and matches queue %q too, and RabbitMQ does not say which of both is in force: %s", o.Other, o.Queue, way)
}

// OverlapOf looks for a live queue that want and another policy of the same priority both surely match: a policy of the
// broker, or one that another QueuePolicy is about to write. applied: the broker has want already. One that was there first
// speaks before one that was not.
func OverlapOf(mine Claim, want broker.Policy, applied bool, v *Vhost, contenders []Contender) *Overlap {
	byName := map[string]Contender{}
	for _, c := range contenders {
		if !c.Deleting && c.Policy.Name != want.Name {
			byName[c.Policy.Name] = c
		}
	}
	search := overlapSearch{want: want, v: v}
	for _, other := range v.Policies {
		title := fmt.Sprintf("policy %q, which no QueuePolicy made,", other.Name)
		if c, ours := byName[other.Name]; ours && c.Owns {
			title = "QueuePolicy " + c.title()
		}
		search.consider(title, other, !applied)
	}
	for _, c := range sortedContenders(byName) {
		if !c.Owns || Find(v.Policies, c.Policy.Name) == nil {
			search.consider("QueuePolicy "+c.title(), c.Policy, !applied && c.before(mine))
		}
	}
	return search.found
}

// before is the order of claims that own nothing.
func (c Claim) before(other Claim) bool {
	return c.Created.Before(other.Created) || c.Created.Equal(other.Created) && c.title() < other.title()
}

type overlapSearch struct {
	want  broker.Policy
	v     *Vhost
	found *Overlap
}

func (s *overlapSearch) consider(title string, other broker.Policy, first bool) {
	switch {
	case s.found != nil && (s.found.First || !first):
	case other.Priority != s.want.Priority || other.Name == s.want.Name || temporary(other):
	default:
		if queue := common(s.want, other, s.v); queue != "" {
			s.found = &Overlap{Other: title, Queue: queue, First: first}
		}
	}
}

func sortedContenders(byName map[string]Contender) []Contender {
	out := make([]Contender, 0, len(byName))
	for _, c := range byName {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Contender) int { return strings.Compare(a.title(), b.title()) })
	return out
}

// temporary tells whether a policy is one of a rollout: it stands above its final priority for a time, on exact names.
func temporary(p broker.Policy) bool {
	if !strings.Contains(p.Name, "~") {
		return false
	}
	_, exact := ExactNames(p.Pattern)
	return exact
}

// common is the first queue that both policies surely apply to, or "".
func common(a, b broker.Policy, v *Vhost) string {
	out := ""
	v.matches(a.Pattern).both(v.matches(b.Pattern), func(i int) bool {
		q := &v.Queues[i]
		if !takesPart(a, v.Capabilities, q) || !takesPart(b, v.Capabilities, q) {
			return true
		}
		out = q.Name
		return false
	})
	return out
}
