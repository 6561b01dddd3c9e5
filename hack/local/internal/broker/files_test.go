package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/hack/local/internal/rabbit"
)

func TestEveryListenerIsOnLoopback(t *testing.T) {
	rec := record{
		Broker: Broker{Name: "x", Username: "u", Password: "p"}, Address: loopback,
		Ports: ports{AMQP: 1001, Management: 1002, Prometheus: 1003, Dist: 1004, EPMD: 1005},
	}
	text := configuration(rec)
	for _, line := range []string{
		"listeners.tcp.local = 127.0.0.1:1001",
		"management.tcp.ip = 127.0.0.1", "management.tcp.port = 1002",
		"prometheus.tcp.ip = 127.0.0.1", "prometheus.tcp.port = 1003",
		"default_user = u", "default_pass = p",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("configuration lacks %q", line)
		}
	}
	env := environment(rec, rabbit.Built{Version: "4.3.6"})
	for _, entry := range []string{"RABBITMQ_NODENAME=x@localhost", "RABBITMQ_DIST_PORT=1004", "ERL_EPMD_PORT=1005", "ERL_EPMD_ADDRESS=127.0.0.1"} {
		if !slices.Contains(env, entry) {
			t.Errorf("environment lacks %q", entry)
		}
	}
}

func TestAMemberSharesWhatAClusterNeeds(t *testing.T) {
	dir := t.TempDir()
	seed := record{Broker: Broker{Name: "one", Username: "u", Password: "p"}, Ports: ports{EPMD: 1005}, Cookie: "baked"}
	rec, err := prepare(rabbit.Built{}, Options{Name: "two", Join: "one", Username: "u", Password: "p"}, dir, seed)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Cookie != "baked" || rec.Ports.EPMD != 1005 {
		t.Errorf("cookie %q and epmd's port %d, want those of the other", rec.Cookie, rec.Ports.EPMD)
	}
	if rec.Address != loopback {
		t.Errorf("it listens on %s, want loopback", rec.Address)
	}
	text := configuration(rec)
	for _, line := range []string{"classic_config.nodes.1 = one@localhost", "classic_config.nodes.2 = two@localhost"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("configuration lacks %q", line)
		}
	}
	if strings.Contains(configuration(seed), "cluster_formation") {
		t.Error("a broker that joins none looks for others")
	}
}

func TestFreePortsDiffer(t *testing.T) {
	found, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if len(slices.Compact(found)) != 20 {
		t.Errorf("ports repeat: %v", found)
	}
}
