package load

import (
	"context"
	"fmt"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// Management samples the nodes, the alarms, and what the broker slows down in the benchmark's vhost.
type Management struct {
	API   API
	VHost string
}

// Sample implements Source: one sample for each node. What is counted for the whole cluster is in the first.
func (m Management) Sample(ctx context.Context) ([]bench.Sample, error) {
	nodes, err := m.API.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	samples := make([]bench.Sample, 0, len(nodes))
	for _, n := range nodes {
		samples = append(samples, bench.Sample{
			Node:                 n.Name,
			MemoryUsedBytes:      number(n.MemoryUsed),
			MemoryWatermarkBytes: number(n.MemoryLimit),
			DiskFreeBytes:        number(n.DiskFree),
			DiskFreeLimitBytes:   number(n.DiskFreeLimit),
			MemoryAlarm:          flag(n.MemoryAlarm),
			DiskAlarm:            flag(n.DiskAlarm),
		})
	}
	flow, err := m.API.FlowOf(ctx, m.VHost)
	if err != nil {
		return samples, fmt.Errorf("what is in flow control: %w", err)
	}
	first := &samples[0]
	for into, n := range map[**float64]int{
		&first.ConnectionsInFlow: flow.ConnectionsInFlow, &first.ConnectionsBlocked: flow.ConnectionsBlocked,
		&first.ChannelsInFlow: flow.ChannelsInFlow, &first.QueuesInFlow: flow.QueuesInFlow,
	} {
		value := float64(n)
		*into = &value
	}
	return samples, nil
}

func number(n *int64) *float64 {
	if n == nil {
		return nil
	}
	value := float64(*n)
	return &value
}

func flag(b *bool) *float64 {
	if b == nil {
		return nil
	}
	value := 0.0
	if *b {
		value = 1
	}
	return &value
}

// Kernel samples what the kernel says of nodes on this machine.
type Kernel []Probe

// Sample implements Source.
func (k Kernel) Sample(context.Context) (samples []bench.Sample, err error) {
	for _, probe := range k {
		s, failed := probe.Read()
		if failed != nil {
			err = failed
			continue
		}
		samples = append(samples, s)
	}
	return samples, err
}

// ensure that what main passes is enough.
var _ interface {
	broker.Guest
	broker.NodeReader
	broker.QueueInspector
} = API(nil)
