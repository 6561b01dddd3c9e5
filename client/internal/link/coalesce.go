package link

import (
	"net"
	"os"
	"sync"
	"time"
)

const (
	// bufferBound is how much may wait for the socket, in bytes. Beyond it Write blocks: the pressure of a slow broker
	// must reach the publisher.
	bufferBound = 1 << 20
	// keepBuffer is the largest buffer that is kept for reuse though it was not filled by a quarter, in bytes.
	keepBuffer = 256 << 10
)

// gathered is a connection whose writes return at once and are written by a goroutine of its own: what piles up during one
// write to the socket goes out with the next. Nothing waits longer than that when the socket is idle. An error of the
// socket is returned by every later Write.
type gathered struct {
	net.Conn
	timeout time.Duration // a write to the socket that takes longer fails, unless held
	direct  bool          // what finds the socket idle is written at once, by the caller

	mu      sync.Mutex
	space   sync.Cond // there is room, or an end
	work    sync.Cond // there is something to write, or an end
	buf     []byte
	spare   []byte
	err     error
	held    bool // the broker said that it does not read for now
	writing bool
	done    chan struct{} // the goroutine has ended
}

func gather(c net.Conn, timeout time.Duration, direct bool) *gathered {
	g := &gathered{Conn: c, timeout: timeout, direct: direct, done: make(chan struct{})}
	g.space.L, g.work.L = &g.mu, &g.mu
	go g.flush()
	return g
}

// Write copies p; it blocks while more than a bound waits for the socket.
func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && len(g.buf) > 0 && len(g.buf)+len(p) > bufferBound {
		g.space.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	if g.direct && !g.writing && len(g.buf) == 0 {
		return g.at(p)
	}
	if len(g.buf) == 0 && !g.writing {
		g.work.Signal()
	}
	g.buf = append(g.buf, p...)
	return len(p), nil
}

// at writes p to the idle socket. What others write meanwhile is gathered. The lock is held, and free during the write.
func (g *gathered) at(p []byte) (int, error) {
	g.writing = true
	g.deadline()
	g.mu.Unlock()
	n, err := g.Conn.Write(p)
	g.mu.Lock()
	g.writing = false
	if err != nil {
		g.fail(err)
		_ = g.Conn.Close()
	}
	if len(g.buf) > 0 {
		g.work.Signal()
	}
	return n, err
}

func (g *gathered) flush() {
	defer close(g.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		for (len(g.buf) == 0 || g.writing) && g.err == nil {
			g.work.Wait()
		}
		if g.err != nil {
			return
		}
		out := g.buf
		g.buf, g.spare = g.spare[:0], nil
		g.writing = true
		g.deadline()
		g.space.Broadcast()
		g.mu.Unlock()
		_, err := g.Conn.Write(out)
		g.mu.Lock()
		g.writing = false
		// A large one is kept as long as it is needed.
		if cap(out) <= keepBuffer || len(out) > cap(out)/4 {
			g.spare = out[:0]
		}
		if err != nil {
			g.fail(err)
			// Reading must end too, or only the heartbeat would find out.
			_ = g.Conn.Close()
			return
		}
	}
}

// deadline bounds the write that is going on. The lock is held.
func (g *gathered) deadline() {
	if g.timeout <= 0 || !g.writing {
		return
	}
	at := time.Time{}
	if !g.held {
		at = time.Now().Add(g.timeout)
	}
	_ = g.Conn.SetWriteDeadline(at)
}

// hold lifts the bound of writes while the broker has said that it does not read, and sets it again.
func (g *gathered) hold(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
	g.deadline()
}

// fail is called with the lock held.
func (g *gathered) fail(err error) {
	if g.err == nil {
		g.err = err
	}
	g.space.Broadcast()
	g.work.Broadcast()
}

// SetWriteDeadline is ignored: writes are bounded by the timeout.
func (g *gathered) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the deadline of reads alone.
func (g *gathered) SetDeadline(t time.Time) error { return g.Conn.SetReadDeadline(t) }

// Close gives what waits half a second to leave, and ends the connection.
func (g *gathered) Close() error {
	g.drain(500 * time.Millisecond)
	return g.abort()
}

// drain waits until nothing waits for the socket, for at most d.
func (g *gathered) drain(d time.Duration) {
	deadline := time.Now().Add(d)
	g.mu.Lock()
	if g.writing || len(g.buf) > 0 {
		_ = g.Conn.SetWriteDeadline(deadline)
		g.timeout = 0 // the flusher must not set a later one
	}
	g.mu.Unlock()
	for time.Now().Before(deadline) {
		g.mu.Lock()
		idle := g.err != nil || (len(g.buf) == 0 && !g.writing)
		g.mu.Unlock()
		if idle {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// abort ends the connection at once; what waits is lost.
func (g *gathered) abort() error {
	g.mu.Lock()
	g.fail(os.ErrClosed)
	g.mu.Unlock()
	err := g.Conn.Close()
	<-g.done
	return err
}
