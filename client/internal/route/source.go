package route

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollEvery is how often the files are looked at without a notice: some volumes give none.
	pollEvery = 10 * time.Second
	// settleFor is how long after a notice they are looked at: a swap is several events.
	settleFor = 100 * time.Millisecond
	// maxRevisions is how many past revisions are remembered.
	maxRevisions = 100
)

// Source reads the environment and the routes file, and follows the file. It may be used by many goroutines.
type Source struct {
	env     environment
	path    string // of the routes file; "" without one
	current atomic.Pointer[Table]

	poll, settle time.Duration
	watching     atomic.Bool

	mu        sync.Mutex
	bindings  []string // folders that hosts are taken from
	good      stamp    // of the table in force
	seen      stamp    // of what was looked at last
	revisions []string // that were in force, the last one at the end
}

// stamp tells two states of the files apart.
type stamp [sha256.Size]byte

// FromEnv reads the variables in environ (give it os.Environ()) and, when RMQ_ROUTES_FILE names one, the routes file. The
// error names the variable or the place in the file, and never repeats a password; it is ErrNoHosts when nothing says where
// any cluster is.
func FromEnv(environ []string) (*Source, error) {
	env := newEnvironment(environ)
	s := &Source{env: env, path: env["RMQ_ROUTES_FILE"], poll: pollEvery, settle: settleFor}
	for name, value := range env {
		if !strings.HasPrefix(name, "RMQ_") || !strings.HasSuffix(name, "_BINDING") {
			continue
		}
		if dir, err := bindingDir(env["SERVICE_BINDING_ROOT"], value); err == nil {
			s.bindings = append(s.bindings, dir)
		}
	}
	if _, err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// Table is the one in force. It is a new one after each change that Watch finds.
func (s *Source) Table() *Table { return s.current.Load() }

// check looks at the files and answers a new table when they changed, or the error that keeps the one in force. What was
// refused once is not looked at again until it changes.
func (s *Source) check() (*Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, readErr := s.readFile()
	now := s.stamp(data, readErr)
	if last := s.current.Load(); last != nil && (now == s.seen || now == s.good) {
		s.seen = now
		return nil, nil
	}
	s.seen = now
	t, err := s.load(data, readErr)
	if err != nil {
		return nil, err
	}
	s.remember(t)
	s.current.Store(t)
	s.good = s.stamp(data, nil)
	s.seen = s.good
	return t, nil
}

func (s *Source) readFile() ([]byte, error) {
	if s.path == "" {
		return nil, nil
	}
	data, err := readBounded(s.path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("RMQ_ROUTES_FILE: %w", err)
	}
	return data, nil
}

// load makes a table of the files, and refuses one that does not know what is in use any more.
func (s *Source) load(data []byte, readErr error) (*Table, error) {
	if readErr != nil {
		return nil, readErr
	}
	var f *file
	var err error
	if s.path != "" {
		if f, err = decode(data); err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
	}
	t, folders, err := newTable(s.env, s.path, f)
	for _, dir := range folders {
		if !slices.Contains(s.bindings, dir) {
			s.bindings = append(s.bindings, dir)
		}
	}
	if m := (*mistake)(nil); errors.As(err, &m) {
		err = fmt.Errorf("%s: %w", s.path, located(data, err))
	}
	if err != nil {
		return nil, err
	}
	if last := s.current.Load(); last != nil {
		if lost := last.lost(t); len(lost) > 0 {
			return nil, fmt.Errorf("%s: %w any more for what is in use: %s", first(s.path, "bindings"), ErrNoRoute, strings.Join(lost, ", "))
		}
	}
	return t, nil
}

// remember notes the revision, and in the table when it is going back.
func (s *Source) remember(t *Table) {
	last := s.current.Load()
	if last != nil && older(t.revision, last.revision, s.revisions) {
		t.rolledBack = last.revision
	}
	if last == nil || last.revision != t.revision {
		s.revisions = slices.DeleteFunc(s.revisions, func(r string) bool { return r == t.revision })
		s.revisions = append(s.revisions, t.revision)
	}
	if extra := len(s.revisions) - maxRevisions; extra > 0 {
		s.revisions = slices.Delete(s.revisions, 0, extra)
	}
}

func older(revision, than string, before []string) bool {
	if revision == than {
		return false
	}
	a, aErr := strconv.ParseInt(revision, 10, 64)
	b, bErr := strconv.ParseInt(than, 10, 64)
	if aErr == nil && bErr == nil {
		return a < b
	}
	return slices.Contains(before, revision)
}

// stamp covers the routes file, and of each binding all but its secrets.
func (s *Source) stamp(data []byte, readErr error) stamp {
	h := sha256.New()
	fmt.Fprintf(h, "%d %v\n", len(data), readErr)
	h.Write(data)
	for _, dir := range slices.Sorted(slices.Values(s.bindings)) {
		b, err := readBinding(dir)
		fmt.Fprintf(h, "%q %q %d %q %t %v\n", dir, b.hosts, b.port, b.vhost, b.tls, err)
		l := b.layer()
		for _, key := range slices.Sorted(maps.Keys(l)) {
			fmt.Fprintf(h, "%d %q\n", key, l[key].from)
		}
	}
	return stamp(h.Sum(nil))
}

// Watch calls changed with each new table, after Table answers it, and failed with each error that keeps the last good
// table in force, once for each content of the files. It looks at the files at once, a tenth of a second after a notice of
// the file system, and every ten seconds. It blocks until ctx is done; the calls are made one after the other, from this
// goroutine. Either may be nil. Only one Watch runs at a time: a second one fails at once.
//
// A file that cannot be read or is refused, and one without a route for a name that the table in force was asked for, keeps
// that table.
func (s *Source) Watch(ctx context.Context, changed func(*Table), failed func(error)) {
	if failed == nil {
		failed = func(error) {}
	}
	if changed == nil {
		changed = func(*Table) {}
	}
	if !s.watching.CompareAndSwap(false, true) {
		failed(errors.New("the routes are being watched already"))
		return
	}
	defer s.watching.Store(false)
	if s.path == "" && len(s.bindings) == 0 {
		<-ctx.Done() // nothing can change
		return
	}
	n, err := newNotices()
	if err != nil {
		failed(fmt.Errorf("no notices of changed files, they are looked at every %v: %w", s.poll, err))
	}
	defer n.close()
	s.watch(ctx, n, func() {
		n.follow(s.folders())
		t, err := s.check()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failed(err)
		case t != nil:
			changed(t)
		}
	})
}

