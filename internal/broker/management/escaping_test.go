package management_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

// Case D1: behind a proxy that decodes paths, "it does not exist" is never concluded and nothing lands elsewhere.
func TestDecodingProxyIsReported(t *testing.T) {
	for _, version := range []string{brokertest.V3, brokertest.V4} {
		server := brokertest.New(t, version)
		server.AddVHost("team")
		server.AddVHost("team/a")
		server.AddQueue(broker.Queue{VHost: "team", Name: "a"})
		server.SetPolicy(broker.Policy{VHost: "v", Name: "a/b", Pattern: ".", Definition: map[string]any{"max-length": 1}})
		server.AddQueue(broker.Queue{VHost: "v", Name: "a/b"})
		server.DecodingProxy(true)
		client := clientOf(t, server, management.Options{})
		_, policies := client.Policies(t.Context(), "team/a")
		_, defaults := client.Policies(t.Context(), "/")
		_, queues := client.Queues(t.Context(), "team/a")
		for what, err := range map[string]error{
			"list policies": policies, "list policies of the default vhost": defaults, "list queues": queues,
			"delete policy":           client.DeletePolicy(t.Context(), "/", "p"),
			"put policy":              client.PutPolicy(t.Context(), broker.Policy{VHost: "/", Name: "p", Pattern: ".", Definition: map[string]any{"max-length": 1}}),
			"delete the other policy": client.DeletePolicy(t.Context(), "v", "a%2Fb"),
			"delete the other queue":  client.DeleteQueue(t.Context(), "v", "a%2Fb"),
			"put vhost":               client.PutVHost(t.Context(), "new%2Fvhost"),
		} {
			if broker.KindOf(err) != broker.Unavailable || !strings.Contains(err.Error(), "path escaping broken") {
				t.Errorf("%s: %s: got %v", version, what, err)
			}
		}
		if len(server.Policies("v")) != 1 {
			t.Errorf("%s: the policy of another name is gone", version)
		}
		server.DecodingProxy(false)
		if queues, err := client.Queues(t.Context(), "v"); err != nil || len(queues) != 1 {
			t.Errorf("%s: the queue of another name is gone: %v, %v", version, queues, err)
		}
		// Once the proxy is put right, so is the answer.
		if err := client.DeletePolicy(t.Context(), "/", "p"); !broker.IsNotFound(err) {
			t.Errorf("%s: got %v, want NotFound", version, err)
		}
	}
}

// The proof costs one request per client for names with a percent sign, and none for other names.
func TestEscapingIsProvedOnce(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.AddVHost("team/a")
	client := clientOf(t, server, management.Options{})
	for range 5 {
		if _, err := client.Policies(t.Context(), "team/a"); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(server.Requests()); got != 5 {
		t.Errorf("%d requests for 5 calls", got)
	}
	server.ForgetRequests()
	for range 5 {
		if err := client.PutVHost(t.Context(), "50%"); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(server.Requests()); got != 6 {
		t.Errorf("%d requests for 5 calls with a percent sign, want 6", got)
	}
}

func TestEscapingThatCannotBeProvedIsUnavailable(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	client := clientOf(t, server, management.Options{})
	server.FailNext(1, http.StatusBadGateway)
	err := client.DeleteVHost(t.Context(), "50%")
	if broker.KindOf(err) != broker.Unavailable || server.Writes() != 0 {
		t.Errorf("got %v after %d writes", err, server.Writes())
	}
}
