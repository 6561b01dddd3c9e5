package brokertest_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

func connect(t *testing.T, connector broker.Connector, url string) broker.Client {
	t.Helper()
	client, err := connector.Connect(broker.Target{Key: url, URL: url, Username: "any", Password: "any"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestOtherVersionsAreNotImitated(t *testing.T) {
	for _, version := range []string{"3.13.7", "4.0.5", "", "latest"} {
		if server, err := brokertest.Start(version); err == nil {
			server.Close()
			t.Errorf("%q was started", version)
		}
	}
}

// Controllers build URLs as in a cluster; the network of fakes brings them to the right server.
func TestNetworkOfFakes(t *testing.T) {
	old, young := brokertest.New(t, brokertest.V3), brokertest.New(t, brokertest.V4)
	connector := brokertest.Network(func(host string) *brokertest.Server {
		return map[string]*brokertest.Server{"old.ns.svc:15672": old, "young.ns.svc:15672": young, "young-0.ns.svc:15692": young}[host]
	}, management.Options{})
	for host, want := range map[string]string{"old": brokertest.V3, "young": brokertest.V4} {
		overview, err := connect(t, connector, "http://"+host+".ns.svc:15672").Overview(t.Context())
		if err != nil || overview.RabbitMQVersion != want {
			t.Errorf("%s: got %+v, %v", host, overview, err)
		}
	}
	_, err := connect(t, connector, "http://gone.ns.svc:15672").Overview(t.Context())
	if broker.KindOf(err) != broker.Unavailable {
		t.Errorf("gone: got %v", err)
	}
	three := 3
	young.SetRuntimeAt("young-0.ns.svc:15692", broker.Runtime{Schedulers: &three})
	runtime, err := connector.Runtime(t.Context(), "http://young-0.ns.svc:15692")
	if err != nil || *runtime.Schedulers != 3 || runtime.SchedulersOnline != nil {
		t.Errorf("got %+v, %v", runtime, err)
	}
	if got := young.Requests()[0].Host; got != "young.ns.svc:15672" {
		t.Errorf("the server was asked as %q", got)
	}
}

func TestCountersAndLog(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	client := connect(t, server.Connector(), "http://runtime.messaging.svc:15672")
	if err := client.PutVHost(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Policies(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	if server.Writes() != 1 || server.Reads() != 1 {
		t.Errorf("%d writes, %d reads", server.Writes(), server.Reads())
	}
	want := []string{"PUT /api/vhosts/a%2Fb", "GET /api/policies/a%2Fb"}
	var got []string
	for _, request := range server.Requests() {
		got = append(got, request.Method+" "+request.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	server.ForgetRequests()
	if server.Writes()+server.Reads() != 0 {
		t.Error("the log was not forgotten")
	}
}

func TestFaults(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	client := connect(t, server.Connector(), "http://b:1")
	kind := func() broker.ErrorKind {
		_, err := client.Policies(t.Context(), "/")
		return broker.KindOf(err)
	}
	server.FailNext(2, http.StatusServiceUnavailable)
	if first, second, third := kind(), kind(), kind(); first != broker.Unavailable || second != broker.Unavailable || third != "" {
		t.Errorf("FailNext(2) gave %q, %q, %q", first, second, third)
	}
	for name, c := range map[string]struct {
		set  func(bool)
		want broker.ErrorKind
	}{
		"Unavailable": {server.Unavailable, broker.Unavailable}, "Unauthorized": {server.Unauthorized, broker.Unauthorized},
		"Forbid": {func(on bool) { server.Forbid("/", on) }, broker.Unauthorized},
	} {
		c.set(true)
		if got := kind(); got != c.want {
			t.Errorf("%s: got %q", name, got)
		}
		c.set(false)
		if got := kind(); got != "" {
			t.Errorf("%s ended: got %q", name, got)
		}
	}
	server.Slow(30 * time.Millisecond)
	begin := time.Now()
	if kind() != "" || time.Since(begin) < 30*time.Millisecond {
		t.Errorf("Slow took %s", time.Since(begin))
	}
}

// Mirrors follow the policy; new ones are in sync at once or when the test says so (L1 and case C11).
func TestMirrors(t *testing.T) {
	server := brokertest.New(t, brokertest.V3)
	server.SetNodes(brokertest.Node("r@0"), brokertest.Node("r@1"), brokertest.Node("r@2"))
	server.AddQueue(broker.Queue{VHost: "v", Name: "c"})
	server.AddQueue(broker.Queue{VHost: "v", Name: "q", Type: broker.Quorum})
	client := connect(t, server.Connector(), "http://b:1")
	put := func(definition map[string]any) {
		t.Helper()
		if err := client.PutPolicy(t.Context(), broker.Policy{VHost: "v", Name: "ha", Pattern: ".*", Definition: definition}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(mirrors, synchronised []string) {
		t.Helper()
		queues, err := client.Queues(t.Context(), "v")
		if err != nil {
			t.Fatal(err)
		}
		if got := queues[0]; !slices.Equal(got.Mirrors, mirrors) || !slices.Equal(got.SynchronisedMirrors, synchronised) {
			t.Errorf("mirrors %v, in sync %v, want %v, %v", got.Mirrors, got.SynchronisedMirrors, mirrors, synchronised)
		}
		if got := queues[1]; got.Mirrors != nil || len(got.Members) != 3 || len(got.Online) != 3 {
			t.Errorf("quorum queue: %+v", got)
		}
	}
	want(nil, nil)
	put(map[string]any{"ha-mode": "exactly", "ha-params": 2})
	want([]string{"r@1"}, []string{"r@1"})
	server.SetSynchronised(false)
	put(map[string]any{"ha-mode": "all"})
	want([]string{"r@1", "r@2"}, []string{"r@1"})
	server.SetSynchronised(true)
	want([]string{"r@1", "r@2"}, []string{"r@1", "r@2"})
	put(map[string]any{"ha-mode": "nodes", "ha-params": []any{"r@0", "r@2", "r@9"}})
	want([]string{"r@2"}, []string{"r@2"})
	put(map[string]any{"max-length": 5})
	want(nil, nil)
}

func TestStoppedNodeIsNotOnline(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	stopped := brokertest.Node("r@2")
	server.SetNodes(brokertest.Node("r@0"), brokertest.Node("r@1"), stopped)
	server.AddQueue(broker.Queue{VHost: "v", Name: "q", Type: broker.Quorum})
	stopped.Running = false
	server.SetNodes(brokertest.Node("r@0"), brokertest.Node("r@1"), stopped)
	client := connect(t, server.Connector(), "http://b:1")
	queues, err := client.Queues(t.Context(), "v")
	if err != nil || len(queues[0].Members) != 3 || !slices.Equal(queues[0].Online, []string{"r@0", "r@1"}) {
		t.Errorf("got %+v, %v", queues, err)
	}
	nodes, err := client.Nodes(t.Context())
	if err != nil || nodes[2].Running || nodes[2].MemoryLimit != nil {
		t.Errorf("got %+v, %v", nodes, err)
	}
}

// What happens behind the operator's back (case E1).
func TestChangesWithoutHTTP(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	server.SetPolicy(broker.Policy{VHost: "v", Name: "by-hand", Pattern: ".*", Definition: map[string]any{"max-length": 5}})
	server.AddQueue(broker.Queue{VHost: "v", Name: "q"})
	client := connect(t, server.Connector(), "http://b:1")
	inForce := func() string {
		queues, err := client.Queues(t.Context(), "v")
		if err != nil || len(queues) != 1 {
			t.Fatalf("got %v, %v", queues, err)
		}
		return *queues[0].Policy
	}
	if got := inForce(); got != "by-hand" {
		t.Errorf("got %q", got)
	}
	server.RemovePolicy("v", "by-hand")
	if got := inForce(); got != "" {
		t.Errorf("got %q", got)
	}
	if !server.SetCounts("v", "q", 3, 2, 1) || server.SetCounts("v", "absent", 0, 0, 0) {
		t.Error("SetCounts does not know which queues exist")
	}
	queue, err := client.Queue(t.Context(), "v", "q")
	if err != nil || *queue.Messages != 5 || *queue.Ready != 3 || *queue.Unacknowledged != 2 || *queue.Consumers != 1 {
		t.Errorf("got %+v, %v", queue, err)
	}
	server.Reset()
	if _, err := client.Queues(t.Context(), "v"); !broker.IsNotFound(err) {
		t.Errorf("after a reset: got %v", err)
	}
}

func TestServerIsSafeForConcurrentUse(t *testing.T) {
	server := brokertest.New(t, brokertest.V3)
	client := connect(t, server.Connector(), "http://b:1")
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for j := range 20 {
				server.AddQueue(broker.Queue{VHost: "/", Name: fmt.Sprint("q", i, j)})
				server.SetSynchronised(j%2 == 0)
				server.SetPolicy(broker.Policy{VHost: "/", Name: fmt.Sprint("p", i), Pattern: "q", Definition: map[string]any{"ha-mode": "all"}})
				if _, err := client.Queues(t.Context(), "/", broker.WithStatistics); err != nil {
					t.Error(err)
				}
				server.RemoveQueue("/", fmt.Sprint("q", i, j))
			}
		}()
	}
	workers.Wait()
	if server.Writes() != 0 {
		t.Errorf("%d writes", server.Writes())
	}
}
