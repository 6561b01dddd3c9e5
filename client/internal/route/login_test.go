package route

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func wantLogin(t *testing.T, c *Cluster, username, password string) {
	t.Helper()
	u, p, err := c.Credentials()
	if err != nil || u != username || p != password {
		t.Errorf("%s: got %s, %s, %v; want %s, %s", c.Name, u, p, err, username, password)
	}
}

func TestWhichLoginCounts(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "password", "from-file\r\n")
	write(t, dir, "binding/username", "bound\n")
	write(t, dir, "binding/password", "bound-secret\n")
	write(t, dir, "binding/host", "bound-host\n")
	general := []string{"RMQ_USERNAME=all", "RMQ_PASSWORD=all-secret", "SERVICE_BINDING_ROOT=" + dir}
	for _, c := range []struct {
		name               string
		environ            []string
		username, password string // of the current cluster, or else of the old one
	}{
		{"for all", []string{"RMQ_WORKER_HOSTS=a"}, "all", "all-secret"},
		{"of the class", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_USERNAME=w", "RMQ_WORKER_PASSWORD=w-secret"}, "w", "w-secret"},
		{"only the password of the class", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_PASSWORD=w-secret"}, "all", "w-secret"},
		{"a file", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_PASSWORD_FILE=" + file}, "all", "from-file"},
		{"a URI", []string{"RMQ_WORKER_URI=amqp://u:p%40@a"}, "u", "p@"},
		{"a URI without", []string{"RMQ_WORKER_URI=amqp://a"}, "all", "all-secret"},
		{"the class before its URI", []string{"RMQ_WORKER_URI=amqp://u:p@a", "RMQ_WORKER_USERNAME=w", "RMQ_WORKER_PASSWORD=w-secret"}, "w", "w-secret"},
		{"a binding", []string{"RMQ_WORKER_BINDING=binding"}, "bound", "bound-secret"},
		{"a binding by its path, and hosts", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_BINDING=" + filepath.Join(dir, "binding")}, "bound", "bound-secret"},
		{"the class before its binding", []string{"RMQ_WORKER_BINDING=binding", "RMQ_WORKER_USERNAME=w", "RMQ_WORKER_PASSWORD=w-secret"}, "w", "w-secret"},

		{"the old one's own", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_OLD_HOSTS=o", "RMQ_WORKER_OLD_USERNAME=o", "RMQ_WORKER_OLD_PASSWORD=o-secret", "RMQ_OLD_USERNAME=x"}, "o", "o-secret"},
		{"all old ones'", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_OLD_HOSTS=o", "RMQ_OLD_USERNAME=o", "RMQ_OLD_PASSWORD=o-secret", "RMQ_WORKER_USERNAME=x"}, "o", "o-secret"},
		{"old as the class", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_OLD_HOSTS=o", "RMQ_WORKER_USERNAME=w", "RMQ_WORKER_PASSWORD=w-secret"}, "w", "w-secret"},
		{"old as the class's URI", []string{"RMQ_WORKER_URI=amqp://u:p@a", "RMQ_WORKER_OLD_HOSTS=o"}, "u", "p"},
		{"old as all", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_OLD_HOSTS=o"}, "all", "all-secret"},
		{"the old one's binding", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_OLD_BINDING=binding"}, "bound", "bound-secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := mustEnv(t, slices.Concat(general, c.environ)...).Queue("worker", "")
			if err != nil {
				t.Fatal(err)
			}
			wantLogin(t, r.Consume[0], c.username, c.password) // the old one when there is one
		})
	}
}

// A binding or a URI of one class is no login for another.
func TestALoginIsNotLent(t *testing.T) {
	table := mustEnv(t, "RMQ_URI=amqp://u:secret@a", "RMQ_WORKER_HOSTS=w")
	r, err := table.Queue("worker", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Publish.Credentials(); !errors.Is(err, ErrNoCredentials) || !strings.Contains(err.Error(), "cluster worker") {
		t.Errorf("got %v", err)
	}
}

func TestLoginsOfTheFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "legacy/username", "bound")
	write(t, dir, "legacy/password", "bound-secret")
	write(t, dir, "legacy/host", "bound-host")
	write(t, dir, "legacy/port", "5671")
	text := fmt.Sprintf(`{"version": 1, "clusters": {
		"env": {"hosts": ["a"], "credentials": {"env": "RMQ_SHARED"}},
		"none": {"hosts": ["a"], "credentials": {"env": "RMQ_MISSING"}},
		"files": {"hosts": ["a"], "credentials": {"usernameFile": %[1]q, "passwordFile": %[2]q}},
		"bound": {"credentials": {"binding": "legacy"}},
		"bound-later": {"hosts": ["a"], "credentials": {"binding": "not-yet"}},
		"by_name": {"hosts": ["a"]},
		"general": {"hosts": ["a"]}
	}, "classes": {"env": {"cluster": "env"}, "none": {"cluster": "none"}, "files": {"cluster": "files"}, "bound": {"cluster": "bound"},
		"bound-later": {"cluster": "bound-later"}, "by-name": {"cluster": "by_name"}, "general": {"cluster": "general"}}}`,
		filepath.Join(dir, "legacy/username"), filepath.Join(dir, "legacy/password"))
	table := mustFile(t, text, "SERVICE_BINDING_ROOT="+dir, "RMQ_SHARED_USERNAME=s", "RMQ_SHARED_PASSWORD=s-secret",
		"RMQ_BY_NAME_USERNAME=n", "RMQ_BY_NAME_PASSWORD=n-secret", "RMQ_USERNAME=all", "RMQ_PASSWORD=all-secret")
	for class, want := range map[string]string{"env": "s s-secret", "files": "bound bound-secret", "bound": "bound bound-secret",
		"by-name": "n n-secret", "general": "all all-secret"} {
		r, err := table.Queue("q", class)
		if err != nil {
			t.Fatal(err)
		}
		username, password, _ := strings.Cut(want, " ")
		wantLogin(t, r.Publish, username, password)
	}
	// What the file refers to is wanted when it is needed, and nothing else takes its place.
	for class, says := range map[string]string{"none": "set RMQ_MISSING_USERNAME", "bound-later": "not-yet"} {
		r, err := table.Queue("q", class)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Publish.Credentials(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", class, err)
		}
	}
	bound, _ := table.Queue("q", "bound")
	if got := bound.Publish.String(); got != `bound (amqps://bound-host:5671, virtual host "/")` {
		t.Errorf("got %s", got)
	}
}

func TestRotatedLogins(t *testing.T) {
	dir := t.TempDir()
	bound, files := filepath.Join(dir, "rabbit"), filepath.Join(dir, "files")
	secret := func(n string) map[string]string {
		return map[string]string{"username": "u" + n, "password": "p" + n, "host": "h"}
	}
	mount(t, bound, secret("1"))
	mount(t, files, secret("1"))
	table := mustEnv(t, "SERVICE_BINDING_ROOT="+dir, "RMQ_A_BINDING=rabbit", "RMQ_B_HOSTS=b",
		"RMQ_B_USERNAME_FILE="+files+"/username", "RMQ_B_PASSWORD_FILE="+files+"/password")
	a, _ := table.Queue("a", "")
	b, _ := table.Queue("b", "")
	for _, n := range []string{"1", "2", "3"} {
		mount(t, bound, secret(n))
		mount(t, files, secret(n))
		wantLogin(t, a.Publish, "u"+n, "p"+n)
		wantLogin(t, b.Publish, "u"+n, "p"+n)
	}
	mount(t, bound, map[string]string{"username": "u", "password": ""})
	mount(t, files, map[string]string{"username": "u", "password": "\n"})
	for _, c := range []*Cluster{a.Publish, b.Publish} {
		if u, p, err := c.Credentials(); err == nil {
			t.Errorf("%s: got %s, %s of an empty password", c.Name, u, p)
		}
	}
}

func TestBindings(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // the cluster, the login
		fails string
	}{
		{"the official operator's", map[string]string{"type": "rabbitmq", "provider": "rabbitmq", "host": "r.ns.svc", "port": "5672", "username": "u",
			"password": "p", "default_user.conf": "default_user = u", "connection_string": "amqp://u:p@r.ns.svc:5672/"}, `worker (amqp://r.ns.svc:5672, virtual host "/") u p`, ""},
		{"the official operator's with TLS", map[string]string{"type": "rabbitmq", "host": "r.ns.svc", "port": "5671", "username": "u",
			"password": "p", "connection_string": "amqps://u:p@r.ns.svc:5671/"}, `worker (amqps://r.ns.svc:5671, virtual host "/") u p`, ""},
		{"an older operator's with TLS", map[string]string{"host": "r", "port": "5671", "username": "u", "password": "p"}, `worker (amqps://r:5671, virtual host "/") u p`, ""},
		{"only a URI", map[string]string{"uri": "amqps://u:p%2F@r/v\n"}, `worker (amqps://r:5671, virtual host "v") u p/`, ""},
		{"several URIs", map[string]string{"uris": "amqp://u:p@r:1,amqp://u:p@s", "host": "x", "port": "9"}, `worker (amqp://r:1,s:5672, virtual host "/") u p`, ""},
		{"Spring's", map[string]string{"addresses": "r:1,s", "username": "u", "password": "p", "virtual-host": "v"}, `worker (amqp://r:1,s:5672, virtual host "v") u p`, ""},
		{"a port of the URI", map[string]string{"host": "r", "uri": "amqp://r:1", "username": "u", "password": "p"}, `worker (amqp://r:1, virtual host "/") u p`, ""},
		{"ssl", map[string]string{"host": "r", "port": "1", "ssl": "true", "username": "u", "password": "p"}, `worker (amqps://r:1, virtual host "/") u p`, ""},
		{"a URI that is not escaped", map[string]string{"host": "r", "port": "5671", "username": "u", "password": "p#/", "connection_string": "amqps://u:p#/@r:5671/"},
			`worker (amqps://r:5671, virtual host "/") u p#/`, ""},
		{"another service's", map[string]string{"type": "postgresql", "host": "r"}, "", `of type "postgresql"`},
		{"no host", map[string]string{"username": "u", "password": "p"}, "", "no hosts"},
		{"a user without a password", map[string]string{"host": "r", "username": "u"}, "", "no password"},
		{"a port that is none", map[string]string{"host": "r", "port": "secret"}, "", "the port is not a number"},
		{"a host that is none", map[string]string{"host": "u:secret@r", "port": "1"}, "", "entry 1"},
		{"a URI that is none", map[string]string{"uri": "amqp://u:secret#@r"}, "", "uri: entry 1"},
		{"ssl maybe", map[string]string{"host": "r", "ssl": "secret"}, "", "neither true nor false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			mount(t, filepath.Join(dir, "rabbit"), c.files)
			s, err := FromEnv([]string{"SERVICE_BINDING_ROOT=" + dir, "RMQ_WORKER_BINDING=rabbit"})
			if err != nil {
				if c.fails == "" || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %q", err, c.fails)
				}
				return
			}
			r, err := s.Table().Queue("q", "")
			if err != nil {
				t.Fatal(err)
			}
			u, p, err := r.Publish.Credentials()
			if got := fmt.Sprint(r.Publish, " ", u, " ", p); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s%s", got, err, c.want, c.fails)
			}
		})
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "password", "secret-file")
	mount(t, filepath.Join(dir, "rabbit"), map[string]string{"uri": "amqp://u:secret-uri@r"})
	s, err := FromEnv([]string{"SERVICE_BINDING_ROOT=" + dir, "RMQ_A_BINDING=rabbit", "RMQ_B_URI=amqp://u:secret-b@b", "RMQ_C_HOSTS=c", "RMQ_C_OLD_HOSTS=o",
		"RMQ_USERNAME=u", "RMQ_PASSWORD=secret-all", "RMQ_OLD_PASSWORD_FILE=" + dir + "/password"})
	if err != nil {
		t.Fatal(err)
	}
	table := s.Table()
	var b bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&b, nil))
	for _, r := range table.Classes() {
		for _, c := range r.Consume {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&b, verb+" "+verb+" %s\n", c, *c, c.Key())
			}
			_ = json.NewEncoder(&b).Encode(c)
			log.Info("cluster", "cluster", c, "route", r)
		}
		fmt.Fprintf(&b, "%v %+v %#v\n", r, r, r)
	}
	fmt.Fprintf(&b, "%v %+v %#v\n", table, table, table)
	if strings.Contains(b.String(), "secret") {
		t.Errorf("a secret is printed:\n%s", b.String())
	}
}

