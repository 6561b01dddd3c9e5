//go:build broker

package broker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// address is where a broker is: what hack/local prints, or a variable says.
type address struct {
	Management string   `json:"management"`
	Prometheus string   `json:"prometheus"`
	Username   string   `json:"username"`
	Password   string   `json:"password"`
	Exec       []string `json:"exec"`
}

func real(t *testing.T, version, variable string) *subject {
	t.Helper()
	at, err := fromVariable(os.Getenv(variable))
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
		ctl(t, at, "eval", fmt.Sprintf("application:set_env(rabbitmq_management_agent, disable_metrics_collector, %v).", !on))
	}
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

// fromVariable is nil without a value.
func fromVariable(value string) (*address, error) {
	switch {
	case value == "":
		return nil, nil
	case strings.HasPrefix(value, "{"):
		var at address
		if err := json.Unmarshal([]byte(value), &at); err != nil {
			return nil, errors.New("not valid JSON") // without the value, which holds a password
		}
		return &at, nil
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.User == nil {
		return nil, errors.New("want a URL as http://user:password@host:15672")
	}
	password, _ := parsed.User.Password()
	return &address{
		Management: parsed.Scheme + "://" + parsed.Host, Prometheus: "http://" + parsed.Hostname() + ":15692",
		Username: parsed.User.Username(), Password: password,
	}, nil
}

// local runs hack/local from the root of the module.
func local(t *testing.T, arguments ...string) ([]byte, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", append([]string{"run", "./hack/local", "broker"}, arguments...)...)
	command.Dir = root
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("hack/local broker %s: %w\n%s", strings.Join(arguments, " "), err, complaints.String())
	}
	return out, nil
}

func startLocal(t *testing.T, version string) *address {
	t.Helper()
	name := fmt.Sprintf("contract-%s-%d", strings.ReplaceAll(version, ".", "-"), os.Getpid())
	t.Cleanup(func() {
		if _, err := local(t, "stop", "--name", name); err != nil {
			t.Errorf("the broker is not stopped: %v", err)
		}
	})
	out, err := local(t, "start", "--version", version, "--name", name, "--plugins", plugins)
	if err != nil {
		t.Fatalf("no RabbitMQ %s: %v", version, err)
	}
	var at address
	if err := json.Unmarshal(bytes.TrimSpace(out), &at); err != nil {
		t.Fatalf("hack/local printed %q: %v", out, err)
	}
	at.Exec = []string{"local", name}
	return &at
}

// ctl runs rabbitmqctl beside the broker.
func ctl(t *testing.T, at *address, arguments ...string) {
	t.Helper()
	arguments = append([]string{"rabbitmqctl"}, arguments...)
	if len(at.Exec) == 2 && at.Exec[0] == "local" {
		if _, err := local(t, append([]string{"exec", "--name", at.Exec[1], "--"}, arguments...)...); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(at.Exec) == 0 {
		t.Fatal(`this case runs rabbitmqctl: name the broker with JSON that has "exec"`)
	}
	arguments = append(at.Exec[1:len(at.Exec):len(at.Exec)], arguments...)
	if out, err := exec.Command(at.Exec[0], arguments...).CombinedOutput(); err != nil {
		t.Fatalf("rabbitmqctl: %v\n%s", err, out)
	}
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
