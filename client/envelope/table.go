package envelope

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// sizer adds up what a table takes, and refuses what cannot be written.
type sizer struct {
	limits       Limits
	size, values int
}

func (s *sizer) table(table map[string]any, depth int) error {
	if err := s.enter(depth, len(table)); err != nil {
		return err
	}
	for key, value := range table {
		if len(key) > maxShort {
			return fmt.Errorf("%w: a header's name has more than %d bytes", ErrNotPackable, maxShort)
		}
		s.size += 1 + len(key)
		if err := s.value(value, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *sizer) array(array []any, depth int) error {
	if err := s.enter(depth, len(array)); err != nil {
		return err
	}
	for _, value := range array {
		if err := s.value(value, depth); err != nil {
			return err
		}
	}
	return nil
}

// enter a table or an array. The depth also ends the walk through one that holds itself.
func (s *sizer) enter(depth, values int) error {
	if depth > s.limits.MaxHeaderDepth {
		return tooLarge("levels of headers", s.limits.MaxHeaderDepth)
	}
	if s.values += values; s.values > s.limits.MaxHeaderValues {
		return tooLarge("header values in a pack", s.limits.MaxHeaderValues)
	}
	s.size += 4
	return nil
}

func (s *sizer) value(value any, depth int) error {
	switch v := value.(type) {
	case nil:
		s.size++
	case bool, int8, uint8:
		s.size += 2
	case int16, uint16:
		s.size += 3
	case int32, uint32, float32:
		s.size += 5
	case int64, float64, time.Time:
		s.size += 9
	case int:
		s.size += 9
		if fitsInt32(v) {
			s.size -= 4
		}
	case string:
		s.size += 5 + len(v)
	case []byte:
		s.size += 5 + len(v)
	case []any:
		s.size++
		return s.array(v, depth+1)
	default:
		table, ok := asTable(value)
		if !ok {
			return fmt.Errorf("%w: a header of type %T", ErrNotPackable, value)
		}
		s.size++
		return s.table(table, depth+1)
	}
	if s.size > s.limits.MaxBytes {
		return tooLarge("bytes in a pack", s.limits.MaxBytes)
	}
	return nil
}

// asTable knows types made of a map as well, since clients of AMQP name theirs.
func asTable(value any) (map[string]any, bool) {
	if table, ok := value.(map[string]any); ok {
		return table, true
	}
	type table = map[string]any
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Map || !v.CanConvert(reflect.TypeFor[table]()) {
		return nil, false
	}
	t, ok := v.Convert(reflect.TypeFor[table]()).Interface().(table)
	return t, ok
}

func fitsInt32(n int) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// appendTable writes a table that sizer has found to be sound.
func (p *Packer) appendTable(b []byte, table map[string]any) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	first := len(p.keys)
	for key := range table {
		p.keys = append(p.keys, key)
	}
	end := len(p.keys)
	slices.Sort(p.keys[first:end])
	for i := first; i < end; i++ { // nested tables come and go behind end, and may move the slice
		key := p.keys[i]
		b = append(append(b, byte(len(key))), key...)
		b = p.appendValue(b, table[key])
	}
	clear(p.keys[first:end])
	p.keys = p.keys[:first]
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

func (p *Packer) appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, 'V')
	case string:
		b = binary.BigEndian.AppendUint32(append(b, 'S'), uint32(len(v)))
		return append(b, v...)
	case []byte:
		b = binary.BigEndian.AppendUint32(append(b, 'x'), uint32(len(v)))
		return append(b, v...)
	case []any:
		b = append(b, 'A', 0, 0, 0, 0)
		start := len(b)
		for _, element := range v {
			b = p.appendValue(b, element)
		}
		binary.BigEndian.PutUint32(b[start-4:], uint32(len(b)-start))
		return b
	}
	if table, ok := asTable(value); ok {
		return p.appendTable(append(b, 'F'), table)
	}
	return appendFixed(b, value)
}

// appendFixed writes values whose type tells their length.
func appendFixed(b []byte, value any) []byte {
	switch v := value.(type) {
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case int8:
		return append(b, 'b', byte(v))
	case uint8:
		return append(b, 'B', v)
	case int16:
		return binary.BigEndian.AppendUint16(append(b, 's'), uint16(v))
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 'u'), v)
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 'i'), v)
	case int:
		if fitsInt32(v) {
			return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
		}
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 'f'), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, 'T'), uint64(v.Unix()))
	}
	panic(fmt.Sprintf("envelope: a header of type %T was measured and cannot be written", value))
}
