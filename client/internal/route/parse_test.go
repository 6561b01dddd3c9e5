package route

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestURI(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  uris
		fails string
	}{
		{"amqp://a", uris{hosts: []string{"a:5672"}}, ""},
		{"amqps://a", uris{hosts: []string{"a:5671"}, tls: true}, ""},
		{"amqp://u:p@a:1/v", uris{hosts: []string{"a:1"}, username: "u", password: "p", vhost: "v"}, ""},
		{"amqp://a/", uris{hosts: []string{"a:5672"}}, ""},
		{"amqp://a/%2F", uris{hosts: []string{"a:5672"}, vhost: "/"}, ""},
		{"amqp://u%2C:p%40%2F%C3%A9@[::1]/a%2fb", uris{hosts: []string{"[::1]:5672"}, username: "u,", password: "p@/é", vhost: "a/b"}, ""},
		{"amqp://u@a", uris{hosts: []string{"a:5672"}, username: "u"}, ""},
		{" amqp://a , amqp://b:2,", uris{hosts: []string{"a:5672", "b:2"}}, ""},
		{"AMQP://a", uris{hosts: []string{"a:5672"}}, ""},
		{"", uris{}, "no hosts"},
		{"a:5672", uris{}, "not an AMQP URI"},
		{"http://a", uris{}, "not an AMQP URI"},
		{"amqp:a", uris{}, "not an AMQP URI"},
		{"amqp://", uris{}, "names no host"},
		{"amqp://:5672", uris{}, "names no host"},
		{"amqp://u:secret%zz@a", uris{}, "not an AMQP URI"},
		{"amqp://u:sec ret@a", uris{}, "not an AMQP URI"},
		{"amqp://u:secret@a:70000", uris{}, "from 1 to 65535"},
		{"amqp://u:secret@a:port", uris{}, "not an AMQP URI"},
		{"amqp://u:secret#@a", uris{}, "not an AMQP URI"},
		{"amqp://a#secret", uris{}, "write %23"},
		{"amqp://a?verify=verify_none", uris{}, "options"},
		{"amqp://a?", uris{}, "options"},
		{"amqp://u:@a", uris{}, "password is empty"},
		{"amqp://:secret@a", uris{}, "names no user"},
		{"amqp://a/v/w", uris{}, "written as %2F"},
		{"amqp://a,amqps://b", uris{}, "entry 2: its scheme differs"},
		{"amqp://u:secret@a,amqp://u:secret2@b", uris{}, "entry 2: its user or password differs"},
		{"amqp://a/v,amqp://b/w", uris{}, "entry 2: its virtual host differs"},
		{"amqp://u:secret,1@a", uris{}, "entry 1"},
	} {
		got, err := parseURIs("V", c.text)
		switch {
		case err != nil && (c.fails == "" || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: got error %v, want %q", c.text, err, c.fails)
		case err == nil && (c.fails != "" || !slices.Equal(got.hosts, c.want.hosts) || got.differs(c.want) != nil):
			t.Errorf("%q: got %+v, want %+v%s", c.text, got, c.want, c.fails)
		}
	}
}

func FuzzURI(f *testing.F) {
	for _, seed := range []string{"amqp://a", "amqps://user:secret@a:5671/v,amqps://user:secret@b/v", "amqp://u:p%40@[::1]:5672/%2F",
		"amqp://a?x=y", "amqp://a#", "amqp://@", "amqp://%", "amqp:///v", "amqp://a:0", "amqp://[fe80::1%25eth0]:1", ",", "amqp://u:\x00@a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const password = "jXq7-unlikely"
		for _, in := range []string{text, "amqp://u:" + password + text, strings.Replace(text, "@", password+"@", 1)} {
			u, err := parseURIs("V", in)
			if err != nil {
				if strings.Contains(err.Error(), "unlikely") {
					t.Fatalf("the error repeats a password: %v", err)
				}
				continue
			}
			checkAddresses(t, u.hosts)
			if len(u.hosts) == 0 {
				t.Fatalf("%q: no hosts and no error", in)
			}
			if u.username == "" && u.password != "" {
				t.Fatalf("%q: a password without a user", in)
			}
		}
	})
}

func TestHostList(t *testing.T) {
	for _, c := range []struct {
		text, want string // "" fails
	}{
		{"a", "a:5672"}, {"a,", "a:5672"}, {"a.b-c_d:1", "a.b-c_d:1"}, {"fd00::8", "[fd00::8]:5672"}, {"[fd00::8]", "[fd00::8]:5672"},
		{"[fd00::8]:1", "[fd00::8]:1"}, {"10.0.0.1", "10.0.0.1:5672"}, {"ä.de", "ä.de:5672"},
		{"[fd00::8", ""}, {"fd00::8]", ""}, {"[a]", ""}, {"[a]:1", ""}, {"[10.0.0.1]:1", ""}, {"a:", ""}, {"a:+1", ""}, {"a:1:2", ""}, {"a\nb", ""},
		{"a b", ""}, {"u@a", ""}, {"a/", ""}, {"a\x00", ""}, {":1", ""}, {"[]:1", ""}, {"a:http", ""}, {"a:65536", ""}, {"\xff", ""}, {"fe80::1%eth0", "[fe80::1%eth0]:5672"}, {"fe80::1%a b", ""}, {"[fe80::1%/]:1", ""},
	} {
		got, err := ParseHosts("V", c.text, DefaultPort)
		if (err != nil) != (c.want == "") || err == nil && strings.Join(got, ",") != c.want {
			t.Errorf("%q: got %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func FuzzHosts(f *testing.F) {
	for _, seed := range []string{"a", "a:5672,b", "[::1]:1,::1,[::1]", "fe80::1%eth0", "::%\x0000", "::% /", "a:0", "a:70000", ":", "[", "]", "[[", "a@b", " a , ", "\u00a0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseHosts("V", text, DefaultPort)
		if err != nil {
			return
		}
		checkAddresses(t, got)
		again, err := ParseHosts("V", strings.Join(got, ","), 1)
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("%q: got %q, and of that %q, %v", text, got, again, err)
		}
	})
}

func checkAddresses(t *testing.T, addresses []string) {
	t.Helper()
	for _, a := range addresses {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || strings.ContainsAny(host, "@/, []\n") {
			t.Fatalf("%q is no address: %v", a, err)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			t.Fatalf("%q has no port", a)
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
			t.Fatalf("%q: colons in a name", a)
		}
	}
}
