// Package node is a Kubernetes node inside namespaces of its own: mounts, processes, network, host name.
// Its first process keeps containerd, kubelet and kube-proxy running. When that process ends, the kernel
// ends every process of the node and drops its mounts and network, so that nothing can be left behind.
package node

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/state"
)

// InitCommand is the hidden command by which this program becomes a node's first process.
const InitCommand = "__node-init"

// Namespaces are those that a node has of its own.
const Namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Spec is what the first process needs to know.
type Spec struct {
	Name      string            `json:"name"`
	Dir       string            `json:"dir"` // the node's folder on the host
	Processes []Process         `json:"processes"`
	Inputs    map[string]string `json:"inputs"` // content of configuration files, so that a change of one shows
}

// Process is one program that the node keeps running.
type Process struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"` // the whole environment
}

// folder is a folder of the node's directory and where the node sees it.
type folder struct {
	name, at string
	fresh    bool // emptied when the node starts, as after a reboot
}

var folders = []folder{
	{"run", "/run", true},
	{"containerd", "/var/lib/containerd", false},
	{"kubelet", "/var/lib/kubelet", false},
	{"cni", "/var/lib/cni", true},
	{"log", "/var/log", false},
}

// NetworkReady is the file that says that the node's network device has been set up.
func NetworkReady(dir string) string { return filepath.Join(dir, "network-ready") }

// Init becomes the node. It only returns on failure.
func Init(specFile string) error {
	var spec Spec
	if err := state.Read(specFile, &spec); err != nil {
		return err
	}
	if err := mounts(spec.Dir); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := awaitNetwork(spec.Dir); err != nil {
		return err
	}
	if err := kernel(); err != nil {
		return err
	}
	return supervise(spec)
}

// mounts gives the node folders of its own at the usual places.
func mounts(dir string) error {
	// First cut the ties to the host's mounts, then share among the node's own processes: kubelet's and
	// containerd's mounts must be seen by each other.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, f := range folders {
		path := filepath.Join(dir, f.name)
		if f.fresh {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
		for _, needed := range []string{path, f.at} {
			if err := os.MkdirAll(needed, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(path, f.at, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", path, f.at, err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts inside the node: %w", err)
	}
	return nil
}

// awaitNetwork waits until the host has put the network device into the node.
func awaitNetwork(dir string) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(NetworkReady(dir)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the host did not set up the network within a minute")
}

// kernel sets what routing between pods and services needs; it holds for the node's network only.
func kernel() error {
	for name, value := range map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("%w (the kernel needs br_netfilter)", err)
		}
	}
	return nil
}
