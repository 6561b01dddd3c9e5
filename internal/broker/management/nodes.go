package management

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// Overview implements broker.NodeReader.
func (c *client) Overview(ctx context.Context) (broker.Overview, error) {
	const op = "read the overview"
	var reply struct {
		ClusterName     string `json:"cluster_name"`
		Node            string `json:"node"`
		RabbitMQVersion string `json:"rabbitmq_version"`
		ErlangVersion   string `json:"erlang_version"`
	}
	if err := c.get(ctx, op, at("overview"), nil, &reply); err != nil {
		return broker.Overview{}, err
	}
	if reply.RabbitMQVersion == "" {
		return broker.Overview{}, &broker.Error{Kind: broker.Unavailable, Op: op,
			Reason: "the answer names no RabbitMQ version: is this a management API?"}
	}
	return broker.Overview(reply), nil
}

type nodeReply struct {
	Name            string          `json:"name"`
	Running         bool            `json:"running"`
	MemoryUsed      json.RawMessage `json:"mem_used"`
	MemoryLimit     json.RawMessage `json:"mem_limit"`
	DiskFree        json.RawMessage `json:"disk_free"`
	DiskFreeLimit   json.RawMessage `json:"disk_free_limit"`
	MemoryAlarm     json.RawMessage `json:"mem_alarm"`
	DiskAlarm       json.RawMessage `json:"disk_free_alarm"`
	BeingDrained    json.RawMessage `json:"being_drained"`
	EnabledPlugins  []string        `json:"enabled_plugins"`
	RabbitMQVersion string          `json:"rabbitmq_version"`
	ErlangVersion   string          `json:"erlang_version"`
	Applications    []struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"applications"`
}

// Nodes implements broker.NodeReader. Before 4.2.4 a node's version is read from its list of applications.
func (c *client) Nodes(ctx context.Context) ([]broker.Node, error) {
	const op = "list the nodes"
	var replies []nodeReply
	if err := c.get(ctx, op, at("nodes"), nil, &replies); err != nil {
		return nil, err
	}
	if len(replies) == 0 {
		return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Reason: "the answer names no node"}
	}
	nodes := make([]broker.Node, 0, len(replies))
	for _, reply := range replies {
		nodes = append(nodes, reply.node())
	}
	slices.SortFunc(nodes, func(a, b broker.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

func (r nodeReply) node() broker.Node {
	version := r.RabbitMQVersion
	for _, application := range r.Applications {
		if version == "" && application.Name == "rabbit" {
			version = application.Version
		}
	}
	return broker.Node{
		Name: r.Name, Running: r.Running,
		MemoryUsed: optionalInt(r.MemoryUsed), MemoryLimit: optionalInt(r.MemoryLimit),
		// disk_free is a text when the broker cannot measure it.
		DiskFree: optionalInt(r.DiskFree), DiskFreeLimit: optionalInt(r.DiskFreeLimit),
		MemoryAlarm: optionalBool(r.MemoryAlarm), DiskAlarm: optionalBool(r.DiskAlarm),
		BeingDrained:    optionalBool(r.BeingDrained),
		EnabledPlugins:  r.EnabledPlugins,
		RabbitMQVersion: version, ErlangVersion: r.ErlangVersion,
	}
}
