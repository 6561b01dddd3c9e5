package warren

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/client/envelope"
	"github.com/warren-mq/warren/client/internal/link"
)

// RouterOption is given to FromEnv.
type RouterOption interface{ router(*routerConfig) }

type routerOption func(*routerConfig)

func (o routerOption) router(c *routerConfig) { o(c) }

type routerConfig struct {
	environ []string
	name    string
	hooks   []Hooks
	link    link.Config
	err     error // of options
}

func newRouterConfig(opts []RouterOption) routerConfig {
	c := routerConfig{environ: os.Environ(), name: filepath.Base(os.Args[0])}
	for _, o := range opts {
		o.router(&c)
	}
	return c
}

// Environ replaces the process's environment: entries of the form NAME=VALUE.
func Environ(environ []string) RouterOption {
	return routerOption(func(c *routerConfig) { c.environ = environ })
}

// Name is what brokers show as the name of the connections, with their use: NAME (publish). It is the program's name by
// default.
func Name(name string) RouterOption { return routerOption(func(c *routerConfig) { c.name = name }) }

// WithHooks adds hooks; several may be given, all are called.
func WithHooks(h Hooks) RouterOption {
	return routerOption(func(c *routerConfig) { c.hooks = append(c.hooks, h) })
}

// Heartbeat asks brokers for an interval of heartbeats: 10 s by default. A broker that was silent for about three is given up.
func Heartbeat(d time.Duration) RouterOption {
	return routerOption(func(c *routerConfig) { c.link.Heartbeat = d })
}

// Reconnect bounds the wait between two tries to connect: it is drawn at random (full jitter) below a ceiling that doubles from
// low to high. By default from 100 ms to 30 s.
func Reconnect(low, high time.Duration) RouterOption {
	return routerOption(func(c *routerConfig) {
		c.link.MinBackoff, c.link.MaxBackoff = low, high
		if low <= 0 || high < low {
			c.err = fmt.Errorf("%w: Reconnect(%s, %s): want 0 < low <= high", ErrInvalid, low, high)
		}
	})
}

// DialLimit replaces the limit of dials that all routers of the process share (10 a second, 10 at once) by one of its own.
func DialLimit(perSecond float64, burst int) RouterOption {
	return routerOption(func(c *routerConfig) {
		c.link.Limiter = link.NewLimiter(perSecond, burst)
		if perSecond <= 0 || burst < 1 {
			c.err = fmt.Errorf("%w: DialLimit(%g, %d): at least one dial must be allowed", ErrInvalid, perSecond, burst)
		}
	})
}

// PublisherOption is given to Router.Publisher.
type PublisherOption interface{ publisher(*publisherConfig) }

type publisherOption func(*publisherConfig)

func (o publisherOption) publisher(c *publisherConfig) { o(c) }

type publisherConfig struct {
	auto           bool
	maxBytes       int
	maxDelay       time.Duration
	maxCount       int
	bound          int64
	fail           bool
	window         int
	channels       int
	confirmTimeout time.Duration
	attempts       int // sends of one message at most; 0 is no bound
	unroutable     bool
	pack           map[string]bool
	codec          envelope.Codec
	compressFrom   int
	connect        []string
}

func newPublisherConfig(opts []PublisherOption) (publisherConfig, error) {
	c := publisherConfig{
		maxBytes: 32 << 10, maxDelay: 10 * time.Millisecond, maxCount: 1000, bound: 32 << 20, window: 1000, channels: 1,
		confirmTimeout: 30 * time.Second, pack: map[string]bool{}, compressFrom: 1 << 10,
	}
	for _, o := range opts {
		o.publisher(&c)
	}
	switch {
	case c.maxBytes < 1 || c.maxCount < 1 || c.maxDelay < 0:
		return c, fmt.Errorf("%w: BatchMaxBytes and BatchMaxCount are at least 1, BatchMaxDelay is not negative", ErrInvalid)
	case c.bound < int64(c.maxBytes):
		return c, fmt.Errorf("%w: BufferBytes(%d) is less than a batch, BatchMaxBytes(%d)", ErrInvalid, c.bound, c.maxBytes)
	case c.window < 1 || c.window > 65535 || c.channels < 1 || c.channels > 64:
		return c, fmt.Errorf("%w: ConfirmWindow is from 1 to 65535, PublishChannels from 1 to 64", ErrInvalid)
	case c.confirmTimeout <= 0:
		return c, fmt.Errorf("%w: ConfirmTimeout is not positive", ErrInvalid)
	case len(c.pack) > 0 && !c.auto:
		return c, fmt.Errorf("%w: Pack needs AutoBatch, which decides what goes together", ErrInvalid)
	}
	return c, nil
}

