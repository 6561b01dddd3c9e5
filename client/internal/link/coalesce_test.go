package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is one side of a connection whose writes the test lets through one by one.
type socket struct {
	net.Conn
	started chan []byte // a write has begun
	proceed chan error  // it may end
}

func newSocket() (*socket, net.Conn) {
	near, far := net.Pipe()
	return &socket{near, make(chan []byte), make(chan error)}, far
}

func (s *socket) Write(p []byte) (int, error) {
	s.started <- bytes.Clone(p)
	if err := <-s.proceed; err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) SetWriteDeadline(time.Time) error { return nil }

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func TestWhatPilesUpGoesOutTogether(t *testing.T) {
	s, far := newSocket()
	defer far.Close()
	g := gather(s, 0, false)
	write(t, g, "a")
	if got := string(<-s.started); got != "a" {
		t.Fatalf("the first write waited for company: %q", got)
	}
	for _, text := range []string{"b", "c", "d"} {
		write(t, g, text)
	}
	s.proceed <- nil
	if got := string(<-s.started); got != "bcd" {
		t.Fatalf("got %q, want what was written during the first write", got)
	}
	s.proceed <- nil
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWritesWaitWhenTheSocketIsSlow(t *testing.T) {
	s, far := newSocket()
	defer far.Close()
	g := gather(s, 0, false)
	write(t, g, "a")
	<-s.started
	write(t, g, string(make([]byte, bufferBound))) // an empty buffer takes any one write
	done := make(chan error)
	go func() {
		_, err := g.Write([]byte("b"))
		done <- err
	}()
	select {
	case <-done:
		t.Fatal("a write beyond the bound did not wait")
	case <-time.After(20 * time.Millisecond): // it must not happen; a slow machine cannot make this fail
	}
	s.proceed <- nil
	<-s.started
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	go func() { s.proceed <- nil; <-s.started; s.proceed <- nil }()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnErrorOfTheSocketIsKept(t *testing.T) {
	s, far := newSocket()
	g := gather(s, 0, false)
	broken := errors.New("broken")
	write(t, g, "a")
	<-s.started
	s.proceed <- broken
	<-g.done
	if _, err := g.Write([]byte("b")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is still open: %v", err)
	}
	_ = g.Close()
}

func TestAbortEndsAWriteThatWaits(t *testing.T) {
	near, far := net.Pipe() // nobody reads
	defer far.Close()
	g := gather(near, 0, false)
	write(t, g, "a")
	write(t, g, string(make([]byte, bufferBound)))
	done := make(chan error)
	go func() {
		_, err := g.Write(make([]byte, bufferBound))
		done <- err
	}()
	_ = g.abort()
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := g.Write([]byte("b")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestAWriteThatTakesTooLongFails(t *testing.T) {
	near, far := net.Pipe() // nobody reads
	defer far.Close()
	g := gather(near, time.Millisecond, false)
	write(t, g, "a")
	<-g.done
	if _, err := g.Write([]byte("b")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestABlockedBrokerHasAllTheTime(t *testing.T) {
	near, far := net.Pipe()
	g := gather(near, 50*time.Millisecond, false)
	g.hold(true)
	write(t, g, "a")
	select {
	case <-g.done:
		t.Fatal("the write failed while the broker was blocked")
	case <-time.After(100 * time.Millisecond):
	}
	got := make([]byte, 1)
	if _, err := io.ReadFull(far, got); err != nil || got[0] != 'a' {
		t.Fatalf("%q %v", got, err)
	}
	g.hold(false)
	write(t, g, "b")
	if _, err := io.ReadFull(far, got); err != nil || got[0] != 'b' {
		t.Fatalf("%q %v", got, err)
	}
	// Held during the write: its deadline is lifted; let go again: it counts anew.
	write(t, g, "c")
	g.hold(true)
	g.hold(false)
	<-g.done
	if _, err := g.Write([]byte("d")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	_ = far.Close()
}

func TestCloseLetsTheLastWordsOut(t *testing.T) {
	near, far := net.Pipe()
	g := gather(near, 0, false)
	write(t, g, "last words")
	heard := make(chan string)
	go func() {
		got, _ := io.ReadAll(far)
		heard <- string(got)
	}()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "last words" {
		t.Errorf("got %q", got)
	}
}

func TestWithDirectWritesAnIdleSocketIsWrittenToAtOnce(t *testing.T) {
	s, far := newSocket()
	defer far.Close()
	g := gather(s, 0, true)
	done := make(chan error, 1)
	go func() {
		_, err := g.Write([]byte("a"))
		done <- err
	}()
	<-s.started
	select {
	case <-done:
		t.Error("the caller did not write itself")
	default:
	}
	write(t, g, "b") // gathered, by the other goroutine
	write(t, g, "c")
	s.proceed <- nil
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := string(<-s.started); got != "bc" {
		t.Errorf("got %q", got)
	}
	s.proceed <- nil
	g.drain(time.Second)
	go func() {
		_, err := g.Write([]byte("d"))
		done <- err
	}()
	<-s.started
	broken := errors.New("broken")
	s.proceed <- broken
	if err := <-done; !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := g.Write([]byte("e")); !errors.Is(err, broken) {
		t.Errorf("afterwards: %v", err)
	}
	_ = g.Close()
}
