package route

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxFound bounds how many names a table remembers that are not written in the routes file one by one.
const maxFound = 1 << 16

// Table says which cluster serves what. It never changes and may be used by many goroutines.
type Table struct {
	revision   string
	rolledBack string // the revision that this one takes the place of, when it is a newer one
	path       string // of the routes file; "" without one
	classes    map[string]*entry
	queues     map[string]*entry
	exchanges  map[string]*entry
	rules      []rule

	mu    sync.RWMutex
	found map[lookup]Route // answers for names that stand in no list
}

// entry is a route that was made when the table was.
type entry struct {
	route Route
	used  atomic.Bool // asked for by its name and without a class
}

type rule struct {
	pattern *regexp.Regexp
	route   Route
}

type kind bool

const (
	queueKind    kind = false
	exchangeKind kind = true
)

func (k kind) String() string {
	if k == exchangeKind {
		return "exchange"
	}
	return "queue"
}

type lookup struct {
	kind        kind
	name, class string
}

// Queue is the route of a queue. The class that serves it is, in this order: the one given; that of its entry in the routes
// file; that of the first rule there that its name matches; the class that its name begins with, up to the end of the name
// or a ".", "-", "_" or "/" (of two the longer one, as bulk-load of bulk-load.eu); the class "default"; the only class there
// is. With a class given, an entry or a rule for the queue still tells the phase when it is of that class. The error is
// ErrNoRoute, and says what was looked for and what to set.
func (t *Table) Queue(queue, class string) (Route, error) {
	if e := t.queues[queue]; e != nil && class == "" {
		return e.use(), nil
	}
	return t.find(lookup{queueKind, queue, class})
}

// Exchange is the route of an exchange, found as that of a queue, except that rules are about queues only. The queues
// behind an exchange move with it.
func (t *Table) Exchange(exchange, class string) (Route, error) {
	if e := t.exchanges[exchange]; e != nil && class == "" {
		return e.use(), nil
	}
	return t.find(lookup{exchangeKind, exchange, class})
}

func (e *entry) use() Route {
	if !e.used.Load() { // the common case writes nothing that other cores read
		e.used.Store(true)
	}
	return e.route
}

// Revision is what the routes file says of itself; "" without a file, or when it says nothing.
func (t *Table) Revision() string { return t.revision }

// RolledBack says that this table took the place of one with a newer revision, and which. A revision is older when both
// are whole numbers and it is the smaller one, or when it was in force before.
func (t *Table) RolledBack() (from string, is bool) { return t.rolledBack, t.rolledBack != "" }

// Classes are the routes of all classes, by name.
func (t *Table) Classes() []Route {
	out := make([]Route, 0, len(t.classes))
	for _, e := range t.classes {
		out = append(out, e.route)
	}
	slices.SortFunc(out, func(a, b Route) int { return cmp.Compare(a.Class, b.Class) })
	return out
}

// Clusters are all clusters that some route names, each key once, by key: connections to others can be closed.
func (t *Table) Clusters() []*Cluster {
	byKey := map[string]*Cluster{}
	add := func(r Route) {
		for _, c := range r.Consume {
			byKey[c.Key()] = c
		}
		if r.Publish != nil {
			byKey[r.Publish.Key()] = r.Publish
		}
	}
	for _, list := range []map[string]*entry{t.classes, t.queues, t.exchanges} {
		for _, e := range list {
			add(e.route)
		}
	}
	for _, r := range t.rules {
		add(r.route)
	}
	out := make([]*Cluster, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[key])
	}
	return out
}

