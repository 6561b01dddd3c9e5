//go:build e2e

// Package e2e_test sees Warren at work on a real Kubernetes with real RabbitMQ of both version lines. One cluster serves
// all tests; each test can be run alone.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/cluster"
)

// k is the Kubernetes that the tests run on.
var k *cluster.Cluster

// labelOurs marks the namespaces of these tests, so that what a broken-off run left is found.
const labelOurs = "rabbitmq.warren.dev/e2e"

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	ctx := context.Background()
	var err error
	if k, err = cluster.Start(ctx, cluster.FromEnvironment("e2e")); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: no cluster:", err)
		return 1
	}
	if err := removeNamespaces(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: namespaces of an earlier run:", err)
		return 1
	}
	code := m.Run()
	if os.Getenv("KEEP") == "1" {
		progress.Say("KEEP=1: the cluster stays: export KUBECONFIG=%s", k.Kubeconfig)
		return code
	}
	if err := k.Down(ctx, ourNamespaces(ctx)...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: taking the cluster down:", err)
		return 1
	}
	return code
}

func ourNamespaces(ctx context.Context) []string {
	var list corev1.NamespaceList
	if err := k.Client.List(ctx, &list, client.HasLabels{labelOurs}); err != nil {
		progress.Say("list namespaces: %v", err)
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names
}

func removeNamespaces(ctx context.Context) error {
	names := ourNamespaces(ctx)
	if len(names) == 0 {
		return nil
	}
	return progress.Step("remove namespaces of an earlier run", func() error {
		return k.RemoveNamespaces(ctx, names...)
	})
}

// makeNamespace makes a namespace that admits only restricted pods.
func makeNamespace(t *testing.T, name string) {
	t.Helper()
	err := k.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		labelOurs: "true", "pod-security.kubernetes.io/enforce": "restricted",
	}}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// eventually fails the test when ask still misses something at the end of the limit.
func eventually(t *testing.T, limit time.Duration, what string, ask func(ctx context.Context) (missing string, err error)) {
	t.Helper()
	if err := cluster.Wait(t.Context(), limit, ask); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// explainFailure prints, when the test has failed, what there is in a namespace and what Warren says.
func explainFailure(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, args := range [][]string{
			{"get", "wlc,qpol,qbench,jobs,pods,statefulsets,pvc,secrets,services", "-n", namespace, "-o", "wide"},
			{"get", "wlc,qpol,qbench", "-n", namespace, "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {range .status.conditions[*]}{"\n  "}{.type}={.status} {.reason}: {.message}{end}{"\n"}{end}`},
			{"events", "-n", namespace},
			{"logs", "-n", cluster.Namespace, "deployment/" + cluster.Release, "--tail", "60"},
		} {
			out, err := k.Kubectl(ctx, args...)
			if err != nil {
				out += err.Error()
			}
			t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), lastLines(out, 80))
		}
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{fmt.Sprintf("... %d lines before", len(lines)-n)}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}
