package management

import (
	"crypto/x509"
	"net/http"
	"time"
)

// Options tune a connector. The zero value is right for production.
type Options struct {
	// CallTimeout bounds one HTTP request with its answer; 0 means 10 s.
	CallTimeout time.Duration
	// ListTimeout bounds a whole listing with all its pages and restarts, and the deletion of a vhost; 0 means 60 s.
	ListTimeout time.Duration
	// MaxResponse bounds the body of one answer in bytes; 0 means 32 MiB. A page of 500 queues is under 1 MiB.
	MaxResponse int64
	// PageSize is the number of queues per page; 0 means 500, the most that the broker serves.
	PageSize int
	// Restarts is how often a listing that changed under the reader starts anew; 0 means 3.
	Restarts int
	// RuntimeRoots are what https addresses of Prometheus endpoints are checked against; nil means the system's.
	RuntimeRoots *x509.CertPool
	// Transport replaces the network, for tests that count or break requests. Forget does not close it.
	Transport http.RoundTripper
	// OnRequest is told of every request before it is sent, with Target.Key ("" for Runtime). It must not block.
	OnRequest func(method, key string)
}

const maxPageSize = 500

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.ListTimeout <= 0 {
		o.ListTimeout = time.Minute
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = 32 << 20
	}
	if o.PageSize <= 0 || o.PageSize > maxPageSize {
		o.PageSize = maxPageSize
	}
	if o.Restarts <= 0 {
		o.Restarts = 3
	}
	if o.OnRequest == nil {
		o.OnRequest = func(string, string) {}
	}
	return o
}
