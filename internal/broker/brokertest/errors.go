package brokertest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// refusal is an answer that is not success.
type refusal struct {
	status int
	error  string // "" sends no body
	reason string
}

var (
	notFound      = &refusal{http.StatusNotFound, "Object Not Found", "Not Found"}
	vhostNotFound = &refusal{http.StatusNotFound, "not_found", "vhost_not_found"}
	notAllowed    = &refusal{status: http.StatusMethodNotAllowed}
	accessRefused = &refusal{http.StatusUnauthorized, "not_authorised", "Access refused."}
	crashed       = &refusal{status: http.StatusInternalServerError}
)

func badRequest(reason string) *refusal {
	return &refusal{http.StatusBadRequest, "bad_request", reason}
}

// invalid is a failed validation, HTML-escaped where the broker does that.
func (s *Server) invalid(reason string) *refusal {
	reason = "Validation failed\n\n" + reason + "\n"
	if s.mirrors {
		reason = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(reason)
	}
	return badRequest(reason)
}

func (r *refusal) write(w http.ResponseWriter) {
	if r.error == "" {
		w.WriteHeader(r.status)
		return
	}
	writeJSON(w, r.status, map[string]any{"error": r.error, "reason": r.reason})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // a client that went away reads no error either
}
