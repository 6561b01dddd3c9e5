package envelope

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// Packer gathers messages in a pack. The zero value is ready, and can be used again after Reset. Equal messages in equal
// order give equal bytes. It is not safe for use by several goroutines at once.
type Packer struct {
	// Limits that the pack keeps to. Set them to those of the readers before the first Add.
	Limits Limits

	buf           []byte
	count, values int
	keys          []string // room to sort in, shared by nested tables
}

// sizes of a message in a pack, in bytes.
type sizes struct {
	entry, props, headers int
	values                int
}

// Size is the number of bytes by which m makes the pack longer, exactly: with n bytes from Len, the pack will have
// n+Size(m). It fails as Add does, except that it does not look at what is in the pack already.
func (p *Packer) Size(m *Message) (int, error) {
	s, err := measure(m, p.Limits.withDefaults())
	return s.entry, err
}

// Len is the number of messages in the pack, and its length in bytes with the checksum; [Overhead] when it is empty.
func (p *Packer) Len() (messages, bytes int) {
	return p.count, max(len(p.buf), headerSize) + checksumSize
}

// Add puts a copy of m at the end of the pack. The error is ErrNotPackable for a value that packs do not hold, and
// ErrTooLarge where a limit would be passed: the pack is full, or m is too large for any pack if this one is empty. After an
// error the pack is as before.
func (p *Packer) Add(m *Message) error {
	limits := p.Limits.withDefaults()
	s, err := measure(m, limits)
	if err != nil {
		return err
	}
	switch _, length := p.Len(); {
	case p.count >= limits.MaxMessages:
		return tooLarge("messages in a pack", limits.MaxMessages)
	case s.entry > limits.MaxBytes-length:
		return tooLarge("bytes in a pack", limits.MaxBytes)
	case s.values > limits.MaxHeaderValues-p.values:
		return tooLarge("header values in a pack", limits.MaxHeaderValues)
	}
	if len(p.buf) == 0 {
		p.buf = append(p.buf, magic...)
		p.buf = append(p.buf, Version, 0, 0, 0, 0, 0)
	}
	p.append(m, s)
	p.count++
	p.values += s.values
	return nil
}

// Bytes is the pack, or nil if no message was added. It stays valid until the next Add or Reset, which write over it.
func (p *Packer) Bytes() []byte {
	if p.count == 0 {
		return nil
	}
	binary.BigEndian.PutUint32(p.buf[headerSize-4:], uint32(p.count))
	whole := binary.BigEndian.AppendUint32(p.buf, crc32.Checksum(p.buf, castagnoli))
	p.buf = whole[:len(p.buf)]
	return whole
}

// Reset empties the pack and keeps its memory for the next one.
func (p *Packer) Reset() {
	p.buf, p.count, p.values = p.buf[:0], 0, 0
}

// measure checks all of m, so that nothing can fail halfway.
func measure(m *Message, limits Limits) (sizes, error) {
	var s sizes
	for i, text := range m.texts() {
		if len(*text) > maxShort {
			return s, fmt.Errorf("%w: property %d has more than %d bytes", ErrNotPackable, i+1, maxShort)
		}
		if *text != "" {
			s.props += propertySize(len(*text))
		}
	}
	if !m.Timestamp.IsZero() {
		s.props += propertySize(8)
	}
	if len(m.Headers) > 0 {
		sizer := sizer{limits: limits}
		if err := sizer.table(m.Headers, 1); err != nil {
			return s, err
		}
		s.headers, s.values = sizer.size, sizer.values
		s.props += propertySize(s.headers)
	}
	if len(m.Body) > limits.MaxBytes {
		return s, tooLarge("bytes in a pack", limits.MaxBytes)
	}
	s.entry = uvarintSize(s.props) + s.props + uvarintSize(len(m.Body)) + len(m.Body)
	if s.entry > limits.MaxBytes-Overhead {
		return s, tooLarge("bytes in a pack", limits.MaxBytes)
	}
	return s, nil
}

func propertySize(length int) int { return 1 + uvarintSize(length) + length }

func uvarintSize(n int) int { return (bits.Len32(uint32(n)|1) + 6) / 7 }

func (p *Packer) append(m *Message, s sizes) {
	b := binary.AppendUvarint(p.buf, uint64(s.props))
	for i, text := range m.texts() {
		if *text != "" {
			b = binary.AppendUvarint(append(b, byte(i+1)), uint64(len(*text)))
			b = append(b, *text...)
		}
	}
	if !m.Timestamp.IsZero() {
		b = append(b, tagTimestamp, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(m.Timestamp.Unix()))
	}
	if len(m.Headers) > 0 {
		b = binary.AppendUvarint(append(b, tagHeaders), uint64(s.headers))
		b = p.appendTable(b, m.Headers)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Body)))
	p.buf = append(b, m.Body...)
}
