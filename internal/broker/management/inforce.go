package management

import (
	"context"

	"github.com/warren-mq/warren/internal/broker"
)

// explainPolicies completes what the listing says of policies. Since 4.2 it says all. Before, it names the user
// policy in force and no more: an absent name then means none, the definition is that policy's own when no operator
// policy can be mixed in, and only with operator policies do the (late) statistics have to tell.
func (c *client) explainPolicies(ctx context.Context, vhost string, queues []broker.Queue, late *statistics) error {
	if !needExplaining(queues) {
		return nil
	}
	policies, err := c.policiesOf(ctx, "policies", vhost)
	if err != nil {
		return err
	}
	operator, err := c.policiesOf(ctx, "operator-policies", vhost)
	if err != nil {
		return err
	}
	definitions := make(map[string]map[string]any, len(policies))
	for _, policy := range policies {
		definitions[policy.Name] = policy.Definition
	}
	for i := range queues {
		nameFromSilence(&queues[i])
		if len(operator) == 0 {
			explainByDefinition(&queues[i], definitions)
		}
	}
	if len(operator) == 0 {
		return nil
	}
	read, err := late.get(ctx)
	if err != nil {
		return err
	}
	for i := range queues {
		explainByStatistics(&queues[i], read[queues[i].Name])
	}
	return nil
}

func needExplaining(queues []broker.Queue) bool {
	for i := range queues {
		if queues[i].EffectiveDefinition == nil {
			return true
		}
	}
	return false
}

// nameFromSilence: the broker leaves the name out when there is no policy, but also for a queue whose node is down.
func nameFromSilence(queue *broker.Queue) {
	if queue.Policy == nil && queue.State != "down" {
		none := ""
		queue.Policy = &none
	}
}

func explainByDefinition(queue *broker.Queue, definitions map[string]map[string]any) {
	if queue.EffectiveDefinition != nil || queue.Policy == nil {
		return
	}
	none := ""
	if *queue.Policy == "" {
		queue.EffectiveDefinition, queue.OperatorPolicy = map[string]any{}, &none
		return
	}
	// A policy that went away since the listing leaves the definition unknown.
	if definition, known := definitions[*queue.Policy]; known {
		queue.EffectiveDefinition, queue.OperatorPolicy = broker.NormalizeDefinition(definition), &none
	}
}

// explainByStatistics believes the statistics only when they speak of the policy that is in force now.
func explainByStatistics(queue *broker.Queue, reply queueReply) {
	name := optionalName(reply.Policy)
	if queue.EffectiveDefinition != nil || queue.Policy == nil || name == nil || *name != *queue.Policy {
		return
	}
	queue.EffectiveDefinition = optionalTable(reply.EffectiveDefinition)
	queue.OperatorPolicy = optionalName(reply.OperatorPolicy)
}
