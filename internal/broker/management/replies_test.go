package management

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// The broker's many ways to say nothing, recorded from 3.10.8 and 4.3.6 (and "" for tables from release notes).
func TestAbsentIsNotZero(t *testing.T) {
	for text, want := range map[string]*int64{"": nil, "null": nil, `""`: nil, `"NaN"`: nil, "1.5": nil, "[]": nil, "0": number(0), "9223372036854775807": number(1<<63 - 1)} {
		if got := optionalInt(json.RawMessage(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("number %q: got %v", text, got)
		}
	}
	for text, want := range map[string][]string{"": nil, "null": nil, `""`: nil, "[]": {}, `["a"]`: {"a"}, "{}": nil} {
		if got := optionalNames(json.RawMessage(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("names %q: got %#v", text, got)
		}
	}
	for text, want := range map[string]map[string]any{"": nil, "null": nil, `""`: {}, "[]": {}, "{}": {}, `{"a":1}`: {"a": int64(1)}, "5": nil} {
		if got := optionalTable(json.RawMessage(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("table %q: got %#v", text, got)
		}
	}
	none, name := "", "p"
	for text, want := range map[string]*string{"": nil, "null": &none, `""`: &none, `"p"`: &name, "5": nil} {
		if got := optionalName(json.RawMessage(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("name %q: got %v", text, got)
		}
	}
	for text, want := range map[string]bool{"": false, "null": false, "true": true, "false": false, `"true"`: false} {
		if got := isTrue(json.RawMessage(text)); got != want {
			t.Errorf("bool %q: got %v", text, got)
		}
	}
}

func number(n int64) *int64 { return &n }

// A node without figures: stopped, or its statistics are off (recorded from 4.3.6).
func TestNodeFiguresThatAreNotSaid(t *testing.T) {
	var replies []nodeReply
	recorded := `[{"name":"b","type":"disc","running":true,"being_drained":false},{"name":"a","type":"disc","running":false},
		{"name":"c","running":true,"disk_free":"disk_free_monitoring_disabled","mem_limit":5}]`
	if err := json.Unmarshal([]byte(recorded), &replies); err != nil {
		t.Fatal(err)
	}
	off, stopped, blind := replies[0].node(), replies[1].node(), replies[2].node()
	if off.MemoryLimit != nil || off.BeingDrained == nil || !off.Running || off.RabbitMQVersion != "" {
		t.Errorf("got %+v", off)
	}
	if stopped.Running || stopped.BeingDrained != nil || stopped.MemoryAlarm != nil {
		t.Errorf("got %+v", stopped)
	}
	if blind.DiskFree != nil || *blind.MemoryLimit != 5 {
		t.Errorf("got %+v", blind)
	}
}

func TestFractionalPriorityOfOthersDoesNotSpoilTheList(t *testing.T) {
	for text, want := range map[string]int{"1.5": 1, "-0.5": -1, "7": 7, "": 0} {
		if got := wholePriority(json.Number(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestMetricsThatAreNoMetricsAreUnavailable(t *testing.T) {
	if got, err := parseRuntime("op", []byte("<html>")); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("got %v, %v", got, err)
	}
}
