package warren

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/warren-mq/warren/client/internal/link"
	"github.com/warren-mq/warren/client/internal/route"
)

// pipe is a publisher's connection to one cluster, with its channels.
type pipe struct {
	p       *Publisher
	cluster *route.Cluster
	conn    *link.Conn
	shards  []*shard
	cancel  context.CancelFunc
	running sync.WaitGroup

	lanes int // how many use it; the publisher's lock guards it
}

func newPipe(p *Publisher, c *route.Cluster) *pipe {
	pi := &pipe{p: p, cluster: c, conn: p.r.newConn(c, "publish")}
	ctx, cancel := context.WithCancel(p.ctx)
	pi.cancel = cancel
	for range p.cfg.channels {
		s := &shard{pipe: pi, wake: make(chan struct{}, 1)}
		pi.shards = append(pi.shards, s)
		pi.running.Go(func() { s.run(ctx) })
	}
	return pi
}

var shardSeed = maphash.MakeSeed()

// push hands a message to the channel of its queue, or of its exchange and key. It never blocks: bytes are bounded before.
func (pi *pipe) push(c *Confirmation) { pi.shard(c).push(c) }

func (pi *pipe) shard(c *Confirmation) *shard {
	if len(pi.shards) == 1 {
		return pi.shards[0]
	}
	exchange, key := c.m.target()
	return pi.shards[maphash.String(shardSeed, exchange+"\x00"+key)%uint64(len(pi.shards))]
}

// reclaim takes back what the lane has here and is not being sent, in order.
func (pi *pipe) reclaim(l *lane) (out []*Confirmation) {
	for _, s := range pi.shards {
		out = append(out, s.reclaim(l)...)
	}
	return out
}

// hurry sends what lingers.
func (pi *pipe) hurry() {
	for _, s := range pi.shards {
		s.hurry()
	}
}

// close ends the pipe. What it still has is settled as not sent or unknown.
func (pi *pipe) close(ctx context.Context) {
	pi.cancel()
	// A write that blocks must end for the goroutines to end.
	_ = pi.conn.Close(ctx)
	pi.running.Wait()
}

// retire ends a pipe that nobody uses any more.
func (pi *pipe) retire() {
	ctx, cancel := context.WithTimeout(pi.p.ctx, 10*time.Second)
	defer cancel()
	pi.close(ctx)
}
