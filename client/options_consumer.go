package warren

import (
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
)

// ConsumeOption is given to Router.Consume and Router.NewConsumer.
type ConsumeOption interface{ consumer(*consumerConfig) }

type consumeOption func(*consumerConfig)

func (o consumeOption) consumer(c *consumerConfig) { o(c) }

// ackMode says when what was handled is acknowledged.
type ackMode bool

const (
	ackOrdered ackMode = false
	ackEach    ackMode = true
)

// maxQuorumPrefetch is what a quorum queue gives one consumer at most, whatever it asks for.
const maxQuorumPrefetch = 2000

type consumerConfig struct {
	class           string
	size            int
	wait            time.Duration
	workers         int
	target          time.Duration // 0: no back-pressure
	ack             ackMode
	prefetch        int
	prefetchGiven   bool
	handlerTimeout  time.Duration
	consumerTimeout time.Duration
	maxAttempts     int
	quarantine      int
	retryDelay      time.Duration
	drain           time.Duration
	deadLetterTo    string
	byReject        bool
	args            amqp.Table
	maxUnpacked     int
	keepEncoding    bool
}

func newConsumerConfig(queue string, opts []ConsumeOption) (consumerConfig, error) {
	c := consumerConfig{
		size: 100, wait: 50 * time.Millisecond, workers: 4, handlerTimeout: time.Minute, consumerTimeout: 30 * time.Minute,
		maxAttempts: 10, quarantine: 3, retryDelay: 100 * time.Millisecond, drain: 30 * time.Second,
		maxUnpacked: envelope.DefaultMaxBytes,
	}
	for _, o := range opts {
		o.consumer(&c)
	}
	if err := c.checkQueue(queue); err != nil {
		return c, err
	}
	if err := c.checkNumbers(); err != nil {
		return c, err
	}
	if !c.prefetchGiven {
		c.prefetch = (c.workers + 1) * c.size
	}
	if err := c.checkPrefetch(); err != nil {
		return c, err
	}
	return c, c.checkTimes()
}

func (c *consumerConfig) checkQueue(queue string) error {
	switch {
	case queue == "" || len(queue) > 255:
		return fmt.Errorf("%w: a queue's name has from 1 to 255 bytes", ErrInvalid)
	case len(c.deadLetterTo) > 255:
		return fmt.Errorf("%w: DeadLetterTo: a queue's name has at most 255 bytes", ErrInvalid)
	case c.deadLetterTo == queue:
		return fmt.Errorf("%w: DeadLetterTo(%q) is the queue itself: dead letters would be handled for ever", ErrInvalid, queue)
	case c.deadLetterTo != "" && c.byReject:
		return fmt.Errorf("%w: DeadLetterTo and DeadLetterByReject exclude each other: leave one out", ErrInvalid)
	}
	args, _, err := table(c.args)
	if err != nil {
		return fmt.Errorf("ConsumerArguments: %w", err)
	}
	c.args = args
	return nil
}

func (c *consumerConfig) checkNumbers() error {
	for _, n := range []struct {
		name  string
		value int
	}{
		{"BatchSize", c.size}, {"Workers", c.workers}, {"MaxAttempts", c.maxAttempts}, {"QuarantineAfter", c.quarantine},
		{"MaxUnpacked", c.maxUnpacked},
	} {
		if n.value < 1 {
			return fmt.Errorf("%w: %s(%d) is less than 1", ErrInvalid, n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		zero  bool
	}{
		{"BatchWait", c.wait, true}, {"RetryDelay", c.retryDelay, true}, {"TargetLatency", c.target, true},
		{"HandlerTimeout", c.handlerTimeout, false}, {"ConsumerTimeout", c.consumerTimeout, false},
		{"DrainTimeout", c.drain, false},
	} {
		if d.value < 0 || (d.value == 0 && !d.zero) {
			return fmt.Errorf("%w: %s(%s) is too short", ErrInvalid, d.name, d.value)
		}
	}
	return nil
}

// checkPrefetch refuses what could never fill a batch for each worker, or would not get what it asks for.
func (c *consumerConfig) checkPrefetch() error {
	need := (c.workers + 1) * c.size
	switch {
	case !c.prefetchGiven && need > maxQuorumPrefetch:
		return fmt.Errorf("%w: %d workers and one batch that fills, of %d messages each, need a prefetch of %d; a quorum queue gives at most %d: "+
			"take BatchSize(%d), fewer Workers or several consumers; for a classic queue set Prefetch(%d)", ErrInvalid, c.workers, c.size,
			need, maxQuorumPrefetch, max(maxQuorumPrefetch/(c.workers+1), 1), need)
	case c.prefetch < need:
		return fmt.Errorf("%w: Prefetch(%d) is too little for %d workers and one batch that fills, of %d messages each: take at least "+
			"Prefetch(%d), a smaller BatchSize or fewer Workers", ErrInvalid, c.prefetch, c.workers, c.size, need)
	case c.prefetch > 65535:
		return fmt.Errorf("%w: a prefetch of %d is more than AMQP can say: take at most Prefetch(65535), with a smaller BatchSize or fewer "+
			"Workers", ErrInvalid, c.prefetch)
	}
	return nil
}

// checkTimes sees to it that every message is settled before the broker takes it back. A batch may take the handler's time
// twice: again one by one after a panic.
func (c *consumerConfig) checkTimes() error {
	switch {
	case c.patience() <= 0:
		return fmt.Errorf("%w: twice HandlerTimeout(%s), and the grace after it, must end before 80 %% of ConsumerTimeout(%s), or the "+
			"broker takes messages back while they are handled: take less than HandlerTimeout(%s), or raise the broker's consumer_timeout "+
			"and ConsumerTimeout", ErrInvalid, c.handlerTimeout, c.consumerTimeout, (c.consumerTimeout * 4 / 11).Truncate(time.Millisecond))
	case c.retryDelay > c.consumerTimeout/20:
		return fmt.Errorf("%w: RetryDelay(%s) is more than 5 %% of ConsumerTimeout(%s): messages are held that long", ErrInvalid,
			c.retryDelay, c.consumerTimeout)
	case c.wait >= c.consumerTimeout/20:
		return fmt.Errorf("%w: BatchWait(%s) is 5 %% of ConsumerTimeout(%s) or more", ErrInvalid, c.wait, c.consumerTimeout)
	}
	return nil
}

// grace is what a handler gets to return in, after its context has ended.
func (c *consumerConfig) grace() time.Duration { return max(c.handlerTimeout/10, time.Second) }

// patience is how long a message may wait for a worker and still be settled in time.
func (c *consumerConfig) patience() time.Duration {
	return c.consumerTimeout*8/10 - 2*(c.handlerTimeout+c.grace())
}

// settleTimeout bounds the publishing of dead letters and repeated messages.
func (c *consumerConfig) settleTimeout() time.Duration {
	return min(30*time.Second, c.consumerTimeout/20)
}

// retryLimit is the longest that a message is held before it is tried again.
func (c *consumerConfig) retryLimit() time.Duration {
	return min(max(c.retryDelay, time.Second), c.consumerTimeout/20)
}

// delay before a message that was delivered so often before is tried again.
func (c *consumerConfig) delay(attempts int) time.Duration {
	return min(c.retryDelay*time.Duration(min(attempts, c.maxAttempts)+1), c.retryLimit())
}

// BatchSize is how many messages a handler gets at once, at most: 100.
func BatchSize(n int) ConsumeOption { return consumeOption(func(c *consumerConfig) { c.size = n }) }

// BatchWait is how long a message waits for others to fill the batch, from when the first of them came: 50 ms.
func BatchWait(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.wait = d })
}

