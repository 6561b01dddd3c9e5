package management

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// complaint is the body of the broker's own refusals.
type complaint struct {
	Error  string `json:"error"`
	Reason any    `json:"reason"`
}

// failure turns an answer that is not success into an error. Status codes alone prove nothing, since proxies and
// load balancers use the same ones: what is said of an object or of a request must come in the broker's own JSON.
func failure(op string, got answer) error {
	said, own := complaintOf(got.body)
	reason := said.sentence()
	fail := func(kind broker.ErrorKind, reason string) error {
		return &broker.Error{Kind: kind, Op: op, Reason: reason}
	}
	switch {
	case got.status == http.StatusUnauthorized || got.status == http.StatusForbidden:
		if reason == "" {
			reason = "the broker refused the credentials"
		}
		return fail(broker.Unauthorized, reason)
	case got.status == http.StatusNotFound && own && said.hidesObject():
		return fail(broker.Unauthorized, "the user may not access this virtual host (the broker answers 404 to say so)")
	case got.status == http.StatusNotFound && own:
		return fail(broker.NotFound, reason)
	case got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed && !own:
		return fail(broker.Unavailable, fmt.Sprintf("status %d without the broker's own answer: path escaping broken by a proxy?", got.status))
	case (got.status == http.StatusBadRequest || got.status == http.StatusMethodNotAllowed) && own:
		return fail(broker.Invalid, reason)
	case got.status >= 300 && got.status < 400:
		return fail(broker.Unavailable, fmt.Sprintf("status %d: redirects are not followed, the URL must name the management API itself", got.status))
	case own:
		return fail(broker.Unavailable, fmt.Sprintf("status %d: %s", got.status, reason))
	}
	return fail(broker.Unavailable, fmt.Sprintf("status %d without the broker's own answer", got.status))
}

func complaintOf(body []byte) (complaint, bool) {
	var said complaint
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return complaint{}, false
	}
	return said, true
}

// hidesObject: since 4.3 a user without permission for a vhost gets 404 "not_found", "Not Found", where older
// versions answer 401. A missing object is "Object Not Found" and a missing vhost "vhost_not_found" in all versions.
func (c complaint) hidesObject() bool { return c.Error == "not_found" && c.Reason == "Not Found" }

// sentence is the broker's reason in one line: up to 4.1 it comes HTML-escaped, and validation errors are spread
// over several lines.
func (c complaint) sentence() string {
	reason, isText := c.Reason.(string)
	if !isText || reason == "" {
		reason = c.Error
	}
	reason = oneLine(html.UnescapeString(reason))
	const most = 1000
	if runes := []rune(reason); len(runes) > most {
		reason = string(runes[:most]) + "…"
	}
	return reason
}

// oneLine joins paragraphs with a colon and folds all other white space.
func oneLine(s string) string {
	var paragraphs []string
	for _, paragraph := range strings.Split(s, "\n\n") {
		if folded := strings.Join(strings.Fields(paragraph), " "); folded != "" {
			paragraphs = append(paragraphs, folded)
		}
	}
	return strings.Join(paragraphs, ": ")
}
