package brokertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/warren-mq/warren/internal/broker"
)

func (s *Server) getOverview(exchange) (reply, *refusal) {
	schedulers, online := 1, 1
	if s.runtime.Schedulers != nil && s.runtime.SchedulersOnline != nil {
		schedulers, online = *s.runtime.Schedulers, *s.runtime.SchedulersOnline
	}
	return reply{http.StatusOK, map[string]any{
		"erlang_full_version": fmt.Sprintf("Erlang/OTP %s [64-bit] [smp:%d:%d]", s.overview.ErlangVersion, schedulers, online),
		"management_version":  s.overview.RabbitMQVersion, "rabbitmq_version": s.overview.RabbitMQVersion,
		"product_name": "RabbitMQ", "product_version": s.overview.RabbitMQVersion,
		"erlang_version": s.overview.ErlangVersion, "cluster_name": s.overview.ClusterName, "node": s.overview.Node,
	}}, nil
}

func (s *Server) getNodes(exchange) (reply, *refusal) {
	nodes := make([]map[string]any, 0, len(s.nodes))
	for _, node := range s.nodes {
		nodes = append(nodes, s.nodeReply(node))
	}
	return reply{http.StatusOK, nodes}, nil
}

func (s *Server) getWhoAmI(r exchange) (reply, *refusal) {
	username, _, _ := r.BasicAuth()
	return reply{http.StatusOK, map[string]any{"name": username, "tags": []string{"administrator"}}}, nil
}

func (v *vhost) reply(name string) map[string]any {
	return map[string]any{"name": name, "description": v.description, "tags": list(v.tags), "tracing": false,
		"default_queue_type": cmp.Or(string(v.queueType), "undefined")}
}

func (s *Server) listVHosts(exchange) (reply, *refusal) {
	names := make([]string, 0, len(s.vhosts))
	for name := range s.vhosts {
		names = append(names, name)
	}
	slices.Sort(names)
	replies := make([]map[string]any, 0, len(names))
	for _, name := range names {
		replies = append(replies, s.vhosts[name].reply(name))
	}
	return reply{http.StatusOK, replies}, nil
}

func (s *Server) getVHost(r exchange) (reply, *refusal) {
	v := s.vhosts[r.names[0]]
	if v == nil {
		return reply{}, notFound
	}
	return reply{http.StatusOK, v.reply(r.names[0])}, nil
}

func (s *Server) putVHost(r exchange) (reply, *refusal) {
	var body struct {
		Description, Tags *string
		DefaultQueueType  *string `json:"default_queue_type"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // without a body nothing is described
	status, v := http.StatusNoContent, s.vhosts[r.names[0]]
	if v == nil {
		status, v = http.StatusCreated, newVHost(s.caps)
		s.vhosts[r.names[0]] = v
	}
	if kind := body.DefaultQueueType; kind != nil && v.queueType != "" {
		v.queueType = broker.QueueType(*kind)
		v.description, v.tags = "", nil // what is not sent along is forgotten
	}
	if body.Description != nil {
		v.description = *body.Description
	}
	if body.Tags != nil {
		v.tags = words(*body.Tags)
	}
	return reply{status: status}, nil
}

func (s *Server) deleteVHost(r exchange) (reply, *refusal) {
	if s.vhosts[r.names[0]] == nil {
		return reply{}, notFound
	}
	delete(s.vhosts, r.names[0])
	return reply{status: http.StatusNoContent}, nil
}

// serveMetrics is the Prometheus endpoint, with the series that Warren reads and one more.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	runtime, special := s.runtimeAt[r.Host]
	if !special {
		runtime = s.runtime
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE rabbitmq_build_info untyped\n# HELP rabbitmq_build_info RabbitMQ & Erlang/OTP version info\n")
	fmt.Fprintf(w, "rabbitmq_build_info{rabbitmq_version=%q} 1\n", s.version)
	series(w, "erlang_vm_schedulers", runtime.Schedulers)
	series(w, "erlang_vm_schedulers_online", runtime.SchedulersOnline)
	series(w, "rabbitmq_process_resident_memory_bytes", runtime.MemoryUsed)
	series(w, "rabbitmq_resident_memory_limit_bytes", runtime.MemoryLimit)
	series(w, "rabbitmq_disk_space_available_limit_bytes", runtime.DiskFreeLimit)
	series(w, "rabbitmq_alarms_memory_used_watermark", oneIf(runtime.MemoryAlarm))
	series(w, "rabbitmq_alarms_free_disk_space_watermark", oneIf(runtime.DiskAlarm))
}

func series[T int | int64](w io.Writer, name string, value *T) {
	if value != nil {
		fmt.Fprintf(w, "# TYPE %s gauge\n# HELP %s What the node says.\n%s %d\n", name, name, name, *value)
	}
}

func oneIf(raised *bool) *int {
	if raised == nil {
		return nil
	}
	n := 0
	if *raised {
		n = 1
	}
	return &n
}
