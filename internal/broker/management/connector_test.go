package management_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

// listening counts the TCP connections of a server that answers every request with an empty list.
func listening(t *testing.T) (address string, opened, closed *atomic.Int64) {
	opened, closed = &atomic.Int64{}, &atomic.Int64{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, opened, closed
}

func TestConnectionsAreReusedAndForgotten(t *testing.T) {
	address, opened, closed := listening(t)
	connector := management.NewConnector(management.Options{})
	target := broker.Target{Key: "uid", URL: address, Username: "u", Password: "p"}
	call := func() broker.Client {
		client, err := connector.Connect(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Policies(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := call()
	for range 20 {
		if call() != first {
			t.Fatal("the same target gave another client")
		}
	}
	if opened.Load() != 1 {
		t.Errorf("21 calls opened %d connections", opened.Load())
	}
	target.Password = "new"
	if call() == first {
		t.Error("a changed password kept the client")
	}
	waitFor(t, "the old connection to close", func() bool { return closed.Load() == 1 })
	connector.Forget("uid")
	connector.Forget("never known")
	waitFor(t, "the connection to close", func() bool { return closed.Load() == 2 })
	// An old client still works, and leaves no connection behind.
	if _, err := first.Policies(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the late connection to close", func() bool { return closed.Load() == opened.Load() })
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestTargetsThatCannotBeUsed(t *testing.T) {
	for _, target := range []broker.Target{
		{URL: ""}, {URL: "broker:15672"}, {URL: "ftp://broker"}, {URL: "http://"}, {URL: "http://user:hunter2@broker"},
		{URL: "http://broker/prefix"}, {URL: "http://broker?hunter2=1"}, {URL: "http://broker:hunter2"},
		{URL: "https://broker", CABundle: "not PEM"},
	} {
		_, err := management.NewConnector(management.Options{}).Connect(target)
		if broker.KindOf(err) != broker.Invalid {
			t.Errorf("%q: got %v", target.URL, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %q shows the URL", err)
		}
	}
}

func TestErrorsNeverShowCredentials(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.SetCredentials("admin", "hunter2")
	client := clientOf(t, server, management.Options{})
	fail := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
		} else if text := fmt.Sprintf("%v %+v %#v", err, err, err.Error()); strings.Contains(text, "hunter2") {
			t.Errorf("%s: error %q shows the password", what, text)
		}
	}
	server.Unavailable(true)
	_, err := client.Overview(t.Context())
	fail("dropped", err)
	server.Unavailable(false)
	server.Unauthorized(true)
	_, err = client.Overview(t.Context())
	fail("unauthorized", err)
	server.Unauthorized(false)
	server.FailNext(1, http.StatusInternalServerError)
	_, err = client.Overview(t.Context())
	fail("500", err)
}

func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<16))
		for range 1 << 8 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client := clientAt(t, server.URL, management.Options{MaxResponse: 1 << 16})
	_, err := client.Overview(t.Context())
	if broker.KindOf(err) != broker.Unavailable || !strings.Contains(err.Error(), "larger than 65536 bytes") {
		t.Errorf("got %v", err)
	}
	if _, err := management.NewConnector(management.Options{MaxResponse: 1 << 16}).Runtime(t.Context(), server.URL); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Runtime: got %v", err)
	}
}

func TestSlowAnswersEnd(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.Slow(time.Hour)
	client := clientOf(t, server, management.Options{CallTimeout: 20 * time.Millisecond})
	_, err := client.Overview(t.Context())
	if broker.KindOf(err) != broker.Unavailable || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("one call: got %v", err)
	}
	client = clientOf(t, server, management.Options{CallTimeout: time.Hour, ListTimeout: 20 * time.Millisecond})
	if _, err := client.Queues(t.Context(), "/"); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("a listing: got %v", err)
	}
}

// Many callers of a dead broker wait for one time limit, not for one each.
func TestASilentBrokerIsNotAskedByEveryCaller(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.Slow(time.Hour)
	sent := 0
	client := clientOf(t, server, management.Options{CallTimeout: 20 * time.Millisecond, OnRequest: func(string, string) { sent++ }})
	for range 100 {
		if _, err := client.Overview(t.Context()); broker.KindOf(err) != broker.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	}
	if sent != 1 {
		t.Errorf("%d requests, want 1", sent)
	}
}

// The broker deletes the queues of a vhost before it answers.
func TestDeletingAVHostMayTakeLonger(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.AddVHost("v")
	server.Slow(100 * time.Millisecond)
	client := clientOf(t, server, management.Options{CallTimeout: 10 * time.Millisecond, ListTimeout: time.Minute})
	if err := client.DeleteVHost(t.Context(), "v"); err != nil {
		t.Error(err)
	}
}

func TestOnRequestSeesEveryRequest(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	var seen []string
	client := clientOf(t, server, management.Options{OnRequest: func(method, key string) { seen = append(seen, method+" "+key) }})
	if err := client.PutVHost(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	if err := client.DeletePolicy(t.Context(), "a/b", "absent"); !broker.IsNotFound(err) {
		t.Fatal(err)
	}
	want := "PUT test,DELETE test,GET test" // the last one proves that names arrive escaped
	if got := strings.Join(seen, ","); got != want || len(server.Requests()) != 3 {
		t.Errorf("got %s and %d requests, want %s", got, len(server.Requests()), want)
	}
}

func TestConcurrentUse(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	connector := management.NewConnector(management.Options{})
	var workers sync.WaitGroup
	for i := range 16 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			target := server.Target(fmt.Sprint("key", i%4))
			target.Password = fmt.Sprint("password", i%2)
			for j := range 20 {
				client, err := connector.Connect(target)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := client.Queues(t.Context(), "/"); err != nil {
					t.Error(err)
				}
				if err := client.PutVHost(t.Context(), fmt.Sprintf("v%%%d/%d", i, j%3)); err != nil {
					t.Error(err)
				}
				if j%5 == 0 {
					connector.Forget(target.Key)
				}
			}
		}()
	}
	workers.Wait()
}
