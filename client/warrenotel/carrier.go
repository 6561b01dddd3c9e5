package warrenotel

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/client"
)

// carrier reads the headers of a message.
type carrier struct{ m *warren.Message }

// Get is the header as text; "" when it is missing or no text.
func (c carrier) Get(key string) string {
	switch v := c.m.Headers[key].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// Set is for writers only.
func (carrier) Set(string, string) {}

// Keys of all headers.
func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c.m.Headers)) }

// writer sets headers. The map belongs to the caller of Publish, who may use it for other messages: the first Set makes a copy.
type writer struct {
	carrier
	copied bool
}

// Set a header.
func (w *writer) Set(key, value string) {
	if !w.copied {
		headers := make(map[string]any, len(w.m.Headers)+2)
		maps.Copy(headers, w.m.Headers)
		w.m.Headers, w.copied = headers, true
	}
	w.m.Headers[key] = value
}
