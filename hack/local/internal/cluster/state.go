// Package cluster runs a real Kubernetes on this machine: the control plane as processes of the host, each
// node in namespaces of its own.
package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/local/internal/state"
)

// State is what is known about a cluster; it is saved after each process that starts.
type State struct {
	Name      string             `json:"name"`
	Slot      Slot               `json:"slot"`
	Processes map[string]Process `json:"processes"`
	Nodes     []Node             `json:"nodes"`
}

// Process is a started process and a hash of what it was started with.
type Process struct {
	proc.Identity
	Hash  string    `json:"hash"`
	Began time.Time `json:"began"`
}

// Node is one node of the cluster; its process is the first of the node's process namespace.
type Node struct {
	Number  int     `json:"number"`
	Process Process `json:"process"`
}

// Name is the node's name in Kubernetes.
func (n Node) Name() string { return nodeName(n.Number) }

func nodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// Cluster is a cluster with its folder.
type Cluster struct {
	State
	Dir string
}

// nameLimit keeps the path of a node's containerd socket under the kernel's limit.
const nameLimit = 24

// root is the folder of all clusters.
func root() (string, error) {
	dir, err := state.Root()
	return filepath.Join(dir, "clusters"), err
}

// open locks a cluster's name and reads its state; a cluster that does not exist has no nodes and slot -1.
// A cluster whose state file was lost keeps the slot of its bridge.
func open(name string) (*Cluster, func(), error) {
	if err := state.CheckName(name); err != nil {
		return nil, nil, err
	}
	if len(name) > nameLimit {
		return nil, nil, fmt.Errorf("name %q: at most %d characters", name, nameLimit)
	}
	parent, err := root()
	if err != nil {
		return nil, nil, err
	}
	unlock, err := cache.Lock(filepath.Join(parent, "."+name+".lock"))
	if err != nil {
		return nil, nil, err
	}
	c, err := read(name)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return c, unlock, nil
}

// read loads the state of a cluster without the lock, for looking only.
func read(name string) (*Cluster, error) {
	parent, err := root()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: filepath.Join(parent, name), State: State{Name: name, Slot: -1}}
	err = state.Read(c.path("cluster.json"), &c.State)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (if the file is damaged, remove it and run `down --name %s`)", err, name)
	}
	if errors.Is(err, os.ErrNotExist) {
		c.Slot = slotOfBridge(c.Dir)
	}
	if c.Processes == nil {
		c.Processes = map[string]Process{}
	}
	return c, nil
}

// exists tells whether the cluster has a slot.
func (c *Cluster) exists() bool { return c.Slot >= 0 }

// save writes the state.
func (c *Cluster) save() error { return state.Write(c.path("cluster.json"), c.State) }

// path is a path in the cluster's folder.
func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

// Kubeconfig is the file with the administrator's access.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// AuditLog is the file with one JSON line per write request to the API server.
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// log is the log file of a process of the host.
func (c *Cluster) log(process string) string { return c.path("logs", process+".log") }

// takeSlot gives a new cluster a slot. The lock is one for the machine, also for other WARREN_STATE
// folders; a slot counts as taken while a cluster's state names it or its bridge exists.
func (c *Cluster) takeSlot() error {
	unlock, err := cache.Lock("/run/warren-local.lock")
	if err != nil {
		return err
	}
	defer unlock()
	parent, err := root()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(parent, "*", "cluster.json"))
	if err != nil {
		return err
	}
	used := map[Slot]bool{}
	for _, file := range files {
		var other State
		if err := state.Read(file, &other); err != nil {
			return err
		}
		used[other.Slot] = true
	}
	c.Slot, err = freeSlot(func(s Slot) bool {
		_, err := net.InterfaceByName(s.Bridge())
		return used[s] || err == nil
	})
	if err != nil {
		return err
	}
	return c.save()
}
