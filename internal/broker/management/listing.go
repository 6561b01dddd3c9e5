package management

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// pageReply is one page. Pointers tell a page from any other JSON object.
type pageReply struct {
	Items      *[]queueReply `json:"items"`
	PageCount  *int          `json:"page_count"`
	TotalCount *int          `json:"total_count"`
}

// errChanged: the listing changed while it was read, so its pages do not fit together.
var errChanged = errors.New("the listing changed while it was read")

// completeListing reads all queues of vhost without statistics. Pages that do not fit together are thrown away and
// read anew. On a broker whose queues come and go faster than that, the last attempt asks for all in one answer,
// which costs the broker more memory but is one moment's view; if that is too large, it is an error.
func (c *client) completeListing(ctx context.Context, op, vhost string) ([]queueReply, error) {
	query := url.Values{"disable_stats": {"true"}}
	for attempt := 0; attempt <= c.options.Restarts; attempt++ {
		items, pages, err := c.pages(ctx, op, vhost, query)
		if err == nil && pages > 1 {
			err = c.census(ctx, op, vhost, items)
		}
		if err == nil {
			return items, nil
		}
		if !errors.Is(err, errChanged) {
			return nil, err
		}
	}
	var items []queueReply
	if err := c.get(ctx, op, at("queues").named(vhost), query, &items); err != nil {
		return nil, err
	}
	return items, checkVHost(op, vhost, items)
}

// pages reads page after page. errChanged means that they do not fit together.
func (c *client) pages(ctx context.Context, op, vhost string, query url.Values) ([]queueReply, int, error) {
	var items []queueReply
	seen := map[string]bool{}
	total, count := 0, 1
	for number := 1; number <= count; number++ {
		page, err := c.page(ctx, op, vhost, query, number)
		if err != nil {
			return nil, 0, err
		}
		if number == 1 {
			total, count = *page.TotalCount, *page.PageCount
			items = make([]queueReply, 0, total)
		}
		if *page.TotalCount != total {
			return nil, 0, errChanged
		}
		for _, item := range *page.Items {
			if seen[item.Name] {
				return nil, 0, errChanged
			}
			seen[item.Name] = true
			items = append(items, item)
		}
	}
	if len(items) != total {
		return nil, 0, errChanged
	}
	return items, count, nil
}

func (c *client) page(ctx context.Context, op, vhost string, query url.Values, number int) (pageReply, error) {
	with := url.Values{"page": {strconv.Itoa(number)}, "page_size": {strconv.Itoa(c.options.PageSize)}}
	for key, values := range query {
		with[key] = values
	}
	var page pageReply
	err := c.get(ctx, op, at("queues").named(vhost), with, &page)
	switch {
	case number > 1 && outOfRange(err):
		return page, errChanged
	case err != nil:
		return page, err
	case page.Items == nil || page.PageCount == nil || page.TotalCount == nil:
		return page, &broker.Error{Kind: broker.Unavailable, Op: op,
			Reason: "the answer is not a page of a list: path escaping broken by a proxy?"}
	}
	return page, checkVHost(op, vhost, *page.Items)
}

// outOfRange: there are fewer pages than before. The broker's sentence is the only mark of it.
func outOfRange(err error) bool {
	var refusal *broker.Error
	return errors.As(err, &refusal) && refusal.Kind == broker.Invalid && strings.HasPrefix(refusal.Reason, "Page out of range")
}

// census compares the pages with the names of all queues, read in one small answer: when one queue goes and another
// comes between two pages, the totals stay equal and a queue at the border of the pages is missed.
func (c *client) census(ctx context.Context, op, vhost string, items []queueReply) error {
	var names []struct {
		Name string `json:"name"`
	}
	query := url.Values{"disable_stats": {"true"}, "columns": {"name"}}
	if err := c.get(ctx, op, at("queues").named(vhost), query, &names); err != nil {
		return err
	}
	have := make(map[string]bool, len(items))
	for _, item := range items {
		have[item.Name] = true
	}
	for _, one := range names {
		if !have[one.Name] {
			return errChanged
		}
	}
	if len(names) != len(items) {
		return errChanged
	}
	return nil
}

// auxiliary reads a listing that only adds to queues already known: what it misses stays unknown.
func (c *client) auxiliary(ctx context.Context, op, vhost string, query url.Values) (map[string]queueReply, error) {
	known := map[string]queueReply{}
	for number, count := 1, 1; number <= count; number++ {
		page, err := c.page(ctx, op, vhost, query, number)
		if errors.Is(err, errChanged) {
			break
		}
		if err != nil {
			return nil, err
		}
		count = *page.PageCount
		for _, item := range *page.Items {
			known[item.Name] = item
		}
	}
	return known, nil
}

// checkVHost: an answer about another vhost must not be taken for the one that was asked about.
func checkVHost(op, vhost string, items []queueReply) error {
	for i := range items {
		switch {
		case items[i].VHost == vhost:
		case vhost == "detailed":
			return refused(op, "since 3.13 the management API takes this vhost's name for its list of the queues of all vhosts")
		default:
			return misdirected(op, items[i].VHost)
		}
	}
	return nil
}

// misdirected is an answer about another vhost than the one asked about.
func misdirected(op, vhost string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op,
		Reason: fmt.Sprintf("the answer is about vhost %q: path escaping broken by a proxy?", vhost)}
}

func listOp(vhost string) string { return fmt.Sprintf("list queues of vhost %q", vhost) }
