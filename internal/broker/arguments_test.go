package broker

import (
	"reflect"
	"testing"
)

// What the broker makes of all this is held against real ones in test/broker.
func TestMergeOperator(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name             string
		policy, operator m
		want             m
	}{
		{"none", nil, nil, m{}},
		{"a policy alone", m{"max-length": 5}, nil, m{"max-length": int64(5)}},
		{"an operator policy alone", nil, m{"max-length": 5}, m{"max-length": int64(5)}},
		{"the lower limit", m{"max-length": 5, "expires": 9}, m{"max-length": 7, "expires": 3}, m{"max-length": int64(5), "expires": int64(3)}},
		{"the delivery limit that is one", m{"delivery-limit": -1}, m{"delivery-limit": 5}, m{"delivery-limit": int64(5)}},
		{"from both sides", m{"delivery-limit": 5}, m{"delivery-limit": -1}, m{"delivery-limit": int64(5)}},
		{"the operator's overflow", m{"overflow": "drop-head"}, m{"overflow": "reject-publish"}, m{"overflow": "reject-publish"}},
	} {
		if got := MergeOperator(c.policy, c.operator); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestArgumentsOfQueues(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name                  string
		kind                  QueueType
		arguments, definition m
		want                  m
		key, argument         string // overridden, "" for none
	}{
		{"none", Classic, nil, m{"max-length": int64(5)}, m{"max-length": int64(5)}, "", ""},
		{"nothing at all", Classic, m{"x-queue-type": "classic"}, nil, nil, "", ""},
		{"an argument alone", Classic, m{"x-max-length": int64(5), "x-other": "y"}, nil, m{"max-length": int64(5)}, "", ""},
		{"the lower limit is the argument's", Quorum, m{"x-max-length": int64(3)}, m{"max-length": int64(5)}, m{"max-length": int64(3)}, "max-length", "x-max-length"},
		{"the lower limit is the policy's", Quorum, m{"x-max-length": int64(7)}, m{"max-length": int64(5)}, m{"max-length": int64(5)}, "", ""},
		{"overflow of a classic queue", Classic, m{"x-overflow": "drop-head"}, m{"overflow": "reject-publish"}, m{"overflow": "drop-head"}, "overflow", "x-overflow"},
		{"overflow of a quorum queue", Quorum, m{"x-overflow": "drop-head"}, m{"overflow": "reject-publish"}, m{"overflow": "reject-publish"}, "", ""},
		{"dead letters", Quorum, m{"x-dead-letter-exchange": "a"}, m{"dead-letter-exchange": "b"}, m{"dead-letter-exchange": "a"}, "dead-letter-exchange", "x-dead-letter-exchange"},
		{"the same in both", Classic, m{"x-dead-letter-exchange": "a"}, m{"dead-letter-exchange": "a"}, m{"dead-letter-exchange": "a"}, "", ""},
	} {
		if got := WithArguments(c.kind, c.arguments, c.definition); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		key, argument, is := Overriding(c.kind, c.arguments, c.definition)
		if key != c.key || argument != c.argument || is != (c.key != "") {
			t.Errorf("%s: %q by %q, %v", c.name, key, argument, is)
		}
	}
}

func TestOperatorKeysPerVersion(t *testing.T) {
	for _, c := range []struct {
		version, key string
		want         bool
	}{
		{"3.10.8", "max-length", true},
		{"3.10.8", "overflow", false},
		{"3.12.6", "overflow", false},
		{"3.12.7", "overflow", true},
		{"3.11.9", "ha-mode", false},
		{"3.11.10", "ha-mode", true},
		{"4.0.0", "ha-mode", false},
		{"3.11.24", "queue-version", true},
		{"3.12.0", "queue-version", false},
		{"3.12.7", "queue-version", true},
		{"4.3.6", "dead-letter-exchange", false},
		{"4.3", "delayed-retry-min", true},
	} {
		c2 := capabilities(t, c.version)
		if got := c2.KnowsOperatorKey(c.key); got != c.want {
			t.Errorf("%s knows %q in operator policies: %v", c.version, c.key, got)
		}
	}
	if got := capabilities(t, "3.10.8").ValidateOperatorDefinition(map[string]any{"overflow": "drop-head"}); len(got) != 1 || got[0] != `"overflow" may not stand in an operator policy of RabbitMQ 3.10.8` {
		t.Errorf("%q", got)
	}
	if got := capabilities(t, "3.11.18"); got.GrowsOnRequest {
		t.Error("3.11.18 has no call that adds members")
	}
	if got := capabilities(t, "3.12.0"); !got.GrowsOnRequest {
		t.Error("3.12.0 has a call that adds members")
	}
}
