// Package envelope packs several messages in the body of one AMQP message, and compresses bodies within bounds. A queue
// then has one message to store, confirm and acknowledge in place of many.
//
// The format is version 1 of the one in docs/client-envelope.md, made to be read by other languages as well. A message whose
// body is a pack has the content type [ContentType] and the headers [HeaderVersion] and [HeaderCount]. Where the pack as a
// whole is compressed, the content encoding says how; [Decompress] comes before [Unpack].
//
// The package is pure: values in, values out. It holds no goroutines, no clock and no connection.
package envelope

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

const (
	// Version of the format that this package writes, and the only one that it reads.
	Version = 1
	// ContentType of an AMQP message whose body is a pack.
	ContentType = "application/vnd.warren.pack"
	// HeaderVersion is the AMQP header that repeats the version of the pack, as a number.
	HeaderVersion = "x-warren-pack"
	// HeaderCount is the AMQP header with the number of messages in the pack, for those who count without reading it.
	HeaderCount = "x-warren-pack-count"
	// Overhead in bytes of a pack, besides what each message takes: the header and the checksum.
	Overhead = headerSize + checksumSize
)

// Defaults of [Limits].
const (
	DefaultMaxBytes        = 16 << 20
	DefaultMaxMessages     = 16_384
	DefaultMaxHeaderValues = 65_536
	DefaultMaxHeaderDepth  = 32
)

const (
	magic        = "\xf7WPK"
	headerSize   = len(magic) + 1 + 1 + 4
	checksumSize = 4
	minEntry     = 2 // two lengths of nothing
	maxShort     = 255
	maxBytes     = 1 << 30 // sums of two lengths stay within an int, on any machine
)

// What errors of this package are, for errors.Is. Their texts never repeat the contents of a message.
var (
	// ErrVersion says that a pack is of another version, or has a flag that this one does not know. It is not broken: give
	// it to a newer reader, and never drop it.
	ErrVersion = errors.New("unknown version of a pack")
	// ErrCorrupt says that the bytes are not a pack, or not compressed as was said, or not whole.
	ErrCorrupt = errors.New("corrupt")
	// ErrTooLarge says that a limit would be passed.
	ErrTooLarge = errors.New("too large")
	// ErrNotPackable says that a message has a value that packs do not hold. It can still be sent by itself.
	ErrNotPackable = errors.New("not packable")
	// ErrEncoding says that a content encoding is not known here.
	ErrEncoding = errors.New("unknown content encoding")
)

// Message is one message in a pack: those properties of AMQP that belong to the message and not to its way. Delivery mode,
// priority, expiration and user are properties of the pack as a whole.
type Message struct {
	// At most 255 bytes each, as AMQP has it. Empty is the same as absent.
	ID, ContentType, ContentEncoding, CorrelationID, ReplyTo, Type, AppID string
	// Timestamp in whole seconds; what is finer is cut off. Zero is absent. In UTC when it was read.
	Timestamp time.Time
	// Headers with AMQP's values: nil, bool, int8, uint8, int16, uint16, int32, uint32, int64, float32, float64, string,
	// []byte, time.Time (whole seconds), []any, and map[string]any or a type made of it, as amqp091.Table. An int is taken
	// too, and is read as an int32, or as an int64 if it is larger. Maps are read as map[string]any;
	// amqp091 takes nested ones only as its Table. Keys have at most 255 bytes. Empty is the same as nil.
	Headers map[string]any
	// Body in bytes. Empty is the same as nil.
	Body []byte
}

// texts are the properties with a text, in the order of their tags.
func (m *Message) texts() [textTags]*string {
	return [textTags]*string{&m.ID, &m.ContentType, &m.ContentEncoding, &m.CorrelationID, &m.ReplyTo, &m.Type, &m.AppID}
}

// The tags of properties. Those up to textTags are texts.
const (
	textTags     = 7
	tagTimestamp = 8
	tagHeaders   = 9
)

// Limits of one pack, so that a hostile one cannot exhaust memory. What a [Packer] writes within some limits can be read
// within the same. A field that is zero or less stands for its default.
type Limits struct {
	// MaxBytes of the whole pack, after decompression. Default 16 MiB, which is also what RabbitMQ 4 lets a message have; at
	// most 1 GiB.
	MaxBytes int
	// MaxMessages in the pack. Default 16,384.
	MaxMessages int
	// MaxHeaderValues in all messages together: entries of tables and elements of arrays. Default 65,536.
	MaxHeaderValues int
	// MaxHeaderDepth to which tables and arrays nest, the headers themselves being 1. Default 32.
	MaxHeaderDepth int
}

func (l Limits) withDefaults() Limits {
	for _, f := range [...]struct {
		field *int
		value int
	}{
		{&l.MaxBytes, DefaultMaxBytes},
		{&l.MaxMessages, DefaultMaxMessages},
		{&l.MaxHeaderValues, DefaultMaxHeaderValues},
		{&l.MaxHeaderDepth, DefaultMaxHeaderDepth},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	l.MaxBytes = min(l.MaxBytes, maxBytes)
	return l
}

// castagnoli has hardware support on the machines that matter.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func tooLarge(what string, limit int) error {
	return fmt.Errorf("%w: more than %d %s", ErrTooLarge, limit, what)
}
