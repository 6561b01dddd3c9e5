package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/controllers"
	"github.com/warren-mq/warren/internal/apply"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/notify"
	"github.com/warren-mq/warren/internal/observe"
)

// managerFlags are the flags of the manager command.
type managerFlags struct {
	metricsAddress, probeAddress string
	leaderElection               bool
	leaderNamespace              string
	namespaces                   []string
	image, ownImage              string
	poll, brokerTimeout          time.Duration
	passTimeout                  time.Duration
	concurrency                  int
	debug                        bool
	brokerCgroups                bool
}

// brokerRequests shows that a steady state only reads.
var brokerRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "warren_broker_requests_total",
	Help: "Requests sent to brokers, by HTTP method.",
}, []string{"method"})

func managerCommand() *cobra.Command {
	var f managerFlags
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Long:  "Run the operator: it watches WorkloadClusters, QueuePolicies and Benchmarks, keeps RabbitMQ clusters and their policies as they say, and measures them.",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return runManager(command.Context(), f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address of the Prometheus endpoint; 0 turns it off")
	flags.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.BoolVar(&f.leaderElection, "leader-elect", false, "let only one of several replicas work at a time")
	flags.StringVar(&f.leaderNamespace, "leader-election-namespace", "", "namespace of the lease; the pod's own if empty")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "namespaces to watch; all if empty")
	flags.StringVar(&f.image, "rabbitmq-image", "docker.io/library/rabbitmq:{version}-management", "image that a version stands for; {version} is replaced by spec.version")
	flags.StringVar(&f.ownImage, "image", "", "Warren's own image, which the pods of Benchmarks run; without it no Benchmark runs")
	flags.BoolVar(&f.brokerCgroups, "broker-cgroups", false, "let Benchmarks that ask for it read the control groups of broker pods; the manager needs the verb create on pods/exec to give that right")
	flags.DurationVar(&f.poll, "poll-interval", 30*time.Second, "how often brokers are looked at for drift")
	flags.DurationVar(&f.brokerTimeout, "broker-timeout", 10*time.Second, "how long one call to a broker may take")
	flags.DurationVar(&f.passTimeout, "pass-timeout", time.Minute, "how long one look at one WorkloadCluster may take, so that one whose broker hangs does not hold up the others")
	flags.IntVar(&f.concurrency, "concurrency", 10, "how many objects of a kind are worked on at once")
	flags.BoolVar(&f.debug, "debug", false, "log in words for people, and more of them")
	return command
}

func (f managerFlags) validate() error {
	switch {
	case !strings.Contains(f.image, desired.VersionPlaceholder):
		return fmt.Errorf("--rabbitmq-image %q has no %s in it", f.image, desired.VersionPlaceholder)
	case f.poll < time.Second:
		return fmt.Errorf("--poll-interval %s is less than 1s", f.poll)
	case f.brokerTimeout <= 0:
		return fmt.Errorf("--broker-timeout %s is not more than 0", f.brokerTimeout)
	case f.passTimeout < f.brokerTimeout:
		return fmt.Errorf("--pass-timeout %s is less than --broker-timeout %s", f.passTimeout, f.brokerTimeout)
	case f.concurrency < 1:
		return fmt.Errorf("--concurrency %d is less than 1", f.concurrency)
	}
	return nil
}

func runManager(ctx context.Context, f managerFlags) error {
	if err := f.validate(); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(f.debug)))
	ctx = logr.NewContext(ctx, ctrl.Log)
	build, err := buildOf(os.Executable)
	if err != nil {
		return err
	}
	manager, err := newManager(f)
	if err != nil {
		return err
	}
	if err := metrics.Registry.Register(brokerRequests); err != nil {
		return err
	}
	connector := management.NewConnector(management.Options{
		CallTimeout: f.brokerTimeout,
		OnRequest:   func(method, _ string) { brokerRequests.WithLabelValues(method).Inc() },
	})
	options := controllers.Options{
		Reader:        observe.Reader{Cached: manager.GetClient(), Direct: manager.GetAPIReader(), Connector: connector, Snapshots: observe.NewSnapshots(time.Now, f.poll)},
		Writer:        apply.Writer{Client: manager.GetClient()},
		Connector:     connector,
		Events:        manager.GetEventRecorder("warren"),
		Now:           time.Now,
		PollInterval:  f.poll,
		Concurrency:   f.concurrency,
		ImageTemplate: f.image,
		Build:         build,
	}
	clusters, err := controllers.NewClusterMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	if err := (&controllers.WorkloadClusterReconciler{Options: options, Metrics: clusters, PassTimeout: f.passTimeout}).SetupWithManager(manager); err != nil {
		return fmt.Errorf("controller of WorkloadClusters: %w", err)
	}
	sums, err := controllers.NewPolicyMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	if err := (&controllers.QueuePolicyReconciler{Options: options, Metrics: sums}).SetupWithManager(manager); err != nil {
		return fmt.Errorf("controller of QueuePolicies: %w", err)
	}
	gauges, err := controllers.NewBenchmarkMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	benchmarks := &controllers.BenchmarkReconciler{Options: options, Image: f.ownImage, MayExec: f.brokerCgroups, Channel: notify.New(), Metrics: gauges}
	if err := benchmarks.SetupWithManager(manager); err != nil {
		return fmt.Errorf("controller of Benchmarks: %w", err)
	}
	return manager.Start(ctx)
}

func newManager(f managerFlags) (ctrl.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	// The usual 20 requests a second would make thousands of new QueuePolicies take half an hour. The API server has limits of
	// its own (priority and fairness).
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(f.namespaces),
		Metrics:                       metricsserver.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress:        f.probeAddress,
		LeaderElection:                f.leaderElection,
		LeaderElectionID:              "warren.rabbitmq.warren.dev",
		LeaderElectionNamespace:       f.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return manager, manager.AddReadyzCheck("ping", healthz.Ping)
}

// buildOf is a digest of a program: versions are not enough where people build their own.
func buildOf(executable func() (string, error)) (string, error) {
	path, err := executable()
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}