// The same key means the same place, login and certificates.
func TestKey(t *testing.T) {
	base := []string{"RMQ_WORKER_HOSTS=a,b", "RMQ_USERNAME=u", "RMQ_PASSWORD=secret"}
	key := func(environ ...string) string {
		r, err := mustEnv(t, append(environ, base...)...).Queue("worker", "worker")
		if err != nil {
			t.Fatal(err)
		}
		return r.Publish.Key()
	}
	same := [][]string{{"RMQ_WORKER_HOSTS=b:5672,A"}, {"RMQ_VHOST=/"}, {"RMQ_PASSWORD=another"}}
	other := [][]string{{"RMQ_WORKER_HOSTS=a"}, {"RMQ_VHOST=v"}, {"RMQ_TLS=true"}, {"RMQ_WORKER_USERNAME=u"}, {"RMQ_CA_FILE=/ca"}, {"RMQ_SERVER_NAME=n"}}
	seen := []string{key()}
	for _, environ := range same {
		if got := key(environ...); got != seen[0] {
			t.Errorf("%q: got %s, want %s", environ, got, seen[0])
		}
	}
	for _, environ := range other {
		got := key(environ...)
		if slices.Contains(seen, got) {
			t.Errorf("%q: got %s again", environ, got)
		}
		seen = append(seen, got)
	}
	// Several classes often leave one old cluster.
	table := mustEnv(t, "RMQ_A_HOSTS=a", "RMQ_B_HOSTS=b", "RMQ_A_OLD_HOSTS=old", "RMQ_B_OLD_HOSTS=old", "RMQ_OLD_USERNAME=u", "RMQ_OLD_PASSWORD=p")
	if got := len(table.Clusters()); got != 3 {
		t.Errorf("got %d clusters, want 3", got)
	}
}

