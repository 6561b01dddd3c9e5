package brokertest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// ownExchanges are those that every vhost has.
func ownExchanges() map[string]broker.Exchange {
	out := map[string]broker.Exchange{}
	for name, kind := range map[string]string{
		"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.headers": "headers", "amq.match": "headers",
		"amq.rabbitmq.trace": "topic", "amq.topic": "topic",
	} {
		out[name] = broker.Exchange{Name: name, Type: kind, Durable: true, Internal: name == "amq.rabbitmq.trace", Arguments: map[string]any{}}
	}
	return out
}

// AddExchange makes or replaces an exchange without HTTP, in a vhost that it makes too. Type defaults to direct.
func (s *Server) AddExchange(e broker.Exchange) {
	s.AddVHost(e.VHost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type == "" {
		e.Type = "direct"
	}
	e.Arguments = broker.NormalizeDefinition(e.Arguments)
	if e.Arguments == nil {
		e.Arguments = map[string]any{}
	}
	s.vhosts[e.VHost].exchanges[e.Name] = e
}

// AddBinding binds without HTTP and without a check.
func (s *Server) AddBinding(b broker.Binding) {
	s.AddVHost(b.VHost)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vhosts[b.VHost].bind(b)
}

// Exchanges of a vhost that somebody made, sorted by name.
func (s *Server) Exchanges(vhost string) []broker.Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vhosts[vhost]
	if v == nil {
		return nil
	}
	var out []broker.Exchange
	for _, name := range slices.Sorted(maps.Keys(v.exchanges)) {
		if name != "" && !strings.HasPrefix(name, "amq.") {
			out = append(out, v.exchanges[name])
		}
	}
	return out
}

// Bindings of a vhost but for the default exchange's, as they were made.
func (s *Server) Bindings(vhost string) []broker.Binding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vhosts[vhost]; v != nil {
		return slices.Clone(v.bindings)
	}
	return nil
}

func (v *vhost) bind(b broker.Binding) {
	same := func(other broker.Binding) bool {
		return other.Source == b.Source && other.Destination == b.Destination && other.ToExchange == b.ToExchange &&
			other.RoutingKey == b.RoutingKey && broker.EqualDefinitions(other.Arguments, b.Arguments)
	}
	if !slices.ContainsFunc(v.bindings, same) {
		v.bindings = append(v.bindings, b)
	}
}

func (s *Server) listExchanges(r exchange) (reply, *refusal) {
	if len(r.names) != 1 {
		return reply{}, notFound
	}
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	replies := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(v.exchanges)) {
		e := v.exchanges[name]
		row := map[string]any{"vhost": r.names[0], "name": name, "type": e.Type, "durable": e.Durable, "auto_delete": e.AutoDelete,
			"internal": e.Internal, "arguments": e.Arguments}
		if policy := s.exchangePolicy(v, name); policy != "" {
			row["policy"] = policy
		}
		replies = append(replies, row)
	}
	return reply{http.StatusOK, replies}, nil
}

func (s *Server) exchangePolicy(v *vhost, name string) string {
	best, priority := "", 0
	for _, p := range sortedPolicies(v.policies) {
		about := p.ApplyTo == broker.ApplyToExchanges || p.ApplyTo == broker.ApplyToAll
		if about && matches(p.Pattern, name) && (best == "" || p.Priority > priority) {
			best, priority = p.Name, p.Priority
		}
	}
	return best
}

func (s *Server) getExchange(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	e, found := v.exchanges[r.names[1]]
	if !found {
		return reply{}, notFound
	}
	return reply{http.StatusOK, map[string]any{"vhost": r.names[0], "name": e.Name, "type": e.Type, "durable": e.Durable, "arguments": e.Arguments}}, nil
}

func (s *Server) putExchange(r exchange) (reply, *refusal) {
	v, body, refused := s.declaration(r)
	if refused != nil {
		return reply{}, refused
	}
	kind, _ := body["type"].(string)
	made := broker.Exchange{Name: r.names[1], Type: kind}
	made.Durable, _ = body["durable"].(bool)
	made.AutoDelete, _ = body["auto_delete"].(bool)
	made.Internal, _ = body["internal"].(bool)
	made.Arguments, _ = body["arguments"].(map[string]any)
	if made.Arguments == nil {
		made.Arguments = map[string]any{}
	}
	old, existed := v.exchanges[made.Name]
	switch {
	case !existed && strings.HasPrefix(made.Name, "amq."):
		return reply{}, accessRefused
	case !existed:
		v.exchanges[made.Name] = made
		return reply{status: http.StatusCreated}, nil
	case old.Type != made.Type:
		return reply{}, badRequest(fmt.Sprintf("inequivalent arg 'type' for exchange '%s' in vhost '%s': received '%s' but current is '%s'", made.Name, r.names[0], made.Type, old.Type))
	case old.Durable != made.Durable:
		return reply{}, badRequest(fmt.Sprintf("inequivalent arg 'durable' for exchange '%s' in vhost '%s': received '%v' but current is '%v'", made.Name, r.names[0], made.Durable, old.Durable))
	}
	return reply{status: http.StatusNoContent}, nil
}

