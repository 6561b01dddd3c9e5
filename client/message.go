package warren

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
)

// Message is what an application publishes.
type Message struct {
	// Queue that the message goes to by the default exchange. Its class and cluster are looked up by this name.
	// Either Queue or Exchange is set.
	Queue string
	// Exchange that the message goes to instead, with Key as its routing key.
	Exchange string
	// Key is the routing key for Exchange.
	Key string
	// Class of work that serves the queue or exchange; empty for the one that the routes tell. The order of what goes to one
	// queue is kept when all of it has the same Class, or none has one.
	Class string

	// ID identifies the message for good: it is the AMQP message-id, kept over every retry, so that a consumer can tell a
	// duplicate. One is made if it is empty.
	ID string
	// Body is not copied and must not change before the message has been confirmed.
	Body []byte
	// Headers of AMQP field-table types. A Go int is sent as 64 bits.
	Headers map[string]any

	ContentType     string
	ContentEncoding string
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string
	// Timestamp is sent in whole seconds; zero is not sent.
	Timestamp time.Time
	// Priority from 0 to 255.
	Priority uint8
	// Expiration is how long the message may wait in the queue, in whole milliseconds; 0 is for ever.
	Expiration time.Duration
	// Transient messages may be lost when a broker restarts. The default is to store them.
	Transient bool
}

// overhead is what a message is charged in memory beyond its body and headers, in bytes: frames, properties, bookkeeping.
const overhead = 256

// maxFrame is the largest frame that is asked for, in bytes: link's default. Properties and headers go in one.
const maxFrame = 128 << 10

// frame is how large the frame of properties and headers is at most, in bytes.
func (m *Message) frame(headers int) int {
	const fixed = 64 // the frame itself, what has a fixed length, the lengths of texts, an expiration
	n := fixed + headers
	for _, s := range []string{m.ID, m.ContentType, m.ContentEncoding, m.CorrelationID, m.ReplyTo, m.Type, m.AppID} {
		n += len(s)
	}
	return n
}

// check refuses what can never be published, before anything is buffered.
func (m *Message) check() error {
	switch {
	case m.Queue == "" && m.Exchange == "":
		return fmt.Errorf("%w: neither Queue nor Exchange is set", ErrInvalid)
	case m.Queue != "" && (m.Exchange != "" || m.Key != ""):
		return fmt.Errorf("%w: Queue %q goes by the default exchange, so Exchange and Key must be empty", ErrInvalid, m.Queue)
	case len(m.Queue) > 255 || len(m.Exchange) > 255 || len(m.Key) > 255:
		return fmt.Errorf("%w: names of queues and exchanges and routing keys have at most 255 bytes", ErrInvalid)
	case m.Expiration < 0:
		return fmt.Errorf("%w: Expiration is negative", ErrInvalid)
	}
	for _, s := range []string{m.ID, m.ContentType, m.ContentEncoding, m.CorrelationID, m.ReplyTo, m.Type, m.AppID} {
		if len(s) > 255 {
			return fmt.Errorf("%w: a property has %d bytes, AMQP takes 255", ErrInvalid, len(s))
		}
	}
	return nil
}

// target is where the broker is told to send the message.
func (m *Message) target() (exchange, key string) {
	if m.Queue != "" {
		return "", m.Queue
	}
	return m.Exchange, m.Key
}

// publishing is the message in AMQP's terms; its headers have been through table.
func (m *Message) publishing() amqp.Publishing {
	p := amqp.Publishing{
		Headers:         m.Headers,
		ContentType:     m.ContentType,
		ContentEncoding: m.ContentEncoding,
		CorrelationId:   m.CorrelationID,
		ReplyTo:         m.ReplyTo,
		MessageId:       m.ID,
		Timestamp:       m.Timestamp,
		Type:            m.Type,
		AppId:           m.AppID,
		Priority:        m.Priority,
		DeliveryMode:    m.deliveryMode(),
		Body:            m.Body,
	}
	if m.Expiration > 0 {
		// A part of a millisecond is not none, which would expire at once.
		p.Expiration = strconv.FormatInt(int64((m.Expiration+time.Millisecond-1)/time.Millisecond), 10)
	}
	return p
}

func (m *Message) deliveryMode() uint8 {
	if m.Transient {
		return amqp.Transient
	}
	return amqp.Persistent
}

// packed is the message as an entry of an envelope.
func (m *Message) packed() envelope.Message {
	return envelope.Message{
		ID: m.ID, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationID: m.CorrelationID,
		ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID, Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
	}
}

// table makes headers what amqp091-go accepts and sends whole: it would cut an int to 32 bits. It answers, too, how many bytes
// they take.
func table(headers map[string]any) (amqp.Table, int, error) {
	if len(headers) == 0 {
		return nil, 0, nil
	}
	var f fields
	out := f.table(headers, 1)
	err := f.err
	if err == nil {
		err = out.Validate()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: headers: %w", ErrInvalid, err)
	}
	return out, f.size, nil
}

// maxDepth is how deep headers may nest; it ends the walk through a table that holds itself.
const maxDepth = 32

// fields walks through headers.
type fields struct {
	size int // in bytes
	err  error
}

func (f *fields) table(in map[string]any, depth int) amqp.Table {
	f.size += 4
	if depth > maxDepth {
		f.err = fmt.Errorf("more than %d levels", maxDepth)
		return nil
	}
	out := make(amqp.Table, len(in))
	for k, v := range in {
		// The AMQP library would notice when a part of the message has been written.
		if len(k) > 255 {
			f.err = fmt.Errorf("a name has %d bytes, AMQP takes 255", len(k))
		}
		f.size += 1 + len(k)
		out[k] = f.value(v, depth)
	}
	return out
}

func (f *fields) value(v any, depth int) any {
	f.size += 9 // with its type; most values take no more
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint:
		return int64(v) //nolint:gosec // AMQP has no larger integer
	case string:
		f.size += len(v)
	case []byte:
		f.size += len(v)
	case amqp.Table:
		return f.table(v, depth+1)
	case map[string]any:
		return f.table(v, depth+1)
	case []any:
		if depth > maxDepth {
			f.err = fmt.Errorf("more than %d levels", maxDepth)
			return nil
		}
		inner := make([]any, len(v))
		for i, w := range v {
			inner[i] = f.value(w, depth+1)
		}
		return inner
	}
	return v
}

var (
	idPrefix  = newPrefix()
	idCounter atomic.Uint64
)

func newPrefix() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]) + "-"
}

// newID is unique among all processes (80 random bits) and cheap: no chance is drawn per message.
func newID() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], idCounter.Add(1))
	const digits = "0123456789abcdef"
	var room [64]byte // on the stack: what is made is the string alone
	out := append(room[:0], idPrefix...)
	started := false
	for i, c := range b {
		if c == 0 && !started && i < 7 {
			continue
		}
		started = true
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}
