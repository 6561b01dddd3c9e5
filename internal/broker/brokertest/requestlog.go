package brokertest

import (
	"net/http"
	"sync"
)

// Request is one request that reached the server, refused ones included.
type Request struct {
	Method string
	// Path as it came over the wire, escaped, without the query.
	Path  string
	Query string
	// Host that the client asked for: with Connector it differs from the server's own.
	Host string
}

// requestLog counts and remembers requests.
type requestLog struct {
	mu       sync.Mutex
	requests []Request
	observe  func(Request)
}

func (l *requestLog) add(request Request) {
	l.mu.Lock()
	l.requests = append(l.requests, request)
	observe := l.observe
	l.mu.Unlock()
	if observe != nil {
		observe(request)
	}
}

// Observe calls f before each request is served; f may change the server. nil ends it.
func (s *Server) Observe(f func(Request)) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.observe = f
}

// Requests that came since the start or the last ForgetRequests, in order.
func (s *Server) Requests() []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return append([]Request(nil), s.log.requests...)
}

// Writes counts the requests that are not GET or HEAD.
func (s *Server) Writes() int { return len(s.Requests()) - s.Reads() }

// Reads counts GET and HEAD requests, those of the Prometheus endpoint included.
func (s *Server) Reads() int {
	n := 0
	for _, request := range s.Requests() {
		if request.Method == http.MethodGet || request.Method == http.MethodHead {
			n++
		}
	}
	return n
}

// ForgetRequests empties the log.
func (s *Server) ForgetRequests() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.requests = nil
}
