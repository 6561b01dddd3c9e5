package broker

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Both tables have one line for each name, with the versions that have it: "all", or the lines, each from its first patch on
// if that is not 0 ("3.12.13,3.13"). In keys, $word stands for any one segment. They were read from the schemas of every
// release; test/broker holds them against real brokers.
var (
	//go:embed configkeys.txt
	configKeysText string
	//go:embed plugins.txt
	pluginsText string
)

// configKey is one key of rabbitmq.conf.
type configKey struct {
	pattern, owner string
	segments       []string
	in             availability
}

// availability are the versions that have something, one for each line.
type availability []Version

func parseAvailability(text string) availability {
	if text == "all" {
		text = strings.Join(lines, ",")
	}
	var out availability
	for word := range strings.SplitSeq(text, ",") {
		v, err := ParseVersion(word)
		if err != nil {
			panic(err) // the table is part of the program, and a test reads all of it
		}
		out = append(out, v)
	}
	return out
}

func (a availability) has(v Version) bool {
	return slices.ContainsFunc(a, func(first Version) bool { return first.Line() == v.Line() && v.reaches(first) })
}

// instead says which versions have it.
func (a availability) instead() string {
	words := make([]string, len(a))
	for i, v := range a {
		words[i] = v.String()
	}
	return strings.Join(words, ", ")
}

var configKeys = sync.OnceValue(func() []configKey {
	var out []configKey
	for line := range strings.Lines(configKeysText) {
		words := strings.Fields(line)
		out = append(out, configKey{pattern: words[0], owner: words[1], segments: segments(words[0]), in: parseAvailability(words[2])})
	}
	return out
})

var plugins = sync.OnceValue(func() map[string]availability {
	out := map[string]availability{}
	for line := range strings.Lines(pluginsText) {
		words := strings.Fields(line)
		out[words[0]] = parseAvailability(words[1])
	}
	return out
})

// segments of a key end at dots that have no backslash before them.
func segments(key string) []string {
	parts := strings.Split(strings.ReplaceAll(key, `\.`, "\x00"), ".")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", `\.`)
	}
	return parts
}

func (k configKey) matches(parts []string) bool {
	return slices.EqualFunc(k.segments, parts, func(want, got string) bool { return strings.HasPrefix(want, "$") && got != "" || want == got })
}

// refusedKeys are not for users, whatever the version: by whole key, or by what it begins with, if that ends with a dot.
var refusedKeys = map[string]string{
	"hipe_compile":                          "does nothing since Erlang 24 and will be removed: remove the line, Erlang compiles natively by itself",
	"cluster_name":                          "is set by Warren: it is the WorkloadCluster's name",
	"cluster_formation.":                    "is set by Warren, which forms the cluster",
	"autocluster.":                          "is set by Warren, which forms the cluster",
	"cluster_nodes.":                        "is set by Warren, which forms the cluster",
	"cluster_partition_handling":            "is set by Warren from the number of nodes",
	"vm_memory_high_watermark.":             "is set by Warren: use memory.highWatermark and resources.limits.memory",
	"total_memory_available_override_value": "is set by Warren: use resources.limits.memory",
	"disk_free_limit.":                      "is set by Warren: use disk.freeLimit",
	"listeners.":                            "is set by Warren: probes and Services rely on the ports",
	"management.tcp.port":                   "is set by Warren: probes and Services rely on the ports",
	"management.listener.":                  "is set by Warren: probes and Services rely on the ports",
	"prometheus.tcp.port":                   "is set by Warren: probes and Services rely on the ports",
	"default_user":                          "is set by Warren, which keeps the administrator in a Secret",
	"default_pass":                          "is set by Warren, which keeps the administrator in a Secret",
	"log.console":                           "is set by Warren: Kubernetes keeps the logs of the console",
}

func refused(key string) string {
	for name, why := range refusedKeys {
		if key == name || strings.HasSuffix(name, ".") && strings.HasPrefix(key, name) {
			return why
		}
	}
	return ""
}

