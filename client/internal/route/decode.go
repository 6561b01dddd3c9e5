package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of the routes file.
const (
	maxFile    = 8 << 20 // bytes
	maxRules   = 1000
	maxPattern = 1000 // bytes
	maxName    = 255  // bytes, AMQP's own bound for names of queues and exchanges
)

// file is the routes file as it is written, in its order.
type file struct {
	version   string
	revision  string
	clusters  []clusterSpec
	classes   []routeSpec
	queues    []routeSpec
	exchanges []routeSpec
	rules     []routeSpec
}

// clusterSpec is one of clusters.
type clusterSpec struct {
	name  string
	at    int64
	hosts []string
	vhost string
	tls   *tlsSpec
	login *loginSpec
}

type tlsSpec struct {
	enabled                               *bool
	serverName, caFile, certFile, keyFile string
}

type loginSpec struct{ env, binding, usernameFile, passwordFile string }

// routeSpec is one of classes, queues, exchanges or rules; name is the pattern of a rule.
type routeSpec struct {
	name                       string
	at                         int64
	class, phase, cluster, old string
	deadLetter                 *string
	unpack                     *bool
}

// mistake is an error at a place in the file.
type mistake struct {
	at   int64 // bytes from the beginning
	path string
	err  error
}

func (m *mistake) Error() string {
	if m.path == "" {
		return m.err.Error()
	}
	return m.path + ": " + m.err.Error()
}

func (m *mistake) Unwrap() error { return m.err }

// within puts a field, or an entry, before the place of a mistake.
func within(path string, err error) error {
	var m *mistake
	if !errors.As(err, &m) {
		return err
	}
	if m.path != "" && !strings.HasPrefix(m.path, "[") {
		path += "."
	}
	m.path = path + m.path
	return m
}

func mistakeAt(at int64, path string, err error) error { return &mistake{at: at, path: path, err: err} }

// decode reads the file strictly: version 1, no unknown field, no field or name twice, no null, every value of its type. The
// error names the line and the place, and repeats no value that could be a password.
func decode(data []byte) (*file, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	if !json.Valid(data) {
		return nil, syntaxError(data)
	}
	r := &reader{data: data}
	f := &file{}
	err := r.fields(
		field{"version", r.number(&f.version)},
		field{"revision", r.text(&f.revision)},
		field{"clusters", r.clusters(f)},
		field{"classes", r.routes(&f.classes, "cluster", "old", "phase", "deadLetter", "unpack")},
		field{"queues", r.routes(&f.queues, "class", "cluster", "old", "phase", "deadLetter", "unpack")},
		field{"exchanges", r.routes(&f.exchanges, "class", "phase")},
		field{"rules", r.rules(f)},
	)
	if err == nil && f.version != "1" {
		err = mistakeAt(0, "version", errors.New("1 is wanted, the only version that is known"))
	}
	if err != nil {
		return nil, located(data, err)
	}
	return f, nil
}

func syntaxError(data []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: not JSON: %w", line(data, syntax.Offset), err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// located turns the place of a mistake into a line.
func located(data []byte, err error) error {
	var m *mistake
	if errors.As(err, &m) {
		return fmt.Errorf("line %d: %w", line(data, m.at), err)
	}
	return err
}

func line(data []byte, at int64) int {
	return bytes.Count(data[:min(max(at, 0), int64(len(data)))], []byte("\n")) + 1
}

// reader takes the file apart without building it up in memory first. What it reads is known to be JSON.
type reader struct {
	data []byte
	at   int
}

type field struct {
	name string
	read func() error
}

// token is a brace, a bracket or a value; kind is its first byte, "0" for every number.
type token struct {
	kind byte
	text string // of a string or a number
}

func (r *reader) mistake(format string, args ...any) error {
	return mistakeAt(int64(r.at), "", fmt.Errorf(format, args...))
}

// peek is the first byte of the next token.
func (r *reader) peek() byte {
	for {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			r.at++
		default:
			return c
		}
	}
}

func (r *reader) token() token {
	c := r.peek()
	begin := r.at
	switch c {
	case '{', '}', '[', ']':
		r.at++
		return token{kind: c}
	case '"':
		return token{kind: c, text: r.quoted()}
	}
	for r.at < len(r.data) && strings.IndexByte(" \t\r\n,:]}", r.data[r.at]) < 0 {
		r.at++
	}
	if c == '-' || c >= '0' && c <= '9' {
		return token{kind: '0', text: string(r.data[begin:r.at])}
	}
	return token{kind: c}
}

// quoted reads a string. Few have escapes, and those are left to the standard library.
func (r *reader) quoted() string {
	begin, plain := r.at, true
	for r.at++; r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] == '\\' {
			plain = false
			r.at++
		}
	}
	r.at++
	if plain {
		return string(r.data[begin+1 : r.at-1])
	}
	var out string
	_ = json.Unmarshal(r.data[begin:r.at], &out) // it was found to be JSON
	return out
}

// open reads the beginning of an object or a list.
func (r *reader) open(kind byte, what string) error {
	if r.token().kind != kind {
		return r.mistake("%s is wanted", what)
	}
	return nil
}

// object reads the entries of an object; each reads the value.
func (r *reader) object(each func(key string) error) error {
	if err := r.open('{', "an object"); err != nil {
		return err
	}
	for r.peek() != '}' {
		if err := each(r.token().text); err != nil {
			return err
		}
	}
	r.token()
	return nil
}

// list reads the entries of a list, each by its number from 0.
func (r *reader) list(each func() error) error {
	if err := r.open('[', "a list"); err != nil {
		return err
	}
	for i := 0; r.peek() != ']'; i++ {
		if err := each(); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
	}
	r.token()
	return nil
}

