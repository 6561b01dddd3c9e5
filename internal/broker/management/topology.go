package management

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

type exchangeReply struct {
	VHost      string          `json:"vhost"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Durable    json.RawMessage `json:"durable"`
	AutoDelete json.RawMessage `json:"auto_delete"`
	Internal   json.RawMessage `json:"internal"`
	Arguments  json.RawMessage `json:"arguments"`
	Policy     json.RawMessage `json:"policy"`
}

// Exchanges implements broker.Topology. The broker leaves the policy out where there is none.
func (c *client) Exchanges(ctx context.Context, vhost string) ([]broker.Exchange, error) {
	op := fmt.Sprintf("list exchanges of vhost %q", vhost)
	query := url.Values{"columns": {"vhost,name,type,durable,auto_delete,internal,arguments,policy"}, "disable_stats": {"true"}}
	var replies []exchangeReply
	if err := c.list(ctx, op, at("exchanges").named(vhost), query, &replies); err != nil {
		return nil, err
	}
	exchanges := make([]broker.Exchange, 0, len(replies))
	for _, r := range replies {
		if r.VHost != vhost {
			return nil, misdirected(op, r.VHost)
		}
		e := broker.Exchange{
			VHost: vhost, Name: r.Name, Type: r.Type, Durable: isTrue(r.Durable), AutoDelete: isTrue(r.AutoDelete),
			Internal: isTrue(r.Internal), Arguments: optionalTable(r.Arguments), Policy: optionalName(r.Policy),
		}
		if e.Policy == nil {
			none := ""
			e.Policy = &none
		}
		exchanges = append(exchanges, e)
	}
	slices.SortFunc(exchanges, func(a, b broker.Exchange) int { return strings.Compare(a.Name, b.Name) })
	return exchanges, nil
}

// list is get with the time that an answer about everything in a vhost may take.
func (c *client) list(ctx context.Context, op string, p path, query url.Values, out any) error {
	body, err := c.do(ctx, call{op: op, method: http.MethodGet, path: p, query: query, long: true})
	if err != nil {
		return err
	}
	return decode(op, body, out)
}

// PutExchange implements broker.Topology.
func (c *client) PutExchange(ctx context.Context, exchange broker.Exchange) error {
	arguments := exchange.Arguments
	if arguments == nil {
		arguments = map[string]any{}
	}
	op := fmt.Sprintf("put exchange %q in vhost %q", exchange.Name, exchange.VHost)
	if strings.ContainsAny(exchange.Name, "\r\n") {
		return refused(op, "the broker would drop the line break from the name and declare another exchange")
	}
	_, err := c.do(ctx, call{
		op: op, method: http.MethodPut, path: at("exchanges").named(exchange.VHost, exchange.Name),
		body: map[string]any{
			"type": exchange.Type, "durable": exchange.Durable, "auto_delete": exchange.AutoDelete, "internal": exchange.Internal,
			"arguments": arguments,
		},
	})
	return err
}

type bindingReply struct {
	VHost           string          `json:"vhost"`
	Source          string          `json:"source"`
	Destination     string          `json:"destination"`
	DestinationType string          `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       json.RawMessage `json:"arguments"`
}

// Bindings implements broker.Topology. The API has no pages here; the default exchange's own bindings, one for each queue, are
// left out.
func (c *client) Bindings(ctx context.Context, vhost string) ([]broker.Binding, error) {
	op := fmt.Sprintf("list bindings of vhost %q", vhost)
	query := url.Values{"columns": {"vhost,source,destination,destination_type,routing_key,arguments"}}
	var replies []bindingReply
	if err := c.list(ctx, op, at("bindings").named(vhost), query, &replies); err != nil {
		return nil, err
	}
	bindings := make([]broker.Binding, 0, len(replies))
	for _, r := range replies {
		if r.VHost != vhost {
			return nil, misdirected(op, r.VHost)
		}
		if r.Source == "" {
			continue
		}
		bindings = append(bindings, broker.Binding{
			VHost: vhost, Source: r.Source, Destination: r.Destination, ToExchange: r.DestinationType == "exchange",
			RoutingKey: r.RoutingKey, Arguments: optionalTable(r.Arguments),
		})
	}
	slices.SortStableFunc(bindings, func(a, b broker.Binding) int {
		return strings.Compare(a.Source+"\x00"+a.Destination+"\x00"+a.RoutingKey, b.Source+"\x00"+b.Destination+"\x00"+b.RoutingKey)
	})
	return bindings, nil
}

