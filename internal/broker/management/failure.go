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
	kind, reason := foreignFailure(got.status)
	if said, own := complaintOf(got.body); own {
		kind, reason = said.failure(got.status)
	}
	return &broker.Error{Kind: kind, Op: op, Reason: reason, TooSlow: tooSlow(got.status)}
}

// tooSlow tells whether a status says that there was no time for an answer.
func tooSlow(status int) bool {
	return status == http.StatusGatewayTimeout || status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// foreignFailure is what a status means without the broker's own JSON.
func foreignFailure(status int) (broker.ErrorKind, string) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return broker.Unauthorized, "the broker refused the credentials"
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return broker.Unavailable, fmt.Sprintf("status %d without the broker's own answer: path escaping broken by a proxy?", status)
	case status >= 300 && status < 400:
		return broker.Unavailable, fmt.Sprintf("status %d: redirects are not followed, the URL must name the management API itself", status)
	}
	return broker.Unavailable, fmt.Sprintf("status %d without the broker's own answer", status)
}

// failure is what a status means with the broker's own JSON.
func (c complaint) failure(status int) (broker.ErrorKind, string) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return broker.Unauthorized, c.sentence()
	case http.StatusNotFound:
		if c.hidesObject() {
			return broker.Unauthorized, "the user may not access this virtual host (the broker answers 404 to say so)"
		}
		return broker.NotFound, c.sentence()
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		return broker.Invalid, c.sentence()
	}
	return broker.Unavailable, fmt.Sprintf("status %d: %s", status, c.sentence())
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
