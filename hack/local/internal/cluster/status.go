package cluster

import (
	"fmt"
	"path/filepath"
	"sort"

	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/local/internal/state"
)

// Status is what tests and people want to know about a cluster.
type Status struct {
	Name       string          `json:"name"`
	Running    bool            `json:"running"`
	Server     string          `json:"server"`
	Kubeconfig string          `json:"kubeconfig"`
	AuditLog   string          `json:"auditLog"`
	Dir        string          `json:"dir"`
	Processes  []ProcessStatus `json:"processes"`
	Nodes      []NodeStatus    `json:"nodes"`
}

// ProcessStatus is one process of the control plane.
type ProcessStatus struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
	Log   string `json:"log"`
}

// NodeStatus is one node. PID is its first process; ending that is the loss of the node. Processes are the
// node's own programs by name, as ids of the host.
type NodeStatus struct {
	Name      string         `json:"name"`
	Address   string         `json:"address"`
	Pods      string         `json:"pods"`
	PID       int            `json:"pid"`
	Alive     bool           `json:"alive"`
	State     string         `json:"state"`
	Link      string         `json:"link"` // the device on the host; setting it down cuts the node off
	Processes map[string]int `json:"processes"`
	Logs      string         `json:"logs"`
}

// Look reports on a cluster without changing or waiting for anything.
func Look(name string) (Status, error) {
	c, err := read(name)
	if err != nil {
		return Status{}, err
	}
	if !c.exists() {
		return Status{Name: name}, nil
	}
	s := Status{
		Name: name, Running: true, Server: c.server(), Kubeconfig: c.Kubeconfig(), AuditLog: c.AuditLog(), Dir: c.Dir,
	}
	for process, p := range c.Processes {
		s.Processes = append(s.Processes, ProcessStatus{Name: process, PID: p.PID, Alive: p.Alive(), Log: c.log(process)})
		s.Running = s.Running && p.Alive()
	}
	sort.Slice(s.Processes, func(i, j int) bool { return s.Processes[i].Name < s.Processes[j].Name })
	for _, n := range c.Nodes {
		s.Nodes = append(s.Nodes, c.look(n))
		s.Running = s.Running && n.Process.Alive()
	}
	return s, nil
}

// look reports on one node.
func (c *Cluster) look(n Node) NodeStatus {
	s := NodeStatus{
		Name: n.Name(), Address: c.Slot.Node(n.Number).String(), Pods: c.Slot.NodePods(n.Number).String(),
		PID: n.Process.PID, Alive: n.Process.Alive(), Link: c.Slot.Link(n.Number), State: "gone",
		Logs: filepath.Join(c.nodeDir(n.Number), "*.log"),
	}
	if !s.Alive {
		return s
	}
	s.Processes = map[string]int{}
	for name, pid := range proc.Children(n.Process.PID) {
		if name == "containerd" || name == "kubelet" || name == "kube-proxy" {
			s.Processes[name] = pid
		}
	}
	s.State = "unknown"
	api, err := c.client()
	if err != nil {
		return s
	}
	var status nodeStatus
	if err := api.Get("/api/v1/nodes/"+n.Name(), &status); err != nil {
		s.State = err.Error()
		return s
	}
	s.State = "Ready"
	if err := status.ready(startOf(n)); err != nil {
		s.State = err.Error()
	}
	return s
}

// Names lists all clusters of this machine.
func Names() ([]string, error) {
	parent, err := root()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(parent, "*", "cluster.json"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		var s State
		if err := state.Read(file, &s); err != nil {
			return nil, err
		}
		names = append(names, s.Name)
	}
	return names, nil
}

// KubeconfigOf is the kubeconfig of a cluster that exists.
func KubeconfigOf(name string) (string, error) {
	c, err := read(name)
	if err != nil {
		return "", err
	}
	if !c.exists() {
		return "", fmt.Errorf("there is no cluster %s: start it with `up --name %s`", name, name)
	}
	return c.Kubeconfig(), nil
}
