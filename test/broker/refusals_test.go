package broker_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// wantSentence checks that an error is one readable, unescaped line with these words.
func wantSentence(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
	for _, bad := range []string{"&lt;", "&gt;", "&amp;", "\n", "\t", "  "} {
		if strings.Contains(err.Error(), bad) {
			t.Errorf("error %q holds %q", err, bad)
		}
	}
}

// testRefusals is case C1: each wrong value is refused with a readable sentence and nothing is stored.
func testRefusals(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "")
	for _, c := range []struct {
		name       string
		definition map[string]any
		words      []string
	}{
		{"C1-number-as-text", map[string]any{"max-length": "1000"}, []string{`<<"1000">>`, "not a valid"}},
		{"C1-negative", map[string]any{"max-length": -1}, []string{"-1", "not a valid"}},
		{"C1-fraction", map[string]any{"max-length": 1.5}, []string{"1.5", "not a valid"}},
		{"C1-empty", map[string]any{}, []string{"no policy provided"}},
		{"C1-nil", nil, []string{"no policy provided"}},
		{"C1-misspelt-key", map[string]any{"max-lenght": 5}, []string{`<<"max-lenght">>`, "are not recognised policy settings"}},
		{"C1-wrong-word", map[string]any{"overflow": "drop"}, []string{`<<"drop">>`, "not a valid"}},
		{"C1-text-with-markup", map[string]any{"overflow": "<b>&amp;"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := client.PutPolicy(context.Background(), broker.Policy{VHost: vhost, Name: "p", Pattern: ".", Definition: c.definition})
			s.wantKind(t, err, broker.Invalid)
			if c.words != nil {
				wantSentence(t, err, c.words...)
			}
			if len(s.caps.ValidateDefinition(c.definition)) == 0 {
				t.Error("the table of keys would have let it pass")
			}
			wantPolicies(t, client, vhost)
		})
	}
	t.Run("C1-wrong-bodies", func(t *testing.T) { testWrongBodies(t, s, client, vhost) })
	t.Run("C1-other-policies-still-work", func(t *testing.T) {
		good := broker.Policy{VHost: vhost, Name: "good", Pattern: ".", ApplyTo: broker.ApplyToAll, Definition: map[string]any{"max-length": 5}}
		must(t, client.PutPolicy(context.Background(), good))
		wantPolicies(t, client, vhost, good)
	})
}

// testWrongBodies sends what the adapter cannot express, to hold the fake to the broker's statuses.
func testWrongBodies(t *testing.T, s *subject, client broker.Client, vhost string) {
	path := "/api/policies/" + url.PathEscape(vhost) + "/p"
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"priority-as-text", `{"pattern":".","definition":{"max-length":1},"priority":"high"}`, http.StatusBadRequest},
		{"number-as-text-priority", `{"pattern":".","definition":{"max-length":1},"priority":"7"}`, http.StatusBadRequest},
		{"pattern-as-number", `{"pattern":5,"definition":{"max-length":1}}`, http.StatusBadRequest},
		{"no-definition", `{"pattern":"."}`, http.StatusBadRequest},
		{"no-pattern", `{"definition":{"max-length":1}}`, http.StatusBadRequest},
		{"broken-JSON", `{"pattern":".","definition":{"x`, http.StatusBadRequest},
		{"definition-as-text", `{"pattern":".","definition":"max-length"}`, http.StatusInternalServerError},
		{"definition-as-list", `{"pattern":".","definition":[]}`, http.StatusInternalServerError},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, reply := s.raw(t, http.MethodPut, path, c.body); status != c.status {
				t.Errorf("got status %d, %v, want %d", status, reply, c.status)
			}
			wantPolicies(t, client, vhost)
		})
	}
}
