package clienttest

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"
)

// Properties are those of a message. A zero field is absent.
type Properties struct {
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8 // 1 transient, 2 persistent
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string // milliseconds
	MessageID       string
	Timestamp       time.Time // whole seconds
	Type            string
	UserID          string
	AppID           string
}

// Bits of the property flags, from the first property down. Bit 0 would announce more flags, and there are none.
const (
	flagContentType     = 1 << 15
	flagContentEncoding = 1 << 14
	flagHeaders         = 1 << 13
	flagDeliveryMode    = 1 << 12
	flagPriority        = 1 << 11
	flagExpiration      = 1 << 8
	flagTimestamp       = 1 << 6
	flagUserID          = 1 << 4
	flagClusterID       = 1 << 2
)

// text are the properties that are short strings.
func (p *Properties) text(flag uint16) *string {
	switch flag {
	case flagContentType:
		return &p.ContentType
	case flagContentEncoding:
		return &p.ContentEncoding
	case 1 << 10:
		return &p.CorrelationID
	case 1 << 9:
		return &p.ReplyTo
	case flagExpiration:
		return &p.Expiration
	case 1 << 7:
		return &p.MessageID
	case 1 << 5:
		return &p.Type
	case flagUserID:
		return &p.UserID
	case 1 << 3:
		return &p.AppID
	}
	return new(string) // cluster-id, which nobody uses
}

// decodeProperties reads the flags and the values. Its second result is false when they are malformed.
func decodeProperties(raw []byte) (Properties, bool) {
	c := cursor{b: raw}
	flags := c.short()
	var p Properties
	for flag := uint16(1 << 15); flag >= flagClusterID; flag >>= 1 {
		if flags&flag == 0 {
			continue
		}
		switch flag {
		case flagHeaders:
			p.Headers = c.table()
		case flagDeliveryMode:
			p.DeliveryMode = c.octet()
		case flagPriority:
			p.Priority = c.octet()
		case flagTimestamp:
			p.Timestamp = time.Unix(int64(c.longlong()), 0)
		default:
			*p.text(flag) = c.shortString()
		}
	}
	return p, !c.bad && len(c.b) == 0 && flags&3 == 0
}

func (p *Properties) encode() ([]byte, error) {
	b := []byte{0, 0}
	var flags uint16
	var err error
	for flag := uint16(1 << 15); flag > flagClusterID; flag >>= 1 {
		before := len(b)
		switch flag {
		case flagHeaders:
			if p.Headers != nil {
				if b, err = appendTable(b, p.Headers); err != nil {
					return nil, err
				}
			}
		case flagDeliveryMode:
			if p.DeliveryMode != 0 {
				b = append(b, p.DeliveryMode)
			}
		case flagPriority:
			if p.Priority != 0 {
				b = append(b, p.Priority)
			}
		case flagTimestamp:
			if !p.Timestamp.IsZero() {
				b = appendLonglong(b, uint64(p.Timestamp.Unix()))
			}
		default:
			if s := *p.text(flag); s != "" {
				b = appendShortString(b, s)
			}
		}
		if len(b) > before {
			flags |= flag
		}
	}
	binary.BigEndian.PutUint16(b, flags)
	return b, nil
}

// facts are the properties that a broker acts on, read without an allocation in the usual case.
type facts struct {
	persistent bool
	expiration string
	userID     string
}

func readFacts(raw []byte) (facts, bool) {
	c := cursor{b: raw}
	flags := c.short()
	var f facts
	for flag := uint16(1 << 15); flag >= flagClusterID; flag >>= 1 {
		if flags&flag == 0 {
			continue
		}
		switch flag {
		case flagHeaders:
			table := cursor{b: c.longBytes()}
			c.bad = c.bad || !table.skipFields()
		case flagDeliveryMode:
			f.persistent = c.octet() == 2
		case flagPriority:
			c.octet()
		case flagTimestamp:
			c.longlong()
		case flagExpiration:
			f.expiration = c.shortString()
		case flagUserID:
			f.userID = c.shortString()
		default:
			c.shortBytes()
		}
	}
	return f, !c.bad && len(c.b) == 0 && flags&3 == 0
}

// widths are the sizes of values of fixed size, by kind.
var widths = [256]uint8{'t': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'l': 8, 'L': 8, 'f': 4, 'd': 8, 'D': 5, 'T': 8}

// skipFields tells whether the whole cursor is the well-formed inside of a table.
func (c *cursor) skipFields() bool {
	for len(c.b) > 0 && !c.bad {
		c.shortBytes()
		c.skipValue(0)
	}
	return !c.bad
}

func (c *cursor) skipValue(depth int) {
	kind := c.octet()
	switch {
	case widths[kind] > 0:
		c.take(int(widths[kind]))
	case kind == 'S' || kind == 'x':
		c.longBytes()
	case kind == 'V':
	case kind == 'F' || kind == 'A':
		inner := cursor{b: c.longBytes(), bad: depth >= maxDepth}
		for len(inner.b) > 0 && !inner.bad {
			if kind == 'F' {
				inner.shortBytes()
			}
			inner.skipValue(depth + 1)
		}
		c.bad = c.bad || inner.bad
	default:
		c.bad = true
	}
}

// withCount adds a header with a number to encoded properties, after all others: a reader takes the last of a name.
func withCount(raw []byte, name string, count int64) []byte {
	field := appendLonglong(append(appendShortString(nil, name), 'l'), uint64(count))
	c := cursor{b: raw}
	flags := c.short()
	for _, flag := range []uint16{flagContentType, flagContentEncoding} {
		if flags&flag != 0 {
			c.shortBytes()
		}
	}
	at := len(raw) - len(c.b)
	if flags&flagHeaders == 0 {
		with := slices.Insert(slices.Clone(raw), at, append(appendLong(nil, uint32(len(field))), field...)...)
		binary.BigEndian.PutUint16(with, flags|flagHeaders)
		return with
	}
	length := c.long()
	with := slices.Insert(slices.Clone(raw), at+4+int(length), field...)
	binary.BigEndian.PutUint32(with[at:], length+uint32(len(field)))
	return with
}

// expirationMillis is the time to live in an expiration property.
func expirationMillis(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n), err == nil
}
