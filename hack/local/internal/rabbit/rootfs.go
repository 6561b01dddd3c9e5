package rabbit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dataDir is the home of the broker in the image.
const dataDir = "/var/lib/rabbitmq"

// defaults is the configuration of the image when none is mounted.
const defaults = `# Defaults for trying the image out; mount your own configuration over /etc/rabbitmq/conf.d.
loopback_users.guest = false
log.console = true
`

// arrangement is the script that runs inside the root file system. Newer Debian releases give the id of the
// official image's user to another package's user or group: that one moves.
const arrangement = `set -e
group=$(getent group %[1]d | cut -d: -f1)
if [ -n "$group" ] && [ "$group" != rabbitmq ]; then
	groupmod -g 899 "$group"
	find / -xdev -gid %[1]d -exec chgrp -h "$group" '{}' +
fi
user=$(getent passwd %[1]d | cut -d: -f1)
if [ -n "$user" ] && [ "$user" != rabbitmq ]; then
	usermod -u 899 "$user"
	find / -xdev -uid %[1]d -exec chown -h "$user" '{}' +
fi
groupmod -g %[1]d rabbitmq
usermod -u %[1]d -g %[1]d -d %[2]s -s /bin/bash rabbitmq
rm -rf %[2]s/.erlang.cookie %[2]s/mnesia /var/log/rabbitmq/* /etc/rabbitmq/rabbitmq-env.conf
mkdir -p /etc/rabbitmq/conf.d /opt
ln -s /usr/lib/rabbitmq/lib/rabbitmq_server-%[3]s /opt/rabbitmq
chown -R rabbitmq:rabbitmq %[2]s /var/log/rabbitmq /etc/rabbitmq
chmod 777 %[2]s /var/log/rabbitmq /etc/rabbitmq /etc/rabbitmq/conf.d
`

// arrange turns Debian's installation into the interface of the official image.
func arrange(root, version string) error {
	script := fmt.Sprintf(arrangement, User, dataDir, version)
	cmd := exec.Command("chroot", root, "/bin/sh", "-c", script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C"}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("moving the user rabbitmq to id %d: %w\n%s", User, err, said)
	}
	return errors.Join(
		put(root, "usr/local/bin/docker-entrypoint.sh", entrypoint, 0o755),
		put(root, "etc/rabbitmq/conf.d/10-defaults.conf", []byte(defaults), 0o644),
		put(root, "etc/rabbitmq/enabled_plugins", []byte("[rabbitmq_management,rabbitmq_prometheus].\n"), 0o666),
	)
}

// put writes a file of the root file system; those of /etc/rabbitmq belong to the broker.
func put(root, name string, content []byte, mode os.FileMode) error {
	path := filepath.Join(root, name)
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil { // not subject to the umask
		return err
	}
	if strings.HasPrefix(name, "etc/rabbitmq/") {
		return os.Chown(path, User, User)
	}
	return nil
}

// trimmed are the paths that trim removes.
var trimmed = []string{
	"usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian",
	"usr/share/bug", "var/lib/apt/lists/*", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb",
	"var/cache/debconf/*", "var/log/*.log", "var/log/apt", "tmp/*", "var/tmp/*", "root/.*history",
}

// trim removes what a broker never reads, and what came from this machine.
func trim(root string) error {
	for _, pattern := range trimmed {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	// debootstrap copies these two from the host.
	return errors.Join(
		os.WriteFile(filepath.Join(root, "etc/resolv.conf"), nil, 0o644),
		os.WriteFile(filepath.Join(root, "etc/hostname"), []byte("localhost\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost\n::1 localhost ip6-localhost\n"), 0o644),
	)
}
