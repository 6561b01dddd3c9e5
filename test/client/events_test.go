//go:build broker

package client_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	warren "github.com/warren-mq/warren/client"
)

// events counts what the library's hooks tell.
type events struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next event
	counts  map[string]int
	errs    []error // of connections and consumers
	dials   []time.Time
	longest time.Duration // from when a message was given to its outcome
}

func newEvents() *events { return &events{changed: make(chan struct{}), counts: map[string]int{}} }

func (e *events) add(name string, n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[name] += n
	if err != nil && len(e.errs) < 10_000 {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", name, err))
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *events) dialled() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dials = append(e.dials, time.Now())
}

func (e *events) hooks() warren.Hooks {
	return warren.Hooks{
		Connected: func(c warren.ConnectionEvent) {
			e.dialled()
			e.add("connected "+c.Use, 1, nil)
			e.add("connected "+c.Use+" "+c.Cluster, 1, nil)
		},
		Disconnected: func(c warren.ConnectionEvent) { e.add("disconnected "+c.Use, 1, c.Err) },
		DialFailed: func(c warren.ConnectionEvent) {
			e.dialled()
			e.add("dial failed", 1, c.Err)
		},
		Blocked:   func(c warren.ConnectionEvent) { e.add("blocked "+c.Use, 1, nil) },
		Unblocked: func(c warren.ConnectionEvent) { e.add("unblocked "+c.Use, 1, nil) },
		Published: func(p warren.PublishEvent) {
			e.mu.Lock()
			e.longest = max(e.longest, p.Waited)
			e.mu.Unlock()
			if p.Err == nil {
				e.add("confirmed", p.Messages, nil)
			}
		},
		Resent:         func(_ string, n int) { e.add("resent", n, nil) },
		StaleAck:       func(_ string, n int) { e.add("stale acks", n, nil) },
		DeadLettered:   func(string, error) { e.add("dead-lettered", 1, nil) },
		ConsumerFailed: func(_, _ string, err error) { e.add("consumer failed", 1, err) },
		RouteChanged:   func(revision string) { e.add("route "+revision, 1, nil) },
		RouteFailed:    func(err error) { e.add("route failed", 1, err) },
	}
}

func (e *events) get(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[name]
}

// disconnects of all connections.
func (e *events) disconnects() int {
	return e.get("disconnected publish") + e.get("disconnected consume")
}

// await an event until it was seen so often.
func (e *events) await(t *testing.T, name string, n int, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		e.mu.Lock()
		got, changed := e.counts[name], e.changed
		all := maps.Clone(e.counts)
		e.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q was seen %d times in %s, want %d; all: %v", name, got, limit, n, all)
		}
	}
}

// unknownTags are errors by which a broker told that it was sent a delivery tag that it does not know.
func (e *events) unknownTags() (out []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.errs {
		if isUnknownTag(err.Error()) {
			out = append(out, err)
		}
	}
	return out
}

func isUnknownTag(text string) bool { return strings.Contains(text, "unknown delivery tag") }

// busiestSecond is the largest number of dials in any second.
func (e *events) busiestSecond() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	most, from := 0, 0
	for to, at := range e.dials {
		for at.Sub(e.dials[from]) >= time.Second {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}
