package management

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/warren-mq/warren/internal/broker"
)

// A proxy that decodes the path once turns vhost "team/a" into two segments and queue "a%2Fb" into "a/b": the
// broker then answers about other objects, in its own words. One request tells: the segment "api/whoami" exists for
// no broker (400), unless something on the way made two segments of it.

// proveEscapingBefore runs before calls on names with a percent sign, since a decoded "a%2Fb" is the valid name of
// another object, which would be read, written or deleted instead. One proof per client is enough.
func (c *client) proveEscapingBefore(ctx context.Context, request call) error {
	if !request.path.escapes("%") || c.proved.Load() {
		return nil
	}
	return c.proveEscaping(ctx, request.op)
}

// doubtEscapingAfter runs when the broker denied an object whose name had to be escaped: unless the escaping is
// proved at this moment, "it does not exist" may be said of another object.
func (c *client) doubtEscapingAfter(ctx context.Context, request call, err error) error {
	if !broker.IsNotFound(err) || !request.path.escapes("/%") {
		return err
	}
	if doubt := c.proveEscaping(ctx, request.op); doubt != nil {
		return doubt
	}
	return err
}

func (c *client) proveEscaping(ctx context.Context, op string) error {
	c.proved.Store(false)
	probe := &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: "/api/whoami", RawPath: "/api%2Fwhoami"}
	got, err := c.send(ctx, call{op: op, method: http.MethodGet}, probe)
	if err != nil {
		return err
	}
	switch got.status {
	case http.StatusBadRequest, http.StatusNotFound:
		c.proved.Store(true)
		return nil
	case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden:
		return &broker.Error{Kind: broker.Unavailable, Op: op,
			Reason: "path escaping broken: something between Warren and the broker decodes %2F"}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op,
		Reason: fmt.Sprintf("it cannot be told whether path escaping is intact: status %d", got.status)}
}
