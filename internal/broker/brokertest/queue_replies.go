package brokertest

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// listed is a queue in a listing.
type listed struct {
	vhost, name string
	queue       *queue
}

// view is one of the three ways in which the broker shows queues.
type view int

const (
	withStatistics view = iota
	described           // disable_stats=true: the metadata store
	withTotals          // disable_stats=true&enable_queue_totals=true: asked of each queue
)

func (s *Server) viewOf(r exchange) view {
	query := r.URL.Query()
	switch {
	case query.Get("disable_stats") == "true" && query.Get("enable_queue_totals") == "true":
		return withTotals
	case query.Get("disable_stats") == "true", !s.statistics:
		return described
	}
	return withStatistics
}

// queueReply is a queue as the version shows it in that view. What each one leaves out was read from real brokers.
func (s *Server) queueReply(vhost string, q *queue, see view) map[string]any {
	reply := map[string]any{
		"vhost": vhost, "name": q.name, "type": q.kind, "durable": q.durable, "auto_delete": q.autoDelete,
		"exclusive": q.exclusive, "arguments": q.arguments, "state": q.state,
	}
	s.placement(reply, q, see)
	s.inForceReply(reply, q, see)
	if s.mirrors && see == described && q.state == "running" {
		reply["state"] = "live"
	}
	if see == described {
		return reply
	}
	if q.kind == broker.Stream && see == withTotals {
		reply["totals"], reply["type_specific"] = nil, nil
		return reply
	}
	if q.kind != broker.Classic && see == withTotals {
		reply["exclusive"] = nil
	}
	reply["messages"] = q.ready + q.unacknowledged
	reply["messages_ready"] = q.ready
	reply["messages_unacknowledged"] = q.unacknowledged
	if see == withStatistics {
		reply["consumers"] = q.consumers
		reply["effective_policy_definition"] = q.taken
		reply["message_bytes"] = q.ready + q.unacknowledged // every message is one byte
	}
	return reply
}

func (s *Server) placement(reply map[string]any, q *queue, see view) {
	running := s.runningNodes()
	online := slices.DeleteFunc(slices.Clone(q.members), func(node string) bool { return !slices.Contains(running, node) })
	switch {
	case q.kind == broker.Classic:
		reply["node"] = q.node
		if q.mirrored {
			reply["slave_nodes"] = list(q.mirrors)
			reply["synchronised_slave_nodes"] = list(q.synced)
		}
	case q.kind == broker.Stream && (s.mirrors || see == withTotals):
		if see != withTotals {
			reply["node"] = q.node
		}
	default:
		reply["leader"], reply["members"], reply["online"] = q.node, list(q.members), list(online)
		if !s.mirrors {
			reply["node"] = q.node
		}
	}
}

// inForceReply: 3.10 names the user policy alone outside its statistics, and leaves the field out for none.
func (s *Server) inForceReply(reply map[string]any, q *queue, see view) {
	full := see == withStatistics || see == described && !s.mirrors || see == withTotals && !s.mirrors && q.kind == broker.Quorum
	if q.policy != nil {
		reply["policy"] = q.policy.Name
	} else if full {
		reply["policy"] = nil
	}
	if !full {
		return
	}
	reply["operator_policy"] = nil
	if q.operator != nil {
		reply["operator_policy"] = q.operator.Name
	}
	reply["effective_policy_definition"] = q.effective
}

// list is never null in JSON.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// paged gives the listing whole or as one page.
func (s *Server) paged(r exchange, queues []listed, see view) (reply, *refusal) {
	query := r.URL.Query()
	if !query.Has("page") {
		return reply{http.StatusOK, s.rows(queues, see, query.Get("columns"))}, nil
	}
	page, errPage := strconv.Atoi(query.Get("page"))
	size := 100
	var errSize error
	if query.Has("page_size") {
		size, errSize = strconv.Atoi(query.Get("page_size"))
	}
	if errPage != nil || errSize != nil || page < 1 || size < 1 || size > 500 {
		return reply{}, &refusal{http.StatusBadRequest, "invalid_pagination_parameters",
			"Invalid pagination parameters: page number " + query.Get("page") + ", page size " + query.Get("page_size")}
	}
	total := len(queues)
	queues, refused := s.filtered(r, queues)
	if refused != nil {
		return reply{}, refused
	}
	begin := (page - 1) * size
	if page > 1 && begin >= len(queues) {
		return reply{}, &refusal{http.StatusBadRequest, "page_out_of_range",
			"Page out of range, page: " + itoa(page) + " page size: " + itoa(size) + ", len: " + itoa(len(queues))}
	}
	items := queues[begin:min(begin+size, len(queues))]
	return reply{http.StatusOK, map[string]any{
		"items": s.rows(items, see, query.Get("columns")), "item_count": len(items), "page": page, "page_size": size,
		"page_count": (len(queues) + size - 1) / size, "filtered_count": len(queues), "total_count": total,
	}}, nil
}

// filtered applies name=. A bad expression is refused by 3.10; 4.3 answers with an empty list.
func (s *Server) filtered(r exchange, queues []listed) ([]listed, *refusal) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return queues, nil
	}
	keep := func(q listed) bool { return strings.Contains(q.name, name) }
	if r.URL.Query().Get("use_regex") == "true" {
		expression, err := regexp.Compile(bytewise(name))
		if err != nil && s.mirrors {
			return nil, badRequest("Invalid name parameter")
		}
		keep = func(q listed) bool { return err == nil && expression.MatchString(bytewise(q.name)) }
	}
	return slices.DeleteFunc(slices.Clone(queues), func(q listed) bool { return !keep(q) }), nil
}

func (s *Server) rows(queues []listed, see view, columns string) []map[string]any {
	rows := make([]map[string]any, 0, len(queues))
	for _, q := range queues {
		row := s.queueReply(q.vhost, q.queue, see)
		if columns != "" {
			wanted := strings.Split(columns, ",")
			for key := range row {
				if !slices.Contains(wanted, key) {
					delete(row, key)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}
