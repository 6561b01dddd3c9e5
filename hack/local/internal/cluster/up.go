package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/images"
	"github.com/warren-mq/warren/hack/local/internal/kubeapi"
	"github.com/warren-mq/warren/hack/local/internal/tools"
	"github.com/warren-mq/warren/hack/progress"
)

// Options are what a cluster shall be.
type Options struct {
	Name   string
	Nodes  int  // 0 keeps the number of nodes; a new cluster gets one
	Zones  int  // nodes are spread over that many zones; 0 sets no label
	Images bool // have the RabbitMQ images on every node
}

// readyLimit bounds the wait for one component on a busy machine.
const readyLimit = 2 * time.Minute

// Up makes the cluster what the options say: starts what is missing, starts again what ended or changed,
// and leaves alone what runs as wanted. It returns the kubeconfig.
func Up(builder tools.Builder, opts Options) (string, error) {
	if opts.Nodes < 0 || opts.Nodes > MaxNodes {
		return "", fmt.Errorf("a cluster has 1 to %d nodes", MaxNodes)
	}
	archives, err := prepare(builder, opts.Images)
	if err != nil {
		return "", err
	}
	c, unlock, err := open(opts.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := c.endOrphans(); err != nil {
		return "", err
	}
	if !c.exists() {
		if err := c.takeSlot(); err != nil {
			return "", err
		}
	}
	nodes := opts.Nodes
	if nodes == 0 {
		nodes = max(1, len(c.Nodes))
	}
	if err := c.certificates(nodes); err != nil {
		return "", err
	}
	if err := c.ensureBridge(); err != nil {
		return "", err
	}
	api, err := c.controlPlane(builder)
	if err != nil {
		return "", err
	}
	if err := c.nodes(builder, api, nodes); err != nil {
		return "", err
	}
	if err := c.importAll(builder, archives); err != nil {
		return "", err
	}
	if err := c.awaitNodes(api); err != nil {
		return "", err
	}
	return c.Kubeconfig(), c.zones(api, opts.Zones)
}

// prepare has everything on the machine that a cluster needs.
func prepare(builder tools.Builder, withImages bool) ([]images.Archive, error) {
	if err := host.Ensure(host.ForCluster); err != nil {
		return nil, err
	}
	for _, program := range []string{"kube-apiserver", "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "coredns", "localvolumes"} {
		if _, err := builder.Path(program); err != nil {
			return nil, err
		}
	}
	if withImages {
		return images.Ensure(builder)
	}
	pause, err := images.EnsurePause(builder)
	return []images.Archive{pause}, err
}

// controlPlane starts the processes of the host and returns a client of the API server.
func (c *Cluster) controlPlane(builder tools.Builder) (*kubeapi.Client, error) {
	if _, err := c.ensure(builder, c.etcd()); err != nil {
		return nil, err
	}
	started, err := c.ensure(builder, c.apiserver())
	if err != nil {
		return nil, err
	}
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	wait := func() error {
		return c.await("kube-apiserver", readyLimit, func() error {
			if !c.Processes["etcd"].Alive() {
				return errors.New("etcd has ended, see " + c.log("etcd"))
			}
			return api.Get("/readyz", nil)
		})
	}
	if started {
		err = progress.Step("starting etcd and the API server at "+c.server(), wait)
	} else {
		err = wait()
	}
	if err != nil {
		return nil, err
	}
	for _, follower := range c.followers() {
		if _, err := c.ensure(builder, follower); err != nil {
			return nil, err
		}
	}
	return api, c.storageClass(api)
}

// client speaks to the API server as the administrator.
func (c *Cluster) client() (*kubeapi.Client, error) {
	return kubeapi.New(c.server(), c.path("pki"), "admin")
}

// storageClass makes the default class, unless it exists: an `up` on a running cluster writes nothing.
func (c *Cluster) storageClass(api *kubeapi.Client) error {
	const path = "/apis/storage.k8s.io/v1/storageclasses/local"
	err := api.Get(path, nil)
	if !errors.Is(err, kubeapi.ErrNotFound) {
		return err
	}
	return api.Apply(path, map[string]any{
		"apiVersion": "storage.k8s.io/v1",
		"kind":       "StorageClass",
		"metadata": map[string]any{
			"name":        "local",
			"annotations": map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		"provisioner":       provisioner,
		"reclaimPolicy":     "Delete",
		"volumeBindingMode": "WaitForFirstConsumer",
	})
}

// nodes starts the nodes up to the wanted number and removes those above it.
func (c *Cluster) nodes(builder tools.Builder, api *kubeapi.Client, wanted int) error {
	for _, n := range append([]Node(nil), c.Nodes...) {
		if n.Number <= wanted {
			continue
		}
		progress.Say("removing %s", n.Name())
		if err := api.Delete("/api/v1/nodes/" + n.Name()); err != nil {
			return err
		}
		if err := c.removeNode(n); err != nil {
			return err
		}
	}
	for number := 1; number <= wanted; number++ {
		started, err := c.ensureNode(builder, number)
		if err != nil {
			return fmt.Errorf("%s: %w", nodeName(number), err)
		}
		if started {
			progress.Say("started %s", nodeName(number))
		}
	}
	return c.routes()
}

// nodeStatus is the part of a Node that tells whether it is ready.
type nodeStatus struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type          string    `json:"type"`
			Status        string    `json:"status"`
			Message       string    `json:"message"`
			LastHeartbeat time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
	} `json:"status"`
}

