package envelope

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// Unpack reads a whole pack, which is no longer compressed, and gives its messages in their order: at least one, or an
// error, never some of them. The error is ErrVersion, ErrCorrupt or ErrTooLarge.
//
// Bodies are parts of data and are not copied: they change when data does, and keep all of it in memory. The strings of one
// message share their memory; clone one that is to be kept for long. What is allocated is bounded by the limits and by the
// bytes that are really there, whatever lengths the pack declares.
func Unpack(data []byte, limits Limits) ([]Message, error) {
	limits = limits.withDefaults()
	if len(data) > limits.MaxBytes {
		return nil, tooLarge("bytes in a pack", limits.MaxBytes)
	}
	count, err := readHeader(data)
	if err != nil {
		return nil, err
	}
	r := reader{data: data[:len(data)-checksumSize], pos: headerSize}
	if count == 0 || count > int64(r.left()/minEntry) {
		return nil, corrupt("%d messages in %d bytes", count, len(data))
	}
	if count > int64(limits.MaxMessages) {
		return nil, tooLarge("messages in a pack", limits.MaxMessages)
	}
	messages := make([]Message, count)
	values := limits.MaxHeaderValues
	for i := range messages {
		if err := readEntry(&r, &messages[i], limits, &values); err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, count, err)
		}
	}
	if r.left() != 0 {
		return nil, corrupt("%d bytes after the last message", r.left())
	}
	return messages, nil
}

// readHeader checks what is around the messages. The version comes before the checksum: another version may have another one.
func readHeader(data []byte) (count int64, err error) {
	if len(data) < len(magic)+2 || string(data[:len(magic)]) != magic {
		return 0, corrupt("not a pack")
	}
	if version, flags := data[len(magic)], data[len(magic)+1]; version != Version || flags != 0 {
		return 0, fmt.Errorf("%w: version %d with flags %#02x, this reader knows version %d without", ErrVersion, version, flags, Version)
	}
	end := len(data) - checksumSize
	if end < headerSize {
		return 0, corrupt("a pack of %d bytes", len(data))
	}
	if crc32.Checksum(data[:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
		return 0, corrupt("the checksum does not match")
	}
	return int64(binary.BigEndian.Uint32(data[headerSize-4:])), nil
}

func readEntry(r *reader, m *Message, limits Limits, values *int) error {
	props, err := r.block()
	if err != nil {
		return err
	}
	if len(props) > 0 {
		p := properties{reader: reader{data: props}, text: string(props), limits: limits, values: values}
		if err := p.read(m); err != nil {
			return err
		}
	}
	m.Body, err = r.block()
	return err
}

// reader goes through bytes that nobody vouches for.
type reader struct {
	data []byte
	pos  int
}

func (r *reader) left() int { return len(r.data) - r.pos }

// block is a length as a varint, and so many bytes. Nil if there are none.
func (r *reader) block() ([]byte, error) {
	n, size := binary.Uvarint(r.data[r.pos:])
	if size <= 0 || n > math.MaxUint32 || size > 1 && r.data[r.pos+size-1] == 0 {
		return nil, corrupt("a length that is none, at byte %d of its block", r.pos)
	}
	r.pos += size
	return r.take(int64(n))
}

func (r *reader) take(n int64) ([]byte, error) {
	if n > int64(r.left()) {
		return nil, corrupt("%d bytes at byte %d of a block of %d", n, r.pos, len(r.data))
	}
	if n == 0 {
		return nil, nil
	}
	start := r.pos
	r.pos += int(n)
	return r.data[start:r.pos:r.pos], nil // appending to one does not write over the next
}

// properties of one message. The data is cut to the table or array that is being read.
type properties struct {
	reader
	text   string // a copy of data, in which all strings are
	limits Limits
	values *int // that the pack may still have
}

func (p *properties) read(m *Message) error {
	texts := m.texts()
	for last := byte(0); p.left() > 0; {
		tag := p.data[p.pos]
		if tag <= last {
			return corrupt("property %d after %d", tag, last)
		}
		last = tag
		p.pos++
		value, err := p.block()
		if err != nil {
			return err
		}
		switch {
		case tag <= textTags && len(value) > maxShort:
			return corrupt("property %d has %d bytes", tag, len(value))
		case tag <= textTags:
			*texts[tag-1] = p.text[p.pos-len(value) : p.pos]
		case tag == tagTimestamp && len(value) != 8:
			return corrupt("a timestamp of %d bytes", len(value))
		case tag == tagTimestamp:
			m.Timestamp = seconds(value)
		case tag == tagHeaders:
			if m.Headers, err = p.headers(len(value)); err != nil {
				return err
			}
		} // others are of a later minor version
	}
	return nil
}

func seconds(b []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(b)), 0).UTC()
}

