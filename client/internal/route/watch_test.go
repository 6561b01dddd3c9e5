package route

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// follower runs Watch and hands over what it reports. Each report is waited for, and none is lost.
type follower struct {
	t       *testing.T
	source  *Source
	changed chan *Table
	failed  chan error
}

// follow starts a watch. poll is an hour where notices are tested, and short where they are not to be counted on.
func follow(t *testing.T, poll time.Duration, environ ...string) *follower {
	t.Helper()
	source, err := FromEnv(environ)
	if err != nil {
		t.Fatal(err)
	}
	source.poll, source.settle = poll, 10*time.Millisecond
	f := &follower{t, source, make(chan *Table), make(chan error)}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		source.Watch(ctx, func(table *Table) {
			if source.Table() != table {
				t.Error("the table was reported before it was in force")
			}
			select {
			case f.changed <- table:
			case <-ctx.Done():
			}
		}, func(err error) {
			select {
			case f.failed <- err:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	return f
}

const patience = 30 * time.Second

func (f *follower) wantRevision(revision string) *Table {
	f.t.Helper()
	select {
	case table := <-f.changed:
		if table.Revision() != revision {
			f.t.Fatalf("got revision %q, want %q", table.Revision(), revision)
		}
		return table
	case err := <-f.failed:
		f.t.Fatalf("want revision %q, got %v", revision, err)
	case <-time.After(patience):
		f.t.Fatalf("no revision %q", revision)
	}
	return nil
}

func (f *follower) wantError(says string) {
	f.t.Helper()
	select {
	case table := <-f.changed:
		f.t.Fatalf("want an error that says %q, got revision %q", says, table.Revision())
	case err := <-f.failed:
		if !strings.Contains(err.Error(), says) {
			f.t.Fatalf("want an error that says %q, got %v", says, err)
		}
	case <-time.After(patience):
		f.t.Fatalf("no error that says %q", says)
	}
}

func routes(revision, phase string) map[string]string {
	return map[string]string{"routes.json": `{"version": 1, "revision": "` + revision + `", "clusters": {"new": {"hosts": ["n"]}, "old": {"hosts": ["o"]}},
		"classes": {"worker": {"cluster": "new", "old": "old", "phase": "` + phase + `"}, "admin": {"cluster": "new"}}}`}
}

func TestAMoveIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routes")
	mount(t, dir, routes("1", "Before"))
	f := follow(t, time.Hour, "RMQ_ROUTES_FILE="+dir+"/routes.json")
	for i, want := range []string{
		"worker: Watching; publish old; consume old, new",
		"worker: Held; hold; consume old, new",
		"worker: Flipped; publish new; consume old, new",
		"worker: Settled; publish new; consume new",
	} {
		revision := string(rune('2' + i))
		mount(t, dir, routes(revision, string(phases[i+1])))
		r, err := f.wantRevision(revision).Queue("worker.q", "")
		if err != nil || r.String() != want {
			t.Errorf("got %v, %v; want %s", r, err, want)
		}
		checkRoute(t, r)
	}
	mount(t, dir, routes("3", "Held"))
	if from, back := f.wantRevision("3").RolledBack(); !back || from != "5" {
		t.Errorf("going back is not told: %q, %v", from, back)
	}
	mount(t, dir, routes("6", "Settled"))
	if from, back := f.wantRevision("6").RolledBack(); back {
		t.Errorf("going forward is told as going back from %q", from)
	}
}

func TestABrokenFileKeepsTheLastGoodTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routes")
	mount(t, dir, routes("1", "Watching"))
	f := follow(t, time.Hour, "RMQ_ROUTES_FILE="+dir+"/routes.json")
	broken := map[string]string{"routes.json": `{"version": 1, "classes": {"worker": {"cluster": "gone"}}}`}
	mount(t, dir, broken)
	f.wantError(`classes["worker"]: cluster: "gone" is not in clusters`)
	if got := f.source.Table().Revision(); got != "1" {
		t.Errorf("got revision %q", got)
	}
	// The same content is reported once: the next report is about what comes after it.
	mount(t, dir, broken)
	mount(t, dir, map[string]string{"routes.json": "{"})
	f.wantError("line 1: not JSON")
	mount(t, dir, routes("2", "Held"))
	f.wantRevision("2")
	mount(t, dir, broken)
	f.wantError("gone") // again, after a good one
}

// Looks by hand, so that it is certain that each state was looked at.
func TestTheSameErrorIsReportedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routes")
	mount(t, dir, routes("1", "Watching"))
	s, err := FromEnv([]string{"RMQ_ROUTES_FILE=" + dir + "/routes.json"})
	if err != nil {
		t.Fatal(err)
	}
	look := func(wantError, wantTable bool) {
		t.Helper()
		if table, err := s.check(); (err != nil) != wantError || (table != nil) != wantTable {
			t.Errorf("got %v, %v", table, err)
		}
	}
	look(false, false)
	mount(t, dir, map[string]string{"routes.json": "{"})
	look(true, false)
	look(false, false)
	mount(t, dir, map[string]string{"routes.json": "{"})
	look(false, false)
	mount(t, dir, routes("1", "Watching"))
	look(false, false) // it is the one in force
	mount(t, dir, map[string]string{"routes.json": "{"})
	look(true, false)
	mount(t, dir, routes("2", "Watching"))
	look(false, true)
	look(false, false)
}

