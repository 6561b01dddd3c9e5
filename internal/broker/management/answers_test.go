package management_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

// clientOf is a client over the loopback network.
func clientOf(t *testing.T, server *brokertest.Server, options management.Options) broker.Client {
	t.Helper()
	connector := management.NewConnector(options)
	t.Cleanup(func() { connector.Forget("test") })
	client, err := connector.Connect(server.Target("test"))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func clientAt(t *testing.T, address string, options management.Options) broker.Client {
	t.Helper()
	client, err := management.NewConnector(options).Connect(broker.Target{Key: "test", URL: address, Username: "u", Password: "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A redirect must not be followed: its path is not the one that was escaped.
func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client := clientAt(t, server.URL, management.Options{})
	for what, err := range map[string]error{
		"delete": client.DeletePolicy(t.Context(), "/", "p"),
		"put":    client.PutVHost(t.Context(), "v"),
	} {
		if broker.KindOf(err) != broker.Unavailable || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

// Answers that are no answers of a broker must not become empty lists.
func TestNonsenseIsUnavailable(t *testing.T) {
	for name, body := range map[string]string{
		"HTML": "<html>welcome</html>", "empty": "", "half": `[{"name":"a"`, "object": `{"name":"a","vhost":"/"}`,
		"list": `[]`, "null": "null", "page without counts": `{"items":[]}`, "other vhost": `{"items":[{"vhost":"other","name":"a"}],"page_count":1,"total_count":1}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		queues, err := clientAt(t, server.URL, management.Options{}).Queues(t.Context(), "/")
		if broker.KindOf(err) != broker.Unavailable {
			t.Errorf("%s: got %v, %v", name, queues, err)
		}
		server.Close()
	}
}

func TestPoliciesOfAnotherVHostAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"vhost":"a/b","name":"p","pattern":".","definition":{},"priority":0,"apply-to":"all"}]`))
	}))
	defer server.Close()
	if got, err := clientAt(t, server.URL, management.Options{}).Policies(t.Context(), "v"); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestUnaddressableNamesAreRefusedBeforeTheCall(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	client := clientOf(t, server, management.Options{})
	for _, name := range []string{"", ".", "..", "\xff"} {
		err := client.DeletePolicy(t.Context(), "/", name)
		if broker.KindOf(err) != broker.Invalid {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if requests := server.Requests(); len(requests) != 0 {
		t.Errorf("the broker was asked: %v", requests)
	}
}

// Up to 4.1 a missing policy name means none, except on a queue whose node is down.
func TestPolicyOfAQueueThatIsDownIsUnknown(t *testing.T) {
	server := brokertest.New(t, brokertest.V3)
	server.AddQueue(broker.Queue{VHost: "v", Name: "down", State: "down"})
	server.AddQueue(broker.Queue{VHost: "v", Name: "up"})
	queues, err := clientOf(t, server, management.Options{}).Queues(t.Context(), "v", broker.WithoutCounts)
	if err != nil {
		t.Fatal(err)
	}
	if down := queues[0]; down.Policy != nil || down.EffectiveDefinition != nil || down.OperatorPolicy != nil {
		t.Errorf("got %+v", down)
	}
	if up := queues[1]; up.Policy == nil || *up.Policy != "" || up.EffectiveDefinition == nil {
		t.Errorf("got %+v", up)
	}
}

func TestRuntime(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	eight, four := 8, 4
	server.SetRuntime(broker.Runtime{Schedulers: &eight, SchedulersOnline: &four})
	connector := management.NewConnector(management.Options{})
	got, err := connector.Runtime(t.Context(), server.URL())
	if err != nil || *got.Schedulers != 8 || *got.SchedulersOnline != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
	gibi, no, yes := int64(1<<30), false, true
	server.SetRuntime(broker.Runtime{MemoryUsed: &gibi, MemoryLimit: &gibi, DiskFreeLimit: &gibi, MemoryAlarm: &no, DiskAlarm: &yes})
	if got, err = connector.Runtime(t.Context(), server.URL()); err != nil || *got.MemoryUsed != gibi || *got.MemoryLimit != gibi ||
		*got.DiskFreeLimit != gibi || *got.MemoryAlarm || !*got.DiskAlarm || got.Schedulers != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	server.SetRuntime(broker.Runtime{Schedulers: &eight})
	if got, err = connector.Runtime(t.Context(), server.URL()); err != nil || got.SchedulersOnline != nil {
		t.Errorf("an absent series: got %+v, %v", got, err)
	}
	server.FailNext(1, 503)
	if _, err = connector.Runtime(t.Context(), server.URL()); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("got %v", err)
	}
	if _, err = connector.Runtime(t.Context(), "http://user:hunter2@host"); broker.KindOf(err) != broker.Invalid || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
