package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// Ports of AMQP, for hosts that are named without one.
const (
	DefaultPort    = 5672
	DefaultTLSPort = 5671
)

// ParseHosts reads addresses separated by commas, each a name or an IP address, with a port or without (then port is
// added); IPv6 addresses need brackets when they have a port. Empty entries are passed over, so the answer may be empty.
// The error names the place (as "RMQ_WORKER_HOSTS") and the number of the entry, never its text: somebody may have put a
// password there.
func ParseHosts(place, text string, port int) ([]string, error) {
	var out []string
	for i, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		address, err := withPort(part, port)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d is not HOST or HOST:PORT: %w", place, i+1, err)
		}
		out = append(out, address)
	}
	return out, nil
}

var (
	errNotHost = errors.New("only a name or an address is wanted")
	errNotPort = errors.New("the port is not a number from 1 to 65535")
)

func withPort(part string, port int) (string, error) {
	if addr, err := netip.ParseAddr(part); err == nil {
		return net.JoinHostPort(addr.String(), strconv.Itoa(port)), nil
	}
	if strings.HasPrefix(part, "[") && strings.HasSuffix(part, "]") {
		part += ":" + strconv.Itoa(port)
	}
	if !strings.Contains(part, ":") {
		part = net.JoinHostPort(part, strconv.Itoa(port))
	}
	host, number, err := net.SplitHostPort(part)
	if err != nil {
		return "", errNotHost
	}
	// Only an IPv6 address has brackets, and only one has colons.
	addr, err := netip.ParseAddr(host)
	switch {
	case strings.HasPrefix(part, "[") && (err != nil || !addr.Is6()):
		return "", errNotHost
	case err != nil && (host == "" || strings.ContainsFunc(host, notInHost)):
		return "", errNotHost
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", errNotPort
	}
	return part, nil
}

func notInHost(r rune) bool {
	return strings.ContainsRune(`/\@[]?#%"'<>,`, r) || unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}
