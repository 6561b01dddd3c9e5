package load

import (
	"context"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// mostPolicies that are copied for a scenario.
const mostPolicies = 1000

// policiesFor gives the vhost of a benchmark the policies that a scenario needs, and takes away those of an earlier one. prefix
// begins the names of its queues, unless they are like others.
func policiesFor(ctx context.Context, store broker.PolicyStore, vhost, prefix string, s bench.Scenario) error {
	var wanted []broker.Policy
	switch like := s.Queues.Like; {
	case s.Queues.Type == bench.MirroredQueue:
		wanted = []broker.Policy{{
			VHost: vhost, Name: "mirrored", Pattern: "^" + prefix, ApplyTo: broker.ApplyToQueues,
			Definition: map[string]any{"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
		}}
	case like != nil:
		all, err := store.Policies(ctx, like.VHost)
		if err != nil {
			return fmt.Errorf("queues.like: the policies of vhost %q: %w", like.VHost, err)
		}
		if len(all) > mostPolicies {
			return fmt.Errorf("queues.like: vhost %q has %d policies, and at most %d are copied", like.VHost, len(all), mostPolicies)
		}
		for _, p := range all {
			p.VHost = vhost
			wanted = append(wanted, p)
		}
	}
	have, err := store.Policies(ctx, vhost)
	if err != nil {
		return err
	}
	for _, p := range wanted {
		if err := store.PutPolicy(ctx, p); err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
	}
	for _, p := range have {
		if slices.ContainsFunc(wanted, func(w broker.Policy) bool { return w.Name == p.Name }) {
			continue
		}
		if err := store.DeletePolicy(ctx, vhost, p.Name); err != nil && !broker.IsNotFound(err) {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
	}
	return nil
}

// queueNames begin the names of a run's queues: suffix tells the runs of a benchmark apart.
func queueNames(s bench.Scenario, suffix string) string {
	if s.Queues.Like == nil {
		return ""
	}
	return s.Queues.Like.Name + suffix
}
