package route

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Cluster is where one RabbitMQ cluster is and how to log in to it. It is made by this package only, is shared, and must not
// be changed. Printing one, with any verb, shows no secret.
type Cluster struct {
	// Name for people, as "worker", "worker (old)" or the one it has in the routes file.
	Name string
	// Hosts to try, each as "HOST:PORT"; never empty, each once.
	Hosts []string
	// VHost is the virtual host; "/" unless something else is said.
	VHost string

	login  [2]*ref // username, password; nil when nothing names them
	secure *security
	key    string
}

// security is what a TLS connection needs; nil in a Cluster means a plain one.
type security struct {
	ca, cert, key *ref
	serverName    string
}

// newCluster makes a cluster of what the layers say. hosts is asked for the addresses once it is known whether TLS is used.
func newCluster(name string, hosts func(tls bool) ([]string, error), c chain) (*Cluster, error) {
	out := &Cluster{Name: name}
	secure, err := c.text(useTLS)
	if err != nil {
		return nil, err
	}
	if secure == "true" {
		out.secure = &security{ca: c.ref(caFile), cert: c.ref(certFile), key: c.ref(keyFile)}
		if out.secure.serverName, err = c.text(serverName); err != nil {
			return nil, err
		}
	}
	if out.VHost, err = c.text(vhost); err != nil {
		return nil, err
	}
	if out.VHost == "" {
		out.VHost = "/"
	}
	addresses, err := hosts(out.secure != nil)
	if err != nil {
		return nil, err
	}
	for _, h := range addresses {
		if !slices.Contains(out.Hosts, h) {
			out.Hosts = append(out.Hosts, h)
		}
	}
	out.login = [2]*ref{c.ref(username), c.ref(password)}
	out.key = out.identity()
	return out, nil
}

func (c chain) ref(s setting) *ref {
	if r, ok := c.find(s); ok {
		return &r
	}
	return nil
}

// Key is the cluster's identity: two with the same key are the same place, reached with the same login and the same
// certificates, and may share connections. It holds the places of secrets and no secret.
func (c *Cluster) Key() string { return c.key }

func (c *Cluster) identity() string {
	from := func(r *ref) string {
		if r == nil {
			return ""
		}
		return r.from
	}
	parts := []string{"amqp", fmt.Sprintf("%q", sortedHosts(c.Hosts)), fmt.Sprintf("%q", c.VHost),
		fmt.Sprintf("login=%q,%q", from(c.login[0]), from(c.login[1]))}
	if s := c.secure; s != nil {
		parts[0] = "amqps"
		parts = append(parts, fmt.Sprintf("tls=%q,%q,%q,%q", from(s.ca), from(s.cert), from(s.key), s.serverName))
	}
	return strings.Join(parts, " ")
}

// samePlace says that two clusters are one: they share a host and have the same virtual host.
func (c *Cluster) samePlace(other *Cluster) bool {
	if c.VHost != other.VHost {
		return false
	}
	hosts := sortedHosts(c.Hosts)
	return slices.ContainsFunc(sortedHosts(other.Hosts), func(h string) bool { return slices.Contains(hosts, h) })
}

// String is for people, as `worker (amqps://a:5671,b:5671, virtual host "/")`.
func (c *Cluster) String() string {
	scheme := "amqp"
	if c.secure != nil {
		scheme = "amqps"
	}
	return fmt.Sprintf("%s (%s://%s, virtual host %q)", c.Name, scheme, strings.Join(c.Hosts, ","), c.VHost)
}

// Credentials reads the username and the password anew, so that rotated files and bindings are followed. The error is
// ErrNoCredentials when nothing names them and says what to set, or names the file that cannot be read; it never repeats
// what was read.
func (c *Cluster) Credentials() (username, password string, err error) {
	for _, part := range c.login {
		if part == nil {
			return "", "", fmt.Errorf("%w for cluster %s: set the variables _USERNAME and _PASSWORD, _USERNAME_FILE and _PASSWORD_FILE, or a binding", ErrNoCredentials, c.Name)
		}
	}
	read := func(r *ref) (value string) {
		if err == nil {
			if value, err = r.read(); err != nil {
				err = fmt.Errorf("credentials of cluster %s: %w", c.Name, err)
			}
		}
		return value
	}
	// Both may be replaced between two reads: a pair counts when the name is the same before and after the password.
	for range 3 {
		username = read(c.login[0])
		password = read(c.login[1])
		if again := read(c.login[0]); err != nil || again == username {
			break
		}
	}
	if err != nil {
		return "", "", err
	}
	return username, password, nil
}

// TLS is the configuration for a connection to host (a name, or "HOST:PORT" as in Hosts); nil for a plain connection.
// Certificates and keys are read anew at every call. The broker's certificate is always verified, against the system's
// authorities or those of the CA file, for the name of the host unless another was given. TLS 1.2 is the least.
func (c *Cluster) TLS(host string) (*tls.Config, error) {
	if c.secure == nil {
		return nil, nil
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: first(c.secure.serverName, strings.Trim(host, "[]"))}
	if config.ServerName == "" {
		return nil, fmt.Errorf("TLS of cluster %s: no host to verify", c.Name)
	}
	if ca := c.secure.ca; ca != nil {
		pem, err := ca.read()
		if err != nil {
			return nil, fmt.Errorf("TLS of cluster %s: %w", c.Name, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return nil, fmt.Errorf("TLS of cluster %s: %s has no certificate", c.Name, ca.from)
		}
	}
	certificates, err := c.secure.own()
	if err != nil {
		return nil, fmt.Errorf("TLS of cluster %s: %w", c.Name, err)
	}
	config.Certificates = certificates
	return config, nil
}

// own is the client's certificate, if it has one.
func (s *security) own() ([]tls.Certificate, error) {
	switch {
	case s.cert == nil && s.key == nil:
		return nil, nil
	case s.cert == nil || s.key == nil:
		return nil, errors.New("a client's certificate needs its key and the key its certificate")
	}
	cert, err := s.cert.read()
	if err != nil {
		return nil, err
	}
	key, err := s.key.read()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("%s and %s are not a certificate and its key", s.cert.from, s.key.from)
	}
	return []tls.Certificate{pair}, nil
}
