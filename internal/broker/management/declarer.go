package management

import (
	"context"
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
