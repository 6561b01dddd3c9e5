package warren

import (
	"fmt"
	"os"
	"strings"

	"github.com/warren-mq/warren/client/internal/route"
)

// DefaultPort is AMQP's, for hosts that are named without a port.
const DefaultPort = route.DefaultPort

// ErrNoHosts says that the environment names no host for a class.
var ErrNoHosts = route.ErrNoHosts

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
	current, err := route.ParseHosts(name+"_HOSTS", getenv(name+"_HOSTS"), DefaultPort)
	if err != nil {
		return Hosts{}, err
	}
	if len(current) == 0 {
		return Hosts{}, fmt.Errorf("%w for class %q: set %s_HOSTS, as runtime.messaging.svc:5672", ErrNoHosts, class, name)
	}
	old, err := route.ParseHosts(name+"_OLD_HOSTS", getenv(name+"_OLD_HOSTS"), DefaultPort)
	if err != nil {
		return Hosts{}, err
	}
	return Hosts{Class: class, Current: current, Old: old}, nil
}
