//go:build e2e

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// TestClustersFormAndRunAsTuned: three restricted pods of each line form one cluster, and what the running nodes say of
// their control group, their schedulers and their alarms is what status.tuning says (cases A1, A3, B9).
func TestClustersFormAndRunAsTuned(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		object, err := l.rabbit().Object(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range object.Status.Tuning {
			if value.InForce == "False" || value.Reason == "" {
				t.Errorf("status.tuning: %s=%s in force %s, reason %q", value.Name, value.Value, value.InForce, value.Reason)
			}
		}
		nodes, err := l.rabbit().Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(nodes) != 3 {
			t.Fatalf("%d nodes, wanted 3", len(nodes))
		}
		for _, node := range nodes {
			t.Logf("%+v", node)
			if err := cluster.CheckNode(object, node); err != nil {
				t.Error(err)
			}
			if !strings.HasPrefix(node.Version, l.version+".") || node.Version != object.Status.Version {
				t.Errorf("node %s runs %s, status says %s, wanted line %s", node.Pod, node.Version, object.Status.Version, l.version)
			}
		}
		var members []struct {
			Name    string
			Running bool
		}
		if err := l.rabbit().Call(t.Context(), "GET", "nodes?columns=name,running", nil, &members); err != nil {
			t.Fatal(err)
		}
		if len(members) != 3 {
			t.Errorf("the broker counts %d members: %v", len(members), members)
		}
	})
}

// TestSecretsAreNowhereElse: the administrator's password and the cookie are in no log, event, status, pod or ConfigMap.
func TestSecretsAreNowhereElse(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		secrets := map[string]string{}
		for name, key := range map[string]string{l.cluster + "-admin": "password", l.cluster + "-erlang-cookie": ".erlang.cookie"} {
			var secret corev1.Secret
			if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, &secret); err != nil {
				t.Fatal(err)
			}
			value := secret.Data[key]
			if len(value) < 20 {
				t.Fatalf("Secret %s has %d bytes under %s", name, len(value), key)
			}
			secrets[name] = string(value)
			secrets[name+" in base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString(value), "=")
		}
		for place, text := range places(t, l) {
			if len(text) < 100 && place != "events" {
				t.Errorf("%s: only %d bytes to look at", place, len(text))
			}
			for what, secret := range secrets {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s is in %s, after %q", what, place, text[max(0, i-80):i])
				}
			}
		}
	})
}

// places are the texts that people read who may not read Secrets.
func places(t *testing.T, l *line) map[string]string {
	t.Helper()
	out := map[string]string{}
	collect := func(place string, list client.ObjectList) {
		if err := k.Client.List(t.Context(), list, client.InNamespace(l.namespace)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		out[place] = string(text)
	}
	collect("pods", &corev1.PodList{})
	collect("ConfigMaps", &corev1.ConfigMapList{})
	collect("WorkloadClusters", &v1alpha1.WorkloadClusterList{})
	collect("QueuePolicies", &v1alpha1.QueuePolicyList{})
	collect("events", &eventsv1.EventList{})
	log := func(place, namespace, pod, container string) {
		text, err := k.Clientset.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out[place] = string(text)
	}
	warren, err := warrenPods(t.Context())
	if err != nil || len(warren) == 0 {
		t.Fatalf("Warren's pods: %d, %v", len(warren), err)
	}
	log("Warren's log", cluster.Namespace, warren[0].Name, "")
	log("RabbitMQ's log", l.namespace, l.cluster+"-0", "rabbitmq")
	return out
}

// TestPodsAreRestricted: the namespace enforces the restricted standard, which would have kept the pods out, and the
// container cannot write to its image.
func TestPodsAreRestricted(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		var namespace corev1.Namespace
		if err := k.Client.Get(t.Context(), client.ObjectKey{Name: l.namespace}, &namespace); err != nil {
			t.Fatal(err)
		}
		if got := namespace.Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
			t.Errorf("the namespace enforces %q", got)
		}
		out, err := k.Exec(t.Context(), l.namespace, l.cluster+"-0", "rabbitmq", "sh", "-c",
			"id -u; grep -E '^(NoNewPrivs|CapEff)' /proc/1/status; touch /usr/x 2>&1 || true")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"999", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "Read-only file system"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %q", want, out)
			}
		}
	})
}
