package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// tlsFiles are what a folder of certificates has.
var tlsFiles = []string{"ca.pem", "cert.pem", "key.pem"}

// files writes the configuration, the plugins, the cookie, and certificates if there is a folder of them.
func files(rec record, certificates string) error {
	if certificates != "" {
		for _, name := range tlsFiles {
			text, err := os.ReadFile(filepath.Join(certificates, name))
			if err != nil {
				return fmt.Errorf("certificates: %w", err)
			}
			if err := own(filepath.Join(rec.Dir, "etc", name), string(text), 0o400); err != nil {
				return err
			}
		}
	}
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

// configuration keeps every listener on loopback, or on the cable, and creates the user, or joins the cluster, at the first start.
func configuration(rec record) string {
	more := ""
	if rec.Seed != "" {
		more = "cluster_formation.peer_discovery_backend = classic_config\n" +
			"cluster_formation.classic_config.nodes.1 = " + rec.Seed + "\n" +
			"cluster_formation.classic_config.nodes.2 = " + rec.node() + "\n"
	}
	if rec.AMQPS != "" {
		more += fmt.Sprintf("listeners.ssl.local = %s:%d\n", rec.Address, rec.Ports.AMQPS) + certificates("ssl_options")
		for kind, port := range map[string]int{"management": rec.Ports.ManagementTLS, "prometheus": rec.Ports.PrometheusTLS} {
			if slices.Contains(rec.Plugins, "rabbitmq_"+kind) {
				more += fmt.Sprintf("%s.ssl.ip = %s\n%s.ssl.port = %d\n", kind, rec.Address, kind, port) + certificates(kind+".ssl")
			}
		}
	}
	return fmt.Sprintf(`listeners.tcp.local = %[1]s:%[2]d
management.tcp.ip = %[1]s
management.tcp.port = %[3]d
prometheus.tcp.ip = %[1]s
prometheus.tcp.port = %[4]d
default_user = %[5]s
default_pass = %[6]s
default_user_tags.administrator = true
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
loopback_users = none
log.console = true
log.console.level = info
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GiB
`, rec.Address, rec.Ports.AMQP, rec.Ports.Management, rec.Ports.Prometheus, rec.Username, rec.Password) + more
}

// certificates are the lines of one listener.
func certificates(prefix string) (lines string) {
	for at, key := range []string{"cacertfile", "certfile", "keyfile"} {
		lines += fmt.Sprintf("%s.%s = /etc/rabbitmq/%s\n", prefix, key, tlsFiles[at])
	}
	return lines
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
