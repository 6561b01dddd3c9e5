package broker

import (
	"fmt"
	"slices"
)

// Capabilities is what one RabbitMQ version can do. It is the only place where versions are compared:
// configuration, probes, policy keys and validation all read from here.
type Capabilities struct {
	Version Version

	// MirroredQueues: ha-* policy keys exist (up to 3.13) and mirrors must be in sync before a node stops.
	MirroredQueues bool
	// PeerDiscoveryNeedsAPI: Kubernetes peer discovery reads Endpoints from the API server (up to 4.0).
	PeerDiscoveryNeedsAPI bool
	// PartitionHandling: cluster_partition_handling has an effect (up to 4.2).
	PartitionHandling bool
	// LeaderLocatorConfig is the rabbitmq.conf line that spreads the leaders of new queues.
	LeaderLocatorConfig ConfigLine
	// AnonymousReadyProbe: GET /api/health/checks/ready-to-serve-clients answers without credentials (4.1.1).
	AnonymousReadyProbe bool
	// MembershipReconciliation: the broker grows quorum queues to a target by itself (3.13).
	MembershipReconciliation bool
	// ApplyTo lists the values that a policy's apply-to may have.
	ApplyTo []ApplyTo
	// KubernetesPeerDiscovery is the name of the peer discovery back end.
	KubernetesPeerDiscovery string
	// DefaultDeliveryLimit is what quorum queues use without a policy; nil means none.
	DefaultDeliveryLimit *int
	// UnlimitedDelivery: a negative delivery-limit is accepted and means no limit (4.0).
	UnlimitedDelivery bool
	// ClassicConsumerTimeout: consumer-timeout has an effect on classic queues (up to 4.2).
	ClassicConsumerTimeout bool
	// GrowsOnRequest: the management API adds members to quorum queues (3.11.19).
	GrowsOnRequest bool
	// DefaultQueueType: vhosts have one (3.11; under this name in the management API since 3.11.1).
	DefaultQueueType bool
}

// ConfigLine is one line of rabbitmq.conf.
type ConfigLine struct{ Key, Value string }

// Oldest and newest version lines that Warren runs.
const (
	OldestLine = "3.10"
	NewestLine = "4.3"
)

// lines that exist between the oldest and the newest.
var lines = []string{"3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3"}

// CapabilitiesOf answers what version v can do, or an error that names the supported lines.
func CapabilitiesOf(v Version) (Capabilities, error) {
	if !slices.Contains(lines, v.Line()) {
		return Capabilities{}, fmt.Errorf("RabbitMQ %s is not supported: supported lines are %s to %s", v, OldestLine, NewestLine)
	}
	c := Capabilities{
		Version:                  v,
		MirroredQueues:           !v.atLeast(4, 0, 0),
		PeerDiscoveryNeedsAPI:    !v.atLeast(4, 1, 0),
		PartitionHandling:        !v.atLeast(4, 3, 0),
		AnonymousReadyProbe:      v.atLeast(4, 1, 1),
		MembershipReconciliation: v.atLeast(3, 13, 0),
		UnlimitedDelivery:        v.atLeast(4, 0, 0),
		ClassicConsumerTimeout:   !v.atLeast(4, 3, 0),
		GrowsOnRequest:           v.atLeast(3, 11, 19),
		DefaultQueueType:         v.atLeast(3, 11, 1),
		KubernetesPeerDiscovery:  "kubernetes",
		LeaderLocatorConfig:      ConfigLine{Key: "queue_leader_locator", Value: "balanced"},
		ApplyTo:                  []ApplyTo{ApplyToQueues, ApplyToExchanges, ApplyToAll},
	}
	if c.MirroredQueues {
		c.LeaderLocatorConfig = ConfigLine{Key: "queue_master_locator", Value: "min-masters"}
	}
	if v.atLeast(3, 12, 0) {
		c.ApplyTo = append(c.ApplyTo, ApplyToClassicQueues, ApplyToQuorumQueues, ApplyToStreams)
	}
	if v.atLeast(4, 0, 0) {
		limit := 20
		c.DefaultDeliveryLimit = &limit
	}
	return c, nil
}

// CanApplyTo tells whether policies of this version know the apply-to value a.
func (c Capabilities) CanApplyTo(a ApplyTo) bool { return slices.Contains(c.ApplyTo, a) }
