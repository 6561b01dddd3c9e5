// Package kubeapi makes the few requests to an API server that starting a cluster needs.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// ErrNotFound is an object that does not exist.
var ErrNotFound = errors.New("not found")

// Client speaks to one API server as one user.
type Client struct {
	server string
	http   *http.Client
}

// New makes a client from the files ca.crt, NAME.crt and NAME.key of a folder.
func New(server, dir, name string) (*Client, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in %s/ca.crt", dir)
	}
	transport := &http.Transport{ // no proxy: the server is on this machine
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	return &Client{server: server, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// Get reads an object, or any answer when into is nil.
func (c *Client) Get(path string, into any) error {
	return c.do(http.MethodGet, path, "", nil, into)
}

// Apply creates or changes an object by server-side apply.
func (c *Client) Apply(path string, object any) error {
	return c.do(http.MethodPatch, path+"?fieldManager=warren-local&force=true", "application/apply-patch+yaml", object, nil)
}

// Merge changes fields of an object that exists.
func (c *Client) Merge(path string, change any) error {
	return c.do(http.MethodPatch, path, "application/merge-patch+json", change, nil)
}

// Delete removes an object; one that is gone is no error.
func (c *Client) Delete(path string) error {
	err := c.do(http.MethodDelete, path, "", nil, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func (c *Client) do(method, path, contentType string, body, into any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), method, c.server+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", path, ErrNotFound)
	case response.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer[:min(len(answer), 500)]))
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}