// authority signs certificates for the tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, template := newKey(t), &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, pemOf("CERTIFICATE", der)}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (a authority) sign(t *testing.T, name string) (cert, key string) {
	t.Helper()
	own := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", private)
}

// handshake answers the client's error and the name of the certificate that the server saw.
func handshake(t *testing.T, client *tls.Config, server tls.Certificate, clients *x509.CertPool) (string, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	done := make(chan string, 1)
	go func() {
		far, err := listener.Accept()
		if err != nil {
			done <- err.Error()
			return
		}
		defer func() { _ = far.Close() }()
		conn := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients})
		_ = conn.Handshake()
		name := ""
		if peers := conn.ConnectionState().PeerCertificates; len(peers) > 0 {
			name = peers[0].Subject.CommonName
		}
		done <- name
	}()
	_ = near.SetDeadline(time.Now().Add(10 * time.Second))
	err = tls.Client(near, client).Handshake()
	_ = near.Close()
	return <-done, err
}

func onlyCluster(t *testing.T, environ ...string) *Cluster {
	t.Helper()
	r, err := mustEnv(t, environ...).Queue("worker", "")
	if err != nil {
		t.Fatal(err)
	}
	return r.Publish
}

// greet answers the client's error with a broker of that name, whose certificate signer made.
func greet(t *testing.T, c *Cluster, host string, signer authority, name string, clients *x509.CertPool) error {
	t.Helper()
	config, err := c.TLS(host)
	if err != nil {
		t.Fatal(err)
	}
	if config.InsecureSkipVerify || config.MinVersion < tls.VersionTLS12 {
		t.Fatalf("not safe: %+v", config)
	}
	cert, key := signer.sign(t, name)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := handshake(t, config, pair, clients)
	if err == nil && seen != "application" {
		t.Errorf("the broker saw the certificate of %q", seen)
	}
	return err
}

