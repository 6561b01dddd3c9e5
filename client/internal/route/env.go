package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// environment is a snapshot of a process's variables. An empty one counts as unset.
type environment map[string]string

// newEnvironment reads what os.Environ answers. Of two with the same name the first counts, as in os.Getenv.
func newEnvironment(environ []string) environment {
	env := environment{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			if _, twice := env[name]; !twice {
				env[name] = value
			}
		}
	}
	return env
}

// fold is how names of classes and clusters are compared: small letters, "-" for "_". Two names with the same fold would
// share their variables.
func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// prefixOf is how a class's or a cluster's variables begin, without the last "_".
func prefixOf(name string) string {
	return "RMQ_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// checkName says whether a class or a cluster may be named so: letters, digits, "-" and "_", beginning and ending with a
// letter or a digit, at most 63.
func checkName(name string) error {
	letter := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	inside := func(r rune) bool { return letter(r) || r == '-' || r == '_' }
	if name == "" || len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool { return !inside(r) }) ||
		!letter(rune(name[0])) || !letter(rune(name[len(name)-1])) {
		return fmt.Errorf("the name %s is not made of 1 to 63 letters, digits, - and _, with a letter or a digit at both ends", quote(name))
	}
	return nil
}

// checkClass refuses, besides, the names whose variables are those of another class's old cluster.
func checkClass(name string) error {
	if folded := fold(name); folded == "old" || strings.HasSuffix(folded, "-old") {
		return fmt.Errorf("a class cannot be named %s: RMQ_…_OLD_… are the variables of an old cluster", quote(name))
	}
	return checkName(name)
}

// vars is what the variables with a prefix say. TLS is on when certificates are named and nothing is said of it.
func (env environment) vars(prefix string) (layer, error) {
	l := layer{}
	for s, suffix := range map[setting]string{username: "_USERNAME", password: "_PASSWORD"} {
		if err := env.loginVar(prefix+suffix, s, l); err != nil {
			return nil, err
		}
	}
	for s, suffix := range map[setting]string{vhost: "_VHOST", serverName: "_SERVER_NAME"} {
		if value := env[prefix+suffix]; value != "" {
			l[s] = literal(prefix+suffix, value)
		}
	}
	for s, suffix := range map[setting]string{caFile: "_CA_FILE", certFile: "_CERT_FILE", keyFile: "_KEY_FILE"} {
		if path := env[prefix+suffix]; path != "" {
			if err := l.file(s, prefix+suffix, path); err != nil {
				return nil, err
			}
		}
	}
	if _, cert := l[certFile]; cert != (env[prefix+"_KEY_FILE"] != "") {
		return nil, fmt.Errorf("of %s_CERT_FILE and %s_KEY_FILE only one is set", prefix, prefix)
	}
	return l, env.tlsVar(prefix, l)
}

func (env environment) loginVar(name string, s setting, l layer) error {
	value, path := env[name], env[name+"_FILE"]
	switch {
	case value != "" && path != "":
		return fmt.Errorf("%s and %s_FILE are both set: one is wanted", name, name)
	case value != "":
		l[s] = literal(name, value)
	case path != "":
		return l.file(s, name+"_FILE", path)
	}
	return nil
}

func (env environment) tlsVar(prefix string, l layer) error {
	switch value := strings.ToLower(env[prefix+"_TLS"]); value {
	case "true", "false":
		l[useTLS] = literal(prefix+"_TLS", value)
	case "":
		for _, s := range []setting{caFile, certFile, serverName} {
			if r, ok := l[s]; ok {
				l[useTLS] = literal(r.from, "true")
			}
		}
	default:
		return fmt.Errorf("%s_TLS is neither true nor false", prefix)
	}
	return nil
}

// side is one cluster of one class, as the variables with one prefix (RMQ_WORKER, RMQ_WORKER_OLD) describe it.
type side struct {
	chain chain // the variables, the URI, the binding
	hosts func(tls bool) ([]string, error)
}

// whereSuffixes end the variables that say where a cluster is.
var whereSuffixes = []string{"_HOSTS", "_URI", "_BINDING"}

// has says that the variables with the prefix tell where a cluster is.
func (env environment) has(prefix string) bool {
	return slices.ContainsFunc(whereSuffixes, func(suffix string) bool { return env[prefix+suffix] != "" })
}

