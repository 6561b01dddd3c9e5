package warren

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
)

// certificate for 127.0.0.1, signed by itself; file is where others find it.
func certificate(t *testing.T) (c tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestTLSIsVerified(t *testing.T) {
	own, ca := certificate(t)
	_, other := certificate(t)
	b := clienttest.Start(t, clienttest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{own}}})
	declare(t, b, "worker.a")
	environ := []string{"RMQ_WORKER_HOSTS=" + b.Addr(), "RMQ_WORKER_TLS=true"}
	trusting := newPublisher(t, routerFor(t, append(environ, "RMQ_WORKER_CA_FILE="+ca)), AutoBatch())
	for range 100 {
		async(t, trusting, to("worker.a", strings.Repeat("x", 1000)))
	}
	if err := trusting.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"RMQ_WORKER_CA_FILE=" + other}, {"RMQ_WORKER_CA_FILE=" + ca, "RMQ_WORKER_SERVER_NAME=elsewhere"}} {
		ctx, cancel := context.WithCancel(t.Context())
		r := routerFor(t, append(environ, more...), WithHooks(Hooks{DialFailed: func(ConnectionEvent) { cancel() }}))
		_, err := r.Publisher(ctx, ConnectNow("worker.a"))
		cancel()
		if err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("%v: got %v", more, err)
		}
	}
}
