package broker

import (
	"strings"
	"testing"
)

func capabilitiesOf(t *testing.T, version string) Capabilities {
	t.Helper()
	v, err := ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := CapabilitiesOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigKeys(t *testing.T) {
	standard := []string{"rabbitmq_management", "rabbitmq_peer_discovery_k8s", "rabbitmq_prometheus"}
	for _, c := range []struct {
		version, key string
		plugins      []string
		unchecked    bool
		want         []string // words of the fault; none: no fault
	}{
		{version: "3.10.8", key: "log.console.level"},
		{version: "4.3.6", key: "log.console.level"},
		{version: "4.3.6", key: "log.consol.level", want: []string{`did you mean "log.console.level"`, "unchecked: true"}},
		{version: "4.3.6", key: "my_plugin.key", want: []string{"no supported RabbitMQ knows"}},
		{version: "4.3.6", key: "my_plugin.key", unchecked: true},
		{version: "4.3.6", key: "cluster_formation.k8s.host", unchecked: true, want: []string{"set by Warren"}},
		{version: "3.10.8", key: "channel_max_per_node", want: []string{"3.10.8 does not know", "3.12.13"}},
		{version: "3.12.12", key: "channel_max_per_node", want: []string{"3.12.12 does not know", "3.12.13"}},
		{version: "3.12.13", key: "channel_max_per_node"},
		{version: "3.12", key: "channel_max_per_node"},
		{version: "4.0.9", key: "max_channels_per_connection", want: []string{"4.0.9 does not know"}},
		{version: "4.3.6", key: "channel_max"},
		{version: "4.3.6", key: "tcp_listen_options.backlog"},
		{version: "4.3.6", key: "mqtt.tcp_listen_options.nodelay", want: []string{"plugin rabbitmq_mqtt", "not enabled"}},
		{version: "4.3.6", key: "mqtt.tcp_listen_options.nodelay", plugins: []string{"rabbitmq_web_mqtt"}},
		{version: "4.3.6", key: "management.http.max_body_size"},
		{version: "3.10.8", key: "hipe_compile", want: []string{"does nothing"}},
		{version: "4.3.6", key: "hipe_compile", unchecked: true, want: []string{"does nothing"}},
		{version: "4.3.6", key: "cluster_partition_handlin", want: []string{`did you mean "cluster_partition_handling"`}},
		{version: "3.10.8", key: "cluster_partition_handling", want: []string{"set by Warren"}},
		{version: "4.3.6", key: "vm_memory_high_watermark.relative", want: []string{"memory.highWatermark"}},
		{version: "4.3.6", key: "disk_free_limit.absolute", want: []string{"disk.freeLimit"}},
		{version: "4.3.6", key: "ssl_options.password", want: []string{"ConfigMap"}},
		{version: "4.3.6", key: "default_policies.operator.a.classic_queues.ha_mode", want: []string{"no mirrored queues"}},
		{version: "3.13.7", key: "default_policies.operator.a.classic_queues.ha_mode"},
		{version: "4.3.6", key: `default_limits.vhosts.a\.b.pattern`},
		{version: "4.3.6", key: "default_limits.vhosts.a.b.pattern", want: []string{"no supported RabbitMQ knows"}},
	} {
		t.Run(c.version+" "+c.key, func(t *testing.T) {
			got := capabilitiesOf(t, c.version).ConfigFault(c.key, append(c.plugins, standard...), c.unchecked)
			if got != "" && len(c.want) == 0 {
				t.Errorf("refused: %s", got)
			}
			for _, word := range c.want {
				if !strings.Contains(got, word) {
					t.Errorf("%q does not say %q", got, word)
				}
			}
		})
	}
}

func TestPlugins(t *testing.T) {
	for _, c := range []struct{ version, plugin, want string }{
		{"3.10.8", "rabbitmq_shovel", ""},
		{"4.3.6", "rabbitmq_shovell", `did you mean "rabbitmq_shovel"`},
		{"3.10.8", "rabbitmq_shovel_prometheus", "3.10.8 has no plugin"},
		{"4.3.6", "rabbitmq_shovel_prometheus", ""},
	} {
		got := capabilitiesOf(t, c.version).PluginFault(c.plugin)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.version, c.plugin, got, c.want)
		}
	}
}
