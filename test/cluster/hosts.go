package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Host is a node of a local Kubernetes, as this machine sees it.
type Host struct {
	Name string
	// PID of the node's first process, with which all others end.
	PID int
	// Link is the device that joins the node to the others and to the API server.
	Link string

	cluster *Cluster
}

// Hosts are the nodes, by number. Only a local Kubernetes tells.
func (c *Cluster) Hosts(ctx context.Context) ([]Host, error) {
	if c.Kind != "local" {
		return nil, fmt.Errorf("nodes of CLUSTER=%s cannot be cut off: use CLUSTER=local", c.Kind)
	}
	out, err := c.run(ctx, "go", "run", "./hack/local", "status", "--name", c.Name, "--json")
	if err != nil {
		return nil, err
	}
	var status struct{ Nodes []Host }
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return nil, err
	}
	for i := range status.Nodes {
		status.Nodes[i].cluster = c
	}
	return status.Nodes, nil
}

// CutOff takes the node from the network: nobody hears from it, and it hears from nobody. Join ends that.
func (h Host) CutOff(ctx context.Context) error {
	_, err := h.cluster.run(ctx, "ip", "link", "set", h.Link, "down")
	return err
}

// Join ends a CutOff.
func (h Host) Join(ctx context.Context) error {
	_, err := h.cluster.run(ctx, "ip", "link", "set", h.Link, "up")
	return err
}

// Kill ends all that runs on the node at once, as a loss of power does. Repair starts it again.
func (h Host) Kill() error {
	process, err := os.FindProcess(h.PID)
	if err != nil {
		return err
	}
	if err := process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", h.Name, err)
	}
	return nil
}

// Repair starts what is missing of a cluster.
func (c *Cluster) Repair(ctx context.Context) error { return c.backend.up(ctx) }
