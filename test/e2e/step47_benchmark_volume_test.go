//go:build e2e

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
)

// TestBenchmarkResultsOnAVolume: runs are kept as files on a claim, as many as the history has; without the claim nothing
// starts; and what the control groups of the broker's containers say is sampled from inside them.
func TestBenchmarkResultsOnAVolume(t *testing.T) {
	l := &line{namespace: "e2e-volume", cluster: "lone", version: "4.3", queueType: "classic"}
	makeNamespace(t, l.namespace)
	explainFailure(t, l.namespace)
	object := single(l.namespace, l.cluster, l.version)
	if err := k.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	waitCluster(t, l.namespace, l.cluster)
	b := newBenchmark(l, "stored", l.scenario("Measured", "6s"))
	b.Spec.Generator.Pods, b.Spec.Generator.BrokerCgroups = 1, true
	b.Spec.History = v1alpha1.BenchmarkHistory{Limit: 1, VolumeClaimRef: &v1alpha1.VolumeClaimReference{Name: "results"}}
	if err := k.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitBenchmark(t, b, "waits for its claim", func(b *v1alpha1.Benchmark) string {
		for _, c := range b.Status.Conditions {
			if c.Type == v1alpha1.ConditionRunning && c.Reason == v1alpha1.ReasonClaimNotFound {
				return ""
			}
		}
		return "the claim is not missed"
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "results"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}
	if err := k.Client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	first := waitRun(t, b, 1)
	l.checkReport(t, first)
	l.checkCgroups(t, storedResult(t, l.namespace, first.Scenarios[0].ConfigMap))
	files := reader(t, l, claim.Name)
	if got := files("ls /r/" + first.Folder); got != "Measured.hlog\nMeasured.json\nreport.html" {
		t.Errorf("folder %q of the volume has %q", first.Folder, got)
	}
	result, err := bench.DecodeResult([]byte(files("cat /r/" + first.Folder + "/Measured.json")))
	if err != nil || len(result.Runs) != 1 || len(result.Runs[0].Seconds) < 6 {
		t.Errorf("the result on the volume: %d runs, %v", len(result.Runs), err)
	}
	log := hdrhistogram.NewHistogramLogReader(strings.NewReader(files("cat /r/" + first.Folder + "/Measured.hlog")))
	if h, err := log.NextIntervalHistogram(); err != nil || h == nil || h.TotalCount() == 0 {
		t.Errorf("the log on the volume: %v, %v", h, err)
	}

	b.Annotations = map[string]string{v1alpha1.AnnotationRun: time.Now().String()}
	if err := k.Client.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	second := waitRun(t, b, 2)
	l.checkReport(t, second, "×\u00a0")
	if got := files("ls -A /r/stored"); "stored/"+got != second.Folder || second.Folder == first.Folder {
		t.Errorf("the volume has runs %q after %q and %q, and the history keeps one", got, first.Folder, second.Folder)
	}
	if page := files("cat /r/" + second.Folder + "/report.html"); !strings.Contains(page, "×\u00a0") {
		t.Error("the report on the volume has no ratio to the run before")
	}
	var roles rbacv1.RoleList
	err = k.Client.List(t.Context(), &roles, client.InNamespace(l.namespace), client.MatchingLabels{v1alpha1.LabelBenchmark: b.Name})
	if err != nil || len(roles.Items) > 0 {
		t.Errorf("%d roles of runs are left, %v", len(roles.Items), err)
	}
	for _, o := range []client.Object{b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "reader"}}, claim} {
		if err := k.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	deleteCluster(t, object)
	leaves(t, l.namespace, "")
}

// checkReport unpacks the report of a run as the documentation says.
func (l *line) checkReport(t *testing.T, run v1alpha1.BenchmarkRun, texts ...string) {
	t.Helper()
	var kept corev1.ConfigMap
	if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: run.Report}, &kept); err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(kept.BinaryData["report.html.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, "<figure", "Measured") {
		if !bytes.Contains(page, []byte(text)) {
			t.Errorf("the report of run %d has no %q", run.Number, text)
		}
	}
}

// checkCgroups: CPU, throttling and memory of the container are there, and the limit is that of the cluster's spec.
func (l *line) checkCgroups(t *testing.T, r bench.Result) {
	t.Helper()
	told := 0
	for _, s := range r.Runs[0].Broker {
		if s.CPUSecondsTotal == nil {
			continue
		}
		told++
		if s.CPULimitCores == nil || *s.CPULimitCores != 1 || s.CPUThrottledSecondsTotal == nil || s.CPUThrottledPeriodsTotal == nil || s.CPUPeriodsTotal == nil {
			t.Fatalf("a sample of the CPU is %+v", s)
		}
		if s.ContainerMemoryBytes == nil || *s.ContainerMemoryBytes < 1<<20 || s.MemoryLimitBytes == nil || *s.MemoryLimitBytes != 1<<30 {
			t.Fatalf("a sample of the memory is %+v", s)
		}
		if want := fmt.Sprintf("rabbit@%s-0.%s-nodes.%s", l.cluster, l.cluster, l.namespace); s.Node != want {
			t.Fatalf("it is of node %q, want %q", s.Node, want)
		}
	}
	if told < 3 {
		t.Errorf("%d of %d samples tell of the control group", told, len(r.Runs[0].Broker))
	}
	if r.Runs[0].Figures.BrokerCPUCores == nil {
		t.Error("the CPU of the broker is unknown")
	}
}

// reader is a pod with the volume in which files can be looked at.
func reader(t *testing.T, l *line, claim string) func(command string) string {
	t.Helper()
	brokers, err := l.rabbit().Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	yes, no, id := true, false, int64(65532)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "reader"}, Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "reader", Image: brokers[0].Spec.Containers[0].Image, Command: []string{"sleep", "3600"},
			VolumeMounts: []corev1.VolumeMount{{Name: "results", MountPath: "/r", ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "results", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}}
	if err := k.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the reader runs", func(ctx context.Context) (string, error) {
		err := k.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if pod.Status.Phase != corev1.PodRunning {
			return "it is " + string(pod.Status.Phase), err
		}
		return "", err
	})
	return func(command string) string {
		t.Helper()
		out, err := k.Exec(t.Context(), l.namespace, "reader", "reader", "sh", "-c", command)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}
