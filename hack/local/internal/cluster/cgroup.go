package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroups = "/sys/fs/cgroup"

// unified tells whether this machine has control groups v2 only.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	return err == nil
}

// hierarchies are the folders of all control group hierarchies: one of v2, or one per controller of v1.
func hierarchies() ([]string, error) {
	if unified() {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, fmt.Errorf("no control groups on this machine: %w", err)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(cgroups, entry.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && entry.IsDir() {
			found = append(found, dir)
		}
	}
	return found, nil
}

// system is the group of a node's own programs below the node's group; v2 allows no processes in a group
// that has others below it.
const system = "system"

// makeCgroup makes a group in every hierarchy, usable at once: a v1 cpuset starts empty and takes no process.
func makeCgroup(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		at := root
		for part := range strings.SplitSeq(strings.Trim(group, "/")+"/"+system, "/") {
			if err := delegate(root, at); err != nil {
				return err
			}
			next := filepath.Join(at, part)
			if err := os.Mkdir(next, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := inheritCPUs(at, next); err != nil {
				return err
			}
			at = next
		}
	}
	return nil
}

// delegate turns on, for the groups below one of v2, all controllers that the group has.
func delegate(root, at string) error {
	if root != cgroups {
		return nil
	}
	have, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(have)) {
		if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("turning on the controller %s below %s: %w", controller, at, err)
		}
	}
	return nil
}

// inheritCPUs copies the CPUs and memory nodes of the parent in the v1 hierarchy that has them.
func inheritCPUs(parent, child string) error {
	if unified() {
		return nil
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// joinCgroup moves a process into the group for the node's programs, in every hierarchy.
func joinCgroup(group string, pid int) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		file := filepath.Join(root, group, system, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes a group with all below it, in every hierarchy. Groups of processes that have just
// ended stay busy for a moment.
func removeCgroup(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var last error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		last = nil
		for _, root := range roots {
			last = errors.Join(last, removeGroups(filepath.Join(root, group)))
		}
		if last == nil {
			return nil
		}
	}
	return last
}

// removeGroups removes a folder of groups, the deepest first.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeGroups(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the control group %s: %w", dir, err)
	}
	return nil
}
