package management

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// Clients of this package are guests too.
var _ broker.Guest = (*client)(nil)

// DescribedVHosts implements broker.Guest.
func (c *client) DescribedVHosts(ctx context.Context) ([]broker.VHost, error) {
	var replies []struct {
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description"`
		Tags        json.RawMessage `json:"tags"`
	}
	if err := c.get(ctx, "list vhosts", at("vhosts"), nil, &replies); err != nil {
		return nil, err
	}
	vhosts := make([]broker.VHost, 0, len(replies))
	for _, reply := range replies {
		vhost := broker.VHost{Name: reply.Name, Tags: tags(reply.Tags)}
		if description := optionalName(reply.Description); description != nil {
			vhost.Description = *description
		}
		vhosts = append(vhosts, vhost)
	}
	slices.SortFunc(vhosts, func(a, b broker.VHost) int { return strings.Compare(a.Name, b.Name) })
	return vhosts, nil
}

// tags are a list, or words with commas between them, by version and object.
func tags(raw json.RawMessage) []string {
	if list := optionalNames(raw); list != nil {
		return list
	}
	if text := optionalName(raw); text != nil && *text != "" {
		return strings.Split(*text, ",")
	}
	return nil
}

// PutDescribedVHost implements broker.Guest.
func (c *client) PutDescribedVHost(ctx context.Context, vhost broker.VHost) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("put vhost %q", vhost.Name), method: http.MethodPut,
		path: at("vhosts").named(vhost.Name),
		body: map[string]string{"description": vhost.Description, "tags": strings.Join(vhost.Tags, ",")},
	})
	return err
}

// LimitVHost implements broker.Guest.
func (c *client) LimitVHost(ctx context.Context, vhost, limit string, value int) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("limit %s of vhost %q", limit, vhost), method: http.MethodPut,
		path: at("vhost-limits").named(vhost, limit), body: map[string]int{"value": value}, silent: true,
	})
	return err
}

// Users implements broker.Guest.
func (c *client) Users(ctx context.Context) ([]broker.User, error) {
	var replies []struct {
		Name string          `json:"name"`
		Tags json.RawMessage `json:"tags"`
	}
	if err := c.get(ctx, "list users", at("users"), nil, &replies); err != nil {
		return nil, err
	}
	users := make([]broker.User, 0, len(replies))
	for _, reply := range replies {
		users = append(users, broker.User{Name: reply.Name, Tags: tags(reply.Tags)})
	}
	slices.SortFunc(users, func(a, b broker.User) int { return strings.Compare(a.Name, b.Name) })
	return users, nil
}

// PutUser implements broker.Guest.
func (c *client) PutUser(ctx context.Context, user broker.User) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("put user %q", user.Name), method: http.MethodPut,
		path: at("users").named(user.Name),
		body: map[string]string{"password": user.Password, "tags": strings.Join(user.Tags, ",")},
	})
	return err
}

// DeleteUser implements broker.Guest.
func (c *client) DeleteUser(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("delete user %q", name), method: http.MethodDelete, path: at("users").named(name),
	})
	return err
}

// PermitAll implements broker.Guest.
func (c *client) PermitAll(ctx context.Context, user, vhost string) error {
	_, err := c.do(ctx, call{
		op: fmt.Sprintf("permit user %q in vhost %q", user, vhost), method: http.MethodPut,
		path: at("permissions").named(vhost, user),
		body: map[string]string{"configure": ".*", "write": ".*", "read": ".*"},
	})
	return err
}

// Totals implements broker.Guest.
func (c *client) Totals(ctx context.Context) (broker.Totals, error) {
	var reply struct {
		Objects struct {
			Connections json.RawMessage `json:"connections"`
			Channels    json.RawMessage `json:"channels"`
			Consumers   json.RawMessage `json:"consumers"`
			Queues      json.RawMessage `json:"queues"`
		} `json:"object_totals"`
		// [] in some versions when nothing is known.
		Queues json.RawMessage `json:"queue_totals"`
	}
	if err := c.get(ctx, "read the totals", at("overview"), nil, &reply); err != nil {
		return broker.Totals{}, err
	}
	totals := broker.Totals{
		Connections: optionalInt(reply.Objects.Connections), Channels: optionalInt(reply.Objects.Channels),
		Consumers: optionalInt(reply.Objects.Consumers), Queues: optionalInt(reply.Objects.Queues),
	}
	var queues struct {
		Messages json.RawMessage `json:"messages"`
	}
	if json.Unmarshal(reply.Queues, &queues) == nil {
		totals.Messages = optionalInt(queues.Messages)
	}
	return totals, nil
}