// watch looks at the start, after notices, and every now and then.
func (s *Source) watch(ctx context.Context, n notices, look func()) {
	ticker := time.NewTicker(s.poll)
	defer ticker.Stop()
	var settled <-chan time.Time
	look()
	for {
		notice := true
		select {
		case <-ctx.Done():
			return
		case <-n.events():
		case _, notice = <-n.errors(): // events may have been lost
		case <-settled:
			settled, notice = nil, false
			look()
		case <-ticker.C:
			notice = false
			look()
		}
		// Counted from the first event: in a busy folder they might never stop.
		if notice && settled == nil {
			settled = time.After(s.settle)
		}
	}
}

// folders are those to watch. A ConfigMap is replaced by a link beside the file, so the file itself is not enough; and one
// whose path is a link is watched at both ends.
func (s *Source) folders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.bindings)
	if s.path != "" {
		out = append(out, filepath.Dir(s.path))
		if target, err := filepath.EvalSymlinks(s.path); err == nil {
			out = append(out, filepath.Dir(target))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// notices are the file system's; without them there is only the poll.
type notices struct{ watcher *fsnotify.Watcher }

func newNotices() (notices, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return notices{}, err
	}
	return notices{w}, nil
}

func (n notices) close() {
	if n.watcher != nil {
		_ = n.watcher.Close()
	}
}

func (n notices) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n notices) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

// follow watches these folders and no others. One that was replaced has to be added again; one that cannot be watched is
// polled.
func (n notices) follow(folders []string) {
	if n.watcher == nil {
		return
	}
	for _, dir := range n.watcher.WatchList() {
		if !slices.Contains(folders, dir) {
			_ = n.watcher.Remove(dir)
		}
	}
	for _, dir := range folders {
		_ = n.watcher.Add(dir)
	}
}
