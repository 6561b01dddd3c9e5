package management

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

type policyReply struct {
	VHost      string         `json:"vhost"`
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   json.Number    `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// policyRequest is the body of a PUT. The name is in the path.
type policyRequest struct {
	Pattern    string         `json:"pattern"`
	ApplyTo    broker.ApplyTo `json:"apply-to"`
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// Policies implements broker.PolicyStore.
func (c *client) Policies(ctx context.Context, vhost string) ([]broker.Policy, error) {
	return c.policiesOf(ctx, "policies", vhost)
}

// policiesOf lists policies or operator policies, by the API's word for them.
func (c *client) policiesOf(ctx context.Context, word, vhost string) ([]broker.Policy, error) {
	op := fmt.Sprintf("list %s of vhost %q", word, vhost)
	var replies []policyReply
	if err := c.get(ctx, op, at(word).named(vhost), nil, &replies); err != nil {
		return nil, err
	}
	policies := make([]broker.Policy, 0, len(replies))
	for _, reply := range replies {
		if reply.VHost != vhost {
			return nil, misdirected(op, reply.VHost)
		}
		policies = append(policies, broker.Policy{
			VHost: reply.VHost, Name: reply.Name, Pattern: reply.Pattern,
			ApplyTo: broker.ApplyTo(reply.ApplyTo), Priority: wholePriority(reply.Priority),
			Definition: broker.NormalizeDefinition(reply.Definition),
		})
	}
	slices.SortFunc(policies, func(a, b broker.Policy) int { return strings.Compare(a.Name, b.Name) })
	return policies, nil
}

// wholePriority rounds down: the broker stores fractions that others sent, and one of them must not spoil the list.
func wholePriority(n json.Number) int {
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return int(math.Floor(f))
}

// OperatorPolicies implements broker.OperatorPolicyStore.
func (c *client) OperatorPolicies(ctx context.Context, vhost string) ([]broker.Policy, error) {
	return c.policiesOf(ctx, "operator-policies", vhost)
}

// PutPolicy implements broker.PolicyStore. An empty ApplyTo means all.
func (c *client) PutPolicy(ctx context.Context, policy broker.Policy) error {
	return c.putPolicyOf(ctx, "policies", "policy", policy)
}

// PutOperatorPolicy implements broker.OperatorPolicyStore. An empty ApplyTo means all.
func (c *client) PutOperatorPolicy(ctx context.Context, policy broker.Policy) error {
	return c.putPolicyOf(ctx, "operator-policies", "operator policy", policy)
}

func (c *client) putPolicyOf(ctx context.Context, word, title string, policy broker.Policy) error {
	applyTo := policy.ApplyTo
	if applyTo == "" {
		applyTo = broker.ApplyToAll
	}
	definition := policy.Definition
	if definition == nil {
		definition = map[string]any{} // the broker's sentence for null is a 500
	}
	_, err := c.do(ctx, call{
		op:     fmt.Sprintf("put %s %q in vhost %q", title, policy.Name, policy.VHost),
		method: http.MethodPut,
		path:   at(word).named(policy.VHost, policy.Name),
		body:   policyRequest{Pattern: policy.Pattern, ApplyTo: applyTo, Priority: policy.Priority, Definition: definition},
	})
	return err
}

// DeletePolicy implements broker.PolicyStore.
func (c *client) DeletePolicy(ctx context.Context, vhost, name string) error {
	return c.deletePolicyOf(ctx, "policies", "policy", vhost, name)
}

// DeleteOperatorPolicy implements broker.OperatorPolicyStore.
func (c *client) DeleteOperatorPolicy(ctx context.Context, vhost, name string) error {
	return c.deletePolicyOf(ctx, "operator-policies", "operator policy", vhost, name)
}

func (c *client) deletePolicyOf(ctx context.Context, word, title, vhost, name string) error {
	_, err := c.do(ctx, call{
		op:     fmt.Sprintf("delete %s %q in vhost %q", title, name, vhost),
		method: http.MethodDelete,
		path:   at(word).named(vhost, name),
	})
	return err
}
