package warren

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/internal/link"
)

// sweepEvery is how often confirms that came out of order are looked for while the oldest message is unconfirmed: a slow
// queue must not hold up what went to others.
const sweepEvery = 5 * time.Millisecond

// address is what a returned message is known by.
type address struct{ id, exchange, key string }

// confirmer settles what one channel sent. It goes by the deferred confirmation of each message, in which the broker's
// first verdict stays: the library's NotifyPublish can tell an ack for a message that was nacked (see TestNotifyPublishLies).
type confirmer struct {
	s        *shard
	ch       *link.Channel
	w        *window
	returns  <-chan amqp.Return
	returned map[address]int
	open     []sent  // unsettled, oldest first
	errs     []error // of what is being settled
	lost     bool
}

// confirm runs until the window has ended and leaves what is unknown then in it.
func (s *shard) confirm(ch *link.Channel, w *window, returns <-chan amqp.Return) {
	f := &confirmer{s: s, ch: ch, w: w, returns: returns, returned: map[address]int{}}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		f.open = w.take(f.open)
		switch {
		case len(f.open) == 0 && w.over():
			return
		case len(f.open) == 0:
			<-w.fresh
			continue
		case f.open[0].confirmation == nil:
			f.lost = true
		default:
			f.wait(timer)
		}
		if f.lost {
			// What was confirmed before the loss is settled, the rest is unknown. The sender ends now, too.
			for !w.over() {
				<-w.fresh
				f.open = w.take(f.open)
			}
			f.sweep()
			w.leave(f.open)
			return
		}
	}
}

// wait for the verdict on the oldest message, or for long enough that others may be looked at.
func (f *confirmer) wait(timer *time.Timer) {
	timer.Reset(sweepEvery)
	select {
	case <-f.open[0].confirmation.Done():
		f.prefix()
	case <-f.ch.Lost():
		f.lost = true
	case <-timer.C:
		f.sweep()
		f.overdue()
	}
}

// prefix settles the messages up to the first that has no verdict.
func (f *confirmer) prefix() {
	n := 0
	for n < len(f.open) {
		if known, _ := f.verdict(&f.open[n]); !known {
			break
		}
		n++
	}
	if n == 0 {
		// The oldest has a verdict that came from the loss of the channel.
		f.lost = true
		return
	}
	f.settle(f.open[:n])
	clear(f.open[:n])
	f.open = f.open[n:]
}

// sweep settles all messages that have a verdict.
func (f *confirmer) sweep() {
	var done []sent
	kept := f.open[:0]
	for i := range f.open {
		if known, _ := f.verdict(&f.open[i]); known {
			done = append(done, f.open[i])
		} else {
			kept = append(kept, f.open[i])
		}
	}
	clear(f.open[len(kept):])
	f.open = kept
	f.settle(done)
}

// verdict of the broker on a message. A channel that is lost gives its open confirmations a nack that nobody sent: it counts
// as none.
func (f *confirmer) verdict(u *sent) (known, acked bool) {
	if u.confirmation == nil {
		return false, false
	}
	select {
	case <-u.confirmation.Done():
	default:
		return false, false
	}
	if u.confirmation.Acked() {
		return true, true
	}
	return !f.ch.IsClosed(), false
}

// settle tells outcomes: first to the hooks, in groups of the same, then to those who wait.
func (f *confirmer) settle(done []sent) {
	if len(done) == 0 {
		return
	}
	// A return comes before the confirm of its message, and has been put into the buffer before it.
	f.drainReturns()
	f.errs = f.errs[:0]
	event := PublishEvent{Cluster: f.s.pipe.cluster.Name}
	now := time.Now()
	for i := range done {
		u := &done[i]
		err := f.outcome(u)
		f.errs = append(f.errs, err)
		if event.Sent > 0 && (err != nil || event.Err != nil) {
			f.report(&event)
		}
		event.Err = err
		event.Sent++
		for _, c := range u.all() {
			event.Messages++
			event.Bytes += int64(c.body)
			event.Waited = max(event.Waited, now.Sub(c.born))
		}
	}
	f.report(&event)
	var at *lane
	n := 0
	for i := range done {
		for _, c := range done[i].all() {
			c.settle(f.errs[i], false)
			if c.lane != at {
				if n > 0 {
					at.settled(n)
				}
				at, n = c.lane, 0
			}
			n++
		}
	}
	at.settled(n)
	f.w.settled(len(done))
}

func (f *confirmer) report(e *PublishEvent) {
	f.s.pipe.p.r.hook(func(h *Hooks) {
		if h.Published != nil {
			h.Published(*e)
		}
	})
	*e = PublishEvent{Cluster: e.Cluster}
}

func (f *confirmer) outcome(u *sent) error {
	exchange, key := u.first().m.target()
	to := address{u.id(), exchange, key}
	returned := false
	if len(f.returned) > 0 && f.returned[to] > 0 {
		returned = true
		if f.returned[to]--; f.returned[to] == 0 {
			delete(f.returned, to)
		}
	}
	_, acked := f.verdict(u)
	switch {
	case !acked:
		return fmt.Errorf("%w: exchange %q, key %q on cluster %s", ErrNacked, exchange, key, f.s.pipe.cluster.Name)
	case returned:
		return fmt.Errorf("%w: exchange %q, key %q on cluster %s", ErrReturned, exchange, key, f.s.pipe.cluster.Name)
	}
	return nil
}

func (f *confirmer) drainReturns() {
	for {
		select {
		case r, ok := <-f.returns:
			if !ok {
				f.returns = nil
				return
			}
			f.returned[address{r.MessageId, r.Exchange, r.RoutingKey}]++
		default:
			return
		}
	}
}

// overdue gives up a broker that owes a confirm for too long while it says that it takes messages.
func (f *confirmer) overdue() {
	if len(f.open) == 0 {
		return
	}
	select {
	case <-f.ch.Unblocked():
	default:
		// It counts from when the broker takes messages again.
		now := time.Now()
		for i := range f.open {
			f.open[i].at = now
		}
		return
	}
	if time.Since(f.open[0].at) > f.s.pipe.p.cfg.confirmTimeout {
		f.ch.Drop()
	}
}