// AutoBatch gathers what is published while earlier messages are unconfirmed and sends it together: when a batch is full
// (BatchMaxBytes, BatchMaxCount), when its oldest message has waited long enough (BatchMaxDelay), or when nothing is
// unconfirmed any more. A message that comes when nothing is on its way is sent at once.
func AutoBatch() PublisherOption { return publisherOption(func(c *publisherConfig) { c.auto = true }) }

// BatchMaxBytes is how many bytes of bodies AutoBatch gathers at most, and the size of a pack: 32 KiB.
func BatchMaxBytes(n int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.maxBytes = n })
}

// BatchMaxDelay is how long AutoBatch lets a message wait for others at most: 10 ms.
func BatchMaxDelay(d time.Duration) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.maxDelay = d })
}

// BatchMaxCount is how many messages AutoBatch gathers at most: 1,000.
func BatchMaxCount(n int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.maxCount = n })
}

// BufferBytes bounds the memory of all messages that were accepted and are not yet confirmed, in bytes: 32 MiB. Bodies,
// headers and 256 bytes per message count. When it is reached publishing waits, or fails with FailWhenFull.
func BufferBytes(n int64) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.bound = n })
}

// FailWhenFull makes publishing fail with ErrBufferFull instead of waiting when BufferBytes is reached.
func FailWhenFull() PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.fail = true })
}

// ConfirmWindow is how many AMQP messages may be unconfirmed on a channel: 1,000. Larger ones cost more than they bring.
func ConfirmWindow(n int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.window = n })
}

// PublishChannels is how many channels a publisher has per cluster: 1. Messages of the same queue, or of the same exchange and key, always take the
// same one, so their order is kept.
func PublishChannels(n int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.channels = n })
}

// ConfirmTimeout is how long a broker may take for a confirm before the connection is given up and what is unconfirmed
// sent again: 30 s. It does not run while the broker says that it is blocked.
func ConfirmTimeout(d time.Duration) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.confirmTimeout = d })
}

// MaxSends is how often a message whose outcome is unknown is sent at most, before ErrUnknown is returned for it. By
// default it is sent until its outcome is known or the publisher is closed: it may then be in the queue twice, with the same
// ID, but is not lost. With 1 nothing is sent twice, and what the connection lost is for the caller to judge.
func MaxSends(n int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.attempts = max(n, 1) })
}

// AllowUnroutable lets messages that no queue takes be confirmed as the broker does it: dropped. By default they are
// ErrReturned.
func AllowUnroutable() PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.unroutable = true })
}

// Pack lets AutoBatch put several messages to one of these queues into one AMQP message. Only consumers that know the
// envelope can read it, those of this library do. The broker then counts, limits and dead-letters packs, not messages.
// Messages with a Priority or Expiration are never packed.
func Pack(queues ...string) PublisherOption {
	return publisherOption(func(c *publisherConfig) {
		for _, q := range queues {
			c.pack[q] = true
		}
	})
}

// Codec of Compress.
type Codec = envelope.Codec

// Codecs of Compress.
const (
	Gzip = envelope.Gzip
	Zstd = envelope.Zstd
)

// Compress bodies (or whole packs) of at least minBytes (1 KiB is a good bound) where that saves a tenth or more. The
// content-encoding then says "gzip" or "zstd"; messages that already have a content-encoding are left alone. The consumers of
// this library decompress.
func Compress(codec Codec, minBytes int) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.codec, c.compressFrom = codec, minBytes })
}

// ConnectNow makes Router.Publisher wait until the clusters that serve these queues are connected, so that a wrong address or
// password is found at the start. By default connections are opened when they are first needed.
func ConnectNow(queues ...string) PublisherOption {
	return publisherOption(func(c *publisherConfig) { c.connect = append(c.connect, queues...) })
}
