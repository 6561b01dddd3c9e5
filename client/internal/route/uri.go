package route

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// uris is what a list of AMQP URIs says of one cluster.
type uris struct {
	hosts    []string
	tls      bool
	username string // "" when there is none
	password string
	vhost    string // "" when there is none
}

// parseURIs reads one or several URIs, separated by commas, of the same cluster:
//
//	amqp[s]://[USERNAME[:PASSWORD]@]HOST[:PORT][/VHOST]
//
// They may differ in host and port only. Commas and other special characters in a name or a password are written as %2C
// and so on; the default virtual host is written as %2F or left out. Options after "?" are refused rather than passed over,
// since some of them (as verify) are about safety. The error names the place and the number of the entry, never its text.
func parseURIs(place, text string) (uris, error) {
	var out uris
	for i, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		one, err := parseURI(part)
		if err == nil && len(out.hosts) > 0 {
			err = one.differs(out)
		}
		if err != nil {
			return uris{}, fmt.Errorf("%s: entry %d: %w", place, i+1, err)
		}
		one.hosts = append(out.hosts, one.hosts...)
		out = one
	}
	if len(out.hosts) == 0 {
		return uris{}, fmt.Errorf("%s: %w", place, ErrNoHosts)
	}
	return out, nil
}

func (u uris) differs(first uris) error {
	switch {
	case u.tls != first.tls:
		return errors.New("its scheme differs from the first one's")
	case u.username != first.username || u.password != first.password:
		return errors.New("its user or password differs from the first one's")
	case u.vhost != first.vhost:
		return errors.New("its virtual host differs from the first one's")
	}
	return nil
}

func parseURI(text string) (uris, error) {
	// The errors of net/url repeat their input, and with it the password.
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || (u.Scheme != "amqp" && u.Scheme != "amqps"):
		return uris{}, errors.New("not an AMQP URI, as amqps://USERNAME:PASSWORD@HOST:5671/VHOST; special characters are written as %2F and so on")
	case strings.Contains(text, "#"):
		return uris{}, errors.New(`it has a "#": write %23`)
	case strings.Contains(text, "?"):
		return uris{}, errors.New("options after \"?\" are not read: use the variables for TLS")
	case u.Hostname() == "":
		return uris{}, errors.New("it names no host")
	}
	out := uris{tls: u.Scheme == "amqps"}
	if out.username, out.password, err = userOf(u.User); err != nil {
		return uris{}, err
	}
	if out.vhost, err = vhostOf(u.EscapedPath()); err != nil {
		return uris{}, err
	}
	port := u.Port()
	if port == "" {
		port = strconv.Itoa(defaultPort(out.tls))
	}
	host, err := withPort(net.JoinHostPort(u.Hostname(), port), 0)
	if err != nil {
		return uris{}, err
	}
	out.hosts = []string{host}
	return out, nil
}

func userOf(info *url.Userinfo) (username, password string, err error) {
	if info == nil {
		return "", "", nil
	}
	username = info.Username()
	password, given := info.Password()
	switch {
	case username == "":
		return "", "", errors.New("it names no user before the @")
	case given && password == "":
		return "", "", errors.New("its password is empty")
	}
	return username, password, nil
}

// vhostOf is the virtual host of a path. Other libraries take "/" for the default one and so do secrets that were made for
// them, although the specification calls it the virtual host with an empty name.
func vhostOf(path string) (string, error) {
	path = strings.TrimPrefix(path, "/")
	if strings.Contains(path, "/") {
		return "", errors.New(`a "/" in the virtual host is written as %2F`)
	}
	name, err := url.PathUnescape(path)
	if err != nil {
		return "", errors.New("its virtual host cannot be read")
	}
	return name, nil
}

func defaultPort(tls bool) int {
	if tls {
		return DefaultTLSPort
	}
	return DefaultPort
}

// layer is what the URIs say besides hosts.
func (u uris) layer(place string) layer {
	l := layer{useTLS: literal(place, strconv.FormatBool(u.tls))}
	for s, value := range map[setting]string{username: u.username, password: u.password, vhost: u.vhost} {
		if value != "" {
			l[s] = literal(place, value)
		}
	}
	return l
}
