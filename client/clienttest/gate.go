package clienttest

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// gate stops all reading and writing at once, below TLS, as a stopped process would.
type gate struct {
	mu     sync.Mutex
	opened sync.Cond
	shut   bool
	socks  map[*sock]struct{}
}

func newGate() *gate {
	g := &gate{socks: map[*sock]struct{}{}}
	g.opened.L = &g.mu
	return g
}

// past is a deadline that interrupts a call which waits.
var past = time.Unix(1, 0)

// close returns when no byte moves any more.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	var socks []*sock
	for s := range g.socks {
		_ = s.Conn.SetDeadline(past)
		socks = append(socks, s)
	}
	g.mu.Unlock()
	for _, s := range socks {
		s.writing.Lock()
		s.writing.Unlock() //nolint:staticcheck // a write that was under way has ended
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	for s := range g.socks {
		_ = s.Conn.SetDeadline(time.Time{})
	}
	g.opened.Broadcast()
}

// sock is a connection behind the gate. A peer that is silent for longer than idle is lost.
type sock struct {
	net.Conn
	gate    *gate
	closed  bool
	idle    time.Duration
	writing sync.Mutex
}

func (g *gate) add(c net.Conn) *sock {
	s := &sock{Conn: c, gate: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.socks[s] = struct{}{}
	return s
}

func (s *sock) setIdle(idle time.Duration) {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	s.idle = idle
}

// pass waits for the gate, and sets the deadline of a read.
func (s *sock) pass(reads bool) error {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !s.closed {
		g.opened.Wait()
	}
	if s.closed {
		return net.ErrClosed
	}
	if reads && s.idle > 0 {
		_ = s.Conn.SetReadDeadline(time.Now().Add(s.idle))
	}
	return nil
}

// interrupted tells whether a deadline passed because the gate was shut.
func (s *sock) interrupted(err error, began time.Time) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.idle == 0 || time.Since(began) < s.idle
}

// Read implements net.Conn.
func (s *sock) Read(p []byte) (int, error) {
	for {
		if err := s.pass(true); err != nil {
			return 0, err
		}
		began := time.Now()
		n, err := s.Conn.Read(p)
		if n == 0 && s.interrupted(err, began) {
			continue
		}
		return n, err
	}
}

// Write implements net.Conn.
func (s *sock) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := s.pass(false); err != nil {
			return written, err
		}
		s.writing.Lock()
		n, err := s.Conn.Write(p[written:])
		s.writing.Unlock()
		written += n
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// shutDown closes the socket, with a reset when abrupt.
func (s *sock) shutDown(abrupt bool) {
	s.gate.mu.Lock()
	s.closed = true
	delete(s.gate.socks, s)
	s.gate.opened.Broadcast()
	s.gate.mu.Unlock()
	if tcp, ok := s.Conn.(*net.TCPConn); ok && abrupt {
		_ = tcp.SetLinger(0)
	}
	_ = s.Conn.Close()
}
