package management

import (
	"bytes"
	"encoding/json"

	"github.com/warren-mq/warren/internal/broker"
)

// The broker leaves fields out, or writes null, "" or [] for nothing, depending on version, queue type and which
// of its listings one reads. These decoders keep "not said" apart from zero and empty.

var null = []byte("null")

func said(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, null) }

// optionalInt is nil for anything but a whole number that fits an int64.
func optionalInt(raw json.RawMessage) *int64 {
	var n int64
	if !said(raw) || json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return &n
}

func optionalBool(raw json.RawMessage) *bool {
	var b bool
	if !said(raw) || json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return &b
}

func isTrue(raw json.RawMessage) bool {
	b := optionalBool(raw)
	return b != nil && *b
}

// optionalName is nil when the field is absent, and "" when the broker says that there is none.
func optionalName(raw json.RawMessage) *string {
	name := ""
	if len(raw) == 0 {
		return nil
	}
	if !bytes.Equal(raw, null) && json.Unmarshal(raw, &name) != nil {
		return nil
	}
	return &name
}

// optionalNames is nil for anything but a list of names.
func optionalNames(raw json.RawMessage) []string {
	names := []string{}
	if !said(raw) || json.Unmarshal(raw, &names) != nil {
		return nil
	}
	return names
}

// optionalTable is nil when the field is absent or null. "" and [] are the broker's older ways to say that it is empty.
func optionalTable(raw json.RawMessage) map[string]any {
	if !said(raw) {
		return nil
	}
	if text := string(raw); text == `""` || text == "[]" {
		return map[string]any{}
	}
	table, err := broker.DecodeDefinition(raw)
	if err != nil {
		return nil
	}
	return table
}
