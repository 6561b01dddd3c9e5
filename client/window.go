package warren

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/internal/link"
)

// sent is one AMQP message: one message of the application, or a pack of several to the same queue.
type sent struct {
	one          *Confirmation
	many         []*Confirmation
	packed       *amqp.Publishing           // of many
	confirmation *amqp.DeferredConfirmation // nil when sending failed half-way
	at           time.Time
	bytes        int // of the body, as sent
}

func (s *sent) all() []*Confirmation {
	if s.one != nil {
		return []*Confirmation{s.one}
	}
	return s.many
}

func (s *sent) first() *Confirmation {
	if s.one != nil {
		return s.one
	}
	return s.many[0]
}

// message is what goes on the wire.
func (s *sent) message() amqp.Publishing {
	if s.packed != nil {
		return *s.packed
	}
	return s.one.m.publishing()
}

// properties is how large the frame of the properties is at most, in bytes; packs have few.
func (s *sent) properties() int {
	if s.packed != nil {
		return 0
	}
	return s.one.frame
}

// id that a returned message would have.
func (s *sent) id() string {
	if s.packed != nil {
		return s.packed.MessageId
	}
	return s.one.m.ID
}

// window is what is unconfirmed on one channel, between the goroutine that sends and the one that confirms.
type window struct {
	empty chan struct{} // nothing is unconfirmed any more
	space chan struct{} // there is room again
	fresh chan struct{} // something was sent, or an end

	mu    sync.Mutex
	limit int
	open  int    // reserved, sent and not settled
	new   []sent // sent and not yet seen by the confirming goroutine
	left  []sent // not settled at the end
	ended bool
}

func newWindow(limit int) *window {
	return &window{limit: limit, empty: make(chan struct{}, 1), space: make(chan struct{}, 1), fresh: make(chan struct{}, 1)}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reserve waits for room for one. It is false when the channel is lost or ctx ended.
func (w *window) reserve(ctx context.Context, ch *link.Channel) bool {
	for {
		w.mu.Lock()
		if w.open < w.limit {
			w.open++
			w.mu.Unlock()
			return true
		}
		w.mu.Unlock()
		select {
		case <-w.space:
		case <-ch.Lost():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (w *window) unreserve() { w.settled(1) }

func (w *window) add(s sent) {
	w.mu.Lock()
	w.new = append(w.new, s)
	first := len(w.new) == 1
	w.mu.Unlock()
	if first {
		notify(w.fresh)
	}
}

// take returns what was sent since the last call, into buf.
func (w *window) take(buf []sent) []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	buf = append(buf, w.new...)
	clear(w.new)
	w.new = w.new[:0]
	return buf
}

func (w *window) settled(n int) {
	w.mu.Lock()
	full := w.open >= w.limit
	w.open -= n
	idle := w.open == 0
	w.mu.Unlock()
	if full {
		notify(w.space)
	}
	if idle {
		notify(w.empty)
	}
}

func (w *window) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open == 0
}

func (w *window) widen(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
}

// most is how many messages may be unconfirmed at once.
func (w *window) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit
}

// end tells the confirming goroutine that nothing more comes.
func (w *window) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	notify(w.fresh)
}

func (w *window) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended && len(w.new) == 0
}

// leave notes what was not settled.
func (w *window) leave(left []sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = left
}

func (w *window) rest() []sent { return w.left }
