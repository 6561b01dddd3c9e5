package brokertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

func (s *Server) listQueues(r exchange) (reply, *refusal) {
	vhosts := r.names
	if len(vhosts) == 1 && vhosts[0] == "detailed" && !s.mirrors {
		vhosts = nil // /api/queues/detailed is a resource of its own since 3.13
	}
	if len(vhosts) == 1 {
		if _, refused := s.vhostOf(vhosts[0]); refused != nil {
			return reply{}, refused
		}
	} else {
		for name := range s.vhosts {
			vhosts = append(vhosts, name)
		}
		slices.Sort(vhosts)
	}
	see := s.viewOf(r)
	var queues []listed
	for _, name := range vhosts {
		v := s.vhosts[name]
		for _, queue := range v.names() {
			queues = append(queues, listed{name, queue, v.queues[queue]})
		}
	}
	return s.paged(r, queues, see)
}

func (s *Server) getQueue(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	q := v.queues[r.names[1]]
	if q == nil {
		return reply{}, notFound
	}
	body := s.queueReply(r.names[0], q, s.viewOf(r))
	if s.mirrors && r.URL.Query().Get("disable_stats") == "true" {
		// 3.10 leaves these out of a single queue without statistics.
		for _, key := range []string{"policy", "messages", "messages_ready", "messages_unacknowledged"} {
			delete(body, key)
		}
		body["state"] = "live"
	}
	return reply{http.StatusOK, body}, nil
}

func (s *Server) deleteQueue(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	q := v.queues[r.names[1]]
	if q == nil {
		return reply{}, notFound
	}
	ifUnused, ifEmpty := r.URL.Query().Get("if-unused") == "true", r.URL.Query().Get("if-empty") == "true"
	for flag, given := range map[string]bool{"if-unused": ifUnused, "if-empty": ifEmpty && !ifUnused} {
		if given && q.kind != broker.Classic {
			return reply{}, badRequest(fmt.Sprintf("cannot delete queue '%s' in vhost '%s'. queue.delete operations with %s flag set are not supported by %s queues",
				q.name, r.names[0], flag, q.kind))
		}
	}
	switch {
	case ifEmpty && q.ready > 0:
		return reply{}, badRequest(fmt.Sprintf("queue '%s' in vhost '%s' not empty", q.name, r.names[0]))
	case ifUnused && q.consumers > 0:
		return reply{}, badRequest(fmt.Sprintf("queue '%s' in vhost '%s' in use", q.name, r.names[0]))
	}
	v.remove(r.names[1])
	return reply{status: http.StatusNoContent}, nil
}

// declaration is the vhost and the body of a request that declares something.
func (s *Server) declaration(r exchange) (*vhost, map[string]any, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused == notFound {
		return nil, nil, vhostNotFound
	}
	if refused != nil {
		return nil, nil, refused
	}
	body, refused := readObject(r)
	return v, body, refused
}

func (s *Server) putQueue(r exchange) (reply, *refusal) {
	v, body, refused := s.declaration(r)
	if refused != nil {
		return reply{}, refused
	}
	durable, _ := body["durable"].(bool)
	autoDelete, _ := body["auto_delete"].(bool)
	arguments, _ := body["arguments"].(map[string]any)
	name := strings.NewReplacer("\r", "", "\n", "").Replace(r.names[1]) // as every AMQP declare
	made := s.newQueue(broker.Queue{VHost: r.names[0], Name: name, Durable: durable, AutoDelete: autoDelete, Arguments: arguments})
	if made.kind != broker.Classic && !durable {
		return reply{}, badRequest(fmt.Sprintf("invalid property 'non-durable' for queue '%s' in vhost '%s'", made.name, r.names[0]))
	}
	if old := v.queues[made.name]; old != nil {
		if fault := inequivalent(r.names[0], old, made); fault != "" {
			return reply{}, badRequest(fault)
		}
		return reply{status: http.StatusNoContent}, nil
	}
	v.put(made)
	s.applyTo(v, made)
	return reply{status: http.StatusCreated}, nil
}

// inequivalent is the broker's complaint about a queue that is declared again in another way.
func inequivalent(vhost string, old, made *queue) string {
	say := func(property string, received, current any) string {
		return fmt.Sprintf("inequivalent arg '%s' for queue '%s' in vhost '%s': received '%v' but current is '%v'",
			property, old.name, vhost, received, current)
	}
	switch {
	case old.durable != made.durable:
		return say("durable", made.durable, old.durable)
	case old.autoDelete != made.autoDelete:
		return say("auto_delete", made.autoDelete, old.autoDelete)
	case old.kind != made.kind:
		return say("x-queue-type", made.kind, old.kind)
	}
	return ""
}
