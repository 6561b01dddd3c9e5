// Package operator runs Warren's own program on an API server of its own, so that tests and benchmarks see what users see.
package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/test/brokers"
)

// Lab is an API server that has Warren's Kinds, and Warren's program.
type Lab struct {
	Kube client.Client

	dir, binary, kubeconfig string
	environment             *envtest.Environment
}

// NewLab builds the program of this checkout and starts an API server. KUBEBUILDER_ASSETS names the folder of its programs.
func NewLab() (*Lab, error) {
	log.SetLogger(logr.Discard()) // of what starts the API server
	root, err := brokers.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "warren-lab-")
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir, binary: filepath.Join(dir, "warren"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := l.open(root); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) open(root string) error {
	if err := goBuild(root, l.binary); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	l.environment = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd")}, ErrorIfCRDPathMissing: true}
	config, err := l.environment.Start()
	if err != nil {
		return fmt.Errorf("start the API server (KUBEBUILDER_ASSETS names its folder): %w", err)
	}
	config.QPS, config.Burst = -1, -1
	user, err := l.environment.AddUser(envtest.User{Name: "lab", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.kubeconfig, text, 0o600); err != nil {
		return err
	}
	l.Kube, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// Close ends the API server and removes all files.
func (l *Lab) Close() error {
	var err error
	if l.environment != nil {
		err = l.environment.Stop()
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// Connect makes a namespace with a connection Secret for a broker.
func (l *Lab) Connect(ctx context.Context, namespace, secret string, at broker.Target) error {
	if err := l.Kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	return l.Kube.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, StringData: map[string]string{
		"managementUri": at.URL, "username": at.Username, "password": at.Password,
	}})
}

func goBuild(root, into string) error {
	command := exec.Command("go", "build", "-trimpath", "-o", into, ".")
	command.Dir, command.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// Operator is Warren's program, running.
type Operator struct {
	command *exec.Cmd
	address string
	log     string
	began   time.Time
	ended   chan struct{}
}

// Start runs the program on one namespace; its log goes to a file.
func (l *Lab) Start(namespace string, poll time.Duration) (*Operator, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close()
	o := &Operator{address: address, log: filepath.Join(l.dir, namespace+".log"), began: time.Now(), ended: make(chan struct{})}
	file, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	o.command = exec.Command(l.binary, "manager", "--namespaces", namespace, "--metrics-bind-address", address,
		"--health-probe-bind-address", "0", "--poll-interval", poll.String())
	o.command.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig)
	o.command.Stdout, o.command.Stderr = file, file
	if err := o.command.Start(); err != nil {
		_ = file.Close()
		return nil, err
	}
	go func() { _ = o.command.Wait(); _ = file.Close(); close(o.ended) }()
	return o, nil
}

// Stop asks the program to end, and waits until it has.
func (o *Operator) Stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.ended:
	case <-time.After(20 * time.Second):
		o.Kill()
	}
}

// Kill ends the program wherever it is.
func (o *Operator) Kill() {
	_ = o.command.Process.Kill()
	<-o.ended
}

// LogEnd is the end of the program's log.
func (o *Operator) LogEnd() string {
	const most = 4000
	text, err := os.ReadFile(o.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Sum of a metric over the series that have these labels.
func (o *Operator) Sum(ctx context.Context, name string, labels map[string]string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bufio.NewReader(answer.Body))
	if err != nil || families[name] == nil {
		return 0, err
	}
	total := 0.0
	for _, m := range families[name].Metric {
		match := 0
		for _, label := range m.Label {
			if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
				match++
			}
		}
		if match == len(labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return total, nil
}

// Looked waits until the program has passed over so many policies that are Ready, and answers how long that took.
func (o *Operator) Looked(ctx context.Context, policies int, limit time.Duration) (time.Duration, error) {
	last := 0.0
	for time.Since(o.began) < limit {
		n, err := o.Sum(ctx, "warren_queuepolicy_policies", map[string]string{"ready": "True"})
		if err == nil && int(n) >= policies {
			return time.Since(o.began), nil
		}
		last = n
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-o.ended:
			return 0, errors.New("the operator ended")
		case <-time.After(200 * time.Millisecond):
		}
	}
	return 0, fmt.Errorf("only %.0f of %d policies are ready after %s", last, policies, limit)
}

// Requests that the program sent to brokers by these methods.
func (o *Operator) Requests(ctx context.Context, methods ...string) (float64, error) {
	total := 0.0
	for _, method := range methods {
		n, err := o.Sum(ctx, "warren_broker_requests_total", map[string]string{"method": method})
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// PeakMemory of the program in MiB, as the kernel counts it.
func (o *Operator) PeakMemory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.command.Process.Pid))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, is := strings.CutPrefix(line, "VmHWM:"); is {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n / 1024
		}
	}
	return 0
}
