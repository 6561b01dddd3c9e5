package route

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func mustEnv(t testing.TB, environ ...string) *Table {
	t.Helper()
	s, err := FromEnv(environ)
	if err != nil {
		t.Fatal(err)
	}
	return s.Table()
}

func TestFindsTheClass(t *testing.T) {
	named := []string{"RMQ_WORKER_HOSTS=w", "RMQ_BULK_HOSTS=b", "RMQ_BULK_LOAD_HOSTS=bl"}
	for _, c := range []struct {
		name         string
		environ      []string
		queue, class string
		want         string // the class, or what the error says
	}{
		{"given", named, "bulk.x", "worker", "worker"},
		{"given in capitals and with _", named, "x", "BULK_LOAD", "bulk-load"},
		{"given and unknown", named, "worker.x", "mail", `class "mail" is not among bulk, bulk-load, worker: set RMQ_MAIL_HOSTS`},
		{"by the first segment", named, "worker.resize", "", "worker"},
		{"by a dash", named, "worker-resize", "", "worker"},
		{"by a low line", named, "worker_resize", "", "worker"},
		{"by a slash", named, "worker/resize", "", "worker"},
		{"the whole name", named, "worker", "", "worker"},
		{"the longer of two", named, "bulk-load.eu", "", "bulk-load"},
		{"the shorter of two", named, "bulk-other.eu", "", "bulk"},
		{"only whole segments", named, "workers.x", "", `set RMQ_WORKERS_HOSTS or RMQ_DEFAULT_HOSTS`},
		{"a name that no variable can have", named, "ä.x", "", `set RMQ_DEFAULT_HOSTS`},
		{"default", append(slices.Clone(named), "RMQ_DEFAULT_HOSTS=d"), "mail.x", "", "default"},
		{"default, written short", append(slices.Clone(named), "RMQ_HOSTS=d"), "mail.x", "", "default"},
		{"the only one", []string{"RMQ_WORKER_HOSTS=w"}, "mail.x", "", "worker"},
		{"no name", []string{"RMQ_WORKER_HOSTS=w"}, "", "", "worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := mustEnv(t, c.environ...)
			for range 2 { // the second answer is a remembered one
				for _, find := range []func(string, string) (Route, error){table.Queue, table.Exchange} {
					r, err := find(c.queue, c.class)
					switch {
					case err == nil && r.Class != c.want:
						t.Errorf("got class %q, want %q", r.Class, c.want)
					case err != nil && (!errors.Is(err, ErrNoRoute) || !strings.Contains(err.Error(), c.want)):
						t.Errorf("got %v, want %q", err, c.want)
					}
				}
			}
		})
	}
}

func TestReadsTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		want    string // of the route of class worker
		fails   string
	}{
		{"hosts", []string{"RMQ_WORKER_HOSTS=a, b:5673"}, `worker (amqp://a:5672,b:5673, virtual host "/")`, ""},
		{"the same host twice", []string{"RMQ_WORKER_HOSTS=a,a:5672"}, `worker (amqp://a:5672, virtual host "/")`, ""},
		{"TLS", []string{"RMQ_WORKER_HOSTS=a,b:5673", "RMQ_WORKER_TLS=TRUE"}, `worker (amqps://a:5671,b:5673, virtual host "/")`, ""},
		{"TLS for all", []string{"RMQ_WORKER_HOSTS=a", "RMQ_TLS=true"}, `worker (amqps://a:5671, virtual host "/")`, ""},
		{"TLS for all others", []string{"RMQ_WORKER_HOSTS=a", "RMQ_TLS=true", "RMQ_WORKER_TLS=false"}, `worker (amqp://a:5672, virtual host "/")`, ""},
		{"certificates mean TLS", []string{"RMQ_WORKER_HOSTS=a", "RMQ_CA_FILE=/ca"}, `worker (amqps://a:5671, virtual host "/")`, ""},
		{"certificates, but no TLS", []string{"RMQ_WORKER_HOSTS=a", "RMQ_CA_FILE=/ca", "RMQ_TLS=false"}, `worker (amqp://a:5672, virtual host "/")`, ""},
		{"virtual host", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_VHOST=jobs", "RMQ_VHOST=no"}, `worker (amqp://a:5672, virtual host "jobs")`, ""},
		{"virtual host for all", []string{"RMQ_WORKER_HOSTS=a", "RMQ_VHOST=all"}, `worker (amqp://a:5672, virtual host "all")`, ""},
		{"URIs", []string{"RMQ_WORKER_URI=amqps://u:secret@a/jobs,amqps://u:secret@[::1]:5673/jobs"}, `worker (amqps://a:5671,[::1]:5673, virtual host "jobs")`, ""},
		{"a plain URI, and TLS for all", []string{"RMQ_WORKER_URI=amqp://a", "RMQ_TLS=true"}, `worker (amqp://a:5672, virtual host "/")`, ""},
		{"the first of two", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_HOSTS=b"}, `worker (amqp://a:5672, virtual host "/")`, ""},

		{"nothing", []string{"PATH=/bin"}, "", "set RMQ_<CLASS>_HOSTS"},
		{"only commas", []string{"RMQ_WORKER_HOSTS= , "}, "", "RMQ_WORKER_HOSTS: no hosts"},
		{"only the old side", []string{"RMQ_WORKER_OLD_HOSTS=a"}, "", "set RMQ_WORKER_HOSTS too"},
		{"hosts and URI", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_URI=amqp://a"}, "", "both set"},
		{"default twice", []string{"RMQ_HOSTS=a", "RMQ_DEFAULT_HOSTS=a"}, "", "RMQ_DEFAULT_… and RMQ_… both"},
		{"a class in small letters", []string{"RMQ_worker_HOSTS=a"}, "", "in capitals"},
		{"a class without a name", []string{"RMQ__HOSTS=a"}, "", "the name \"\""},
		{"class old", []string{"RMQ_OLD_OLD_HOSTS=a"}, "", "cannot be named"},
		{"TLS maybe", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_TLS=1"}, "", "RMQ_WORKER_TLS is neither true nor false"},
		{"TLS against the scheme", []string{"RMQ_WORKER_URI=amqp://a", "RMQ_WORKER_TLS=true"}, "", "contradict"},
		{"a certificate without a key", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_CERT_FILE=/c"}, "", "only one is set"},
		{"a password twice", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_PASSWORD=secret", "RMQ_WORKER_PASSWORD_FILE=/p"}, "", "RMQ_WORKER_PASSWORD_FILE are both set"},
		{"a password for a file", []string{"RMQ_WORKER_HOSTS=a", "RMQ_WORKER_PASSWORD_FILE=secret"}, "", "RMQ_WORKER_PASSWORD_FILE is not an absolute path"},
		{"the new cluster as the old one", []string{"RMQ_WORKER_HOSTS=a,b", "RMQ_WORKER_OLD_HOSTS=B.:5672"}, "", "the same host and virtual host"},
		{"a password among hosts", []string{"RMQ_WORKER_HOSTS=amqp://u:secret@a"}, "", "RMQ_WORKER_HOSTS: entry 1"},
		{"a password in a broken URI", []string{"RMQ_WORKER_URI=amqp://u:secret%@a"}, "", "RMQ_WORKER_URI: entry 1"},
		{"no root of bindings", []string{"RMQ_WORKER_BINDING=rabbit"}, "", "SERVICE_BINDING_ROOT"},
		{"a binding elsewhere", []string{"RMQ_WORKER_BINDING=../x", "SERVICE_BINDING_ROOT=/b"}, "", "neither the name of a binding"},
		{"no such binding", []string{"RMQ_WORKER_BINDING=x", "SERVICE_BINDING_ROOT=/no"}, "", "binding /no/x: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := FromEnv(c.environ)
			if err != nil {
				if c.fails == "" || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %q and no password", err, c.fails)
				}
				return
			}
			r, err := s.Table().Queue("worker", "")
			if err != nil {
				t.Fatal(err)
			}
			if c.fails != "" || r.Publish.String() != c.want {
				t.Errorf("got %v, want %s%s", r.Publish, c.want, c.fails)
			}
			if len(r.Consume) != 1 || r.Consume[0] != r.Publish || r.Phase != Settled || r.Hold {
				t.Errorf("got %v", r)
			}
		})
	}
}

func TestAnOldClusterInTheEnvironment(t *testing.T) {
	for name, environ := range map[string][]string{
		"a class": {"RMQ_WORKER_HOSTS=new", "RMQ_WORKER_OLD_HOSTS=old"},
		"default": {"RMQ_HOSTS=new", "RMQ_OLD_URI=amqp://old"},
	} {
		table := mustEnv(t, environ...)
		r, err := table.Queue("x", "")
		if err != nil || r.Phase != Flipped || r.Publish.Hosts[0] != "new:5672" || len(r.Consume) != 2 || r.Consume[0].Hosts[0] != "old:5672" || r.Consume[1] != r.Publish {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
		if len(table.Classes()) != 1 || len(table.Clusters()) != 2 {
			t.Errorf("%s: got %v", name, table)
		}
	}
}

// A message that fails in the dead-letter queue must not be sent there again.
func TestTheDeadLetterQueueHasNone(t *testing.T) {
	table := mustFile(t, `{"version": 1, "classes": {"worker": {"deadLetter": "worker.dead"}}}`, "RMQ_WORKER_HOSTS=a")
	if r, err := table.Queue("worker.dead", ""); err != nil || r.DeadLetter != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := table.Queue("worker.x", ""); err != nil || r.DeadLetter != "worker.dead" {
		t.Errorf("got %+v, %v", r, err)
	}
}
