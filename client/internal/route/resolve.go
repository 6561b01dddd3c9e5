package route

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// resolver makes a table of the environment and the routes file.
type resolver struct {
	env      environment
	clusters map[string]*Cluster
	classes  map[string]class // by folded name
	bindings []string         // folders that hosts were taken from
	table    *Table
	made     map[madeKey]Route
}

// class is what its queues take over.
type class struct {
	name string
	pair
	phase      Phase
	deadLetter string
	unpack     bool
}

type madeKey struct {
	class        string
	phase        Phase
	current, old *Cluster
}

// newTable makes the table; f is nil without a routes file. The folders are those of bindings that hosts were taken from.
func newTable(env environment, path string, f *file) (*Table, []string, error) {
	r := &resolver{env: env, clusters: map[string]*Cluster{}, classes: map[string]class{}, made: map[madeKey]Route{}}
	r.table = &Table{path: path, classes: map[string]*entry{}, queues: map[string]*entry{}, exchanges: map[string]*entry{}}
	named, err := env.classes()
	if err != nil {
		return nil, r.bindings, err
	}
	for name, p := range named {
		r.classes[name] = class{name: name, pair: p, phase: p.phase()}
	}
	if f != nil {
		if err := r.file(f); err != nil {
			return nil, r.bindings, err
		}
	}
	if len(r.classes) == 0 {
		return nil, r.bindings, fmt.Errorf("%w: nothing says where a cluster is: set RMQ_<CLASS>_HOSTS, _URI or _BINDING for each class, or RMQ_ROUTES_FILE", ErrNoHosts)
	}
	for key, c := range r.classes {
		route, err := r.route(c, routeSpec{})
		if err != nil {
			return nil, r.bindings, fmt.Errorf("class %s: %w", c.name, err)
		}
		r.table.classes[key] = &entry{route: route}
	}
	return r.table, r.bindings, nil
}

func (r *resolver) file(f *file) error {
	r.table.revision = f.revision
	clusters := map[string]string{} // by folded name
	for _, spec := range f.clusters {
		err := overlap(clusters, spec.name)
		if err == nil {
			err = r.cluster(spec)
		}
		if err != nil {
			return mistakeAt(spec.at, "clusters["+quote(spec.name)+"]", err)
		}
	}
	inFile := map[string]string{}
	for _, spec := range f.classes {
		err := overlap(inFile, spec.name)
		if err == nil {
			err = r.class(spec)
		}
		if err != nil {
			return mistakeAt(spec.at, "classes["+quote(spec.name)+"]", err)
		}
	}
	for _, list := range []struct {
		name  string
		specs []routeSpec
		to    map[string]*entry
	}{{"queues", f.queues, r.table.queues}, {"exchanges", f.exchanges, r.table.exchanges}} {
		for _, spec := range list.specs {
			route, err := r.entry(spec)
			if err != nil {
				return mistakeAt(spec.at, list.name+"["+quote(spec.name)+"]", err)
			}
			list.to[spec.name] = &entry{route: route}
		}
	}
	return r.rules(f.rules)
}

// overlap refuses a name that differs from an earlier one in spelling only.
func overlap(seen map[string]string, name string) error {
	if other, ok := seen[fold(name)]; ok {
		return fmt.Errorf("it is the same as %s: both have the variables %s_…", quote(other), prefixOf(name))
	}
	seen[fold(name)] = name
	return nil
}

func (r *resolver) cluster(spec clusterSpec) error {
	said := layer{}
	if spec.vhost != "" {
		said[vhost] = literal("the routes file", spec.vhost)
	}
	if err := spec.tls.into(said); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	all := chain{said}
	hosts := func(tls bool) ([]string, error) { return hostList(spec.hosts, defaultPort(tls)) }
	if spec.login != nil {
		taken, err := r.login(spec, said)
		if err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
		if taken != nil {
			all, hosts = append(all, taken.layer()), taken.addresses
		}
	}
	for _, prefix := range []string{prefixOf(spec.name), "RMQ"} {
		l, err := r.env.vars(prefix)
		if err != nil {
			return err
		}
		all = append(all, l)
	}
	c, err := newCluster(spec.name, hosts, all)
	if err != nil {
		return err
	}
	r.clusters[spec.name] = c
	return nil
}

