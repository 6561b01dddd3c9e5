package management

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// VHosts implements broker.Declarer: the vhosts that the user may see, sorted.
func (c *client) VHosts(ctx context.Context) ([]string, error) {
	var replies []struct {
		Name string `json:"name"`
	}
	if err := c.get(ctx, "list vhosts", at("vhosts"), nil, &replies); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(replies))
	for _, reply := range replies {
		names = append(names, reply.Name)
	}
	slices.Sort(names)
	return names, nil
}

// PutVHost implements broker.Declarer. An existing vhost stays as it is.
func (c *client) PutVHost(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("put vhost %q", name), method: http.MethodPut,
		path: at("vhosts").named(name), body: struct{}{},
	})
	return err
}

// DefaultQueueType implements broker.Declarer.
func (c *client) DefaultQueueType(ctx context.Context, vhost string) (broker.QueueType, error) {
	kind, _, err := c.vhostTraits(ctx, vhost)
	return kind, err
}

// SetDefaultQueueType implements broker.Declarer. The broker forgets the description and tags of a vhost that is put without
// them, so they are sent along.
func (c *client) SetDefaultQueueType(ctx context.Context, vhost string, kind broker.QueueType) error {
	_, traits, err := c.vhostTraits(ctx, vhost)
	if err != nil {
		return err
	}
	traits["default_queue_type"] = string(kind)
	_, err = c.do(ctx, call{
		op: fmt.Sprintf("set the default queue type of vhost %q", vhost), method: http.MethodPut,
		path: at("vhosts").named(vhost), body: traits,
	})
	return err
}

// vhostTraits are what a vhost has that a PUT of it can change.
func (c *client) vhostTraits(ctx context.Context, vhost string) (kind broker.QueueType, traits map[string]string, err error) {
	op := fmt.Sprintf("get vhost %q", vhost)
	var reply struct {
		Name             string          `json:"name"`
		Description      json.RawMessage `json:"description"`
		Tags             json.RawMessage `json:"tags"`
		DefaultQueueType json.RawMessage `json:"default_queue_type"`
	}
	if err := c.get(ctx, op, at("vhosts").named(vhost), nil, &reply); err != nil {
		return "", nil, err
	}
	if reply.Name != vhost {
		return "", nil, misdirected(op, reply.Name)
	}
	if name := optionalName(reply.DefaultQueueType); name != nil && *name != "undefined" {
		kind = broker.QueueType(*name)
	}
	traits = map[string]string{"tags": strings.Join(tags(reply.Tags), ",")}
	if text := optionalName(reply.Description); text != nil {
		traits["description"] = *text
	}
	return kind, traits, nil
}

// DeleteVHost implements broker.Declarer. It removes all queues and policies of the vhost, one by one before it
// answers (over 10 s for 1200 queues on a busy host), so it has the time limit of a listing. It may be repeated.
func (c *client) DeleteVHost(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("delete vhost %q", name), method: http.MethodDelete,
		path: at("vhosts").named(name), long: true,
	})
	return err
}

type queueRequest struct {
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Arguments  map[string]any `json:"arguments"`
}

// PutQueue implements broker.Declarer. Type, when set, becomes the argument x-queue-type unless that is given.
// A queue that exists with other properties is an error of kind Invalid. The broker drops line breaks from names of
// new queues without a word, so such names are refused here.
func (c *client) PutQueue(ctx context.Context, queue broker.Queue) error {
	op := fmt.Sprintf("put queue %q in vhost %q", queue.Name, queue.VHost)
	if strings.ContainsAny(queue.Name, "\r\n") {
		return refused(op, "the broker would drop the line break from the name and declare another queue")
	}
	arguments := map[string]any{}
	if queue.Type != "" {
		arguments["x-queue-type"] = string(queue.Type)
	}
	for key, value := range queue.Arguments {
		arguments[key] = value
	}
	_, err := c.do(ctx, call{
		op: op, method: http.MethodPut,
		path: at("queues").named(queue.VHost, queue.Name),
		body: queueRequest{Durable: queue.Durable, AutoDelete: queue.AutoDelete, Arguments: arguments},
	})
	return err
}

// DeleteQueue implements broker.Declarer. Messages in the queue are lost.
func (c *client) DeleteQueue(ctx context.Context, vhost, name string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("delete queue %q in vhost %q", name, vhost), method: http.MethodDelete,
		path: at("queues").named(vhost, name),
	})
	return err
}