func (s *Server) deleteExchange(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	name := r.names[1]
	_, found := v.exchanges[name]
	used := slices.ContainsFunc(v.bindings, func(b broker.Binding) bool { return b.Source == name })
	switch {
	case !found:
		return reply{}, notFound
	case strings.HasPrefix(name, "amq."):
		return reply{}, accessRefused
	case used && r.URL.Query().Get("if-unused") == "true":
		return reply{}, badRequest(fmt.Sprintf("exchange '%s' in vhost '%s' in use", name, r.names[0]))
	}
	delete(v.exchanges, name)
	v.bindings = slices.DeleteFunc(v.bindings, func(b broker.Binding) bool { return b.Source == name || b.ToExchange && b.Destination == name })
	return reply{status: http.StatusNoContent}, nil
}

func (s *Server) listBindings(r exchange) (reply, *refusal) {
	if len(r.names) != 1 {
		return reply{}, notFound
	}
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	replies := []map[string]any{}
	row := func(b broker.Binding) map[string]any {
		kind := "queue"
		if b.ToExchange {
			kind = "exchange"
		}
		arguments := b.Arguments
		if arguments == nil {
			arguments = map[string]any{}
		}
		return map[string]any{"vhost": r.names[0], "source": b.Source, "destination": b.Destination, "destination_type": kind, "routing_key": b.RoutingKey, "arguments": arguments}
	}
	for _, name := range v.names() {
		replies = append(replies, row(broker.Binding{Destination: name, RoutingKey: name}))
	}
	for _, b := range v.bindings {
		replies = append(replies, row(b))
	}
	return reply{http.StatusOK, replies}, nil
}

// postBinding is POST /api/bindings/{vhost}/e/{source}/{q or e}/{destination}.
func (s *Server) postBinding(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	body, refused := readObject(r)
	if refused != nil {
		return reply{}, refused
	}
	b := broker.Binding{VHost: r.names[0], Source: r.names[2], Destination: r.names[4], ToExchange: r.names[3] == "e"}
	b.RoutingKey, _ = body["routing_key"].(string)
	b.Arguments, _ = body["arguments"].(map[string]any)
	if b.Arguments == nil {
		b.Arguments = map[string]any{}
	}
	_, source := v.exchanges[b.Source]
	_, exchangeThere := v.exchanges[b.Destination]
	switch {
	case !source || b.ToExchange && !exchangeThere:
		missing := b.Source
		if source {
			missing = b.Destination
		}
		return reply{}, &refusal{http.StatusNotFound, "not_found", fmt.Sprintf("no exchange '%s' in vhost '%s'", missing, b.VHost)}
	case !b.ToExchange && v.queues[b.Destination] == nil:
		return reply{}, &refusal{http.StatusNotFound, "not_found", fmt.Sprintf("no queue '%s' in vhost '%s'", b.Destination, b.VHost)}
	}
	v.bind(b)
	return reply{status: http.StatusCreated}, nil
}

// postReplica is POST /api/queues/quorum/{vhost}/{queue}/replicas/add, which 3.10 does not have.
func (s *Server) postReplica(r exchange) (reply, *refusal) {
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
	known := slices.ContainsFunc(s.nodes, func(n broker.Node) bool { return n.Name == node })
	switch {
	case !given:
		return reply{}, badRequest("[{key_missing,node}]")
	case q == nil:
		return reply{}, &refusal{http.StatusServiceUnavailable, "service_unavailable", "not_found"}
	case !known:
		return reply{}, badRequest("Node is not a cluster member")
	case q.kind != broker.Quorum:
		return reply{}, &refusal{http.StatusServiceUnavailable, "service_unavailable", "classic_queue_not_supported"}
	}
	if !slices.Contains(q.members, node) {
		q.members = append(q.members, node)
		slices.Sort(q.members)
	}
	return reply{status: http.StatusNoContent}, nil
}