func (env environment) side(prefix string) (side, error) {
	own, err := env.vars(prefix)
	if err != nil {
		return side{}, err
	}
	s := side{chain: chain{own}}
	hosts, list, name := env[prefix+"_HOSTS"], env[prefix+"_URI"], env[prefix+"_BINDING"]
	if hosts != "" && list != "" {
		return side{}, fmt.Errorf("%s_HOSTS and %s_URI are both set: one is wanted", prefix, prefix)
	}
	if list != "" {
		u, err := parseURIs(prefix+"_URI", list)
		if err != nil {
			return side{}, err
		}
		if said := env[prefix+"_TLS"]; said != "" && strings.EqualFold(said, "true") != u.tls {
			return side{}, fmt.Errorf("%s_TLS and the scheme of %s_URI contradict each other", prefix, prefix)
		}
		s.chain = append(s.chain, u.layer(prefix+"_URI"))
		s.hosts = func(bool) ([]string, error) { return u.hosts, nil }
	}
	if name != "" {
		b, err := env.binding(name)
		if err != nil {
			return side{}, fmt.Errorf("%s_BINDING: %w", prefix, err)
		}
		s.chain = append(s.chain, b.layer())
		if s.hosts == nil {
			s.hosts = b.addresses
		}
	}
	if hosts != "" {
		s.hosts = hostsOf(prefix+"_HOSTS", hosts)
	}
	return s, nil
}

func hostsOf(place, text string) func(tls bool) ([]string, error) {
	return func(tls bool) ([]string, error) {
		found, err := ParseHosts(place, text, defaultPort(tls))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: %w", place, ErrNoHosts)
		}
		return found, err
	}
}

func (env environment) binding(name string) (binding, error) {
	dir, err := bindingDir(env["SERVICE_BINDING_ROOT"], name)
	if err != nil {
		return binding{}, err
	}
	return readBinding(dir)
}

// DefaultClass serves what no other class does. Its variables may also be written without a class, as RMQ_HOSTS.
const DefaultClass = "default"

// pair is the clusters of a class; old is nil unless it moves.
type pair struct{ current, old *Cluster }

// classes are the clusters of every class that the variables name, by folded name.
func (env environment) classes() (map[string]pair, error) {
	names, err := env.classNames()
	if err != nil {
		return nil, err
	}
	out := map[string]pair{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if out[name], err = env.class(name); err != nil {
			return nil, fmt.Errorf("class %s: %w", name, err)
		}
	}
	return out, nil
}

// classNames finds the classes of which some variable says where they are, or where they were.
func (env environment) classNames() (map[string]bool, error) {
	out := map[string]bool{}
	for _, variable := range slices.Sorted(maps.Keys(env)) {
		if !strings.HasPrefix(variable, "RMQ_") {
			continue
		}
		for _, suffix := range whereSuffixes {
			rest, ok := strings.CutSuffix(variable[len("RMQ"):], suffix)
			if !ok {
				continue
			}
			rest = strings.TrimSuffix(rest, "_OLD")
			if rest == "" {
				out[DefaultClass] = true
				break
			}
			name := rest[1:]
			if strings.ToUpper(name) != name {
				return nil, fmt.Errorf("%s: a class is in capitals there", quote(variable))
			}
			if err := checkClass(name); err != nil {
				return nil, fmt.Errorf("%s: %w", quote(variable), err)
			}
			out[fold(name)] = true
			break
		}
	}
	return out, nil
}

// prefixes of the default class are two, of which one may say where it is.
func (env environment) prefix(name, suffix string) (string, error) {
	prefix, short := prefixOf(name)+suffix, "RMQ"+suffix
	if name != DefaultClass || !env.has(short) {
		return prefix, nil
	}
	if env.has(prefix) {
		return "", fmt.Errorf("%s_… and %s_… both say where the class is: one is wanted", prefix, short)
	}
	return short, nil
}

func (env environment) class(name string) (pair, error) {
	prefix, err := env.prefix(name, "")
	if err != nil {
		return pair{}, err
	}
	oldPrefix, err := env.prefix(name, "_OLD")
	if err != nil {
		return pair{}, err
	}
	if !env.has(prefix) {
		return pair{}, fmt.Errorf("%w: %s_… says where it was: set %s_HOSTS too", ErrNoHosts, oldPrefix, prefix)
	}
	current, err := env.side(prefix)
	if err != nil {
		return pair{}, err
	}
	general, err := env.vars("RMQ")
	if err != nil {
		return pair{}, err
	}
	all := append(slices.Clone(current.chain), general)
	var out pair
	if out.current, err = newCluster(name, current.hosts, all); err != nil {
		return pair{}, err
	}
	if !env.has(oldPrefix) {
		return out, nil
	}
	old, err := env.side(oldPrefix)
	if err != nil {
		return pair{}, err
	}
	generalOld, err := env.vars("RMQ_OLD")
	if err != nil {
		return pair{}, err
	}
	all = slices.Concat(old.chain, chain{generalOld}, all)
	if out.old, err = newCluster(name+" (old)", old.hosts, all); err != nil {
		return pair{}, err
	}
	if out.current.samePlace(out.old) {
		return pair{}, errors.New(oldPrefix + "_… names the same host and virtual host as " + prefix + "_…")
	}
	return out, nil
}

// phase of a class whose clusters are those of the environment, when nothing else says.
func (p pair) phase() Phase {
	if p.old != nil {
		return Flipped
	}
	return Settled
}
