package warren

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// DefaultPort is AMQP's, for hosts that are named without a port.
const DefaultPort = 5672

// ErrNoHosts says that the environment names no host for a class.
var ErrNoHosts = errors.New("no hosts")

// Hosts are the addresses of the clusters that serve a class of work, each as "HOST:PORT".
type Hosts struct {
	// Class as it was asked for, as "runtime".
	Class string
	// Current addresses of the class's cluster: publish and consume here. Never empty.
	Current []string
	// Old addresses of the cluster from which the class is moving; empty unless it moves. Consume there too until the
	// move has ended.
	Old []string
}

// HostsFromEnv reads RMQ_<CLASS>_HOSTS and RMQ_<CLASS>_OLD_HOSTS: addresses separated by commas, with or without a port
// (5672), IPv6 addresses in brackets when they have a port. The class is in capitals there, with "_" for "-". The error
// is ErrNoHosts when the first variable is unset or empty, and names the variable and the number of the entry that cannot be read else.
func HostsFromEnv(class string) (Hosts, error) { return hostsFrom(class, os.Getenv) }

func hostsFrom(class string, getenv func(string) string) (Hosts, error) {
	name := "RMQ_" + strings.ToUpper(strings.ReplaceAll(class, "-", "_"))
	current, err := addresses(name+"_HOSTS", getenv)
	if err != nil {
		return Hosts{}, err
	}
	if len(current) == 0 {
		return Hosts{}, fmt.Errorf("%w for class %q: set %s_HOSTS, as runtime.messaging.svc:5672", ErrNoHosts, class, name)
	}
	old, err := addresses(name+"_OLD_HOSTS", getenv)
	if err != nil {
		return Hosts{}, err
	}
	return Hosts{Class: class, Current: current, Old: old}, nil
}

func addresses(variable string, getenv func(string) string) ([]string, error) {
	var out []string
	for i, part := range strings.Split(getenv(variable), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		address, err := withPort(part)
		if err != nil {
			// Its number, not its text: somebody may have put a password there.
			return nil, fmt.Errorf("%s: entry %d is not HOST or HOST:PORT: %w", variable, i+1, err)
		}
		out = append(out, address)
	}
	return out, nil
}

func withPort(part string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(part, "["), "]")
	if !strings.Contains(part, ":") || net.ParseIP(bare) != nil {
		if strings.ContainsAny(bare, "/@ []") {
			return "", errors.New("only a name or an address is wanted")
		}
		return net.JoinHostPort(bare, strconv.Itoa(DefaultPort)), nil
	}
	host, port, err := net.SplitHostPort(part)
	switch {
	case err != nil || host == "" || strings.ContainsAny(host, "/@ []"):
		return "", errors.New("only a name or an address is wanted")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not a number from 1 to 65535")
	}
	return part, nil
}
