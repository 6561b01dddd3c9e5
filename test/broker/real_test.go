//go:build broker

package broker_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warren-mq/warren/test/brokers"
)

// Real brokers of both lines. They are started with hack/local, or, where that cannot run, named by environment
// variables that hold either a URL with credentials (http://user:password@host:15672) or JSON:
//
//	{"management":"http://host:15672","prometheus":"http://host:15692","username":"u","password":"p",
//	 "exec":["docker","exec","name"]}
//
// exec is put before rabbitmqctl commands; without it the case of switched-off statistics fails. The federation and
// sharding plugins must be on. A broker that cannot be had is a failure, never a skip.
func init() {
	for _, line := range []struct{ version, variable string }{
		{"3.10.8", "WARREN_BROKER_3_10"},
		{"4.3.6", "WARREN_BROKER_4_3"},
	} {
		subjects = append(subjects, struct {
			name  string
			start func(t *testing.T) *subject
		}{"real-" + line.version, func(t *testing.T) *subject { return real(t, line.version, line.variable) }})
	}
}

const plugins = "rabbitmq_management,rabbitmq_prometheus,rabbitmq_federation,rabbitmq_sharding"

func real(t *testing.T, version, variable string) *subject {
	t.Helper()
	at, err := brokers.FromVariable(os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	if at == nil {
		at = startLocal(t, version)
	}
	s := newSubject(t, version)
	s.url, s.prometheus, s.username, s.password = at.Management, at.Prometheus, at.Username, at.Password
	s.setStatistics = func(t *testing.T, on bool) {
		t.Helper()
		const set = "application:set_env(rabbitmq_management_agent, disable_metrics_collector, %v)."
		if _, err := at.Run("rabbitmqctl", "eval", fmt.Sprintf(set, !on)); err != nil {
			t.Fatal(err)
		}
	}
	s.restart = func(t *testing.T) {
		t.Helper()
		must(t, at.Restart())
	}
	s.hold = func(t *testing.T, vhost, queue string, n int) {
		t.Helper()
		channel := dial(t, at.AMQP, vhost)
		for range n {
			if _, got, err := channel.Get(queue, false); err != nil || !got {
				t.Fatalf("get from %q: %v %v", queue, got, err)
			}
		}
	}
	s.suspend = func(t *testing.T, vhost, queue string, on bool) {
		t.Helper()
		verb := map[bool]string{true: "suspend", false: "resume"}[on]
		const code = `{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"%s">>)), sys:%s(amqqueue:get_pid(Q)).`
		if _, err := at.Run("rabbitmqctl", "eval", fmt.Sprintf(code, vhost, queue, verb)); err != nil {
			t.Fatal(err)
		}
	}
	s.more = proofs(at)
	s.forbidden = forbiddenUser
	overview, err := s.client(t).Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := newSubject(t, overview.RabbitMQVersion); got.version.Line() != s.version.Line() {
		t.Fatalf("the broker is %s, want the line %s", got.version, s.version.Line())
	} else {
		s.version, s.caps = got.version, got.caps
	}
	return s
}

func startLocal(t *testing.T, version string) *brokers.Broker {
	t.Helper()
	at, err := brokers.Start(version, fmt.Sprintf("contract-%s-%d", strings.ReplaceAll(version, ".", "-"), os.Getpid()), "--plugins", plugins)
	t.Cleanup(func() {
		if err := at.Stop(); err != nil {
			t.Errorf("the broker is not stopped: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// forbiddenUser is a policymaker without permission for any vhost.
func forbiddenUser(t *testing.T, s *subject, _ string) (string, string) {
	t.Helper()
	const name, password = prefix + "stranger", "a stranger's password"
	if status, reply := s.raw(t, http.MethodPut, "/api/users/"+name, `{"password":"`+password+`","tags":"policymaker"}`); status/100 != 2 {
		t.Fatalf("make a user: %d %v", status, reply)
	}
	t.Cleanup(func() { s.raw(t, http.MethodDelete, "/api/users/"+name, "") })
	return name, password
}
