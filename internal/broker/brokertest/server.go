package brokertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/warren-mq/warren/internal/broker"
)

// The versions whose answers the server imitates.
const (
	V3 = "3.10.8"
	V4 = "4.3.6"
)

// TB is what the server needs of a test.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Server is the fake. Its methods may be called at any time, also while requests are served.
type Server struct {
	http    *httptest.Server
	version broker.Version
	caps    broker.Capabilities
	// mirrors: the dialect of 3.10; otherwise that of 4.3.
	mirrors bool

	log    requestLog
	faults faults

	mu           sync.Mutex
	vhosts       map[string]*vhost
	users        map[string][]string // tags by name
	parameters   map[string]any      // global ones
	nodes        []broker.Node
	overview     broker.Overview
	synchronised bool
	busy         bool // processes of queues do not come to changes of policies
	statistics   bool
	username     string
	password     string
	forbidden    map[string]bool
	runtime      broker.Runtime
	runtimeAt    map[string]broker.Runtime
}

// New starts a server of version V3 or V4 with the vhost "/", one node, and any credentials accepted. It ends with
// the test.
func New(t TB, version string) *Server {
	t.Helper()
	s, err := Start(version)
	if err != nil {
		t.Fatalf("start the fake broker: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start is New for programs that are not tests; they call Close.
func Start(version string) (*Server, error) {
	if version != V3 && version != V4 {
		return nil, fmt.Errorf("brokertest imitates %s and %s, not %s", V3, V4, version)
	}
	parsed, err := broker.ParseVersion(version)
	if err != nil {
		return nil, err
	}
	caps, err := broker.CapabilitiesOf(parsed)
	if err != nil {
		return nil, err
	}
	node := "rabbit@fake-0"
	s := &Server{
		version: parsed, caps: caps, mirrors: caps.MirroredQueues,
		vhosts:       map[string]*vhost{"/": newVHost(caps)},
		users:        map[string][]string{"guest": {"administrator"}},
		parameters:   map[string]any{},
		overview:     broker.Overview{ClusterName: "fake", Node: node, RabbitMQVersion: version, ErlangVersion: "25.2.3"},
		synchronised: true, statistics: true,
		forbidden: map[string]bool{}, runtimeAt: map[string]broker.Runtime{},
	}
	one := 1
	s.runtime = broker.Runtime{Schedulers: &one, SchedulersOnline: &one}
	s.nodes = []broker.Node{Node(node)}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() { s.http.Close() }

// URL of the management API, and of the Prometheus endpoint too.
func (s *Server) URL() string { return s.http.URL }

// Version that the server imitates.
func (s *Server) Version() broker.Version { return s.version }

// Target names the server to a connector.
func (s *Server) Target(key string) broker.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	target := broker.Target{Key: key, URL: s.http.URL, Username: s.username, Password: s.password}
	if target.Username == "" {
		target.Username, target.Password = "guest", "guest"
	}
	return target
}

// SetCredentials makes the server refuse all others with 401.
func (s *Server) SetCredentials(username, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.username, s.password = username, password
}

// Forbid takes the user's permission for a vhost, or gives it back.
func (s *Server) Forbid(vhost string, forbidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden[vhost] = forbidden
}

// SetStatistics turns the collection of statistics off (as management_agent.disable_metrics_collector does) or on.
func (s *Server) SetStatistics(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statistics = on
}

// SetOverview replaces what the broker says of itself.
func (s *Server) SetOverview(overview broker.Overview) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overview = overview
}

// Reset makes it a new, empty broker with the same address: what happens when a cluster is re-created.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vhosts, s.users = map[string]*vhost{"/": newVHost(s.caps)}, map[string][]string{"guest": {"administrator"}}
	s.parameters = map[string]any{}
}
