package warren

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/route"
)

const (
	intakeBackoffMin = 100 * time.Millisecond
	intakeBackoffMax = 30 * time.Second
)

// intake takes the messages of the queue from one cluster, over one channel after the other, until it is stopped.
type intake struct {
	c         *Consumer
	cluster   *route.Cluster
	graveyard string // queue for dead letters
	conn      *link.Conn
	release   func(context.Context) error
	ctx       context.Context // ends when it is to drain
	stop      context.CancelFunc
	changed   chan struct{} // its share of the prefetch may have changed
	ended     chan struct{}

	// Its goroutine alone touches these.
	held      int // of the prefetch
	prepared  bool
	careful   bool
	calmUntil time.Time

	mu      sync.Mutex
	current *epoch
	lived   bool // was subscribed once
	err     error
}

func newIntake(c *Consumer, cluster *route.Cluster, graveyard string) *intake {
	in := &intake{c: c, cluster: cluster, graveyard: graveyard, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	in.conn, in.release = c.r.consumeConn(cluster)
	in.ctx, in.stop = context.WithCancel(c.hard)
	return in
}

func (in *intake) run() {
	defer in.end()
	attempt := 0
	for in.fund() {
		began := time.Now()
		err := in.session()
		in.left(err)
		if in.ctx.Err() != nil {
			return
		}
		if err == nil {
			attempt = 0
			continue
		}
		var no *forbidden
		if errors.As(err, &no) && !in.hasLived() {
			in.c.fail(err)
			return
		}
		in.c.failed(in, err)
		if time.Since(began) > time.Second {
			attempt = 0
		}
		ceiling := min(intakeBackoffMin<<min(attempt, 16), intakeBackoffMax)
		attempt++
		select {
		case <-in.ctx.Done():
		case <-time.After(ceiling/2 + rand.N(ceiling/2)): //nolint:gosec // jitter is no secret
		}
	}
}

// fund takes the intake's share of the prefetch, waiting for those who have more than theirs. It is false when the intake is to stop.
func (in *intake) fund() bool {
	for share := in.c.share(); share != in.held; share = in.c.share() {
		in.c.budget.Release(int64(in.held))
		in.held = 0
		if in.c.budget.Acquire(in.ctx, int64(share)) != nil {
			return false
		}
		in.held = share
	}
	return in.ctx.Err() == nil
}

// retuned tells whether the share is another one than what is subscribed with.
func (in *intake) retuned() bool { return in.c.share() != in.held }

// session consumes on one channel until it is lost, with the error, or has been closed in good order, with nil.
func (in *intake) session() error {
	ch, err := in.conn.Channel(in.ctx)
	if err != nil {
		return err
	}
	if !in.prepared {
		if err := in.prepare(in.ctx); err != nil {
			return errors.Join(err, in.shut(ch))
		}
		in.prepared = true
	}
	prefetch := in.held
	if in.careful {
		prefetch = 1
	}
	e := newEpoch(in, ch, prefetch, in.careful)
	if err := e.serve(); err != nil {
		_ = in.shut(ch)
		return err
	}
	// A quorum queue may lose acknowledgements that are sent right before the channel is closed: an answer comes after them.
	err = in.c.rpc(ch, func() error { return ch.Qos(e.prefetch, 0, false) })
	return errors.Join(err, in.shut(ch))
}

func (in *intake) shut(ch *link.Channel) error {
	ctx, cancel := context.WithTimeout(in.c.hard, rpcTimeout)
	defer cancel()
	return ch.Shut(ctx)
}

func (in *intake) end() {
	in.c.budget.Release(int64(in.held))
	in.held = 0
	in.stop()
	ctx, cancel := context.WithTimeout(in.c.hard, rpcTimeout)
	defer cancel()
	_ = in.release(ctx)
	close(in.ended)
	in.c.gone(in)
}

// tune has it look at its share anew.
func (in *intake) tune() { notify(in.changed) }

func (in *intake) subscribed(e *epoch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.current, in.lived, in.err = e, true, nil
}

func (in *intake) left(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.current = nil
	if err != nil {
		in.err = err
	}
}

func (in *intake) hasLived() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.lived
}

func (in *intake) stats() ClusterStats {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := ClusterStats{Cluster: in.cluster.Name, Err: in.err}
	if e := in.current; e != nil {
		s.Connected = true
		s.Prefetch, s.Careful = e.prefetch, e.careful
		s.Unacked, s.Buffered = int(e.unacked.Load()), int(e.buffered.Load())
	}
	return s
}