// ready tells whether a node is ready and has said so since it started: what it said before its last
// start stays in the API server for a while.
func (s nodeStatus) ready(since time.Time) error {
	for _, condition := range s.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status != "True" {
			return errors.New("not ready: " + condition.Message)
		}
		if condition.LastHeartbeat.Before(since.Truncate(time.Second)) {
			return errors.New("has not reported since it started")
		}
		return nil
	}
	return errors.New("has no condition Ready yet")
}

// awaitNodes waits until every node is ready.
func (c *Cluster) awaitNodes(api *kubeapi.Client) error {
	if c.nodesReady(api) == nil {
		return nil
	}
	return progress.Step("waiting for the nodes to be ready", func() error {
		return c.await("kube-apiserver", readyLimit, func() error { return c.nodesReady(api) })
	})
}

func (c *Cluster) nodesReady(api *kubeapi.Client) error {
	for _, n := range c.Nodes {
		if !n.Process.Alive() {
			return fmt.Errorf("%s has ended, see %s", n.Name(), filepath.Join(c.nodeDir(n.Number), "node.log"))
		}
		var status nodeStatus
		if err := api.Get("/api/v1/nodes/"+n.Name(), &status); err != nil {
			return err
		}
		if err := status.ready(startOf(n)); err != nil {
			return fmt.Errorf("%s %w (logs: %s)", n.Name(), err, filepath.Join(c.nodeDir(n.Number), "*.log"))
		}
	}
	return nil
}

// startOf is when a node's first process started.
func startOf(n Node) time.Time { return n.Process.Began }

// zones labels the nodes with zones in turn.
func (c *Cluster) zones(api *kubeapi.Client, zones int) error {
	const label = "topology.kubernetes.io/zone"
	for _, n := range c.Nodes {
		if zones <= 0 {
			return nil
		}
		zone := fmt.Sprintf("zone-%d", (n.Number-1)%zones+1)
		var status nodeStatus
		if err := api.Get("/api/v1/nodes/"+n.Name(), &status); err != nil {
			return err
		}
		if status.Metadata.Labels[label] == zone {
			continue
		}
		change := map[string]any{"metadata": map[string]any{"labels": map[string]string{label: zone}}}
		if err := api.Merge("/api/v1/nodes/"+n.Name(), change); err != nil {
			return err
		}
	}
	return nil
}
