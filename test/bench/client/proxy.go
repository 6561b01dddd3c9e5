package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// bucket is a token bucket of bytes: it fills at a rate, and holds no more than a burst.
type bucket struct {
	rate, burst float64

	mu   sync.Mutex
	full float64
	at   time.Time
}

func newBucket(rate, burst float64, now time.Time) *bucket {
	return &bucket{rate: rate, burst: burst, full: burst, at: now}
}

// take n bytes out and return how long to wait before they may pass. The bucket may be owed bytes: who comes next waits
// longer.
func (b *bucket) take(n int, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = min(b.burst, b.full+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	b.full -= float64(n)
	if b.full >= 0 {
		return 0
	}
	return time.Duration(-b.full / b.rate * float64(time.Second))
}

// proxyChunk is how much passes at once; small enough for the wait between two to be short.
const proxyChunk = 16 << 10

// proxy passes TCP connections on to a broker, each direction of all of them together limited to a rate.
type proxy struct {
	listener net.Listener
	to       string
	up, down *bucket

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	over  bool
	group sync.WaitGroup
}

func startProxy(to string, bytesPerSecond float64) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &proxy{
		listener: listener, to: to, open: map[net.Conn]struct{}{},
		up: newBucket(bytesPerSecond, 4*proxyChunk, now), down: newBucket(bytesPerSecond, 4*proxyChunk, now),
	}
	p.group.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			near.Close()
			continue
		}
		if !p.note(near, far) {
			return
		}
		p.group.Go(func() { pass(far, near, p.up) })
		p.group.Go(func() { pass(near, far, p.down) })
	}
}

func (p *proxy) note(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		if p.over {
			c.Close()
			continue
		}
		p.open[c] = struct{}{}
	}
	return !p.over
}

// pass copies until either side ends, and ends both.
func pass(to, from net.Conn, limit *bucket) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, proxyChunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			time.Sleep(limit.take(n, time.Now()))
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close ends the proxy and all connections through it.
func (p *proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.over = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
	return err
}

var _ io.Closer = (*proxy)(nil)
