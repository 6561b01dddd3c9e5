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
	if _, is := ipAddress(part); is {
		return net.JoinHostPort(part, strconv.Itoa(port)), nil
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
	addr, is := ipAddress(host)
	switch {
	case strings.HasPrefix(part, "[") && (!is || !addr.Is6()):
		return "", errNotHost
	case !is && (host == "" || strings.ContainsFunc(host, notInHost)):
		return "", errNotHost
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", errNotPort
	}
	return part, nil
}

// ipAddress reads an IP address. The zone of an IPv6 one is the name of an interface, and could be any text to netip.
func ipAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return addr, err == nil && !strings.ContainsFunc(addr.Zone(), notInHost)
}

func notInHost(r rune) bool {
	return strings.ContainsRune(`/\@[]?#%"'<>,`, r) || unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}
