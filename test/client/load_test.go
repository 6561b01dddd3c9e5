//go:build broker

package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	warren "github.com/warren-mq/warren/client"
)

// way is how one goroutine publishes.
type way struct {
	publisher *warren.Publisher
	queue     string
	how       how
	size      int    // of bodies
	what      string // for messages
}

func (w way) String() string {
	return fmt.Sprintf("%s, to %s, bodies of %d", w.what, w.queue, w.size)
}

type how int

const (
	async how = iota // PublishAsync
	sync1            // Publish, one after the other
	group            // PublishBatch
)

// groupSize is how many messages go with one PublishBatch.
const groupSize = 50

// publisher makes one that the stage closes.
func (s *stage) publisher(options ...warren.PublisherOption) *warren.Publisher {
	s.t.Helper()
	options = append([]warren.PublisherOption{warren.BufferBytes(8 << 20), warren.ConfirmTimeout(10 * time.Second)}, options...)
	p, err := s.publishing.Publisher(s.t.Context(), options...)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// connections of everyWay.
const connections = 4

// everyWay is every way to publish, to both queues.
func (s *stage) everyWay() []way {
	plain := s.publisher()
	auto := s.publisher(warren.AutoBatch())
	packed := s.publisher(warren.AutoBatch(), warren.Pack(s.first, s.second), warren.Compress(warren.Zstd, 1<<10))
	once := s.publisher(warren.MaxSends(1))
	return []way{
		{plain, s.first, async, 100, "plain, async"}, {plain, s.first, group, 100, "plain, in groups"},
		{auto, s.first, async, 1500, "gathered, async"}, {auto, s.first, sync1, 100, "gathered, one by one"},
		{packed, s.first, async, 100, "packed, async"}, {auto, s.second, async, 100, "gathered, async"},
		{packed, s.second, async, 300, "packed, async"}, {packed, s.second, group, 100, "packed, in groups"},
		{once, s.first, async, 100, "once, async"}, {once, s.second, group, 100, "once, in groups"},
	}
}

// load is publishing that goes on.
type load struct {
	s       *stage
	ctx     context.Context
	cancel  context.CancelFunc
	enough  chan struct{} // what is to be published at least suffices
	once    sync.Once
	running sync.WaitGroup
	left    atomic.Int64 // of what is to be published at least
	limit   *rate.Limiter
}

// perSecond is how many messages a load publishes: in the short form so that a fault happens in the midst of them.
func perSecond() rate.Limit {
	if *long {
		return 8000
	}
	return 1500
}

// publish begins to publish, until finish is called and at least so many messages were published.
func (s *stage) publish(atLeast int, ways ...way) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{s: s, ctx: ctx, cancel: cancel, enough: make(chan struct{}), limit: rate.NewLimiter(perSecond(), 200)}
	l.left.Store(int64(atLeast))
	s.loads = append(s.loads, l)
	for _, w := range ways {
		l.running.Go(func() { l.run(w) })
	}
	return l
}

// more tells whether to publish n further messages, at the pace of the load.
func (l *load) more(n int) bool {
	if l.limit.WaitN(l.ctx, n) != nil || !l.s.ledger.room(l.ctx) {
		return false
	}
	if l.left.Add(int64(-n))+int64(n) > 0 {
		return true
	}
	select {
	case <-l.enough:
		return false
	default:
		return true
	}
}

func (l *load) run(w way) {
	id := l.s.ledger.publisher(w.String())
	switch w.how {
	case async:
		l.async(w, id)
	case sync1:
		for l.more(1) {
			seq := l.s.ledger.accept(id)
			l.s.ledger.settle(id, seq, w.publisher.Publish(l.ctx, w.message(id, seq)))
		}
	case group:
		for l.more(groupSize) {
			l.group(w, id)
		}
	}
}

func (w way) message(id, seq int) warren.Message {
	return warren.Message{Queue: w.queue, Body: encode(id, seq, w.size)}
}

// async publishes without waiting; outcomes are noted by a goroutine of their own.
func (l *load) async(w way, id int) {
	type open struct {
		seq int
		c   *warren.Confirmation
	}
	sent := make(chan open, 1<<16)
	l.running.Go(func() {
		for o := range sent {
			<-o.c.Done()
			l.s.ledger.settle(id, o.seq, o.c.Err())
		}
	})
	defer close(sent)
	for l.more(1) {
		seq := l.s.ledger.accept(id)
		c, err := w.publisher.PublishAsync(l.ctx, w.message(id, seq))
		if err != nil {
			l.s.ledger.settle(id, seq, err)
			continue
		}
		sent <- open{seq, c}
	}
}

func (l *load) group(w way, id int) {
	batch := make([]warren.Message, groupSize)
	first := 0
	for i := range batch {
		seq := l.s.ledger.accept(id)
		if i == 0 {
			first = seq
		}
		batch[i] = w.message(id, seq)
	}
	err := w.publisher.PublishBatch(l.ctx, batch)
	var each *warren.BatchError
	errors.As(err, &each)
	for i := range batch {
		if each != nil {
			err = each.Errors[i]
		}
		l.s.ledger.settle(id, first+i, err)
	}
}

// finish lets the publishers end when they have published enough, and waits for every outcome.
func (l *load) finish() {
	l.s.t.Helper()
	l.once.Do(func() { close(l.enough) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.running.Wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		l.s.t.Error("publishers do not come to an end: ", l.s.ledger.sums())
		l.cancel()
		<-done
	}
	l.cancel()
}
