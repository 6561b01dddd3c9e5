package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// Keys of the ConfigMap, and the names of the files they become.
const (
	keySizeHint = "05-cluster-size.conf"
	keyConfig   = "10-warren.conf"
	keyPlugins  = "enabled_plugins"
)

// plugins that every node has: Warren itself needs the first three.
func plugins(spec v1alpha1.WorkloadClusterSpec) []string {
	needed := []string{"rabbitmq_management", "rabbitmq_peer_discovery_k8s", "rabbitmq_prometheus"}
	for _, name := range slices.Sorted(slices.Values(spec.Plugins)) { // their order means nothing, so it restarts nobody
		if !slices.Contains(needed, name) {
			needed = append(needed, name)
		}
	}
	return needed
}

func configMap(in Input) *corev1.ConfigMap {
	metadata := meta(in, ConfigMapName(in.Cluster.Name))
	if size := in.SizeAsMade; size != nil && size.Cmp(in.Cluster.Spec.Storage.Size) != 0 {
		metadata.Annotations = map[string]string{v1alpha1.AnnotationVolumeSize: size.String()}
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metadata,
		Data: map[string]string{
			keySizeHint: sizeHint(in),
			keyConfig:   render(withLines(config(in), in.Cluster.Spec.Config)),
			keyPlugins:  fmt.Sprintf("[%s].\n", strings.Join(plugins(in.Cluster.Spec), ",")),
		},
	}
}

// sizeHint is apart from the rest because running nodes need no restart when it changes.
func sizeHint(in Input) string {
	return render([]broker.ConfigLine{{
		Key: "cluster_formation.target_cluster_size_hint", Value: strconv.Itoa(int(in.Cluster.Spec.Replicas)),
	}})
}

func config(in Input) []broker.ConfigLine {
	c, name := in.Capabilities, in.Cluster.Name
	lines := []broker.ConfigLine{
		{Key: "cluster_name", Value: name},
		{Key: "cluster_formation.peer_discovery_backend", Value: c.KubernetesPeerDiscovery},
	}
	if c.PeerDiscoveryNeedsAPI {
		lines = append(lines,
			broker.ConfigLine{Key: "cluster_formation.k8s.host", Value: "kubernetes.default.svc"},
			broker.ConfigLine{Key: "cluster_formation.k8s.address_type", Value: "hostname"},
			broker.ConfigLine{Key: "cluster_formation.k8s.service_name", Value: NodesServiceName(name)},
			broker.ConfigLine{Key: "cluster_formation.k8s.hostname_suffix", Value: hostnameSuffix(in)},
		)
	}
	if c.PartitionHandling {
		lines = append(lines, broker.ConfigLine{Key: "cluster_partition_handling", Value: partitionHandling(in.Cluster.Spec.Replicas)})
	}
	lines = append(lines, c.LeaderLocatorConfig)
	if c.MembershipReconciliation {
		lines = append(lines, broker.ConfigLine{Key: "quorum_queue.continuous_membership_reconciliation.enabled", Value: "true"})
	}
	lines = append(lines, broker.ConfigLine{Key: "log.console", Value: "true"})
	// Plain bytes: units mean different numbers in different versions, and a value that cannot be read is ignored.
	if n := in.Tuning.MemoryHighWatermark; n != nil {
		lines = append(lines, broker.ConfigLine{Key: "vm_memory_high_watermark.absolute", Value: strconv.FormatInt(*n, 10)})
	}
	if n := in.Tuning.DiskFreeLimit; n != nil {
		lines = append(lines, broker.ConfigLine{Key: "disk_free_limit.absolute", Value: strconv.FormatInt(*n, 10)})
	}
	return lines
}

// withLines adds the lines of the spec, in an order of their own. Where one has a key that is Warren's default, it takes its place.
func withLines(lines []broker.ConfigLine, further []v1alpha1.ConfigLine) []broker.ConfigLine {
	lines = slices.DeleteFunc(lines, func(own broker.ConfigLine) bool {
		return slices.ContainsFunc(further, func(line v1alpha1.ConfigLine) bool { return line.Key == own.Key })
	})
	sorted := slices.SortedFunc(slices.Values(further), func(a, b v1alpha1.ConfigLine) int { return strings.Compare(a.Key, b.Key) })
	for _, line := range sorted {
		lines = append(lines, broker.ConfigLine{Key: line.Key, Value: line.Value})
	}
	return lines
}

// configFaults says which plugins and lines of the spec the version does not take.
func configFaults(spec v1alpha1.WorkloadClusterSpec, c broker.Capabilities) []string {
	var faults []string
	for _, name := range spec.Plugins {
		if fault := c.PluginFault(name); fault != "" {
			faults = append(faults, "plugins: "+fault)
		}
	}
	for _, line := range spec.Config {
		if fault := c.ConfigFault(line.Key, plugins(spec), line.Unchecked); fault != "" {
			faults = append(faults, "config: "+fault)
		}
	}
	return faults
}

// partitionHandling: the minority pauses. Of two nodes the one that is left is no majority, so with pause_minority each
// restart of one of them would stop both.
func partitionHandling(nodes int32) string {
	if nodes == 2 {
		return "autoheal"
	}
	return "pause_minority"
}

func hostnameSuffix(in Input) string {
	return fmt.Sprintf(".%s.%s", NodesServiceName(in.Cluster.Name), in.Cluster.Namespace)
}

func render(lines []broker.ConfigLine) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "%s = %s\n", line.Key, line.Value)
	}
	return b.String()
}

// configHash changes when a running node would have to restart to see the new configuration.
func configHash(in Input) string {
	data := configMap(in).Data
	sum := sha256.Sum256([]byte(data[keyConfig] + "\x00" + data[keyPlugins]))
	return hex.EncodeToString(sum[:8])
}
