package desired

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func configured(plugins []string, lines ...v1alpha1.ConfigLine) func(*v1alpha1.WorkloadCluster) {
	return func(c *v1alpha1.WorkloadCluster) { c.Spec.Plugins, c.Spec.Config = plugins, lines }
}

func TestLinesOfTheSpecComeAfterWarrensAndReplaceItsDefaults(t *testing.T) {
	level, leaders := v1alpha1.ConfigLine{Key: "log.console.level", Value: "warning"}, v1alpha1.ConfigLine{Key: "queue_leader_locator", Value: "client-local"}
	objects := build(t, "minimal", configured([]string{"rabbitmq_top", "rabbitmq_shovel"}, level, leaders))
	data := find[*corev1.ConfigMap](t, objects, ConfigMapName(set(t, objects).Name)).Data
	if got := data[keyConfig]; !strings.HasSuffix(got, "\nlog.console.level = warning\nqueue_leader_locator = client-local\n") || strings.Count(got, "queue_leader_locator") != 1 {
		t.Errorf("rabbitmq.conf:\n%s", got)
	}
	if got, want := data[keyPlugins], "[rabbitmq_management,rabbitmq_peer_discovery_k8s,rabbitmq_prometheus,rabbitmq_shovel,rabbitmq_top].\n"; got != want {
		t.Errorf("plugins %s, want %s", got, want)
	}
	hash := set(t, objects).Spec.Template.Annotations[annotationConfig]
	turned := build(t, "minimal", configured([]string{"rabbitmq_shovel", "rabbitmq_top"}, leaders, level))
	if got := set(t, turned).Spec.Template.Annotations[annotationConfig]; got != hash {
		t.Error("another order restarts the nodes")
	}
	if got := set(t, build(t, "minimal")).Spec.Template.Annotations[annotationConfig]; got == hash {
		t.Error("other lines do not restart the nodes")
	}
}

func TestWhatTheVersionDoesNotKnowIsRefused(t *testing.T) {
	_, faults := Resolve(read(t, "minimal", configured([]string{"rabbitmq_shovell"}, v1alpha1.ConfigLine{Key: "log.consol.level", Value: "debug"})), template)
	got := strings.Join(faults, "\n")
	for _, word := range []string{`plugins: rabbitmq_shovell`, `config: no supported RabbitMQ knows the key log.consol.level (did you mean "log.console.level"?)`} {
		if !strings.Contains(got, word) {
			t.Errorf("%q does not say %q", got, word)
		}
	}
}
