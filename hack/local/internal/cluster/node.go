package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/images"
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

// nodeSpec is what a node runs.
func (c *Cluster) nodeSpec(builder tools.Builder, number int) (node.Spec, error) {
	paths := map[string]string{}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "kubelet", "kube-proxy"} {
		path, err := builder.Path(program)
		if err != nil {
			return node.Spec{}, err
		}
		paths[program] = path
	}
	dir, name := c.nodeDir(number), nodeName(number)
	conf := func(file string) string { return filepath.Join(dir, "conf", file) }
	// containerd looks for its shim in PATH.
	env := []string{marker + "=" + c.Dir, "HOME=/root",
		"PATH=" + filepath.Dir(paths["containerd-shim-runc-v2"]) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	kubelet, err := c.kubeletConfig(number)
	if err != nil {
		return node.Spec{}, err
	}
	network, err := c.podNetwork(number)
	if err != nil {
		return node.Spec{}, err
	}
	return node.Spec{
		Name: name, Dir: dir,
		Inputs: map[string]string{
			"containerd.toml":        containerdConfig(conf("net.d")),
			"kubelet.json":           kubelet,
			"net.d/10-pods.conflist": network,
			"resolv.conf":            fmt.Sprintf("nameserver %s\n", c.Slot.Host()),
		},
		Processes: []node.Process{
			{Name: "containerd", Path: paths["containerd"], Args: []string{"--config", conf("containerd.toml")}, Env: env},
			{Name: "kubelet", Path: paths["kubelet"], Env: env, Args: []string{
				"--config=" + conf("kubelet.json"), "--kubeconfig=" + c.kubeconfigOf(name),
				"--hostname-override=" + name, "--node-ip=" + c.Slot.Node(number).String(),
			}},
			{Name: "kube-proxy", Path: paths["kube-proxy"], Env: env, Args: []string{
				"--kubeconfig=" + c.kubeconfigOf("kube-proxy"), "--hostname-override=" + name, "--proxy-mode=iptables",
				"--cluster-cidr=" + c.Slot.Pods().String(), "--conntrack-max-per-core=0",
				"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			}},
		},
	}, nil
}

// containerdConfig configures containerd.
func containerdConfig(networks string) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
  "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt",
]

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %q

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = %t

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = %q

  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "/usr/sbin/runc"
        SystemdCgroup = false
`, images.Pause, !canLowerOOMScore(), networks)
}

// canLowerOOMScore tells whether this program has CAP_SYS_RESOURCE. Without it every pod fails unless
// containerd leaves the kernel's out-of-memory scores alone.
func canLowerOOMScore() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		var effective uint64
		if _, err := fmt.Sscanf(line, "CapEff:\t%x", &effective); err == nil {
			const sysResource = 24
			return effective&(1<<sysResource) != 0
		}
	}
	return false
}

// kubeletConfig configures kubelet.
func (c *Cluster) kubeletConfig(number int) (string, error) {
	name := nodeName(number)
	content, err := json.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.path("pki", "ca.crt")},
		},
		"authorization":                 map[string]any{"mode": "Webhook"},
		"tlsCertFile":                   c.path("pki", name+".crt"),
		"tlsPrivateKeyFile":             c.path("pki", name+".key"),
		"cgroupDriver":                  "cgroupfs",
		"cgroupRoot":                    c.cgroup(number),
		"failCgroupV1":                  false,
		"failSwapOn":                    false,
		"clusterDomain":                 "cluster.local",
		"clusterDNS":                    []string{c.Slot.Host().String()},
		"resolvConf":                    filepath.Join(c.nodeDir(number), "conf", "resolv.conf"),
		"containerRuntimeEndpoint":      "unix:///run/containerd/containerd.sock",
		"evictionHard":                  map[string]any{},
		"imageGCHighThresholdPercent":   100,
		"localStorageCapacityIsolation": false,
		"volumePluginDir":               "/var/lib/kubelet/volume-plugins",
		"serializeImagePulls":           false,
		"nodeStatusUpdateFrequency":     "5s",
	})
	return string(content), err
}

// podNetwork configures the network of a node's pods.
func (c *Cluster) podNetwork(number int) (string, error) {
	content, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": map[string]any{
					"type":   "host-local",
					"ranges": []any{[]any{map[string]any{"subnet": c.Slot.NodePods(number).String()}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	})
	return string(content), err
}