// Workers is how many batches are handled at once, at most: 4.
func Workers(n int) ConsumeOption { return consumeOption(func(c *consumerConfig) { c.workers = n }) }

// TargetLatency turns back-pressure on: when the 95th percentile of the latency of batches (see Batch.Observe) stays above
// the target fewer of them run at once, down to one; when it is well below, more, up to Workers. The broker then sends less
// since fewer messages are acknowledged.
func TargetLatency(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.target = d })
}

// AckOrdered acknowledges batches in the order of the queue, whatever order they end in, so that after a crash what is
// delivered again begins at one place. It is the default.
func AckOrdered() ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.ack = ackOrdered })
}

// AckEach acknowledges every batch when it has been handled, also while an earlier one is still being handled.
func AckEach() ConsumeOption { return consumeOption(func(c *consumerConfig) { c.ack = ackEach }) }

// Prefetch is how many unacknowledged messages the broker may give: (Workers+1)*BatchSize by default, which is also the
// least. Two clusters share it. Quorum queues give at most 2,000.
func Prefetch(n int) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.prefetch, c.prefetchGiven = n, true })
}

// HandlerTimeout is how long a handler may take before its context ends: 1 min. When it does not return soon after that (a
// tenth of it, at least 1 s), its messages are tried again, and its worker is free only when it has returned.
func HandlerTimeout(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.handlerTimeout = d })
}

// ConsumerTimeout is what the broker's consumer_timeout is set to: 30 min. Messages are settled well before.
func ConsumerTimeout(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.consumerTimeout = d })
}

// MaxAttempts is how often a message is delivered at most before it is dead-lettered: 10. Set it lower than the delivery-limit of the
// queue (20 for quorum queues of RabbitMQ 4), beyond which the broker dead-letters or drops the message.
func MaxAttempts(n int) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.maxAttempts = n })
}

// QuarantineAfter is how often a message must have been delivered to be handled alone: 3. One that takes the process down
// then takes no other message along.
func QuarantineAfter(n int) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.quarantine = n })
}

// RetryDelay is how long a message is held before it is tried again: 100 ms, and so much more with every attempt, up to 1 s
// or to the delay itself if that is longer.
func RetryDelay(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.retryDelay = d })
}

// DrainTimeout is how long running handlers may take when the consumer ends: 30 s.
func DrainTimeout(d time.Duration) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.drain = d })
}

// DeadLetterTo is the queue that dead letters are published to, on the cluster that they came from. By default it is
// what the routes say, else the queue's name with ".dead-letters". It is declared, durable, when it is missing.
func DeadLetterTo(queue string) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.deadLetterTo = queue })
}

// DeadLetterByReject leaves dead letters to the broker: they are rejected, without a reason. A queue that has no dead-letter
// exchange then drops them.
func DeadLetterByReject() ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.byReject = true })
}

// ForClass is the class of work that the queue belongs to; by default what the routes tell.
func ForClass(class string) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.class = class })
}

// ConsumerArguments are given to the broker with the subscription, for instance x-priority. A Go int is sent as 64 bits.
func ConsumerArguments(args map[string]any) ConsumeOption {
	return consumeOption(func(c *consumerConfig) {
		c.args = amqp.Table{}
		maps.Copy(c.args, args)
	})
}

// MaxUnpacked bounds what the body of one AMQP message may become when it is decompressed, in bytes: 16 MiB. Larger ones are
// dead-lettered.
func MaxUnpacked(bytes int) ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.maxUnpacked = bytes })
}

// KeepEncoding leaves compressed bodies of messages as they are. Packs are decompressed in any case.
func KeepEncoding() ConsumeOption {
	return consumeOption(func(c *consumerConfig) { c.keepEncoding = true })
}