type connectionReply struct {
	Name  string `json:"name"`
	User  string `json:"user"`
	VHost string `json:"vhost"`
	State string `json:"state"`
}

// Connections implements broker.Guest.
func (c *client) Connections(ctx context.Context) ([]broker.Connection, error) {
	var all []broker.Connection
	err := c.eachPage(ctx, "list connections", at("connections"), "name,user,vhost,state", func(raw json.RawMessage) error {
		var reply connectionReply
		if err := json.Unmarshal(raw, &reply); err != nil {
			return err
		}
		all = append(all, broker.Connection(reply))
		return nil
	})
	return all, err
}

// FlowOf implements broker.Guest.
func (c *client) FlowOf(ctx context.Context, vhost string) (broker.Flow, error) {
	var flow broker.Flow
	count := func(what string, each listing, p path, tell func(state string)) error {
		return each(ctx, fmt.Sprintf("list %s of vhost %q", what, vhost), p, "state", func(raw json.RawMessage) error {
			if string(raw) == "[]" {
				return nil // how the broker writes an object without members: it has no statistics of it yet
			}
			var reply connectionReply
			if err := json.Unmarshal(raw, &reply); err != nil {
				return err
			}
			tell(reply.State)
			return nil
		})
	}
	own := at("vhosts").named(vhost)
	connections := path{words: append(slices.Clone(own.words), segment{text: "connections"})}
	if err := count("connections", c.eachAtOnce, connections, func(state string) {
		switch state {
		case "flow":
			flow.ConnectionsInFlow++
		case "blocked", "blocking":
			flow.ConnectionsBlocked++
		}
	}); err != nil {
		return flow, err
	}
	channels := path{words: append(slices.Clone(own.words), segment{text: "channels"})}
	if err := count("channels", c.eachAtOnce, channels, func(state string) {
		if state == "flow" {
			flow.ChannelsInFlow++
		}
	}); err != nil {
		return flow, err
	}
	err := count("queues", c.eachPage, at("queues").named(vhost), func(state string) {
		if state == "flow" {
			flow.QueuesInFlow++
		}
	})
	return flow, err
}

// listing hands over the items of a list one by one, with some of their columns.
type listing func(ctx context.Context, op string, p path, columns string, each func(json.RawMessage) error) error

// eachAtOnce reads a list that the broker does not divide into pages: it ignores the wish for one and answers with an array.
func (c *client) eachAtOnce(ctx context.Context, op string, p path, columns string, each func(json.RawMessage) error) error {
	var items []json.RawMessage
	if err := c.get(ctx, op, p, url.Values{"columns": {columns}}, &items); err != nil {
		return err
	}
	for _, item := range items {
		if err := each(item); err != nil {
			return &broker.Error{Kind: broker.Unavailable, Op: op, Reason: "the answer makes no sense: " + err.Error(), Err: err}
		}
	}
	return nil
}

// eachPage reads a listing page by page; what comes and goes meanwhile may be missed or be there twice, which sums for
// people bear.
func (c *client) eachPage(ctx context.Context, op string, p path, columns string, each func(json.RawMessage) error) error {
	for number, count := 1, 1; number <= count; number++ {
		var page struct {
			Items     *[]json.RawMessage `json:"items"`
			PageCount int                `json:"page_count"`
		}
		query := url.Values{"page": {strconv.Itoa(number)}, "page_size": {strconv.Itoa(c.options.PageSize)}, "columns": {columns}}
		err := c.get(ctx, op, p, query, &page)
		switch {
		case number > 1 && outOfRange(err):
			return nil
		case err != nil:
			return err
		case page.Items == nil:
			return &broker.Error{Kind: broker.Unavailable, Op: op, Reason: "the answer is not a page of a list"}
		}
		count = page.PageCount
		for _, item := range *page.Items {
			if err := each(item); err != nil {
				return &broker.Error{Kind: broker.Unavailable, Op: op, Reason: "the answer makes no sense: " + err.Error(), Err: err}
			}
		}
	}
	return nil
}
