package brokertest

import "github.com/warren-mq/warren/internal/broker"

// Node is a running node without alarms: 1 GiB memory limit, 1 GB disk limit, 10 GB free.
func Node(name string) broker.Node {
	figure := func(n int64) *int64 { return &n }
	no := func() *bool { b := false; return &b }
	return broker.Node{
		Name: name, Running: true,
		MemoryUsed: figure(100 << 20), MemoryLimit: figure(1 << 30),
		DiskFree: figure(10_000_000_000), DiskFreeLimit: figure(1_000_000_000),
		MemoryAlarm: no(), DiskAlarm: no(),
		EnabledPlugins: []string{"rabbitmq_management", "rabbitmq_prometheus"},
	}
}

// SetNodes replaces the cluster's nodes. Mirrors and members that exist stay where they are, policies are applied
// again.
func (s *Server) SetNodes(nodes ...broker.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = append([]broker.Node(nil), nodes...)
	for name := range s.vhosts {
		s.applyPolicies(name)
	}
}

// SetRuntime is what every Prometheus endpoint says, unless SetRuntimeAt says otherwise. nil pointers are absent series.
func (s *Server) SetRuntime(runtime broker.Runtime) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runtime = runtime
}

// SetRuntimeAt is what the Prometheus endpoint at host ("HOST:PORT", as the URL asked for names it) says.
func (s *Server) SetRuntimeAt(host string, runtime broker.Runtime) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runtimeAt[host] = runtime
}

func (s *Server) runningNodes() []string {
	var names []string
	for _, node := range s.nodes {
		if node.Running {
			names = append(names, node.Name)
		}
	}
	return names
}

// nodeReply is a node as the API writes it. A stopped node has a name and running=false only, and without
// statistics there are no figures.
func (s *Server) nodeReply(node broker.Node) map[string]any {
	reply := map[string]any{"name": node.Name, "type": "disc", "running": node.Running}
	if !node.Running {
		return reply
	}
	if !s.mirrors {
		drained := node.BeingDrained != nil && *node.BeingDrained
		reply["being_drained"] = drained
	}
	if !s.statistics {
		return reply
	}
	put := func(key string, value *int64) {
		if value != nil {
			reply[key] = *value
		}
	}
	put("mem_used", node.MemoryUsed)
	put("mem_limit", node.MemoryLimit)
	put("disk_free", node.DiskFree)
	put("disk_free_limit", node.DiskFreeLimit)
	if node.MemoryAlarm != nil {
		reply["mem_alarm"] = *node.MemoryAlarm
	}
	if node.DiskAlarm != nil {
		reply["disk_free_alarm"] = *node.DiskAlarm
	}
	reply["enabled_plugins"] = node.EnabledPlugins
	version := node.RabbitMQVersion
	if version == "" {
		version = s.overview.RabbitMQVersion
	}
	reply["applications"] = []map[string]any{{"name": "rabbit", "description": "RabbitMQ", "version": version}}
	if !s.mirrors {
		reply["rabbitmq_version"], reply["erlang_version"] = version, s.overview.ErlangVersion
	}
	return reply
}
