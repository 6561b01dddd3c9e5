package warren

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name, class string
		env         map[string]string
		current     []string
		old         []string
		fails       string
	}{
		{"one", "runtime", map[string]string{"RMQ_RUNTIME_HOSTS": "runtime.messaging.svc:5672"}, []string{"runtime.messaging.svc:5672"}, nil, ""},
		{"several, spaces, no port", "worker", map[string]string{"RMQ_WORKER_HOSTS": " a , b:5671,, "}, []string{"a:5672", "b:5671"}, nil, ""},
		{"while the class moves", "worker", map[string]string{"RMQ_WORKER_HOSTS": "new", "RMQ_WORKER_OLD_HOSTS": "old:5673"}, []string{"new:5672"}, []string{"old:5673"}, ""},
		{"a dash in the class", "bulk-load", map[string]string{"RMQ_BULK_LOAD_HOSTS": "a"}, []string{"a:5672"}, nil, ""},
		{"IPv6", "v6", map[string]string{"RMQ_V6_HOSTS": "fd00::7,[fd00::8],[fd00::9]:5671"}, []string{"[fd00::7]:5672", "[fd00::8]:5672", "[fd00::9]:5671"}, nil, ""},
		{"unset", "admin", nil, nil, nil, "RMQ_ADMIN_HOSTS"},
		{"empty", "admin", map[string]string{"RMQ_ADMIN_HOSTS": " , "}, nil, nil, "RMQ_ADMIN_HOSTS"},
		{"only old ones", "admin", map[string]string{"RMQ_ADMIN_OLD_HOSTS": "a"}, nil, nil, "RMQ_ADMIN_HOSTS"},
		{"a URL", "admin", map[string]string{"RMQ_ADMIN_HOSTS": "amqp://a:5672"}, nil, nil, "entry 1 is not HOST or HOST:PORT"},
		{"a port too large", "admin", map[string]string{"RMQ_ADMIN_HOSTS": "a:70000"}, nil, nil, "from 1 to 65535"},
		{"port 0", "admin", map[string]string{"RMQ_ADMIN_HOSTS": "a:0"}, nil, nil, "from 1 to 65535"},
		{"no host", "admin", map[string]string{"RMQ_ADMIN_HOSTS": ":5672"}, nil, nil, "only a name"},
		{"a credential", "admin", map[string]string{"RMQ_ADMIN_HOSTS": "a,amqp://user:secret@a"}, nil, nil, "entry 2"},
		{"a broken old one", "admin", map[string]string{"RMQ_ADMIN_HOSTS": "a", "RMQ_ADMIN_OLD_HOSTS": "a/b"}, nil, nil, "RMQ_ADMIN_OLD_HOSTS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := hostsFrom(c.class, func(name string) string { return c.env[name] })
			switch {
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("want an error that says %q, got %v", c.fails, err)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error repeats a password: %v", err)
			case c.fails == "" && err != nil:
				t.Error(err)
			case !slices.Equal(got.Current, c.current) || !slices.Equal(got.Old, c.old):
				t.Errorf("got %+v", got)
			}
		})
	}
	if _, err := hostsFrom("admin", func(string) string { return "" }); !errors.Is(err, ErrNoHosts) {
		t.Errorf("got %v, want ErrNoHosts", err)
	}
}

func ExampleHostsFromEnv() {
	_ = os.Setenv("RMQ_RUNTIME_HOSTS", "runtime.messaging.svc")
	hosts, err := HostsFromEnv("runtime")
	fmt.Println(hosts.Current, err)
	// Output: [runtime.messaging.svc:5672] <nil>
}
