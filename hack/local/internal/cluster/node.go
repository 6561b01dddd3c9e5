package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/node"
	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

// nodeDir is the folder of a node; the name is short because sockets lie in it.
func (c *Cluster) nodeDir(number int) string { return c.path(fmt.Sprintf("n%d", number)) }

// socket is containerd's socket as the host sees it.
func (c *Cluster) socket(number int) string {
	return filepath.Join(c.nodeDir(number), "run", "containerd", "containerd.sock")
}

// cgroup is the node's control group, relative to each hierarchy.
func (c *Cluster) cgroup(number int) string {
	return fmt.Sprintf("/warren-local/%s/%s", c.Name, nodeName(number))
}

// ensureNode starts a node unless it runs as wanted.
func (c *Cluster) ensureNode(builder tools.Builder, number int) (started bool, err error) {
	spec, err := c.nodeSpec(builder, number)
	if err != nil {
		return false, err
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	hash := cache.Key(content)
	index := c.indexOf(number)
	if index < 0 {
		c.Nodes = append(c.Nodes, Node{Number: number})
		index = len(c.Nodes) - 1
	}
	old := c.Nodes[index].Process
	// A node is as wanted only if its network was set up too: an `up` may have been interrupted before.
	_, connected := os.Stat(node.NetworkReady(c.nodeDir(number)))
	if old.Alive() && old.Hash == hash && connected == nil {
		return false, nil
	}
	if err := c.stopNode(c.Nodes[index]); err != nil {
		return false, err
	}
	return true, c.startNode(index, spec, hash)
}

func (c *Cluster) indexOf(number int) int {
	for i, n := range c.Nodes {
		if n.Number == number {
			return i
		}
	}
	return -1
}

// startNode starts the first process of a node and connects it.
func (c *Cluster) startNode(index int, spec node.Spec, hash string) error {
	number := c.Nodes[index].Number
	dir := c.nodeDir(number)
	for name, content := range spec.Inputs {
		if err := state.WriteFile(filepath.Join(dir, "conf", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	specFile := filepath.Join(dir, "node.json")
	if err := state.Write(specFile, spec); err != nil {
		return err
	}
	if err := makeCgroup(c.cgroup(number)); err != nil {
		return err
	}
	id, err := proc.Start(proc.Spec{
		Path: "/proc/self/exe", Args: []string{node.InitCommand, specFile}, Log: filepath.Join(dir, "node.log"),
		Env: []string{marker + "=" + c.Dir}, Cloneflags: node.Namespaces,
	})
	if err != nil {
		return err
	}
	c.Nodes[index].Process = Process{Identity: id, Hash: hash, Began: time.Now()}
	if err := c.save(); err != nil {
		return errors.Join(err, id.Stop(0))
	}
	if err := joinCgroup(c.cgroup(number), id.PID); err != nil {
		return err
	}
	return c.connect(number, id.PID)
}

// stopNode ends a node as pulling its plug would: the kernel ends all its processes and drops its mounts.
func (c *Cluster) stopNode(n Node) error {
	if err := n.Process.Stop(0); err != nil {
		return err
	}
	if err := os.Remove(node.NetworkReady(c.nodeDir(n.Number))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return removeCgroup(c.cgroup(n.Number))
}

// removeNode ends a node for good.
func (c *Cluster) removeNode(n Node) error {
	if err := c.stopNode(n); err != nil {
		return err
	}
	if err := host.RemoveTree(c.nodeDir(n.Number)); err != nil {
		return err
	}
	i := c.indexOf(n.Number)
	c.Nodes = append(c.Nodes[:i], c.Nodes[i+1:]...)
	return c.save()
}