// String is for people: one line for each class.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %q: %d queues, %d exchanges, %d rules\n", t.revision, len(t.queues), len(t.exchanges), len(t.rules))
	for _, r := range t.Classes() {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// find answers from what was found before, or searches.
func (t *Table) find(l lookup) (Route, error) {
	t.mu.RLock()
	r, ok := t.found[l]
	t.mu.RUnlock()
	if ok {
		return r, nil
	}
	r, err := t.search(l)
	if err != nil {
		return Route{}, err
	}
	if r.DeadLetter == l.name {
		r.DeadLetter = "" // taken over from the class; a message that fails there has nowhere else to go
	}
	t.mu.Lock()
	if len(t.found) < maxFound {
		if t.found == nil {
			t.found = map[lookup]Route{}
		}
		// The caller's strings may be parts of large ones.
		t.found[lookup{l.kind, strings.Clone(l.name), strings.Clone(l.class)}] = r
	}
	t.mu.Unlock()
	return r, nil
}

func (t *Table) search(l lookup) (Route, error) {
	list := t.queues
	if l.kind == exchangeKind {
		list = t.exchanges
	}
	class := t.class(l.class)
	if l.class != "" && class == nil {
		return Route{}, t.unknown(l)
	}
	// With a class given, what the file says of the name counts when it is about that class.
	fits := func(r Route) bool { return class == nil || r.Class == class.route.Class }
	if e := list[l.name]; e != nil && fits(e.route) {
		return e.route, nil
	}
	if l.kind == queueKind {
		for _, r := range t.rules {
			if fits(r.route) && r.pattern.MatchString(l.name) {
				return r.route, nil
			}
		}
	}
	if class == nil {
		class = t.guess(l.name)
	}
	if class == nil {
		return Route{}, t.nothing(l)
	}
	return class.route, nil
}

// guess is the class of a name that nothing assigns to one; nil when there is none.
func (t *Table) guess(name string) *entry {
	if e := t.beginning(name); e != nil {
		return e
	}
	if e := t.classes[DefaultClass]; e != nil {
		return e
	}
	if len(t.classes) == 1 {
		for _, e := range t.classes {
			return e
		}
	}
	return nil
}

// class by name, however it is spelled; nil when there is none.
func (t *Table) class(name string) *entry {
	if e := t.classes[name]; e != nil || name == "" {
		return e
	}
	return t.classes[fold(name)]
}

const separators = ".-_/"

// beginning is the class with the longest name that a queue's name begins with.
func (t *Table) beginning(name string) *entry {
	for end := len(name); end > 0; end = strings.LastIndexAny(name[:end], separators) {
		if e := t.class(name[:end]); e != nil {
			return e
		}
	}
	return nil
}

func (t *Table) known() string {
	names := []string{}
	for _, r := range t.Classes() {
		names = append(names, r.Class)
	}
	return strings.Join(names, ", ")
}

func (t *Table) unknown(l lookup) error {
	advice := "the name cannot be a class's"
	if checkClass(l.class) == nil {
		advice = "set " + prefixOf(l.class) + "_HOSTS"
	}
	if t.path != "" {
		advice += ", or add the class to " + t.path
	}
	return fmt.Errorf("%w for %s %s: class %s is not among %s: %s", ErrNoRoute, l.kind, quote(l.name), quote(l.class), t.known(), advice)
}

// nothing is the error when no step of the search found a class.
func (t *Table) nothing(l lookup) error {
	segment := l.name
	if end := strings.IndexAny(segment, separators); end >= 0 {
		segment = segment[:end]
	}
	begin, advice := "", "set RMQ_DEFAULT_HOSTS"
	if checkClass(segment) == nil {
		begin = fmt.Sprintf(" nor %s", quote(segment))
		advice = "set " + prefixOf(segment) + "_HOSTS or RMQ_DEFAULT_HOSTS"
	}
	file := ""
	if t.path != "" {
		file = fmt.Sprintf(" %s has no entry or rule for it;", t.path)
		advice += ", or add it to the file"
	}
	return fmt.Errorf("%w for %s %s: no class is given;%s there is neither a class \"default\"%s, but %s: %s", ErrNoRoute, l.kind, quote(l.name), file, begin, t.known(), advice)
}

// lost are the names that were found in t and that next does not know any more; at most a few.
func (t *Table) lost(next *Table) []string {
	var out []string
	check := func(l lookup) {
		// Not by Queue: looking here is no use of the new table.
		if _, err := next.search(l); err != nil && len(out) < 3 {
			out = append(out, fmt.Sprintf("%s %s", l.kind, quote(l.name)))
		}
	}
	for name, e := range t.queues {
		if e.used.Load() {
			check(lookup{kind: queueKind, name: name})
		}
	}
	for name, e := range t.exchanges {
		if e.used.Load() {
			check(lookup{kind: exchangeKind, name: name})
		}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for l := range t.found {
		check(l)
	}
	slices.Sort(out)
	return out
}
