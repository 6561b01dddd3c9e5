package management

import (
	"context"
	"fmt"
	"net/http"

	"github.com/warren-mq/warren/internal/broker"
)

// GlobalParameters implements broker.Parameters.
func (c *client) GlobalParameters(ctx context.Context) (map[string]any, error) {
	var replies []struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	if err := c.get(ctx, "list global parameters", at("global-parameters"), nil, &replies); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(replies))
	for _, reply := range replies {
		out[reply.Name] = reply.Value
	}
	return broker.NormalizeDefinition(out), nil
}

// PutGlobalParameter implements broker.Parameters.
func (c *client) PutGlobalParameter(ctx context.Context, name string, value any) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("put global parameter %q", name), method: http.MethodPut,
		path: at("global-parameters").named(name), body: map[string]any{"value": value},
	})
	return err
}
