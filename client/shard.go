package warren

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
	"github.com/warren-mq/warren/client/internal/link"
)

// shard owns one channel at a time and publishes on it from one goroutine; a second one waits for the confirms. It connects when there is
// something to send. When a channel is lost, what was sent on it and is not confirmed is sent first on the next, in order.
type shard struct {
	pipe *pipe
	wake chan struct{} // something changed that the sender may wait for

	packer envelope.Packer // the sending goroutine's

	mu      sync.Mutex
	again   []*Confirmation // was sent, or claimed for sending, on a channel that was lost
	queue   []*Confirmation // was never sent
	bytes   int             // of bodies in queue
	since   time.Time       // when the first of queue came
	hurried bool            // do not linger
	narrow  int             // one of again made the broker close the channel: how many may be unconfirmed at once until it is found; else 0
	waste   int             // messages taken back since those were last dropped
}

func (s *shard) push(c *Confirmation) {
	cfg := &s.pipe.p.cfg
	s.mu.Lock()
	before := len(s.queue)
	wasFull := s.bytes >= cfg.maxBytes || before >= cfg.maxCount
	s.queue = append(s.queue, c)
	s.bytes += c.body
	if before == 0 {
		s.since = time.Now()
	}
	isFull := s.bytes >= cfg.maxBytes || len(s.queue) >= cfg.maxCount
	s.mu.Unlock()
	if before == 0 || (isFull && !wasFull) {
		s.signal()
	}
}

func (s *shard) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *shard) hurry() {
	s.mu.Lock()
	s.hurried = len(s.queue) > 0
	s.mu.Unlock()
	s.signal()
}

func (s *shard) reclaim(l *lane) []*Confirmation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(func(c *Confirmation) bool { return c.lane == l })
}

// takenBack notes that a message ended without being sent, and now and then removes all such.
func (s *shard) takenBack() []*Confirmation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waste++; !wasteful(s.waste, len(s.again)+len(s.queue)) {
		return nil
	}
	s.waste = 0
	return s.remove((*Confirmation).over)
}

// remove takes out what is not being sent, in order. The lock is held.
func (s *shard) remove(which func(*Confirmation) bool) (out []*Confirmation) {
	pick := func(from []*Confirmation) []*Confirmation {
		kept := make([]*Confirmation, 0, len(from))
		for _, c := range from {
			if which(c) {
				out = append(out, c)
			} else {
				kept = append(kept, c)
			}
		}
		return kept
	}
	s.again, s.queue = pick(s.again), pick(s.queue)
	s.bytes = 0
	for _, c := range s.queue {
		s.bytes += c.body
	}
	return out
}

func (s *shard) run(ctx context.Context) {
	defer s.end()
	for s.wait(ctx) {
		ch, err := s.pipe.conn.Channel(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, link.ErrClosed) {
				return
			}
			// The connection is there and gives no channel: it has too many, or is just being lost.
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		s.session(ctx, ch)
	}
}

// wait until there is something to send.
func (s *shard) wait(ctx context.Context) bool {
	for {
		s.mu.Lock()
		some := len(s.again)+len(s.queue) > 0
		s.mu.Unlock()
		if some {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.wake:
		}
	}
}

// end settles what is left.
func (s *shard) end() {
	s.mu.Lock()
	left := append(s.again, s.queue...)
	s.again, s.queue = nil, nil
	s.mu.Unlock()
	for _, c := range left {
		c.fail(closedError(c))
	}
}

// session publishes on one channel until it is lost.
func (s *shard) session(ctx context.Context, ch *link.Channel) {
	if err := ch.Confirm(false); err != nil {
		ch.Drop()
		return
	}
	full := s.pipe.p.cfg.window
	w := newWindow(full)
	s.mu.Lock()
	if s.narrow > 0 {
		w.limit = s.narrow
	}
	s.mu.Unlock()
	returns := ch.NotifyReturn(make(chan amqp.Return, full+1))
	confirmed := make(chan struct{})
	go func() {
		defer close(confirmed)
		s.confirm(ch, w, returns)
	}()
	unsent := s.send(ctx, ch, w)
	// When ctx has ended the pipe is closing the connection.
	<-ch.Lost()
	w.end()
	<-confirmed
	s.keep(w.rest(), unsent, ch.Err(), w.most())
}

// keep takes over what a lost channel left, in order: what was sent on it and not confirmed, then what had been claimed and
// was not sent. limit is how many could be unconfirmed at once.
func (s *shard) keep(unknown []sent, unsent []*Confirmation, cause error, limit int) {
	guilty, narrow := s.blame(unknown, cause, limit)
	var again []*Confirmation
	for i, u := range unknown {
		for _, c := range u.all() {
			if guilty >= 0 && i > guilty {
				c.sends-- // the broker looked at nothing after it
			}
			switch sends := s.pipe.p.cfg.attempts; {
			case i == guilty:
				s.finish(c, fmt.Errorf("%w: the broker closed the channel: %w", ErrRefused, cause))
			case sends > 0 && c.sends >= sends:
				s.finish(c, fmt.Errorf("%w: the channel was lost: %w", ErrUnknown, cause))
			default:
				again = append(again, c)
			}
		}
	}
	if n := len(again); n > 0 {
		s.pipe.p.r.hook(func(h *Hooks) {
			if h.Resent != nil {
				h.Resent(s.pipe.cluster.Name, n)
			}
		})
	}
	for _, c := range unsent {
		c.release()
	}
	again = append(again, unsent...)
	var parted []*Confirmation
	s.mu.Lock()
	// A lane that parts after this look finds its messages in again.
	again = slices.DeleteFunc(again, func(c *Confirmation) bool {
		if c.lane.parted.Load() {
			parted = append(parted, c)
			return true
		}
		return false
	})
	s.again = append(again, s.again...)
	s.narrow = 0
	if len(s.again) > 0 {
		s.narrow = narrow
	}
	s.mu.Unlock()
	for _, c := range parted {
		c.lane.giveBack(c)
	}
}

