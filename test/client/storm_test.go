//go:build broker

package client_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	warren "github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/test/brokers"
)

// When a broker comes back, the many routers of a process come back one after the other.
func TestManyRoutersComeBackWithoutAStorm(t *testing.T) {
	noLeaks(t)
	b := broker(t, newVersion)
	count := times(20, 200)
	events := newEvents()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	routers := make([]*warren.Router, count)
	var starting sync.WaitGroup
	for i := range routers {
		// The limit of dials is the process's own.
		r, err := warren.FromEnv(warren.Environ(append(login(b), "RMQ_WORKER_HOSTS="+hosts(b))), warren.WithHooks(events.hooks()))
		if err != nil {
			t.Fatal(err)
		}
		routers[i] = r
		starting.Go(func() {
			if _, err := r.Publisher(ctx, warren.ConnectNow("worker.any")); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	events.await(t, "connected publish", 2*count, 2*patience)
	took := time.Since(back)
	for _, r := range routers {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	// 10 a second and 10 at once, in a second that may begin anywhere; dials are seen when they end.
	const most = 25
	busiest := events.busiestSecond()
	if busiest > most {
		t.Errorf("%d dials in one second, want at most %d", busiest, most)
	}
	figures.add(figure{
		Name: "routers that come back: dials in the busiest second", Value: float64(busiest), Unit: "1/s", Goal: fmt.Sprintf("≤ %d", most),
		Holds: busiest <= most, Note: fmt.Sprintf("%d routers, all back %s after the broker, %d dials failed", count, took.Round(time.Second/10),
			events.get("dial failed")),
	})
}

// While no confirm comes, what publishers hold is bounded by BufferBytes.
func TestMemoryIsBoundedWhileConfirmsStall(t *testing.T) {
	noLeaks(t)
	for _, version := range versions[times(1, 0):] {
		t.Run(version, func(t *testing.T) { stall(t, broker(t, version)) })
	}
}

func stall(t *testing.T, b *brokers.Broker) {
	const bound, size = 16 << 20, 4 << 10
	s := newStage(t, b, classic, settings{options: []warren.RouterOption{warren.Heartbeat(20 * time.Second)}})
	p := s.publisher(warren.BufferBytes(bound), warren.AutoBatch(), warren.ConfirmTimeout(time.Minute), warren.ConnectNow(s.first))
	id := s.ledger.publisher("gathered")
	before := heap()
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var sent []*warren.Confirmation
	for {
		seq := s.ledger.accept(id)
		c, err := p.PublishAsync(ctx, warren.Message{Queue: s.first, Body: encode(id, seq, size)})
		if err != nil {
			s.ledger.settle(id, seq, err)
			break
		}
		sent = append(sent, c)
	}
	grown := heap() - before
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	for seq, c := range sent {
		s.ledger.settle(id, seq, c.Wait(t.Context()))
	}
	if held := len(sent) * size; held < bound/2 || held > bound {
		t.Errorf("%d bytes were accepted, with a bound of %d", held, bound)
	}
	// Bodies, and as much again for what is written and not yet taken by the kernel, and for bookkeeping.
	const most = 2*bound + 4<<20
	if grown > most {
		t.Errorf("the heap grew by %d bytes, want at most %d", grown, most)
	}
	figures.add(figure{
		Name: s.title + ": growth of the heap", Value: float64(grown) / (1 << 20), Unit: "MiB", Goal: fmt.Sprintf("≤ %d", most>>20),
		Holds: grown <= most, Note: fmt.Sprintf("%d messages of 4 KiB, BufferBytes 16 MiB", len(sent)),
	})
	s.consumeBoth()
	s.finish()
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