func hostList(texts []string, port int) ([]string, error) {
	var out []string
	for i, text := range texts {
		address, err := withPort(text, port)
		if err != nil {
			return nil, fmt.Errorf("hosts[%d] is not HOST or HOST:PORT: %w", i, err)
		}
		out = append(out, address)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("hosts: %w", ErrNoHosts)
	}
	return out, nil
}

// into a layer; a block that does not say so means TLS.
func (t *tlsSpec) into(l layer) error {
	if t == nil {
		return nil
	}
	l[useTLS] = literal("the routes file", strconv.FormatBool(t.enabled == nil || *t.enabled))
	if t.serverName != "" {
		l[serverName] = literal("the routes file", t.serverName)
	}
	for _, f := range []struct {
		name, path string
		setting    setting
	}{{"caFile", t.caFile, caFile}, {"certFile", t.certFile, certFile}, {"keyFile", t.keyFile, keyFile}} {
		if f.path == "" {
			continue
		}
		if err := l.file(f.setting, f.name, f.path); err != nil {
			return err
		}
	}
	if (t.certFile == "") != (t.keyFile == "") {
		return errors.New("certFile and keyFile go together")
	}
	return nil
}

// login puts the places of username and password into a layer. They are looked at when a connection is made: one file may
// serve many applications, of which none has the logins to all clusters. The binding is answered when it is to name the
// hosts too.
func (r *resolver) login(spec clusterSpec, l layer) (*binding, error) {
	c := *spec.login
	switch {
	case c.env != "" && c == loginSpec{env: c.env}:
		return nil, r.loginVars(c.env, l)
	case c.binding != "" && c == loginSpec{binding: c.binding}:
		return r.loginBinding(spec, l)
	case c.usernameFile != "" && c.passwordFile != "" && c.env == "" && c.binding == "":
		if err := l.file(username, "usernameFile", c.usernameFile); err != nil {
			return nil, err
		}
		return nil, l.file(password, "passwordFile", c.passwordFile)
	}
	return nil, errors.New("one of env, binding, or usernameFile with passwordFile is wanted")
}

func (r *resolver) loginVars(prefix string, l layer) error {
	// Whoever writes the file must not be able to have other variables sent to a host of their choice.
	if prefix != "RMQ" && !strings.HasPrefix(prefix, "RMQ_") {
		return errors.New("env: it is the beginning of variables' names and does not begin with RMQ_")
	}
	vars, err := r.env.vars(prefix)
	if err != nil {
		return err
	}
	for s, suffix := range map[setting]string{username: "_USERNAME", password: "_PASSWORD"} {
		if l[s] = vars[s]; l[s].read == nil {
			l[s] = missing(prefix + suffix)
		}
	}
	return nil
}

func (r *resolver) loginBinding(spec clusterSpec, l layer) (*binding, error) {
	dir, err := bindingDir(r.env["SERVICE_BINDING_ROOT"], spec.login.binding)
	if err != nil {
		return nil, err
	}
	l[username], l[password] = bindingRef(dir, username), bindingRef(dir, password)
	if len(spec.hosts) > 0 {
		return nil, nil
	}
	r.bindings = append(r.bindings, dir)
	b, err := readBinding(dir)
	return &b, err
}

func missing(variable string) ref {
	return ref{from: variable, read: func() (string, error) {
		return "", fmt.Errorf("%w: set %s or %s_FILE", ErrNoCredentials, variable, variable)
	}}
}

// class notes what a class of the file says; its clusters come from the environment when it names none.
func (r *resolver) class(spec routeSpec) error {
	c := class{name: spec.name, phase: Settled}
	var err error
	switch named, ok := r.classes[fold(spec.name)]; {
	case spec.cluster != "":
		if c.pair, err = r.pair(c.pair, spec); err != nil {
			return err
		}
	case spec.old != "":
		return errors.New("old without cluster: the file names both or leaves both to the environment")
	case !ok:
		return fmt.Errorf("%w: it names no cluster, and %s_HOSTS is not set", ErrNoHosts, prefixOf(spec.name))
	default:
		c.pair, c.phase = named.pair, named.phase
	}
	if spec.phase != "" {
		if c.phase, err = parsePhase(spec.phase); err != nil {
			return fmt.Errorf("phase: %w", err)
		}
	}
	if spec.deadLetter != nil {
		c.deadLetter = *spec.deadLetter
	}
	c.unpack = spec.unpack != nil && *spec.unpack
	if _, err := newRoute(c.name, c.phase, c.current, c.old); err != nil {
		return err
	}
	r.classes[fold(spec.name)] = c
	return nil
}

