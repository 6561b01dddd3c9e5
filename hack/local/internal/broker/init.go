package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/warren-mq/warren/hack/local/internal/rabbit"
	"github.com/warren-mq/warren/hack/local/internal/state"
)

// InitCommand is the hidden command by which this program becomes a broker inside new namespaces.
const InitCommand = "__broker-init"

// initSpec is what the process inside needs to know.
type initSpec struct {
	RootFS string   `json:"rootfs"`
	Dir    string   `json:"dir"`
	Env    []string `json:"env"`
	Cable  bool     `json:"cable,omitempty"`  // wait for it: the network is its own
	Cgroup string   `json:"cgroup,omitempty"` // folder of the control group that it shall be in
}

// Init builds the broker's view of the file system and becomes the broker. It only returns on failure.
func Init(specFile string) error {
	var spec initSpec
	if err := state.Read(specFile, &spec); err != nil {
		return err
	}
	if spec.Cgroup != "" {
		if err := os.WriteFile(filepath.Join(spec.Cgroup, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("entering the control group: %w", err)
		}
	}
	if spec.Cable {
		if err := awaitCable(); err != nil {
			return err
		}
	}
	root := filepath.Join(spec.Dir, "root")
	if err := mounts(spec, root); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte("localhost")); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	raiseFileLimit()
	if err := errors.Join(syscall.Chroot(root), syscall.Chdir("/var/lib/rabbitmq")); err != nil {
		return fmt.Errorf("entering %s: %w", root, err)
	}
	err := errors.Join(syscall.Setgroups([]int{rabbit.User}), syscall.Setgid(rabbit.User), syscall.Setuid(rabbit.User))
	if err != nil {
		return fmt.Errorf("becoming user %d: %w", rabbit.User, err)
	}
	const entrypoint = "/usr/local/bin/docker-entrypoint.sh"
	return syscall.Exec(entrypoint, []string{entrypoint, "rabbitmq-server"}, spec.Env)
}

// mounts puts the shared root file system, read-only, under the broker's own folders.
func mounts(spec initSpec, root string) error {
	// Nothing mounted here may show outside.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := bind(spec.RootFS, root, 0); err != nil {
		return err
	}
	if err := syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", root, err)
	}
	if err := syscall.Mount("proc", filepath.Join(root, "proc"), "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting proc: %w", err)
	}
	return errors.Join(
		bind(filepath.Join(spec.Dir, "data"), filepath.Join(root, "var/lib/rabbitmq"), 0),
		bind(filepath.Join(spec.Dir, "etc"), filepath.Join(root, "etc/rabbitmq"), 0),
		bind(filepath.Join(spec.Dir, "tmp"), filepath.Join(root, "tmp"), 0),
		bind("/dev", filepath.Join(root, "dev"), syscall.MS_REC),
		bind("/sys", filepath.Join(root, "sys"), syscall.MS_REC),
	)
}

func bind(from, to string, flags uintptr) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", from, to, err)
	}
	return nil
}

// raiseFileLimit gives the broker as many open files as this machine allows, up to what it asks for.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = min(limit.Max, 65536)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it also runs with the lower limit
	}
}
