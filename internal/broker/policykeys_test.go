package broker

import (
	"encoding/json"
	"strings"
	"testing"
)

// The verdicts are held against real brokers in test/broker; here are the sentences, which the broker has no say in.
func TestValidateDefinitionSaysWhatToChange(t *testing.T) {
	for _, c := range []struct {
		version, definition string
		want                []string
	}{
		{"4.3.6", `{"max-length":1000}`, nil},
		{"4.3.6", `{}`, []string{"the definition is empty: a policy needs at least one key"}},
		{"4.3.6", `{"max-length":"1000"}`, []string{`"max-length" must be a whole number of 0 or more, not the string "1000"`}},
		{"4.3.6", `{"max-length":1.5}`, []string{`"max-length" must be a whole number of 0 or more, not 1.5`}},
		{"4.3.6", `{"max-lenght":5}`, []string{`"max-lenght" is not a policy key of any supported RabbitMQ (did you mean "max-length"?)`}},
		{"4.3.6", `{"something-else":5}`, []string{`"something-else" is not a policy key of any supported RabbitMQ`}},
		{"4.3.6", `{"ha-mode":"all"}`, []string{`"ha-mode" is not a policy key of RabbitMQ 4.3.6 (gone since 4.0)`}},
		{"3.10.8", `{"target-group-size":3}`, []string{`"target-group-size" is not a policy key of RabbitMQ 3.10.8 (added in 3.13.0)`}},
		{"3.10.8", `{"delivery-limit":-1}`, []string{`"delivery-limit" must be a whole number of 0 or more, not -1`}},
		{"4.3.6", `{"delivery-limit":-1}`, nil},
		{"3.10.8", `{"ha-mode":"exactly","ha-params":2}`, nil},
		{"3.10.8", `{"ha-params":2}`, []string{`"ha-params" needs "ha-mode"`}},
		{"3.10.8", `{"ha-mode":"exactly"}`, []string{`"ha-params" must be a whole number of 1 or more when "ha-mode" is "exactly", not null`}},
		{"3.10.8", `{"ha-mode":"nodes","ha-params":["a"]}`, nil},
		{"4.3.6", `{"max-age":"7days"}`, []string{`"max-age" must be a number above 0 with a unit of Y, M, D, h, m or s, as "7D", not the string "7days"`}},
		{"4.3.6", `{"expires":0,"overflow":"drop"}`, []string{
			`"expires" must be a whole number of 1 or more, not 0`,
			`"overflow" must be one of drop-head, reject-publish, reject-publish-dlx, not the string "drop"`}},
	} {
		var definition map[string]any
		if err := json.Unmarshal([]byte(c.definition), &definition); err != nil {
			t.Fatal(err)
		}
		got := capabilities(t, c.version).ValidateDefinition(definition)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s %s: got %q, want %q", c.version, c.definition, got, c.want)
		}
	}
}

func TestSupportsDefinition(t *testing.T) {
	for _, c := range []struct {
		version    string
		kind       QueueType
		definition map[string]any
		want       bool
		key        string
	}{
		{"4.3.6", Quorum, map[string]any{"max-length": 1, "queue-mode": "lazy"}, false, "queue-mode"},
		{"4.3.6", Classic, map[string]any{"max-length": 1, "queue-mode": "lazy"}, true, ""},
		{"4.3.6", Stream, map[string]any{"max-length-bytes": 1}, true, ""},
		{"4.3.6", Stream, map[string]any{"max-length": 1}, false, "max-length"},
		{"3.10.8", Classic, map[string]any{"max-in-memory-length": 1}, true, ""},
		{"3.12.6", Classic, map[string]any{"max-in-memory-length": 1}, true, ""},
		{"3.12.7", Classic, map[string]any{"max-in-memory-length": 1}, false, "max-in-memory-length"},
		{"3.13.7", Classic, map[string]any{"queue-leader-locator": "balanced"}, false, "queue-leader-locator"},
		{"4.0.0", Classic, map[string]any{"queue-leader-locator": "balanced"}, true, ""},
		{"3.10.8", Quorum, map[string]any{"ha-mode": "all"}, false, "ha-mode"},
	} {
		got, key := capabilities(t, c.version).SupportsDefinition(c.kind, c.definition)
		if got != c.want || key != c.key {
			t.Errorf("%s %s %v: got %v %q", c.version, c.kind, c.definition, got, key)
		}
	}
}