// blame finds the message over which the broker closed the channel; -1 for none. When its words do not tell, fewer are to be
// unconfirmed at once on the next channel, half of those that may have been it, until only one can have been.
func (s *shard) blame(unknown []sent, cause error, limit int) (guilty, narrow int) {
	closed := refusal(cause)
	if closed == nil || len(unknown) == 0 {
		return -1, 0
	}
	if guilty = blamed(closed, unknown); guilty >= 0 {
		return guilty, 0
	}
	if limit == 1 && unknown[0].confirmation != nil {
		return 0, 0
	}
	return -1, max(min(limit, len(unknown))/2, 1)
}

// finish settles a message that the lane counts as on its way.
func (s *shard) finish(c *Confirmation, err error) {
	c.fail(err)
	c.lane.settled(1)
}

// send publishes until the channel is lost or ctx ends. It returns what it had claimed and could not send, in order.
func (s *shard) send(ctx context.Context, ch *link.Channel, w *window) (unsent []*Confirmation) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch := s.collect(ctx, ch, w, timer)
		if batch == nil {
			return nil
		}
		units := s.pipe.p.units(batch)
		for len(units) > 0 {
			rest, ok := s.transmit(ctx, ch, w, units[0])
			if !ok {
				for _, u := range units {
					unsent = append(unsent, u.all()...)
				}
				return unsent
			}
			if units = units[1:]; len(rest) > 0 {
				units = slices.Insert(units, 0, sent{many: rest})
			}
		}
	}
}

// collect waits until a batch is to be sent and takes all that is there. It is nil when the channel is lost or ctx ended.
func (s *shard) collect(ctx context.Context, ch *link.Channel, w *window, timer *time.Timer) []*Confirmation {
	for {
		batch, wait := s.ripe(w)
		if len(batch) > 0 {
			return batch
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-ch.Lost():
			return nil
		case <-s.wake:
		case <-w.empty:
		case <-timer.C:
		}
	}
}

// ripe takes all messages if it is time to send them, else it says how long to wait.
func (s *shard) ripe(w *window) ([]*Confirmation, time.Duration) {
	cfg := &s.pipe.p.cfg
	idle := w.idle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.narrow > 0 {
		if len(s.again) == 0 && idle {
			// None of them was it.
			s.narrow = 0
			w.widen(cfg.window)
		} else if len(s.again) == 0 {
			return nil, time.Hour
		}
	}
	if len(s.again) > 0 {
		batch := s.again
		s.again = nil
		return batch, 0
	}
	if len(s.queue) == 0 {
		return nil, time.Hour
	}
	left := cfg.maxDelay - time.Since(s.since)
	if cfg.auto && !s.hurried && !idle && left > 0 && s.bytes < cfg.maxBytes && len(s.queue) < cfg.maxCount {
		return nil, left
	}
	batch := s.queue
	s.queue, s.bytes, s.hurried = make([]*Confirmation, 0, min(len(batch), cfg.maxCount)), 0, false
	return batch, 0
}

// oversize settles a message whose properties are too much for the connection: the broker would end it over that, as often as
// it was sent.
func (s *shard) oversize(ch *link.Channel, u *sent) bool {
	size, most := u.properties(), ch.FrameSize()
	if most <= 0 || size <= most {
		return false
	}
	s.finish(u.one, fmt.Errorf("%w: properties and headers need a frame of %d bytes, cluster %s takes %d", ErrRefused, size,
		s.pipe.cluster.Name, most))
	return true
}

// transmit publishes one AMQP message and returns what did not fit into it. It is false when the channel is lost or ctx ended
// and the message was not sent.
func (s *shard) transmit(ctx context.Context, ch *link.Channel, w *window, u sent) (rest []*Confirmation, ok bool) {
	if !w.reserve(ctx, ch) {
		return nil, false
	}
	// A blocked broker does not read: what would be sent now waited in buffers for as long as that lasts.
	if ch.Blocked() {
		select {
		case <-ch.Unblocked():
		case <-ch.Lost():
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
	if u.first().lane.parted.Load() {
		w.unreserve()
		u.first().lane.giveBack(u.all()...)
		return nil, true
	}
	if u.one != nil && !u.one.take() {
		w.unreserve()
		u.one.lane.settled(1)
		return nil, true
	}
	// A pack is made when it goes out, in memory that all share: a whole buffer of packs would take as much again.
	rest = s.pipe.p.encode(&u, &s.packer)
	if s.oversize(ch, &u) {
		w.unreserve()
		return rest, true
	}
	for _, c := range u.all() {
		c.sends++
	}
	u.at = time.Now()
	exchange, key := u.first().m.target()
	publishing := u.message()
	u.bytes = len(publishing.Body)
	confirmation, err := ch.PublishWithDeferredConfirm(exchange, key, !s.pipe.p.cfg.unroutable, false, publishing)
	if u.packed != nil {
		u.packed.Body = nil
	}
	if err != nil {
		// It may have been sent in part or whole: the channel cannot be used any more. Often it is closed already.
		if !ch.IsClosed() {
			ch.Drop()
		}
		w.add(u)
		return rest, true
	}
	u.confirmation = confirmation
	w.add(u)
	return rest, true
}
