package brokertest

import (
	"fmt"
	"net/http"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
)

// Connector is the real adapter with a network in which every host is this server, so that controllers may build
// URLs as they do in a cluster. Request.Host tells which host they asked for.
func (s *Server) Connector() broker.Connector {
	return Network(func(string) *Server { return s }, management.Options{})
}

// Network is the real adapter in a network of fakes: route finds the server for a "HOST:PORT". Without one (nil)
// the host cannot be reached.
func Network(route func(host string) *Server, options management.Options) broker.Connector {
	options.Transport = &network{route: route}
	return management.NewConnector(options)
}

type network struct {
	route func(host string) *Server
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(request *http.Request) (*http.Response, error) {
	server := n.route(request.URL.Host)
	if server == nil {
		return nil, fmt.Errorf("dial tcp %s: connection refused", request.URL.Host)
	}
	redirected := request.Clone(request.Context())
	redirected.URL.Scheme = "http"
	redirected.URL.Host = server.http.Listener.Addr().String()
	redirected.Host = request.URL.Host
	return server.http.Client().Transport.RoundTrip(redirected)
}