func TestTLSVerifiesTheBroker(t *testing.T) {
	good, evil := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	cert, key := good.sign(t, "application")
	files := map[string]string{"ca.crt": good.pem, "tls.crt": cert, "tls.key": key}
	mount(t, dir, files)
	environ := []string{"RMQ_WORKER_HOSTS=broker,10.0.0.7,[::1]", "RMQ_CA_FILE=" + dir + "/ca.crt", "RMQ_CERT_FILE=" + dir + "/tls.crt", "RMQ_KEY_FILE=" + dir + "/tls.key"}
	pool := x509.NewCertPool()
	pool.AddCert(good.cert)
	c := onlyCluster(t, environ...)
	try := func(c *Cluster, host string, signer authority, name string) error {
		return greet(t, c, host, signer, name, pool)
	}
	for i, name := range []string{"broker", "10.0.0.7", "::1"} {
		if err := try(c, c.Hosts[i], good, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := try(c, "broker", good, "another"); err == nil {
		t.Error("another broker's certificate was taken")
	}
	if err := try(c, "broker", evil, "broker"); err == nil {
		t.Error("another authority's certificate was taken")
	}
	if err := try(onlyCluster(t, append(environ, "RMQ_WORKER_SERVER_NAME=given")...), "broker:1", good, "given"); err != nil {
		t.Errorf("with a name that is given: %v", err)
	}
	// The next connection follows new files.
	files["ca.crt"] = evil.pem
	mount(t, dir, files)
	if err := try(c, "broker", evil, "broker"); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if config, err := onlyCluster(t, "RMQ_WORKER_HOSTS=a").TLS("a"); config != nil || err != nil {
		t.Errorf("plain: got %v, %v", config, err)
	}
}

func TestTLSWithBrokenFiles(t *testing.T) {
	good, dir := newAuthority(t), t.TempDir()
	cert, key := good.sign(t, "application")
	c := onlyCluster(t, "RMQ_WORKER_HOSTS=broker", "RMQ_CA_FILE="+dir+"/ca.crt", "RMQ_CERT_FILE="+dir+"/tls.crt", "RMQ_KEY_FILE="+dir+"/tls.key")
	for name, says := range map[string]string{"ca.crt": "has no certificate", "tls.key": "are not a certificate and its key"} {
		broken := map[string]string{"ca.crt": good.pem, "tls.crt": cert, "tls.key": key}
		broken[name] = "secret"
		mount(t, dir, broken)
		if _, err := c.TLS("broker"); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("broken %s: got %v", name, err)
		}
	}
}