// headers reads the last length bytes again, as a table.
func (p *properties) headers(length int) (map[string]any, error) {
	whole := p.data
	p.data = p.data[:p.pos]
	p.pos -= length
	table, err := p.table(1)
	if err != nil {
		return nil, err
	}
	if p.left() != 0 {
		return nil, corrupt("%d bytes after the headers", p.left())
	}
	p.data = whole
	if len(table) == 0 {
		return nil, nil
	}
	return table, nil
}

func (p *properties) table(depth int) (map[string]any, error) {
	whole, err := p.enter(depth)
	if err != nil {
		return nil, err
	}
	table, last := map[string]any{}, ""
	for p.left() > 0 {
		key, err := p.take(int64(p.data[p.pos]) + 1)
		if err != nil {
			return nil, err
		}
		name := p.text[p.pos-len(key)+1 : p.pos]
		if len(table) > 0 && name <= last {
			return nil, corrupt("names of headers are not in order")
		}
		if table[name], err = p.value(depth); err != nil {
			return nil, err
		}
		last = name
	}
	p.data = whole
	return table, nil
}

func (p *properties) array(depth int) ([]any, error) {
	whole, err := p.enter(depth)
	if err != nil {
		return nil, err
	}
	array := []any{}
	for p.left() > 0 {
		value, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	p.data = whole
	return array, nil
}

// enter a table or an array: its length becomes the end of the data. The data as it was is returned, to be put back.
func (p *properties) enter(depth int) ([]byte, error) {
	if depth > p.limits.MaxHeaderDepth {
		return nil, tooLarge("levels of headers", p.limits.MaxHeaderDepth)
	}
	whole := p.data
	content, err := p.long()
	if err != nil {
		return nil, err
	}
	p.data = p.data[:p.pos]
	p.pos -= len(content)
	return whole, nil
}

// long is a length of four bytes, and so many bytes.
func (p *properties) long() ([]byte, error) {
	length, err := p.take(4)
	if err != nil {
		return nil, err
	}
	return p.take(int64(binary.BigEndian.Uint32(length)))
}

func (p *properties) value(depth int) (any, error) {
	if *p.values--; *p.values < 0 {
		return nil, tooLarge("header values in a pack", p.limits.MaxHeaderValues)
	}
	kind, err := p.take(1)
	if err != nil {
		return nil, err
	}
	switch kind[0] {
	case 'V':
		return nil, nil
	case 'S':
		s, err := p.long()
		return p.text[p.pos-len(s) : p.pos], err
	case 'x':
		b, err := p.long()
		return append([]byte{}, b...), err
	case 'A':
		return p.array(depth + 1)
	case 'F':
		return p.table(depth + 1)
	}
	return p.fixed(kind[0])
}

// widths of values whose type tells their length, in bytes.
var widths = [256]uint8{
	't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'l': 8, 'd': 8, 'T': 8,
}

func (p *properties) fixed(kind byte) (any, error) {
	width := widths[kind]
	if width == 0 {
		return nil, corrupt("a header of type %#02x", kind)
	}
	b, err := p.take(int64(width))
	if err != nil {
		return nil, err
	}
	switch kind {
	case 't':
		if b[0] > 1 {
			return nil, corrupt("a truth value of %d", b[0])
		}
		return b[0] == 1, nil
	case 'b':
		return int8(b[0]), nil
	case 'B':
		return b[0], nil
	case 's':
		return int16(binary.BigEndian.Uint16(b)), nil
	case 'u':
		return binary.BigEndian.Uint16(b), nil
	case 'I':
		return int32(binary.BigEndian.Uint32(b)), nil
	case 'i':
		return binary.BigEndian.Uint32(b), nil
	case 'f':
		return math.Float32frombits(binary.BigEndian.Uint32(b)), nil
	case 'l':
		return int64(binary.BigEndian.Uint64(b)), nil
	case 'd':
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	}
	return seconds(b), nil
}
