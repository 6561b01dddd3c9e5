package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/progress"
)

// Down ends a cluster and removes all that belongs to it. It also cleans up after a run that crashed.
func Down(name string) error {
	c, unlock, err := open(name)
	if err != nil {
		return err
	}
	defer unlock()
	return progress.Step("removing the cluster "+name, c.remove)
}

func (c *Cluster) remove() error {
	// The kernel needs seconds to end a node: let it end all of them at the same time.
	for _, n := range c.Nodes {
		if err := n.Process.Signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := c.stopNode(n); err != nil {
			return err
		}
	}
	// Nothing of the data is needed any more, so nothing needs time to end.
	for _, process := range c.Processes {
		if err := process.Stop(0); err != nil {
			return err
		}
	}
	c.Nodes, c.Processes = nil, nil
	if err := c.endOrphans(); err != nil {
		return err
	}
	if err := removeCgroup("/warren-local/" + c.Name); err != nil {
		return err
	}
	if c.exists() {
		if err := c.removeBridge(); err != nil {
			return err
		}
	}
	removeEmptyCgroup("/warren-local")
	return host.RemoveTree(c.Dir)
}

// removeEmptyCgroup removes the group of all clusters if no other cluster has one in it.
func removeEmptyCgroup(group string) {
	roots, err := hierarchies()
	if err != nil {
		return
	}
	for _, root := range roots {
		_ = os.Remove(filepath.Join(root, group)) // in use: it stays
	}
}

// endOrphans ends processes of this cluster that its state does not name: those of a run that crashed
// between starting a process and saving the state. Every process of a cluster carries the cluster's
// folder in its environment. Processes inside a node end with the node's first process.
func (c *Cluster) endOrphans() error {
	known := map[int]bool{}
	for _, process := range c.Processes {
		known[process.PID] = true
	}
	for _, n := range c.Nodes {
		known[n.Process.PID] = true
	}
	own := namespaceDepth("/proc/self/status")
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil || !hasEntry(environment, marker+"="+c.Dir) {
			continue // it ended meanwhile, or is not ours
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || known[pid] {
			continue
		}
		ids := namespaceIDs(filepath.Join(dir, "status"))
		if len(ids) > own && ids[len(ids)-1] != "1" {
			continue // inside a node
		}
		id, err := proc.Of(pid)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		progress.Say("ending process %d of an earlier run", pid)
		if err := id.Stop(0); err != nil {
			return err
		}
	}
	return nil
}

// hasEntry looks for an entry in the format of /proc/PID/environ.
func hasEntry(environment []byte, entry string) bool {
	for part := range bytes.SplitSeq(environment, []byte{0}) {
		if string(part) == entry {
			return true
		}
	}
	return false
}

// namespaceIDs are the ids of a process in its process namespaces, the outermost first.
func namespaceIDs(statusFile string) []string {
	status, err := os.ReadFile(statusFile)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, "NSpid:"); found {
			return strings.Fields(rest)
		}
	}
	return nil
}

func namespaceDepth(statusFile string) int { return len(namespaceIDs(statusFile)) }
