package brokertest

import (
	"net/http"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// What becomes of messages follows the real brokers, which test/broker compares:
//   - A policy reaches the process of a classic queue key by key: dead letters, then the limit, then what happens at it. A
//     limit that comes together with reject-publish therefore meets a process that still drops the oldest.
//   - A new process of a classic queue begins with drop-head, so that a restart does the same once more.
//   - An overflow that no policy sets any more is drop-head again.
//   - Quorum queues take all keys at once and do nothing of that.

// BusyQueues keeps the processes of queues from what changes in policies when on; off, they come to all of it as one.
func (s *Server) BusyQueues(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = on
	for _, v := range s.vhosts {
		for _, q := range v.queues {
			if !broker.EqualDefinitions(q.taken, q.effective) {
				s.settle(v, q)
			}
		}
	}
}

// settle brings the queue's process to what policies and arguments say.
func (s *Server) settle(v *vhost, q *queue) {
	if !s.busy {
		s.take(v, q)
	}
}

// take is settle of a process that has time, or is new.
func (s *Server) take(v *vhost, q *queue) {
	q.taken = q.effective
	settled := broker.WithArguments(q.kind, q.arguments, q.effective)
	before := q.overflow
	overflow, given := settled["overflow"].(string)
	switch {
	case !given, q.kind == broker.Quorum && overflow == "reject-publish-dlx":
		q.overflow = "drop-head"
	default:
		q.overflow = overflow
	}
	limiting := q.overflow
	if q.kind == broker.Classic {
		limiting = before
	}
	if limit, limited := settled["max-length"].(int64); limited && q.ready > limit && limiting != "reject-publish" && limiting != "reject-publish-dlx" {
		s.dies(v, q, settled, q.ready-limit)
		q.ready = limit
	}
}

// dies counts messages as dropped, or brings them to where the queue's dead letters go.
func (s *Server) dies(v *vhost, q *queue, settled map[string]any, n int64) {
	name, dead := settled["dead-letter-exchange"].(string)
	var arrived bool
	if dead {
		key, given := settled["dead-letter-routing-key"].(string)
		if !given {
			key = q.name
		}
		for _, to := range v.route(name, key) {
			if to != q {
				to.ready += n
				arrived = true
			}
		}
	}
	if !arrived {
		q.dropped += n
	}
}

// route are the queues that a message gets to.
func (v *vhost) route(exchange, key string) []*queue {
	if exchange == "" {
		if q := v.queues[key]; q != nil {
			return []*queue{q}
		}
		return nil
	}
	e, found := v.exchanges[exchange]
	if !found {
		return nil
	}
	reached := map[*queue]bool{}
	var out []*queue
	for _, b := range v.bindings {
		q := v.queues[b.Destination]
		takes := e.Type != "direct" && e.Type != "topic" || b.RoutingKey == key || e.Type == "topic" && b.RoutingKey == "#"
		if b.Source == exchange && !b.ToExchange && takes && q != nil && !reached[q] {
			reached[q] = true
			out = append(out, q)
		}
	}
	return out
}

// publish puts one message into a queue, at whose limit it may be refused.
func (s *Server) publish(v *vhost, q *queue) (accepted bool) {
	settled := broker.WithArguments(q.kind, q.arguments, q.taken)
	limit, limited := settled["max-length"].(int64)
	room := limit
	if q.kind == broker.Quorum && q.overflow == "reject-publish" {
		room++ // it takes one more before it refuses
	}
	if !limited || q.ready < room {
		q.ready++
		return true
	}
	switch q.overflow {
	case "reject-publish":
		return false
	case "reject-publish-dlx":
		s.dies(v, q, settled, 1)
		return false
	}
	s.dies(v, q, settled, 1) // the oldest one for the new one
	return true
}

// Publish puts n messages into a queue and tells how many it took.
func (s *Server) Publish(vhost, name string, n int) (accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vhosts[vhost]
	if v == nil || v.queues[name] == nil {
		return 0
	}
	for range n {
		if s.publish(v, v.queues[name]) {
			accepted++
		}
	}
	return accepted
}

// Ready tells how many messages a queue holds, and Dropped how many it has dropped for good.
func (s *Server) Ready(vhost, name string) int64 {
	return s.figure(vhost, name, func(q *queue) int64 { return q.ready })
}

// Dropped tells how many messages a queue dropped that nothing else got.
func (s *Server) Dropped(vhost, name string) int64 {
	return s.figure(vhost, name, func(q *queue) int64 { return q.dropped })
}

func (s *Server) figure(vhost, name string, of func(*queue) int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vhosts[vhost]; v != nil && v.queues[name] != nil {
		return of(v.queues[name])
	}
	return 0
}

// RestartNodes starts the processes of all queues again: messages that were not acknowledged return first.
func (s *Server) RestartNodes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.vhosts {
		for _, q := range v.queues {
			q.ready, q.unacknowledged, q.consumers = q.ready+q.unacknowledged, 0, 0
			q.overflow = "drop-head"
			s.take(v, q)
		}
	}
}

// postMessage is POST /api/exchanges/{vhost}/{exchange}/publish.
func (s *Server) postMessage(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	body, refused := readObject(r)
	if refused != nil {
		return reply{}, refused
	}
	key, _ := body["routing_key"].(string)
	name := r.names[1]
	if name == "amq.default" {
		name = ""
	}
	queues := v.route(name, key)
	for _, q := range queues {
		if !s.publish(v, q) {
			return reply{}, badRequest("rejected Unable to publish message. Check queue limits.")
		}
	}
	return reply{http.StatusOK, map[string]any{"routed": len(queues) > 0}}, nil
}

// postGet is POST /api/queues/{vhost}/{queue}/get with a message that returns.
func (s *Server) postGet(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	q := v.queues[r.names[1]]
	if q == nil {
		return reply{}, notFound
	}
	messages := []map[string]any{}
	if q.ready > 0 {
		messages = append(messages, map[string]any{"payload": strings.Repeat("x", 1), "payload_bytes": 1, "message_count": q.ready - 1})
	}
	return reply{http.StatusOK, messages}, nil
}