// secretWords are last segments of keys whose values are secret.
var secretWords = []string{"password", "pass", "secret", "passphrase", "client_secret", "secret_access_key", "secret_key", "acl_token"}

// pluginNeeds are plugins that are enabled together with another and have keys.
var pluginNeeds = map[string][]string{
	"rabbitmq_management":            {"rabbitmq_management_agent", "rabbitmq_web_dispatch"},
	"rabbitmq_prometheus":            {"rabbitmq_management_agent", "rabbitmq_web_dispatch"},
	"rabbitmq_peer_discovery_k8s":    {"rabbitmq_peer_discovery_common"},
	"rabbitmq_federation":            {"rabbitmq_exchange_federation", "rabbitmq_queue_federation"},
	"rabbitmq_federation_management": {"rabbitmq_federation", "rabbitmq_exchange_federation", "rabbitmq_queue_federation"},
	"rabbitmq_shovel_management":     {"rabbitmq_shovel"},
	"rabbitmq_stream_management":     {"rabbitmq_stream"},
	"rabbitmq_web_mqtt":              {"rabbitmq_mqtt"},
	"rabbitmq_web_stomp":             {"rabbitmq_stomp"},
}

// libraries are always there; the broker itself is one for this.
var libraries = []string{"rabbit", "credentials_obfuscation"}

func enabled(owner string, enabledPlugins []string) bool {
	return slices.Contains(libraries, owner) || slices.ContainsFunc(enabledPlugins, func(plugin string) bool {
		return plugin == owner || slices.Contains(pluginNeeds[plugin], owner)
	})
}

// ConfigFault says why a line of rabbitmq.conf with this key must not be written; "" if it may. A key that no supported
// version knows passes if it is unchecked.
func (c Capabilities) ConfigFault(key string, enabledPlugins []string, unchecked bool) string {
	parts := segments(key)
	if why := refused(key); why != "" {
		return fmt.Sprintf("%s %s", key, why)
	}
	if slices.Contains(secretWords, parts[len(parts)-1]) {
		return key + " would stand in a ConfigMap for all to read: secret values are not supported here"
	}
	if unchecked {
		return ""
	}
	var known []configKey
	for _, k := range configKeys() {
		if k.matches(parts) {
			known = append(known, k)
		}
	}
	return c.keyFault(key, known, enabledPlugins)
}

func (c Capabilities) keyFault(key string, known []configKey, enabledPlugins []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("no supported RabbitMQ knows the key %s%s, and a node would not start with it; if your image does, set unchecked: true",
			key, suggestion(key, configPatterns()))
	}
	here := slices.DeleteFunc(slices.Clone(known), func(k configKey) bool { return !k.in.has(c.Version) })
	if len(here) == 0 {
		return fmt.Sprintf("RabbitMQ %s does not know the key %s and would not start with it: it is in %s", c.Version, key, known[0].in.instead())
	}
	if !slices.ContainsFunc(here, func(k configKey) bool { return enabled(k.owner, enabledPlugins) }) {
		return fmt.Sprintf("%s is of the plugin %s, which is not enabled: add it to plugins", key, here[0].owner)
	}
	if !c.MirroredQueues && strings.HasPrefix(key, "default_policies.") && strings.Contains(key, ".ha_") {
		return fmt.Sprintf("RabbitMQ %s has no mirrored queues: remove %s", c.Version, key)
	}
	return ""
}

func configPatterns() []string {
	var out []string
	for _, k := range configKeys() {
		out = append(out, k.pattern)
	}
	return out
}

// PluginFault says why a plugin cannot be enabled; "" if it can.
func (c Capabilities) PluginFault(name string) string {
	in, known := plugins()[name]
	switch {
	case !known:
		return fmt.Sprintf("%s does not come with any supported RabbitMQ%s, and a node would not start with it", name, suggestion(name, sortedKeys(plugins())))
	case !in.has(c.Version):
		return fmt.Sprintf("RabbitMQ %s has no plugin %s and would not start with it: it is in %s", c.Version, name, in.instead())
	}
	return ""
}