func TestAFileThatVanishesKeepsTheLastGoodTable(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "routes.json", routes("1", "Held")["routes.json"])
	f := follow(t, time.Hour, "RMQ_ROUTES_FILE="+path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.wantError("RMQ_ROUTES_FILE: " + path + ": no such file")
	if r, err := f.source.Table().Queue("worker.q", ""); err != nil || !r.Hold {
		t.Errorf("got %v, %v", r, err)
	}
	write(t, dir, "routes.json", routes("2", "Flipped")["routes.json"])
	f.wantRevision("2")
}

func TestRemovingARouteInUseIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routes")
	mount(t, dir, routes("1", "Watching"))
	f := follow(t, time.Hour, "RMQ_ROUTES_FILE="+dir+"/routes.json")
	if _, err := f.source.Table().Queue("worker.q", ""); err != nil {
		t.Fatal(err)
	}
	without := func(revision, class string) map[string]string {
		return map[string]string{"routes.json": `{"version": 1, "revision": "` + revision + `", "clusters": {"new": {"hosts": ["n"]}},
			"classes": {"` + class + `": {"cluster": "new"}, "other": {"cluster": "new"}}}`}
	}
	mount(t, dir, without("2", "admin"))
	f.wantError(`what is in use: queue "worker.q"`)
	if r, err := f.source.Table().Queue("worker.q", ""); err != nil || r.Phase != Watching {
		t.Errorf("got %v, %v", r, err)
	}
	mount(t, dir, without("3", "worker")) // admin was never asked for
	f.wantRevision("3")
}

func TestWithoutNoticesTheFileIsPolled(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	// A link to a link: nothing happens in the folders that are watched at first.
	path, middle := filepath.Join(dir, "routes.json"), filepath.Join(elsewhere, "middle")
	first := write(t, t.TempDir(), "a", routes("1", "Watching")["routes.json"])
	second := write(t, t.TempDir(), "b", routes("2", "Held")["routes.json"])
	for link, target := range map[string]string{path: middle, middle: first} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	f := follow(t, 20*time.Millisecond, "RMQ_ROUTES_FILE="+path)
	next := middle + "-next"
	if err := errors.Join(os.Symlink(second, next), os.Rename(next, middle)); err != nil {
		t.Fatal(err)
	}
	f.wantRevision("2")
}

func TestHostsOfABindingAreFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rabbit")
	files := map[string]string{"host": "a", "port": "5672", "username": "u", "password": "p"}
	mount(t, dir, files)
	f := follow(t, time.Hour, "RMQ_WORKER_BINDING="+dir)
	files["host"] = "b"
	mount(t, dir, files)
	r, err := f.wantRevision("").Queue("worker", "")
	if err != nil || r.Publish.Hosts[0] != "b:5672" {
		t.Errorf("got %v, %v", r.Publish, err)
	}
	files["port"] = "none"
	mount(t, dir, files)
	f.wantError("RMQ_WORKER_BINDING")
}

func TestOnlyOneWatchRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routes")
	mount(t, dir, routes("1", "Watching"))
	f := follow(t, time.Hour, "RMQ_ROUTES_FILE="+dir+"/routes.json")
	mount(t, dir, routes("2", "Watching"))
	f.wantRevision("2") // it runs
	var got error
	f.source.Watch(context.Background(), nil, func(err error) { got = err })
	if got == nil {
		t.Error("a second watch ran")
	}
}

func TestAWatchOfNothingEnds(t *testing.T) {
	s, err := FromEnv([]string{"RMQ_WORKER_HOSTS=a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	s.Watch(ctx, nil, nil)
}

func TestTheFileIsWantedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	large := write(t, dir, "large.json", strings.Repeat(" ", maxFile+1))
	for path, says := range map[string]string{dir + "/no.json": "no such file", dir: "is not a file", large: "larger than 8388608 bytes",
		write(t, dir, "broken.json", `{"version": 1, "queues": 7}`): "broken.json: line 1: queues: an object is wanted"} {
		if _, err := FromEnv([]string{"RMQ_WORKER_HOSTS=a", "RMQ_ROUTES_FILE=" + path}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestRevisions(t *testing.T) {
	for _, c := range []struct {
		revision, than string
		before         []string
		want           bool
	}{
		{"9", "10", nil, true}, {"10", "9", []string{"10", "9"}, false}, {"a", "b", []string{"a", "b"}, true}, {"c", "b", []string{"a", "b"}, false}, {"a", "a", []string{"a"}, false},
	} {
		if got := older(c.revision, c.than, c.before); got != c.want {
			t.Errorf("%s after %s: got %v", c.revision, c.than, got)
		}
	}
}
