// Command policy measures the operator with very many QueuePolicies: Warren's own program against a real API server, with a
// fake broker that is checked against real ones, and with a real RabbitMQ.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// options of a run.
type options struct {
	out                          string
	policies, vhosts             int
	queues, queueVHosts, manyFor int
	real                         int
	version                      string
	poll, patience               time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "out/bench/bench-policy.json", "file for the figures")
	flag.IntVar(&o.policies, "policies", 10_000, "QueuePolicies on the fake broker")
	flag.IntVar(&o.vhosts, "vhosts", 100, "vhosts that they are spread over")
	flag.IntVar(&o.queues, "queues", 20_000, "queues of the second fake broker")
	flag.IntVar(&o.queueVHosts, "queue-vhosts", 3, "vhosts that they are spread over")
	flag.IntVar(&o.manyFor, "queue-policies", 50, "QueuePolicies on the second fake broker")
	flag.IntVar(&o.real, "real-policies", 1000, "QueuePolicies on the real broker; 0 for none")
	flag.StringVar(&o.version, "version", "4.3.6", "RabbitMQ of the real broker")
	flag.DurationVar(&o.poll, "poll", 30*time.Second, "Warren's --poll-interval")
	flag.DurationVar(&o.patience, "patience", 8*time.Minute, "how long one convergence may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-policy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "bench-policy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := newLab(dir, o)
	if err != nil {
		return err
	}
	defer func() { _ = l.environment.Stop() }()
	var figures report
	for _, scene := range []func(context.Context, *lab, *report) error{tenThousand, manyQueues, realBroker} {
		if err := scene(ctx, l, &figures); err != nil {
			_ = figures.write(o.out)
			return err
		}
	}
	return figures.write(o.out)
}

// lab is the API server and the program that all scenes use.
type lab struct {
	options
	dir, binary, kubeconfig string
	environment             *envtest.Environment
	kube                    client.Client
}

func newLab(dir string, o options) (*lab, error) {
	l := &lab{options: o, dir: dir, binary: filepath.Join(dir, "warren"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := goBuild(l.binary); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	l.environment = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("config", "crd")}, ErrorIfCRDPathMissing: true}
	config, err := l.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server (KUBEBUILDER_ASSETS names its folder): %w", err)
	}
	config.QPS, config.Burst = -1, -1
	user, err := l.environment.AddUser(envtest.User{Name: "bench", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	l.kube, err = client.New(config, client.Options{Scheme: scheme})
	return l, err
}
