package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

// client is one user of one broker cluster.
type client struct {
	target  broker.Target
	base    *url.URL
	options Options
	pool    *pool
	proved  atomic.Bool // the way to the broker keeps names escaped (escaping.go)
	silence silence
}

// call is one request. op says it in words for errors, without credentials.
type call struct {
	op     string
	method string
	path   path
	query  url.Values
	body   any
	// long: the broker answers only after work that grows with the number of queues.
	long bool
	// silent: the broker has nothing to say in JSON and refuses who asks for that (406).
	silent bool
}

// answer is the broker's own answer.
type answer struct {
	status int
	body   []byte
}

// do sends one call and gives the body of a 2xx answer; anything else is a *broker.Error.
func (c *client) do(ctx context.Context, request call) ([]byte, error) {
	if reason := request.path.unaddressable(); reason != "" {
		return nil, refused(request.op, reason)
	}
	if err := c.proveEscapingBefore(ctx, request); err != nil {
		return nil, err
	}
	got, err := c.send(ctx, request, request.path.onto(c.base, request.query))
	if err != nil {
		return nil, err
	}
	if got.status >= 200 && got.status < 300 {
		return got.body, nil
	}
	return nil, c.doubtEscapingAfter(ctx, request, failure(request.op, got))
}

// get decodes the answer of a GET into out.
func (c *client) get(ctx context.Context, op string, p path, query url.Values, out any) error {
	body, err := c.do(ctx, call{op: op, method: http.MethodGet, path: p, query: query})
	if err != nil {
		return err
	}
	return decode(op, body, out)
}

// decode keeps numbers as they were written. An answer of another shape came from something else than the broker,
// or from another object than the one asked about.
func decode(op string, body []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(out); err != nil {
		return &broker.Error{Kind: broker.Unavailable, Op: op, Reason: "the answer makes no sense: " + err.Error(), Err: err}
	}
	return nil
}

// send makes one HTTP request with its own time limit. Only a missing or unusable answer is an error here.
func (c *client) send(ctx context.Context, what call, address *url.URL) (answer, error) {
	if err := c.silence.before(what.op, time.Now()); err != nil {
		return answer{}, err
	}
	got, err := c.sendAnyway(ctx, what, address)
	if what.long && timedOut(err) { // its limit says nothing about other calls
		c.silence.undecided()
	} else {
		c.silence.after(ctx, err, time.Now())
	}
	return got, err
}

func (c *client) sendAnyway(ctx context.Context, what call, address *url.URL) (answer, error) {
	limit := c.options.CallTimeout
	if what.long {
		limit = c.options.ListTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := newRequest(ctx, what.method, address, what.body)
	if err != nil {
		return answer{}, refused(what.op, "the request cannot be written as JSON: "+err.Error())
	}
	if what.silent {
		request.Header.Del("Accept")
	}
	request.SetBasicAuth(c.target.Username, c.target.Password)
	c.options.OnRequest(what.method, c.target.Key)
	defer c.pool.afterUse()
	return exchange(c.pool.http, what.op, request, limit, c.options.MaxResponse)
}

func newRequest(ctx context.Context, method string, address *url.URL, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://broker", content)
	if err != nil {
		return nil, err
	}
	request.URL, request.Host = address, address.Host
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// exchange sends request and reads an answer of at most most bytes. limit is the one that the request's context has.
func exchange(client *http.Client, op string, request *http.Request, limit time.Duration, most int64) (answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return answer{}, unreachable(op, err, limit)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return answer{}, unreachable(op, err, limit)
	}
	if int64(len(body)) > most {
		return answer{}, &broker.Error{Kind: broker.Unavailable, Op: op,
			Reason: fmt.Sprintf("the answer is larger than %d bytes", most)}
	}
	return answer{status: response.StatusCode, body: body}, nil
}

// unreachable is the lack of an answer. The cause stays testable (context.DeadlineExceeded and the like).
func unreachable(op string, err error, limit time.Duration) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without method and URL: op says it in words
	}
	reason := strings.TrimSpace(withoutSource(err))
	switch {
	case errors.Is(err, context.Canceled):
		reason = "the caller gave up"
	case errors.Is(err, context.DeadlineExceeded):
		reason = fmt.Sprintf("no answer in time (the limit of one call is %s)", limit)
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Reason: reason, Err: err, TooSlow: timedOut(err)}
}

// withoutSource is the text of a network error without the port that this side happened to have: the text goes into a
// condition, and one that differs at every poll would be written at every poll.
func withoutSource(err error) string {
	var lookup *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &lookup) && lookup.IsTimeout:
		return fmt.Sprintf("lookup %s: the name server does not answer", lookup.Name)
	case errors.As(err, &lookup):
		return fmt.Sprintf("lookup %s: %s", lookup.Name, lookup.Err)
	case errors.As(err, &operation) && operation.Addr != nil:
		return fmt.Sprintf("%s %s: %s", operation.Op, operation.Addr, operation.Err)
	}
	return err.Error()
}
