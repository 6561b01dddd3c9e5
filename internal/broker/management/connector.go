package management

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

// connector keeps one client, and with it one pool of connections, per Target.Key.
type connector struct {
	options Options
	runtime *pool // for Prometheus endpoints, which have no credentials and no key

	mu      sync.Mutex
	clients map[string]*client
}

// NewConnector makes a connector whose clients speak the management HTTP API. It is safe for concurrent use.
func NewConnector(options Options) broker.Connector {
	options = options.withDefaults()
	return &connector{
		options: options,
		runtime: newPool(options, options.RuntimeRoots),
		clients: map[string]*client{},
	}
}

// Connect gives the client for target without speaking to the broker. An URL or a CA bundle that cannot be used is
// an error of kind Invalid.
func (c *connector) Connect(target broker.Target) (broker.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.clients[target.Key]
	if known && old.target == target {
		return old, nil
	}
	base, roots, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	if known {
		old.pool.retire()
	}
	fresh := &client{target: target, base: base, options: c.options, pool: newPool(c.options, roots)}
	c.clients[target.Key] = fresh
	return fresh, nil
}

// Forget closes the connections under key. Calls under way end normally.
func (c *connector) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, known := c.clients[key]; known {
		old.pool.retire()
		delete(c.clients, key)
	}
}

// parseTarget never puts the URL into its errors: it may hold credentials by mistake.
func parseTarget(target broker.Target) (*url.URL, *x509.CertPool, error) {
	invalid := func(reason string) error {
		return &broker.Error{Kind: broker.Invalid, Op: "connect to the management API", Reason: reason}
	}
	base, err := url.Parse(target.URL)
	switch {
	case err != nil:
		return nil, nil, invalid("the URL cannot be parsed")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, nil, invalid("the URL must begin with http:// or https://")
	case base.Host == "":
		return nil, nil, invalid("the URL names no host")
	case base.User != nil:
		return nil, nil, invalid("the URL must not hold a user or password")
	case base.Path != "" && base.Path != "/", base.RawQuery != "", base.Fragment != "":
		return nil, nil, invalid("the URL must end after host and port")
	}
	if target.CABundle == "" {
		return base, nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(target.CABundle)) {
		return nil, nil, invalid("the CA bundle holds no PEM certificate")
	}
	return base, roots, nil
}

// pool is a http.Client with connections of its own.
type pool struct {
	http      *http.Client
	transport *http.Transport // nil when a test replaced the network
	retired   atomic.Bool
}

func newPool(options Options, roots *x509.CertPool) *pool {
	p := &pool{}
	var network http.RoundTripper = options.Transport
	if network == nil {
		p.transport = &http.Transport{
			// No proxy from the environment: brokers are reached inside the cluster, and a proxy that decodes
			// %2F would send calls to other objects.
			Proxy:               nil,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: 5 * time.Second,
			MaxConnsPerHost:     8, // a broker serves few management requests at a time
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     90 * time.Second,
			ForceAttemptHTTP2:   false,
		}
		network = p.transport
	}
	p.http = &http.Client{
		Transport: network,
		// A redirect would be followed with a path that something else wrote.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// retire closes the idle connections now, and those in use as they come back (afterUse).
func (p *pool) retire() {
	p.retired.Store(true)
	p.closeIdle()
}

func (p *pool) afterUse() {
	if p.retired.Load() {
		p.closeIdle()
	}
}

func (p *pool) closeIdle() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}
