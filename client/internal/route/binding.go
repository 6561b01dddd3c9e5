package route

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binding is the content of one service binding (servicebinding.io): a folder with one file for each entry. Read are the
// entries of that specification, those of the official RabbitMQ operator's Secret and those of Spring's libraries:
//
//	type                              rabbitmq or amqp, when there is one
//	uris, addresses                   several URIs, or several of HOST[:PORT], with commas
//	host, port                        one host or several with commas; port is for those without one
//	uri, connection_string            one URI; the first of the two that is there
//	username, password                else those of the URIs
//	vhost, virtual-host               else the URIs'
//	ssl, tls                          true or false; else by the URI's scheme, else by port 5671
//	ca.crt                            certificates of the authorities that signed the broker's
//	certificates, private-key         the client's own certificate and key
//
// The rest, such as provider, is passed over.
type binding struct {
	dir      string
	username string
	password string
	vhost    string
	hosts    string // as ParseHosts reads them
	port     int    // for those without one; 0 when nothing says
	tls      bool
	saysTLS  bool // something told whether to use TLS
}

// bindingDir is the folder of a binding: name is an absolute path, or the name of a folder under root.
func bindingDir(root, name string) (string, error) {
	switch {
	case filepath.IsAbs(name):
		return filepath.Clean(name), nil
	case strings.ContainsAny(name, `/\`) || name == "." || name == "..":
		return "", errors.New("neither the name of a binding nor an absolute path")
	case root == "":
		return "", errors.New("SERVICE_BINDING_ROOT, the folder of bindings, is not set")
	}
	return filepath.Join(root, name), nil
}

// readBinding reads the folder as it is now. Its errors name files and never repeat what is in them.
func readBinding(dir string) (binding, error) {
	b := binding{dir: dir}
	get, err := bindingFiles(dir)
	if err != nil {
		return b, err
	}
	if kind := strings.ToLower(get["type"]); kind != "" && kind != "rabbitmq" && kind != "amqp" {
		return b, fmt.Errorf("binding %s is of type %s, not rabbitmq", dir, quote(kind))
	}
	b.username, b.password = get["username"], get["password"]
	b.vhost = first(get["vhost"], get["virtual-host"])
	if err := b.locate(get); err != nil {
		return b, err
	}
	if b.username != "" && b.password == "" {
		return b, fmt.Errorf("binding %s names a user and no password: %w", dir, ErrNoCredentials)
	}
	return b, b.flags(get)
}

// flags count for more than schemes and ports.
func (b *binding) flags(get map[string]string) error {
	for _, name := range []string{"ssl", "tls"} {
		switch strings.ToLower(get[name]) {
		case "":
		case "true", "false":
			b.tls, b.saysTLS = strings.EqualFold(get[name], "true"), true
		default:
			return fmt.Errorf("%s is neither true nor false", filepath.Join(b.dir, name))
		}
	}
	return nil
}

// locate finds hosts, and takes from URIs what the entries of their own do not say.
func (b *binding) locate(get map[string]string) error {
	if text := get["port"]; text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%s: %w", filepath.Join(b.dir, "port"), errNotPort)
		}
		b.port = int(n)
		b.tls = b.port == DefaultTLSPort
		b.saysTLS = b.tls || b.port == DefaultPort
	}
	b.hosts = first(get["addresses"], get["host"])
	for _, name := range []string{"uris", "addresses", "uri", "connection_string"} {
		if strings.Contains(get[name], "://") {
			return b.locateByURI(name, get)
		}
	}
	return nil
}

func (b *binding) locateByURI(name string, get map[string]string) error {
	u, err := parseURIs(filepath.Join(b.dir, name), get[name])
	if err != nil {
		// Secrets made by hand often have a URI whose password is not escaped; the other entries say the same.
		if b.hosts != "" && b.username != "" && name != "addresses" {
			if strings.HasPrefix(get[name], "amqps:") {
				b.tls, b.saysTLS = true, true
			}
			return nil
		}
		return err
	}
	if name == "uris" || name == "addresses" || b.hosts == "" || (b.port == 0 && !strings.Contains(b.hosts, ",")) {
		b.hosts, b.port = strings.Join(u.hosts, ","), 0
		b.tls = u.tls
	}
	b.tls, b.saysTLS = b.tls || u.tls, true
	if b.username == "" {
		b.username, b.password = u.username, u.password
	}
	b.vhost = first(b.vhost, u.vhost)
	return nil
}

var bindingEntries = []string{"type", "uris", "addresses", "host", "port", "uri", "connection_string", "username", "password",
	"vhost", "virtual-host", "ssl", "tls"}

func bindingFiles(dir string) (map[string]string, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("binding %w", plain(dir, err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("binding %s is not a folder", dir)
	}
	out := map[string]string{}
	for _, name := range bindingEntries {
		data, err := readBounded(filepath.Join(dir, name), maxValue)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("binding %w", err)
		default:
			out[name] = strings.TrimRight(string(data), "\r\n")
		}
	}
	return out, nil
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// addresses are the hosts of the binding.
func (b binding) addresses(tls bool) ([]string, error) {
	port := b.port
	if port == 0 {
		port = defaultPort(tls)
	}
	hosts, err := ParseHosts(filepath.Join(b.dir, "host"), b.hosts, port)
	if err == nil && len(hosts) == 0 {
		err = fmt.Errorf("binding %s: %w: it has neither host nor uri", b.dir, ErrNoHosts)
	}
	return hosts, err
}

// layer is what the binding says besides hosts. The login is read from the folder anew at every call.
func (b binding) layer() layer {
	l := layer{}
	if b.username != "" {
		l[username], l[password] = bindingRef(b.dir, username), bindingRef(b.dir, password)
	}
	if b.vhost != "" {
		l[vhost] = literal("binding "+b.dir, b.vhost)
	}
	if b.saysTLS {
		l[useTLS] = literal("binding "+b.dir, strconv.FormatBool(b.tls))
	}
	for s, name := range map[setting]string{caFile: "ca.crt", certFile: "certificates", keyFile: "private-key"} {
		path := filepath.Join(b.dir, name)
		if _, err := os.Stat(path); err == nil {
			l[s] = fileRef(path)
		}
	}
	return l
}

// bindingRef reads the username or the password of a binding at every call.
func bindingRef(dir string, s setting) ref {
	return ref{from: "binding " + dir, read: func() (string, error) {
		b, err := readBinding(dir)
		if err != nil {
			return "", err
		}
		value := b.username
		if s == password {
			value = b.password
		}
		if value == "" {
			return "", fmt.Errorf("binding %s names no user: %w", dir, ErrNoCredentials)
		}
		return value, nil
	}}
}

// sortedHosts are the hosts without repetition, lower case, for comparing.
func sortedHosts(hosts []string) []string {
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err == nil {
			h = net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), port)
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
