package brokertest

import (
	"net/http"
	"sync"
	"time"
)

// faults are what goes wrong before the broker itself answers.
type faults struct {
	mu           sync.Mutex
	next         []int
	unavailable  bool
	unauthorized bool
	decoding     bool
	slow         time.Duration
}

// FailNext answers the next n requests with status and an empty body, as a load balancer would.
func (s *Server) FailNext(n, status int) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for range n {
		s.faults.next = append(s.faults.next, status)
	}
}

// Unavailable makes the server drop every connection without an answer.
func (s *Server) Unavailable(on bool) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.unavailable = on
}

// Unauthorized makes the server refuse every credential.
func (s *Server) Unauthorized(on bool) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.unauthorized = on
}

// DecodingProxy puts a proxy before the server that decodes paths once too often.
func (s *Server) DecodingProxy(on bool) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.decoding = on
}

// Slow delays every answer by d; a client that gives up ends the delay.
func (s *Server) Slow(d time.Duration) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.slow = d
}

// strike applies the faults that are on; handled means that the request got its answer, or none.
func (f *faults) strike(w http.ResponseWriter, r *http.Request) (handled bool) {
	f.mu.Lock()
	unavailable, slow, status := f.unavailable, f.slow, 0
	if !unavailable && len(f.next) > 0 {
		status, f.next = f.next[0], f.next[1:]
	}
	f.mu.Unlock()
	if slow > 0 {
		timer := time.NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	}
	switch {
	case unavailable:
		panic(http.ErrAbortHandler) // net/http drops the connection
	case status != 0:
		w.WriteHeader(status)
		return true
	}
	return false
}

func (f *faults) refusesAll() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unauthorized
}

func (f *faults) decodes() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decoding
}