// PutBinding implements broker.Topology. The broker answers the same when the binding is there already.
func (c *client) PutBinding(ctx context.Context, binding broker.Binding) error {
	arguments, kind := binding.Arguments, "q"
	if arguments == nil {
		arguments = map[string]any{}
	}
	if binding.ToExchange {
		kind = "e"
	}
	p := at("bindings").named(binding.VHost)
	p.words = append(p.words, segment{text: "e"})
	p = p.named(binding.Source)
	p.words = append(p.words, segment{text: kind})
	_, err := c.do(ctx, call{
		op:     fmt.Sprintf("bind %q to exchange %q in vhost %q", binding.Destination, binding.Source, binding.VHost),
		method: http.MethodPost, path: p.named(binding.Destination),
		body: map[string]any{"routing_key": binding.RoutingKey, "arguments": arguments},
	})
	return err
}

// DeleteUnusedExchange implements broker.Topology.
func (c *client) DeleteUnusedExchange(ctx context.Context, vhost, name string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("delete exchange %q of vhost %q", name, vhost), method: http.MethodDelete,
		path: at("exchanges").named(vhost, name), query: url.Values{"if-unused": {"true"}},
	})
	return err
}

// DeleteEmptyQueue implements broker.Topology. The broker itself looks at classic queues. It cannot at quorum queues, whose counts
// are seconds late: those are asked for a message, which returns at once, and only when both agree that there is none are
// they deleted.
func (c *client) DeleteEmptyQueue(ctx context.Context, vhost, name string) error {
	queue, err := c.Queue(ctx, vhost, name)
	if err != nil {
		return err
	}
	op := fmt.Sprintf("delete queue %q of vhost %q if it is empty", name, vhost)
	switch {
	case queue.Messages == nil || queue.Consumers == nil:
		return refused(op, "the broker does not say how many messages and consumers it has")
	case *queue.Messages > 0:
		return refused(op, "it holds messages")
	case *queue.Consumers > 0:
		return refused(op, "it has consumers")
	}
	place := at("queues").named(vhost, name)
	query := url.Values{"if-empty": {"true"}, "if-unused": {"true"}}
	if queue.Type != broker.Classic {
		if err := c.holdsNothing(ctx, op, place); err != nil {
			return err
		}
		query = nil
	}
	_, err = c.do(ctx, call{op: op, method: http.MethodDelete, path: place, query: query})
	return err
}

// holdsNothing asks a queue for one message and gives it back.
func (c *client) holdsNothing(ctx context.Context, op string, place path) error {
	place.words = append(slices.Clone(place.words), segment{text: "get"})
	body, err := c.do(ctx, call{op: op, method: http.MethodPost, path: place,
		body: map[string]any{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 1}})
	if err != nil {
		return err
	}
	var messages []json.RawMessage
	if err := decode(op, body, &messages); err != nil {
		return err
	}
	if len(messages) > 0 {
		return refused(op, "it holds messages")
	}
	return nil
}

// GrowQueue implements broker.Grower.
func (c *client) GrowQueue(ctx context.Context, vhost, queue, node string) error {
	_, err := c.do(ctx, call{
		op:     fmt.Sprintf("add a member on %s to queue %q of vhost %q", node, queue, vhost),
		method: http.MethodPost, path: replicas(vhost, queue, "add"), body: map[string]any{"node": node}, long: true, silent: true,
	})
	return err
}

// ShrinkQueue implements broker.Grower.
func (c *client) ShrinkQueue(ctx context.Context, vhost, queue, node string) error {
	_, err := c.do(ctx, call{
		op:     fmt.Sprintf("remove the member on %s from queue %q of vhost %q", node, queue, vhost),
		method: http.MethodDelete, path: replicas(vhost, queue, "delete"), body: map[string]any{"node": node}, long: true, silent: true,
	})
	return err
}

func replicas(vhost, queue, verb string) path {
	p := at("queues", "quorum").named(vhost, queue)
	p.words = append(p.words, segment{text: "replicas"}, segment{text: verb})
	return p
}
