package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/images"
	"github.com/warren-mq/warren/hack/local/internal/progress"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
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
		for _, n := range c.Nodes {
			if err := c.importInto(builder, n, archive); err != nil {
				return err
			}
		}
		return nil
	})
}

// importAll imports archives into the nodes that do not have them yet. A node keeps its images over
// restarts, and a file says which.
func (c *Cluster) importAll(builder tools.Builder, archives []images.Archive) error {
	for _, archive := range archives {
		for _, n := range c.Nodes {
			marker := filepath.Join(c.nodeDir(n.Number), "images", strings.NewReplacer("/", "_").Replace(archive.Path))
			if _, err := os.Stat(marker); err == nil {
				continue
			}
			what := fmt.Sprintf("importing %s into %s", archive.Tags[0], n.Name())
			if err := progress.Step(what, func() error { return c.importInto(builder, n, archive.Path) }); err != nil {
				return err
			}
			if err := state.WriteFile(marker, nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
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
