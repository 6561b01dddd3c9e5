package clienttest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Table is a field table: headers, arguments, client properties. Values that come from a client have exactly one of
// these types, and values that are sent may have them too:
//
//	nil, bool, int8, uint8, int16, uint16, int32, uint32, int64, float32, float64, string, []byte, time.Time (whole
//	seconds), Decimal, []any, Table
//
// An int is sent as int64, a map[string]any as a Table.
type Table map[string]any

// Decimal is the number Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}

// maxDepth bounds how deep tables and arrays are nested.
const maxDepth = 64

// cursor reads what AMQP calls arguments. After a short or malformed field it is bad and answers zero values.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b) {
		c.bad = true
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

func (c *cursor) octet() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) short() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) long() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) longlong() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// shortBytes is a short string that stays in the buffer of the reader.
func (c *cursor) shortBytes() []byte { return c.take(int(c.octet())) }

func (c *cursor) shortString() string { return string(c.shortBytes()) }

func (c *cursor) longBytes() []byte {
	n := c.long()
	if uint64(n) > uint64(len(c.b)) {
		c.bad = true
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) longString() string { return string(c.longBytes()) }

func (c *cursor) table() Table { return c.tableAt(0) }

func (c *cursor) tableAt(depth int) Table {
	inner := cursor{b: c.longBytes()}
	if c.bad || depth > maxDepth {
		c.bad = true
		return nil
	}
	t := Table{}
	for len(inner.b) > 0 && !inner.bad {
		name := inner.shortString()
		t[name] = inner.value(depth)
	}
	c.bad = inner.bad
	return t
}

func (c *cursor) array(depth int) []any {
	inner := cursor{b: c.longBytes()}
	if c.bad || depth > maxDepth {
		c.bad = true
		return nil
	}
	a := []any{}
	for len(inner.b) > 0 && !inner.bad {
		a = append(a, inner.value(depth))
	}
	c.bad = inner.bad
	return a
}

// readers are the kinds of values of fixed shape, by the letter that RabbitMQ gives them.
var readers = map[byte]func(*cursor) any{
	't': func(c *cursor) any { return c.octet() != 0 },
	'b': func(c *cursor) any { return int8(c.octet()) },
	'B': func(c *cursor) any { return c.octet() },
	's': func(c *cursor) any { return int16(c.short()) },
	'u': func(c *cursor) any { return c.short() },
	'I': func(c *cursor) any { return int32(c.long()) },
	'i': func(c *cursor) any { return c.long() },
	'l': func(c *cursor) any { return int64(c.longlong()) },
	'L': func(c *cursor) any { return int64(c.longlong()) },
	'f': func(c *cursor) any { return math.Float32frombits(c.long()) },
	'd': func(c *cursor) any { return math.Float64frombits(c.longlong()) },
	'D': func(c *cursor) any { return Decimal{Scale: c.octet(), Value: int32(c.long())} },
	'S': func(c *cursor) any { return c.longString() },
	'x': func(c *cursor) any { return append([]byte{}, c.longBytes()...) },
	'T': func(c *cursor) any { return time.Unix(int64(c.longlong()), 0) },
	'V': func(*cursor) any { return nil },
}

func (c *cursor) value(depth int) any {
	kind := c.octet()
	switch kind {
	case 'F':
		return c.tableAt(depth + 1)
	case 'A':
		return c.array(depth + 1)
	}
	read := readers[kind]
	if read == nil {
		c.bad = true
		return nil
	}
	return read(c)
}

func appendShort(b []byte, v uint16) []byte    { return binary.BigEndian.AppendUint16(b, v) }
func appendLong(b []byte, v uint32) []byte     { return binary.BigEndian.AppendUint32(b, v) }
func appendLonglong(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendShortString cuts at 255 bytes, the most that a short string holds.
func appendShortString(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxUint8)]
	return append(append(b, uint8(len(s))), s...)
}

func appendLongString(b []byte, s string) []byte {
	return append(appendLong(b, uint32(len(s))), s...)
}

// patchLength writes the length of what follows a placeholder of four bytes at start.
func patchLength(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

func appendTable(b []byte, t Table) ([]byte, error) {
	start := len(b)
	b = appendLong(b, 0)
	var err error
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if len(name) > math.MaxUint8 {
			return nil, fmt.Errorf("clienttest: the field name %.20q… is longer than 255 bytes", name)
		}
		if b, err = appendValue(appendShortString(b, name), t[name]); err != nil {
			return nil, fmt.Errorf("%w, in field %q", err, name)
		}
	}
	return patchLength(b, start), nil
}

func appendArray(b []byte, a []any) ([]byte, error) {
	start := len(b)
	b = appendLong(b, 0)
	var err error
	for _, v := range a {
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return patchLength(b, start), nil
}

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case Table:
		return appendTable(append(b, 'F'), v)
	case map[string]any:
		return appendTable(append(b, 'F'), v)
	case []any:
		return appendArray(append(b, 'A'), v)
	case string:
		return appendLongString(append(b, 'S'), v), nil
	case []byte:
		return append(appendLong(append(b, 'x'), uint32(len(v))), v...), nil
	case time.Time:
		return appendLonglong(append(b, 'T'), uint64(v.Unix())), nil
	case Decimal:
		return appendLong(append(b, 'D', v.Scale), uint32(v.Value)), nil
	case nil:
		return append(b, 'V'), nil
	}
	if b := appendNumber(b, v); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("clienttest: a field table has no values of type %T", v)
}

// appendNumber is nil for what is no number and no bool.
func appendNumber(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case int8:
		return append(b, 'b', uint8(v))
	case uint8:
		return append(b, 'B', v)
	case int16:
		return appendShort(append(b, 's'), uint16(v))
	case uint16:
		return appendShort(append(b, 'u'), v)
	case int32:
		return appendLong(append(b, 'I'), uint32(v))
	case uint32:
		return appendLong(append(b, 'i'), v)
	case int64:
		return appendLonglong(append(b, 'l'), uint64(v))
	case int:
		return appendLonglong(append(b, 'l'), uint64(v))
	case float32:
		return appendLong(append(b, 'f'), math.Float32bits(v))
	case float64:
		return appendLonglong(append(b, 'd'), math.Float64bits(v))
	}
	return nil
}
