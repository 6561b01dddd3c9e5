package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func goBuild(into string) error {
	command := exec.Command("go", "build", "-trimpath", "-o", into, ".")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// operator is Warren's program, running.
type operator struct {
	command *exec.Cmd
	address string
	began   time.Time
	ended   chan struct{}
}

// start runs the program on one namespace; its log goes to a file.
func (l *lab) start(namespace string) (*operator, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close()
	log, err := os.OpenFile(l.dir+"/warren.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	command := exec.Command(l.binary, "manager", "--namespaces", namespace, "--metrics-bind-address", address,
		"--health-probe-bind-address", "0", "--poll-interval", l.poll.String())
	command.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig)
	command.Stdout, command.Stderr = log, log
	o := &operator{command: command, address: address, began: time.Now(), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() { _ = command.Wait(); _ = log.Close(); close(o.ended) }()
	return o, nil
}

func (o *operator) stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.ended:
	case <-time.After(20 * time.Second):
		_ = o.command.Process.Kill()
		<-o.ended
	}
}

// sum of a metric over the series that have these labels.
func (o *operator) sum(ctx context.Context, name string, labels map[string]string) (float64, error) {
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

// looked waits until the program has passed over so many policies that are Ready, and answers how long that took.
func (o *operator) looked(ctx context.Context, policies int, limit time.Duration) (time.Duration, error) {
	last := 0.0
	for time.Since(o.began) < limit {
		n, err := o.sum(ctx, "warren_queuepolicy_policies", map[string]string{"ready": "True"})
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

// requests that the program sent to brokers by these methods.
func (o *operator) requests(ctx context.Context, methods ...string) (float64, error) {
	total := 0.0
	for _, method := range methods {
		n, err := o.sum(ctx, "warren_broker_requests_total", map[string]string{"method": method})
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// peakMemory of the program in MiB, as the kernel counts it.
func (o *operator) peakMemory() float64 {
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
