//go:build broker

package load_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/test/brokers"
)

// certificates makes a folder with a certificate for "localhost", and not for any address, of an authority of its own.
func certificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := func(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	keys := [2]*ecdsa.PrivateKey{}
	for i := range keys {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = key
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	write("ca.pem", "CERTIFICATE", made(authority, authority, keys[0], keys[0]))
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "broker of a test"}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	write("cert.pem", "CERTIFICATE", made(server, authority, keys[1], keys[0]))
	der, err := x509.MarshalECPrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	write("key.pem", "EC "+"PRIVATE KEY", der)
	return dir
}

// overTLS runs the program against a broker whose names are as given.
type overTLS struct {
	warren, out string
	at          *brokers.Broker
}

func (o overTLS) run(t *testing.T, host string, arguments ...string) (said string, err error) {
	t.Helper()
	name := func(address string) string { return strings.Replace(address, "127.0.0.1", host, 1) }
	command := exec.Command(o.warren, append([]string{"bench", "run", "--management", name(o.at.ManagementTLS), "--prometheus", name(o.at.PrometheusTLS),
		"--interval", "1s", "--out", o.out}, arguments...)...)
	command.Env = append(os.Environ(), "WARREN_BENCH_URI="+name(o.at.AMQPS))
	text, err := command.CombinedOutput()
	if strings.Contains(string(text), o.at.Password) {
		t.Error("the output has the password")
	}
	return string(text), err
}

// Over TLS everything is as without, for the client library too; a broker that cannot be verified is refused, and there is no way around that.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	used := versions[1:]
	if *long {
		used = versions
	}
	warren, dir := program(t), certificates(t)
	for _, version := range used {
		at := ownBroker(t, version, "tls-"+strings.ReplaceAll(version, ".", ""), "--tls", dir, "--password", "a-secret-for-tls")
		o := overTLS{warren: warren, out: t.TempDir(), at: at}
		client := apiOf(t, at)
		before := census(t, client)
		text := "name: OverTLS\nload: {mode: Open, rate: 500}\npublishers: {count: 2}\nconsumers: {count: 2, library: Warren, batch: {size: 20}}\nqueues: {count: 2}\n" +
			"warmUp: 1s\nduration: 4s\nruns: 1\n"
		file := filepath.Join(t.TempDir(), "tls.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		authority := filepath.Join(dir, "ca.pem")
		for name, refused := range map[string]struct {
			host      string
			arguments []string
			want      string
		}{
			"an authority that nobody knows":         {"localhost", nil, "certificate"},
			"a name that is not in the certificate":  {"127.0.0.1", []string{"--ca-file", authority}, "certificate"},
			"AMQP of an authority that nobody knows": {"localhost", []string{"--management", at.Management, "--prometheus", ""}, "certificate"},
			"a file without certificates":            {"localhost", []string{"--ca-file", filepath.Join(dir, "key.pem")}, "no PEM certificate"},
		} {
			said, err := o.run(t, refused.host, append(refused.arguments, "--scenario", file)...)
			if err == nil || !strings.Contains(said, refused.want) {
				t.Errorf("%s: %v\n%s", name, err, said)
			}
		}
		said, err := o.run(t, "localhost", "--ca-file", authority, "--scenario", file)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		t.Log(said)
		written, err := os.ReadFile(filepath.Join(o.out, "OverTLS.json"))
		if err != nil {
			t.Fatal(err)
		}
		result, err := bench.DecodeResult(written)
		if err != nil {
			t.Fatal(err)
		}
		run := result.Runs[0]
		sum := sumOf(run)
		if !run.Validity.Valid || sum.Confirmed == 0 || sum.Consumed != sum.Published || sum.Lost != 0 {
			t.Errorf("%+v, %+v", run.Validity, sum)
		}
		if told(run, func(s *bench.Sample) *float64 { return s.ReceivedTotal }) == 0 || told(run, func(s *bench.Sample) *float64 { return s.MemoryAlarm }) == 0 {
			t.Error("the broker was not looked at over TLS")
		}
		if after := census(t, client); after != before {
			t.Errorf("there is\n%s\nwant\n%s", after, before)
		}
	}
}
