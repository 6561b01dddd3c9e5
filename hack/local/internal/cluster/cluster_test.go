package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/proc"
)

// fresh is a cluster in a folder of its own, without any process.
func fresh(t *testing.T) *Cluster {
	t.Helper()
	t.Setenv("WARREN_STATE", "")
	return &Cluster{Dir: t.TempDir(), State: State{Name: "test", Slot: 2, Processes: map[string]Process{}}}
}

func TestCertificatesHoldForClientsAndServers(t *testing.T) {
	c := fresh(t)
	if err := c.certificates(2); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	for name, serves := range map[string]string{
		"apiserver": c.Slot.Host().String(), "node-1": c.Slot.Node(1).String(), "node-2": c.Slot.Node(2).String(), "admin": "",
	} {
		pair, err := tls.LoadX509KeyPair(c.path("pki", name+".crt"), c.path("pki", name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		options := x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if serves != "" {
			options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			if err := leaf.VerifyHostname(serves); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := leaf.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificatesStayOnASecondRun(t *testing.T) {
	c := fresh(t)
	if err := c.certificates(1); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.certificates(2); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(c.Kubeconfig())
	if err != nil || string(before) != string(after) {
		t.Errorf("the kubeconfig changed (%v)", err)
	}
	if !strings.Contains(string(after), "server: https://198.18.32.1:6443") {
		t.Errorf("the kubeconfig does not name the server:\n%s", after)
	}
}

func TestKubeletConfigIsJSONWithItsOwnGroup(t *testing.T) {
	c := fresh(t)
	text, err := c.kubeletConfig(2)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if got := config["cgroupRoot"]; got != "/warren-local/test/node-2" {
		t.Errorf("cgroupRoot is %v", got)
	}
}

func TestNodeIsReadyOnlyIfItSaidSoSinceItStarted(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 500, time.UTC)
	report := func(kind, status string, at time.Time) nodeStatus {
		var s nodeStatus
		content, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": kind, "status": status, "lastHeartbeatTime": at},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, test := range map[string]struct {
		status nodeStatus
		ready  bool
	}{
		"ready":            {report("Ready", "True", start.Add(time.Second)), true},
		"in that second":   {report("Ready", "True", start.Truncate(time.Second)), true},
		"before its start": {report("Ready", "True", start.Add(-time.Second)), false},
		"not ready":        {report("Ready", "False", start.Add(time.Second)), false},
		"no condition":     {report("Other", "True", start.Add(time.Second)), false},
	} {
		if got := test.status.ready(start) == nil; got != test.ready {
			t.Errorf("%s: ready is %t", name, got)
		}
	}
}

func TestStateSurvives(t *testing.T) {
	root, err := os.MkdirTemp("", "w") // t.TempDir is too long for a folder with sockets
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	t.Setenv("WARREN_STATE", root)
	c, err := read("test")
	if err != nil || c.exists() {
		t.Fatalf("a cluster that does not exist: %+v, %v", c, err)
	}
	c.Slot = 3
	c.Processes["etcd"] = Process{Identity: proc.Identity{PID: 7, Start: 8, Boot: "b"}, Hash: "x"}
	c.Nodes = []Node{{Number: 1}}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	again, err := read("test")
	if err != nil || !reflect.DeepEqual(again.State, c.State) {
		t.Errorf("got %+v, %v, want %+v", again, err, c)
	}
	if err := os.WriteFile(c.path("cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read("test"); err == nil || !strings.Contains(err.Error(), "down --name test") {
		t.Errorf("the error %v does not say what to do about a damaged file", err)
	}
}

func TestHasEntryMatchesWhole(t *testing.T) {
	environment := []byte("A=1\x00WARREN_LOCAL_CLUSTER=/x/a\x00B=2\x00")
	if !hasEntry(environment, marker+"=/x/a") {
		t.Error("the entry is not found")
	}
	if hasEntry(environment, marker+"=/x") || hasEntry(environment, "CLUSTER=/x/a") {
		t.Error("a part of an entry is found")
	}
}
