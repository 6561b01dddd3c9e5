package load

import (
	"sync"

	"github.com/warren-mq/warren/internal/bench"
)

// book has the ledger of each queue, for all workers.
type book struct{ pages []page }

type page struct {
	mu     sync.Mutex
	ledger *bench.Ledger
}

func newBook(queues []string, run uint32, confirms bool) *book {
	b := &book{pages: make([]page, len(queues))}
	for i, name := range queues {
		b.pages[i].ledger = bench.NewLedger(name, uint64(run), confirms)
	}
	return b
}

// published comes before the write: the message may arrive before it returns.
func (b *book) published(queue, publisher int, tag uint64) {
	p := &b.pages[queue]
	p.mu.Lock()
	p.ledger.Sent(uint32(publisher), tag-1)
	p.mu.Unlock()
}

func (b *book) confirmed(queue, publisher int, tag uint64) {
	p := &b.pages[queue]
	p.mu.Lock()
	p.ledger.Acked(uint32(publisher), tag-1)
	p.mu.Unlock()
}

// received enters a message in the account of the queue that it came from.
func (b *book) received(queue, consumer int, s stamp, redelivered bool) bench.Receipt {
	p := &b.pages[queue]
	p.mu.Lock()
	defer p.mu.Unlock()
	run := uint64(s.run)
	if int(s.queue) != queue {
		run++ // sent to another queue
	}
	return p.ledger.Received(uint32(consumer), run, uint32(s.publisher), s.sequence-1, redelivered)
}

// ledgers are those in which something was entered. The workers have ended.
func (b *book) ledgers() (all []*bench.Ledger) {
	for i := range b.pages {
		all = append(all, b.pages[i].ledger)
	}
	return all
}
