package brokertest

import (
	"net/http"
	"slices"

	"github.com/warren-mq/warren/internal/broker"
)

// deleteReplica is DELETE /api/queues/quorum/{vhost}/{queue}/replicas/delete, which 3.10 does not have.
func (s *Server) deleteReplica(r exchange) (reply, *refusal) {
	if !s.caps.GrowsOnRequest {
		return reply{}, notAllowed
	}
	v, refused := s.vhostOf(r.names[1])
	if refused != nil {
		return reply{}, refused
	}
	body, refused := readObject(r)
	if refused != nil {
		return reply{}, refused
	}
	node, given := body["node"].(string)
	q := v.queues[r.names[2]]
	switch {
	case !given:
		return reply{}, badRequest("[{key_missing,node}]")
	case q == nil:
		return reply{}, notFound
	case !slices.ContainsFunc(s.nodes, func(n broker.Node) bool { return n.Name == node }):
		return reply{}, badRequest("Node is not a cluster member")
	case q.kind != broker.Quorum:
		return reply{}, &refusal{http.StatusServiceUnavailable, "service_unavailable", "classic_queue_not_supported"}
	case len(q.members) == 1 && q.members[0] == node:
		return reply{}, &refusal{http.StatusServiceUnavailable, "service_unavailable", "last_node"}
	}
	q.members = slices.DeleteFunc(q.members, func(m string) bool { return m == node })
	return reply{status: http.StatusAccepted}, nil
}
