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