// fields reads an object that has no others than these, each at most once.
func (r *reader) fields(known ...field) error {
	var seen uint32
	return r.object(func(key string) error {
		for i, f := range known {
			if f.name != key {
				continue
			}
			if seen&(1<<i) != 0 {
				return within(key, r.mistake("it is there twice"))
			}
			seen |= 1 << i
			if err := f.read(); err != nil {
				return within(key, err)
			}
			return nil
		}
		if strings.Contains(strings.ToLower(key), "password") {
			return r.mistake("there is no field %s: passwords are not written here, only where they are", quote(key))
		}
		return r.mistake("there is no field %s", quote(key))
	})
}

func (r *reader) text(to *string) func() error {
	return func() error {
		t := r.token()
		if t.kind != '"' {
			return r.mistake("a string is wanted")
		}
		*to = t.text
		return nil
	}
}

// some is a string that must not be empty.
func (r *reader) some(to *string) func() error {
	read := r.text(to)
	return func() error {
		err := read()
		if err == nil && *to == "" {
			err = r.mistake("it is empty")
		}
		return err
	}
}

func (r *reader) optionalText(to **string) func() error {
	return func() error {
		*to = new(string)
		return r.text(*to)()
	}
}

func (r *reader) number(to *string) func() error {
	return func() error {
		t := r.token()
		if t.kind != '0' {
			return r.mistake("a number is wanted")
		}
		*to = t.text
		return nil
	}
}

func (r *reader) flag(to **bool) func() error {
	return func() error {
		kind := r.token().kind
		if kind != 't' && kind != 'f' {
			return r.mistake("true or false is wanted")
		}
		flag := kind == 't'
		*to = &flag
		return nil
	}
}

// named reads an object of entries, and refuses a name that is there twice or that cannot be one.
func (r *reader) named(check func(string) error, each func(name string, at int64) error) func() error {
	return func() error {
		seen := map[string]struct{}{}
		return r.object(func(name string) error {
			_, twice := seen[name]
			seen[name] = struct{}{}
			err := check(name)
			switch {
			case twice:
				err = r.mistake("it is there twice")
			case err != nil:
				err = r.mistake("%w", err)
			default:
				err = each(name, int64(r.at))
			}
			if err != nil {
				return within("["+quote(name)+"]", err)
			}
			return nil
		})
	}
}

// routes reads classes, queues or exchanges, of which each may have some fields only.
func (r *reader) routes(to *[]routeSpec, names ...string) func() error {
	check := checkQueue
	if names[0] != "class" {
		check = checkClass
	}
	return r.named(check, func(name string, at int64) error {
		spec, err := r.route(names)
		spec.name, spec.at = name, at
		*to = append(*to, spec)
		return err
	})
}

func (r *reader) route(names []string) (routeSpec, error) {
	var s routeSpec
	known := make([]field, 0, 8)
	for _, name := range names {
		var read func() error
		switch name {
		case "pattern":
			read = r.text(&s.name)
		case "class":
			read = r.some(&s.class)
		case "cluster":
			read = r.some(&s.cluster)
		case "old":
			read = r.some(&s.old)
		case "phase":
			read = r.some(&s.phase)
		case "deadLetter":
			read = r.optionalText(&s.deadLetter)
		case "unpack":
			read = r.flag(&s.unpack)
		}
		known = append(known, field{name, read})
	}
	err := r.fields(known...)
	if err == nil && s.class == "" && (names[0] == "class" || names[0] == "pattern") {
		err = within("class", r.mistake("it is missing"))
	}
	return s, err
}

func (r *reader) rules(f *file) func() error {
	return func() error {
		return r.list(func() error {
			at := int64(r.at)
			spec, err := r.route([]string{"pattern", "class", "phase"})
			spec.at = at
			switch {
			case err != nil:
				return err
			case len(f.rules) == maxRules:
				return r.mistake("there are more than %d rules", maxRules)
			case spec.name == "":
				return within("pattern", r.mistake("it is missing"))
			case len(spec.name) > maxPattern:
				return within("pattern", r.mistake("it is longer than %d bytes", maxPattern))
			}
			f.rules = append(f.rules, spec)
			return nil
		})
	}
}

func (r *reader) clusters(f *file) func() error {
	return r.named(checkName, func(name string, at int64) error {
		spec := clusterSpec{name: name, at: at}
		err := r.fields(
			field{"hosts", func() error {
				return r.list(func() error {
					spec.hosts = append(spec.hosts, "")
					return r.some(&spec.hosts[len(spec.hosts)-1])()
				})
			}},
			field{"vhost", r.some(&spec.vhost)},
			field{"tls", func() error {
				t := &tlsSpec{}
				spec.tls = t
				return r.fields(field{"enabled", r.flag(&t.enabled)}, field{"serverName", r.some(&t.serverName)},
					field{"caFile", r.some(&t.caFile)}, field{"certFile", r.some(&t.certFile)}, field{"keyFile", r.some(&t.keyFile)})
			}},
			field{"credentials", func() error {
				l := &loginSpec{}
				spec.login = l
				return r.fields(field{"env", r.some(&l.env)}, field{"binding", r.some(&l.binding)},
					field{"usernameFile", r.some(&l.usernameFile)}, field{"passwordFile", r.some(&l.passwordFile)})
			}},
		)
		f.clusters = append(f.clusters, spec)
		return err
	})
}

// checkQueue says whether a queue or an exchange may be named so.
func checkQueue(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d bytes", maxName)
	}
	return nil
}
