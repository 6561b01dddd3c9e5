package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/state"
)

// validity is how long certificates of a local cluster hold.
const validity = 10 * 365 * 24 * time.Hour

// subject is what a certificate says.
type subject struct {
	name   string // of the files
	common string // the user in Kubernetes
	group  string
	names  []string
	ips    []netip.Addr
}

// authority signs the certificates of one cluster.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// subjects are the certificates of the control plane.
func (c *Cluster) subjects() []subject {
	const masters = "system:masters"
	return []subject{
		{name: "apiserver", common: "kube-apiserver",
			names: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			ips:   []netip.Addr{c.Slot.Host(), c.Slot.APIService(), c.Slot.Loopback(), netip.MustParseAddr("127.0.0.1")}},
		{name: "admin", common: "kubernetes-admin", group: masters},
		{name: "kubelet-client", common: "kube-apiserver-kubelet-client", group: masters},
		{name: "kube-controller-manager", common: "system:kube-controller-manager"},
		{name: "kube-scheduler", common: "system:kube-scheduler"},
		{name: "kube-proxy", common: "system:kube-proxy"},
		{name: "coredns", common: "warren-local:coredns", group: masters},
		{name: "localvolumes", common: "warren-local:localvolumes", group: masters},
	}
}

// nodeSubject is the certificate of a node's kubelet, both as client and as server.
func (c *Cluster) nodeSubject(number int) subject {
	name := nodeName(number)
	return subject{name: name, common: "system:node:" + name, group: "system:nodes", names: []string{name},
		ips: []netip.Addr{c.Slot.Node(number), netip.MustParseAddr("127.0.0.1")}}
}

// openAuthority reads the authority of a folder, or makes it with the key for service accounts.
func openAuthority(dir string) (*authority, error) {
	ca := &authority{dir: dir}
	err := ca.read()
	if errors.Is(err, os.ErrNotExist) {
		return ca, ca.create()
	}
	return ca, err
}

func (ca *authority) read() error {
	certPEM, err := os.ReadFile(ca.path("ca.crt"))
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(ca.path("ca.key"))
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return fmt.Errorf("no certificate or key in %s", ca.dir)
	}
	if ca.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	ca.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

func (ca *authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template("warren-local", "")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	ca.key = key
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	// The certificate is written last: it says that the folder is complete.
	return errors.Join(ca.writeKey("service-accounts", accounts), ca.writeKey("ca", key), ca.writeCert("ca", der))
}

// issue makes a key and a certificate unless they exist.
func (ca *authority) issue(s subject) error {
	if _, err := os.Stat(ca.path(s.name + ".crt")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(s.common, s.group)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = s.names
	for _, ip := range s.ips {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	return errors.Join(ca.writeKey(s.name, key), ca.writeCert(s.name, der))
}

func template(common, group string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano())
	}
	now := time.Now()
	name := pkix.Name{CommonName: common}
	if group != "" {
		name.Organization = []string{group}
	}
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity)}
}

func (ca *authority) path(name string) string { return filepath.Join(ca.dir, name) }

func (ca *authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return state.WriteFile(ca.path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (ca *authority) writeCert(name string, der []byte) error {
	return state.WriteFile(ca.path(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}
