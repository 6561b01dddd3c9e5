package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/images"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
	"github.com/warren-mq/warren/hack/progress"
)

// Load imports an image (docker-archive) into every node of a running cluster.
func Load(builder tools.Builder, name, archive string) error {
	if _, err := os.Stat(archive); err != nil {
		return err
	}
	c, unlock, err := open(name)
	if err != nil {
		return err
	}
	defer unlock()
	if len(c.Nodes) == 0 {
		return fmt.Errorf("cluster %s is not running: start it with `up --name %s`", name, name)
	}
	return progress.Step("importing "+filepath.Base(archive), func() error {
		return c.importEach(builder, c.Nodes, archive)
	})
}

// importAll imports archives into the nodes that do not have them yet. A node keeps its images over
// restarts, and a file says which.
func (c *Cluster) importAll(builder tools.Builder, archives []images.Archive) error {
	for _, archive := range archives {
		marker := func(n Node) string {
			return filepath.Join(c.nodeDir(n.Number), "images", strings.ReplaceAll(archive.Path, "/", "_"))
		}
		var lacking []Node
		for _, n := range c.Nodes {
			if _, err := os.Stat(marker(n)); err != nil {
				lacking = append(lacking, n)
			}
		}
		if len(lacking) == 0 {
			continue
		}
		what := fmt.Sprintf("importing %s into %d node(s)", archive.Tags[0], len(lacking))
		if err := progress.Step(what, func() error { return c.importEach(builder, lacking, archive.Path) }); err != nil {
			return err
		}
		for _, n := range lacking {
			if err := state.WriteFile(marker(n), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// importEach imports one archive into several nodes at the same time: most of the time is waiting for the disk.
func (c *Cluster) importEach(builder tools.Builder, nodes []Node, archive string) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = c.importInto(builder, n, archive) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// importInto imports one archive into one node, waiting for its containerd to listen.
func (c *Cluster) importInto(builder tools.Builder, n Node, archive string) error {
	ctr, err := builder.Path("ctr")
	if err != nil {
		return err
	}
	archive, err = filepath.Abs(archive)
	if err != nil {
		return err
	}
	socket := c.socket(n.Number)
	log := filepath.Join(c.nodeDir(n.Number), "containerd.log")
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if command(ctr, "--address", socket, "version") == nil {
			break
		}
		if time.Now().After(end) {
			return errors.New("containerd of " + n.Name() + " does not listen; see " + log)
		}
	}
	return command(ctr, "--address", socket, "--namespace", "k8s.io", "image", "import", archive)
}
