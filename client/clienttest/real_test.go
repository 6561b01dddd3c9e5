//go:build broker

// This says the same as test/brokers of the repository, which is in the module of the operator: this module must not
// require that, and with it Kubernetes, for a test.

package clienttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Real brokers of both lines. They are started with hack/local, or, where that cannot run, named by environment variables
// that hold either a URL with credentials (http://user:password@host:15672, with AMQP on port 5672) or JSON:
//
//	{"amqp":"amqp://user:password@host:5672","exec":["docker","exec","name"]}
//
// exec is put before rabbitmqctl commands; without it the clauses on alarms and operators fail. A broker that cannot be
// had is a failure, never a skip.
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

// address is where a broker is: what hack/local prints, or a variable says.
type address struct {
	AMQP string   `json:"amqp"`
	Exec []string `json:"exec"`
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
	return &subject{
		url: strings.TrimSuffix(at.AMQP, "/") + "/", old: strings.HasPrefix(version, "3."),
		block:   func(t *testing.T) { ctl(t, at, "set_vm_memory_high_watermark", "absolute", "1") },
		unblock: func(t *testing.T) { ctl(t, at, "set_vm_memory_high_watermark", "0.6") },
		timeout: func(t *testing.T, d time.Duration) {
			set := func(timeout, channel, quorum int64) {
				ctl(t, at, "eval", fmt.Sprintf("[application:set_env(rabbit, K, V) || {K, V} <- "+
					"[{consumer_timeout, %d}, {channel_tick_interval, %d}, {quorum_tick_interval, %d}]].", timeout, channel, quorum))
			}
			t.Cleanup(func() { set(1800000, 60000, 5000) })
			set(d.Milliseconds(), 500, 500)
		},
		closeIt: func(t *testing.T) { ctl(t, at, "close_all_connections", "maintenance") },
	}
}

// fromVariable is nil without a value.
func fromVariable(value string) (*address, error) {
	switch {
	case value == "":
		return nil, nil
	case strings.HasPrefix(value, "{"):
		var at address
		if err := json.Unmarshal([]byte(value), &at); err != nil || at.AMQP == "" {
			return nil, errors.New("not valid JSON with amqp") // without the value, which holds a password
		}
		return &at, nil
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.User == nil {
		return nil, errors.New("want a URL as http://user:password@host:15672")
	}
	return &address{AMQP: (&url.URL{Scheme: "amqp", User: parsed.User, Host: parsed.Hostname() + ":5672"}).String()}, nil
}

// local runs hack/local from the root of the repository.
func local(arguments ...string) ([]byte, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
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
	name := fmt.Sprintf("ct-%s-%d", strings.ReplaceAll(version, ".", "-"), os.Getpid())
	t.Cleanup(func() {
		if _, err := local("stop", "--name", name); err != nil {
			t.Errorf("the broker is not stopped: %v", err)
		}
	})
	out, err := local("start", "--version", version, "--name", name)
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
	if len(at.Exec) == 0 {
		t.Fatal("there is no exec to run rabbitmqctl with")
	}
	if at.Exec[0] == "local" {
		if _, err := local(append([]string{"exec", "--name", at.Exec[1], "--", "rabbitmqctl"}, arguments...)...); err != nil {
			t.Fatal(err)
		}
		return
	}
	full := append(append(at.Exec[1:len(at.Exec):len(at.Exec)], "rabbitmqctl"), arguments...)
	if out, err := exec.Command(at.Exec[0], full...).CombinedOutput(); err != nil {
		t.Fatalf("rabbitmqctl %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}
