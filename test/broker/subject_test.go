package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

// subject is one broker under test, real or not. The suite sees no difference.
type subject struct {
	// hasty is the client of takes.
	hasty      broker.Client
	version    broker.Version
	caps       broker.Capabilities
	url        string
	prometheus string
	username   string
	password   string
	// setStatistics turns the collection of statistics off or on.
	setStatistics func(t *testing.T, on bool)
	// restart ends all nodes as a power cut does, and starts them again.
	restart func(t *testing.T)
	// hold takes n messages from a queue and does not acknowledge them until the restart.
	hold func(t *testing.T, vhost, queue string, n int)
	// suspend keeps the process of a queue from doing anything, or lets it go on.
	suspend func(t *testing.T, vhost, queue string, on bool)
	// more parts, for this subject alone.
	more []part
	// forbidden gives the credentials of a user who may not access vhost, and restores things at the test's end.
	forbidden func(t *testing.T, s *subject, vhost string) (username, password string)
}

// subjects are what TestContract runs against; start is called once per run, inside the subtest.
var subjects = []struct {
	name  string
	start func(t *testing.T) *subject
}{
	{"fake-" + brokertest.V3, func(t *testing.T) *subject { return fake(t, brokertest.V3) }},
	{"fake-" + brokertest.V4, func(t *testing.T) *subject { return fake(t, brokertest.V4) }},
}

func fake(t *testing.T, version string) *subject {
	server := brokertest.New(t, version)
	server.SetCredentials("contract", "a secret")
	one, node := 1, brokertest.Node("rabbit@fake-0")
	server.SetRuntime(broker.Runtime{
		Schedulers: &one, SchedulersOnline: &one, MemoryUsed: node.MemoryUsed, MemoryLimit: node.MemoryLimit,
		DiskFreeLimit: node.DiskFreeLimit, MemoryAlarm: node.MemoryAlarm, DiskAlarm: node.DiskAlarm,
	})
	s := newSubject(t, version)
	s.url, s.prometheus = server.URL(), server.URL()
	s.username, s.password = "contract", "a secret"
	s.setStatistics = func(_ *testing.T, on bool) { server.SetStatistics(on) }
	s.restart = func(*testing.T) { server.RestartNodes() }
	s.suspend = func(_ *testing.T, _, _ string, on bool) { server.BusyQueues(on) }
	s.hold = func(_ *testing.T, vhost, queue string, n int) {
		server.SetCounts(vhost, queue, server.Ready(vhost, queue)-int64(n), int64(n), 1)
	}
	s.forbidden = func(t *testing.T, s *subject, vhost string) (string, string) {
		server.Forbid(vhost, true)
		t.Cleanup(func() { server.Forbid(vhost, false) })
		return s.username, s.password
	}
	return s
}

func newSubject(t *testing.T, version string) *subject {
	t.Helper()
	parsed, err := broker.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	caps, err := broker.CapabilitiesOf(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return &subject{version: parsed, caps: caps}
}

func (s *subject) target() broker.Target {
	return broker.Target{Key: "contract", URL: s.url, Username: s.username, Password: s.password}
}

// client is a client with connections of its own.
func (s *subject) client(t *testing.T, options ...func(*management.Options)) broker.Client {
	t.Helper()
	// The suite judges answers, not their speed: thousands of calls on a machine that is busy with other things.
	o := management.Options{CallTimeout: time.Minute}
	for _, option := range options {
		option(&o)
	}
	return connect(t, s.target(), o)
}

func connect(t *testing.T, target broker.Target, o management.Options) broker.Client {
	t.Helper()
	connector := management.NewConnector(o)
	t.Cleanup(func() { connector.Forget(target.Key) })
	client, err := connector.Connect(target)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var serial atomic.Int64

const prefix = "warren-contract-"

// vhost makes a vhost that ends with the test. suffix may be any text.
func (s *subject) vhost(t *testing.T, client broker.Client, suffix string) string {
	t.Helper()
	name := fmt.Sprintf("%s%d%s", prefix, serial.Add(1), suffix)
	if err := client.PutVHost(context.Background(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.DeleteVHost(context.Background(), name); err != nil && !broker.IsNotFound(err) {
			t.Errorf("clean up: %v", err)
		}
	})
	return name
}

// raw sends a request that the adapter would not send; path is escaped by the caller.
func (s *subject) raw(t *testing.T, method, path, body string) (status int, reply map[string]any) {
	t.Helper()
	request, err := http.NewRequest(method, s.url+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(s.username, s.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// A listing is no object and some answers have no body: the status is what those are asked for.
	if json.Unmarshal(text, &reply) != nil {
		reply = nil
	}
	return response.StatusCode, reply
}

// eventually asks until the condition holds; it fails with what the condition last said. Real brokers gather
// statistics every 5 s.
func eventually(t *testing.T, condition func() (bool, string)) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		ok, said := condition()
		if ok {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within 20 s: %s", said)
		case <-again.C:
		}
	}
}

// must is for steps that only prepare.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind checks an error's kind and that it never shows a password.
func (s *subject) wantKind(t *testing.T, err error, kind broker.ErrorKind) {
	t.Helper()
	if got := broker.KindOf(err); got != kind {
		t.Errorf("error %v has kind %q, want %q", err, got, kind)
	}
	if err != nil && bytes.Contains([]byte(err.Error()), []byte(s.password)) {
		t.Errorf("error %q shows the password", err)
	}
}
