//go:build broker

package load_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/store"
)

// kubernetes is an API server that holds what the pods of a run read and write.
type kubernetes struct {
	config *rest.Config
	client client.Client
}

func startKubernetes(t *testing.T) kubernetes {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		out, err := exec.Command("go", "run", "../../hack/local", "assets").Output()
		if err != nil {
			t.Fatalf("the programs of Kubernetes: %v", err)
		}
		t.Setenv("KUBEBUILDER_ASSETS", strings.TrimSpace(string(out)))
	}
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	made, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes{config: config, client: made}
}

// kubeconfig of the ServiceAccount, as its pods have it.
func (k kubernetes) kubeconfig(t *testing.T, account string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account}}
	if err := k.client.SubResource("token").Create(t.Context(), object, request); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: k.config.Host, CertificateAuthorityData: k.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: request.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program is warren as it is built.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warren")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// The pods of a run share the load, meet in a ConfigMap and hand back their parts, with no more rights than their Role gives
// them; of the parts the operator makes one result. Nothing stays on the broker, also when a pod is told to stop.
func TestPodsOfARun(t *testing.T) {
	at, kube, warren := realBroker(t, "4.3.6"), startKubernetes(t), program(t)
	admin := apiOf(t, at)
	before := census(t, admin)
	cluster := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "runtime"}}
	cluster.Spec.Replicas = 1
	volume := t.TempDir()
	start := func(t *testing.T, number int64, pods int32, scenarios ...bench.Scenario) (p job.Plan, workers []*exec.Cmd) {
		b := &v1alpha1.Benchmark{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pods", UID: types.UID("uid-of-pods")}}
		b.Spec.Generator.Pods = pods
		b.Spec.History = v1alpha1.BenchmarkHistory{Limit: 2, VolumeClaimRef: &v1alpha1.VolumeClaimReference{Name: "results"}}
		run := &v1alpha1.ActiveRun{ID: plan.RunID(fmt.Sprint(time.Now().UnixNano()), number), Number: number, Started: metav1.Now()}
		objects, err := job.Build(job.Input{Benchmark: b, Run: run, Cluster: cluster, Scenarios: scenarios, Image: "warren"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			o.SetOwnerReferences(nil) // there is no such Kind here
			if err := kube.client.Create(t.Context(), o.(client.Object)); err != nil {
				t.Fatal(err)
			}
		}
		if p, err = job.DecodePlan([]byte(objects[0].(*corev1.ConfigMap).Data[job.KeyPlan])); err != nil {
			t.Fatal(err)
		}
		p.URI, p.Management, p.Prometheus = at.AMQP, at.Management, []string{at.Prometheus}
		if scheme, rest, found := strings.Cut(p.URI, "://"); found && strings.Contains(rest, "@") {
			p.URI = scheme + "://" + rest[strings.Index(rest, "@")+1:]
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		config := kube.kubeconfig(t, job.RunName(b.Name, run.ID))
		for pod := range pods {
			worker := exec.Command(warren, "bench", "worker", "--plan="+path)
			worker.Env = append(os.Environ(), "KUBECONFIG="+config, job.EnvUsername+"="+at.Username, job.EnvPassword+"="+at.Password,
				fmt.Sprintf("%s=%d", job.EnvIndex, pod), job.EnvHost+"=elsewhere", job.EnvStore+"="+volume)
			worker.Stderr = os.Stderr
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = worker.Process.Kill() })
			workers = append(workers, worker)
		}
		return p, workers
	}
	read := func(t *testing.T, name string) corev1.ConfigMap {
		var out corev1.ConfigMap
		if err := kube.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Run("two share a scenario", func(t *testing.T) {
		s := quick("Shared", func(s *bench.Scenario) {
			s.Publishers.Count, s.Consumers.Count, s.Runs, s.Duration = 3, 3, 2, bench.Duration(5*time.Second)
		})
		backlog := quick("Drained", func(s *bench.Scenario) {
			s.Load, s.Backlog, s.Duration = bench.Load{Mode: bench.ClosedLoop}, &bench.Backlog{Messages: 5000}, bench.Duration(20*time.Second)
		})
		p, workers := start(t, 1, 2, s, backlog)
		var all sync.WaitGroup
		for pod, worker := range workers {
			all.Go(func() {
				if err := worker.Wait(); err != nil {
					t.Errorf("pod %d: %v", pod, err)
				}
			})
		}
		all.Wait()
		ending := job.EndingOf(job.EndingsOf(read(t, p.Control).Data, 2), &p, nil, "")
		if ending != (plan.Ending{Folder: "pods/" + p.Store.Folder}) {
			t.Fatalf("ended %+v", ending)
		}
		for i, scenario := range p.Scenarios {
			result, faults := job.Assemble(scenario, read(t, p.Parts[i]).BinaryData)
			if len(faults) > 0 || len(result.Runs) != scenario.Runs {
				t.Fatalf("%d runs, faults %q", len(result.Runs), faults)
			}
			for _, run := range result.Runs {
				var lost, published, consumed int64
				for _, q := range run.Queues {
					lost, published, consumed = lost+q.Lost+q.Duplicated+q.Foreign, published+q.Published, consumed+q.Consumed
				}
				if lost > 0 || published == 0 || published != consumed || run.Generator.Workers != 2 || len(run.Broker) == 0 {
					t.Errorf("%s run %d: %d workers, %d published, %d consumed, %d lost, %d samples", scenario.Name, run.Number,
						run.Generator.Workers, published, consumed, lost, len(run.Broker))
				}
				if scenario.Backlog != nil && (run.Drain == nil || run.Drain.Messages != 5000 || run.Drain.Left != 0) {
					t.Errorf("drained %+v", run.Drain)
				}
			}
			// On the volume is the same, with all its seconds.
			text, err := os.ReadFile(filepath.Join(volume, ending.Folder, store.ResultFile(scenario.Name)))
			if err != nil {
				t.Fatal(err)
			}
			kept, err := bench.DecodeResult(text)
			if err != nil || len(kept.Runs) != len(result.Runs) || kept.Runs[0].Figures.Throughput != result.Runs[0].Figures.Throughput || len(kept.Runs[0].Seconds) < 2 {
				t.Errorf("on the volume are %d runs, %+v, error %v", len(kept.Runs), kept.Summary, err)
			}
			if result.Fingerprint.BrokerVersion != "4.3.6" || result.Fingerprint.SharedHost {
				t.Errorf("fingerprint %+v", result.Fingerprint)
			}
		}
	})
	t.Run("told to stop", func(t *testing.T) {
		p, workers := start(t, 2, 1, quick("Stopped", func(s *bench.Scenario) { s.Duration = bench.Duration(5 * time.Minute) }))
		waitForTenant(t, admin, plan.TenantName(p.RunID))
		if err := workers[0].Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := workers[0].Wait(); err == nil {
			t.Error("the pod says that all is well")
		}
		if ending := job.EndingOf(job.EndingsOf(read(t, p.Control).Data, 1), &p, nil, ""); ending.Failed == "" || ending.Folder == "" {
			t.Errorf("ended %+v", ending)
		}
	})
	t.Run("refused", func(t *testing.T) {
		huge := quick("Huge", func(s *bench.Scenario) { s.Caps.Disk = 1 << 50 })
		p, workers := start(t, 3, 1, huge)
		if err := workers[0].Wait(); err == nil {
			t.Error("the pod says that all is well")
		}
		if ending := job.EndingOf(job.EndingsOf(read(t, p.Control).Data, 1), &p, nil, ""); !strings.Contains(ending.Refused, "disk") || ending.Folder+ending.StoreFault != "" {
			t.Errorf("ended %+v", ending)
		}
	})
	if after := census(t, admin); after != before {
		t.Errorf("the broker had\n%s\nand has\n%s", before, after)
	}
}

func waitForTenant(t *testing.T, admin api, name string) {
	t.Helper()
	for range 300 {
		vhosts, err := admin.VHosts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vhosts {
			if v == name {
				time.Sleep(2 * time.Second) // until it measures
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the pod did not begin")
}