// pair puts the clusters that an entry names in the place of those that it takes over.
func (r *resolver) pair(p pair, spec routeSpec) (pair, error) {
	for _, named := range []struct {
		field, name string
		to          **Cluster
	}{{"cluster", spec.cluster, &p.current}, {"old", spec.old, &p.old}} {
		if named.name == "" {
			continue
		}
		c := r.clusters[named.name]
		if c == nil {
			return p, fmt.Errorf("%s: %s is not in clusters", named.field, quote(named.name))
		}
		*named.to = c
	}
	return p, nil
}

// entry is the route of one of queues, exchanges or rules.
func (r *resolver) entry(spec routeSpec) (Route, error) {
	c, ok := r.classes[fold(spec.class)]
	if !ok {
		return Route{}, fmt.Errorf("class: %s is neither in classes nor in the environment", quote(spec.class))
	}
	return r.route(c, spec)
}

func (r *resolver) route(c class, spec routeSpec) (Route, error) {
	var err error
	if c.pair, err = r.pair(c.pair, spec); err != nil {
		return Route{}, err
	}
	if spec.phase != "" {
		if c.phase, err = parsePhase(spec.phase); err != nil {
			return Route{}, fmt.Errorf("phase: %w", err)
		}
	}
	key := madeKey{c.name, c.phase, c.current, c.old}
	route, ok := r.made[key]
	if !ok {
		if route, err = newRoute(c.name, c.phase, c.current, c.old); err != nil {
			return Route{}, err
		}
		r.made[key] = route
	}
	route.DeadLetter, route.Unpack = c.deadLetter, c.unpack
	if spec.deadLetter != nil {
		route.DeadLetter = *spec.deadLetter
		if route.DeadLetter == spec.name && spec.name != "" {
			return Route{}, errors.New("deadLetter: a queue cannot be its own")
		}
	}
	if spec.unpack != nil {
		route.Unpack = *spec.unpack
	}
	return route, nil
}

// rules makes the patterns, and refuses one whose queues all belong to an earlier one: what it says would never hold.
func (r *resolver) rules(specs []routeSpec) error {
	var taken []string // beginnings of names that are taken; "" takes all
	numbers := []int{}
	for i, spec := range specs {
		place := fmt.Sprintf("rules[%d]", i)
		pattern, err := regexp.Compile(spec.name)
		if err != nil {
			return mistakeAt(spec.at, place+".pattern", fmt.Errorf("not RE2: %w", err))
		}
		begin, whole := beginningOf(spec.name)
		for j, earlier := range taken {
			if strings.HasPrefix(begin, earlier) {
				return mistakeAt(spec.at, place, fmt.Errorf("it never applies: rules[%d] takes all of its queues", numbers[j]))
			}
		}
		for j, other := range specs[:i] {
			if other.name == spec.name {
				return mistakeAt(spec.at, place, fmt.Errorf("it never applies: rules[%d] has the same pattern", j))
			}
		}
		if whole {
			taken, numbers = append(taken, begin), append(numbers, i)
		}
		route, err := r.entry(routeSpec{class: spec.class, phase: spec.phase})
		if err != nil {
			return mistakeAt(spec.at, place, err)
		}
		r.table.rules = append(r.table.rules, rule{pattern: pattern, route: route})
	}
	return nil
}

// beginningOf is what every name begins with that a pattern matches, as far as it is plain; whole says that every name
// with this beginning is matched.
func beginningOf(pattern string) (begin string, whole bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	if parts[0].Op != syntax.OpBeginText {
		return "", takesAll(parts)
	}
	parts = parts[1:]
	if len(parts) > 0 && parts[0].Op == syntax.OpLiteral && parts[0].Flags&syntax.FoldCase == 0 {
		begin, parts = string(parts[0].Rune), parts[1:]
	}
	return begin, takesAll(parts)
}

// takesAll says that the rest of a pattern matches whatever follows. Names may have line breaks, which "." and "$" with
// some flags do not take; such names do not count here.
func takesAll(parts []*syntax.Regexp) bool {
	star := false
	for _, p := range parts {
		switch {
		case p.Op == syntax.OpStar && (p.Sub[0].Op == syntax.OpAnyChar || p.Sub[0].Op == syntax.OpAnyCharNotNL):
			star = true
		case p.Op == syntax.OpEmptyMatch, p.Op == syntax.OpEndText && star:
		default:
			return false
		}
	}
	return true
}
