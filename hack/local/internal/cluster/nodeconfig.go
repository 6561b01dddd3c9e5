package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/images"
	"github.com/warren-mq/warren/hack/local/internal/node"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

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
