package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/rabbit"
)

// folders makes the writable folders of a broker: all else of its root file system is read-only.
func folders(dir string) error {
	for _, name := range []string{"data", "etc", "etc/conf.d", "tmp", "root"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chown(path, rabbit.User, rabbit.User); err != nil {
			return err
		}
	}
	return nil
}

// files writes the configuration, the plugins and the cookie.
func files(rec record) error {
	return errors.Join(
		own(filepath.Join(rec.Dir, "etc/enabled_plugins"), "["+strings.Join(rec.Plugins, ",")+"].\n", 0o644),
		own(filepath.Join(rec.Dir, "etc/conf.d/10-local.conf"), configuration(rec), 0o600),
		own(filepath.Join(rec.Dir, "data/.erlang.cookie"), rec.Cookie, 0o400),
	)
}

// own writes a file that belongs to the broker's user.
func own(path, content string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chown(path, rabbit.User, rabbit.User)
}

// configuration keeps every listener on loopback and creates the user, or joins the cluster, at the first start.
func configuration(rec record) string {
	join := ""
	if rec.Seed != "" {
		join = "cluster_formation.peer_discovery_backend = classic_config\n" +
			"cluster_formation.classic_config.nodes.1 = " + rec.Seed + "\n" +
			"cluster_formation.classic_config.nodes.2 = " + rec.node() + "\n"
	}
	return fmt.Sprintf(`listeners.tcp.local = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
prometheus.tcp.ip = 127.0.0.1
prometheus.tcp.port = %d
default_user = %s
default_pass = %s
default_user_tags.administrator = true
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
loopback_users = none
log.console = true
log.console.level = info
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GiB
`, rec.Ports.AMQP, rec.Ports.Management, rec.Ports.Prometheus, rec.Username, rec.Password) + join
}

// node is the name that Erlang knows the broker by.
func (rec record) node() string { return rec.Name + "@localhost" }

// environment is that of the image, with names and ports of this broker.
func environment(rec record, built rabbit.Built) []string {
	return append(built.Env(),
		"RABBITMQ_NODENAME="+rec.node(),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", rec.Ports.Dist),
		fmt.Sprintf("ERL_EPMD_PORT=%d", rec.Ports.EPMD),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		// The tests' machine is shared: no busy waiting of idle schedulers.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
	)
}
