package warren

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warren-mq/warren/client/internal/route"
)

// laneKey is what a lane is for: a queue, or an exchange.
type laneKey struct{ class, exchange, queue, pin string }

func (k laneKey) resolve(t *route.Table, pin *route.Cluster) (route.Route, error) {
	switch {
	case pin != nil:
		return route.Route{Publish: pin}, nil
	case k.queue != "":
		return t.Queue(k.queue, k.class)
	default:
		return t.Exchange(k.exchange, k.class)
	}
}

// lane is the way of all messages to one queue or exchange. It keeps them in order when the queue moves: nothing goes to the
// new cluster before the outcome of all that went to the old one is known, or they are taken along. Locks are taken in
// the order publisher, lane, shard.
type lane struct {
	key    laneKey
	pinned bool
	packs  bool

	// parted says that nothing more may be sent to home: publishers hold, or the lane is to move.
	parted atomic.Bool

	mu       sync.Mutex
	home     *pipe // where messages are unconfirmed
	want     *pipe // where the routes say that messages go
	held     bool
	dropped  bool
	inflight int // messages that home has and whose outcome is unknown
	seq      uint64
	waiting  []*Confirmation
	waste    int // messages taken back since those were last dropped from waiting
}

// submit gives a message its place. It is false when the lane was dropped.
func (l *lane) submit(c *Confirmation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return false
	}
	l.seq++
	c.lane, c.seq = l, l.seq
	if l.parted.Load() {
		l.waiting = append(l.waiting, c)
		return true
	}
	l.inflight++
	l.home.push(c)
	return true
}

// settled counts messages off whose outcome is known.
func (l *lane) settled(n int) {
	l.mu.Lock()
	l.inflight -= n
	left := l.release()
	l.mu.Unlock()
	if left != nil {
		left.p.moved(left)
	}
}

// giveBack returns messages that home had and did not send, or whose outcome it could not learn, since the lane has parted.
func (l *lane) giveBack(cs ...*Confirmation) {
	l.mu.Lock()
	l.inflight -= len(cs)
	if l.dropped {
		l.mu.Unlock()
		for _, c := range cs {
			c.fail(closedError(c))
		}
		return
	}
	for _, c := range cs {
		c.release()
	}
	l.waiting = append(l.waiting, cs...)
	l.parted.Store(true) // the route may be what it was again: still nothing may overtake these
	left := l.release()
	l.mu.Unlock()
	if left != nil {
		left.p.moved(left)
	}
}

// release lets waiting messages go when nothing stands in the way any more. It returns the pipe that the lane left, if it
// did. The lock is held.
func (l *lane) release() (left *pipe) {
	if l.inflight > 0 || l.held || l.dropped {
		return nil
	}
	if l.home != l.want {
		left, l.home = l.home, l.want
	}
	l.parted.Store(false)
	slices.SortFunc(l.waiting, func(a, b *Confirmation) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range l.waiting {
		l.inflight++
		l.home.push(c)
	}
	l.waiting = nil
	return left
}

// update follows a new route. The publisher's lock is held, so pipes' lanes are counted here; those to be counted off are
// returned.
func (l *lane) update(want *pipe, held bool) (off []*pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return nil
	}
	if old := l.want; want != old {
		if want != l.home {
			want.lanes++
		}
		if old != l.home {
			off = append(off, old)
		}
	}
	l.want, l.held = want, held
	// What waits already must not be overtaken, also when the route is what it was again.
	l.parted.Store(held || want != l.home || len(l.waiting) > 0)
	if l.parted.Load() {
		unsent := l.home.reclaim(l)
		for _, c := range unsent {
			c.release()
		}
		l.inflight -= len(unsent)
		l.waiting = append(l.waiting, unsent...)
	}
	if left := l.release(); left != nil {
		off = append(off, left)
	}
	return off
}

// takenBack notes that a message ended without being sent. Such are dropped when they are many, so that little is kept
// beyond what is charged, however long nothing can be sent.
func (l *lane) takenBack(c *Confirmation) {
	l.mu.Lock()
	if l.waste++; wasteful(l.waste, len(l.waiting)) {
		l.waiting, l.waste = slices.DeleteFunc(l.waiting, (*Confirmation).over), 0
	}
	gone := l.home.shard(c).takenBack()
	l.mu.Unlock()
	for _, c := range gone {
		c.lane.settled(1)
	}
}

// wasteful tells whether it is time to look for messages that were taken back: seldom enough to cost little for each.
func wasteful(n, among int) bool { return n >= 64 && 2*n >= among }

// target is where the routes say that messages go.
func (l *lane) target() *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want
}

// place is the name of the cluster that has the lane's messages.
func (l *lane) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home.cluster.Name
}

// drop ends a lane that is idle.
func (l *lane) drop() (home *pipe, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inflight > 0 || len(l.waiting) > 0 || l.parted.Load() {
		return nil, false
	}
	l.dropped = true
	return l.home, true
}

func (l *lane) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// abandon ends the lane; what waits is not sent.
func (l *lane) abandon() {
	l.mu.Lock()
	l.dropped = true
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, c := range waiting {
		c.fail(closedError(c))
	}
}

// closedError is the outcome of a message that the publisher's end left behind.
func closedError(c *Confirmation) error {
	if c.sends > 0 {
		return fmt.Errorf("%w: the publisher was closed before the confirm came: %w", ErrUnknown, ErrClosed)
	}
	return fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
}
