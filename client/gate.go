package warren

import (
	"slices"
	"sync"
)

// gate lets only so many batches run at once, over all clusters. Who asks first goes first.
type gate struct {
	mu      sync.Mutex
	limit   int
	running int
	waiting []chan struct{}
}

func newGate(limit int) *gate { return &gate{limit: limit} }

// ask for leave to run a batch: it is given when the channel is closed, and is given back by leave.
func (g *gate) ask() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	ticket := make(chan struct{})
	g.waiting = append(g.waiting, ticket)
	g.admit()
	return ticket
}

// leave ends a batch, or takes back a wish that was not granted yet.
func (g *gate) leave(ticket chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, ticket); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return
	}
	g.running--
	g.admit()
}

func (g *gate) set(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
	g.admit()
}

func (g *gate) load() (running, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.limit
}

// admit is called with the lock held.
func (g *gate) admit() {
	for g.running < g.limit && len(g.waiting) > 0 {
		g.running++
		close(g.waiting[0])
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
}
