package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/load"
)

// podCgroups samples the control groups of broker pods, from inside them: a shell that is started once for each pod prints
// the files each time that it is sent a line. It ends with its input.
type podCgroups struct {
	ctx    context.Context // of all shells
	config *rest.Config
	at     job.Plan
	mu     sync.Mutex
	shells map[string]*shell // by pod
}

// shell in a pod.
type shell struct {
	in   io.WriteCloser
	out  *bufio.Reader
	stop context.CancelCauseFunc
	// ready is closed when it has answered once, or fault says why it does not.
	ready chan struct{}
	fault error
}

// brokerCgroups is nil when the run samples none. The shells are being started when it returns.
func brokerCgroups(ctx context.Context, p job.Plan) (*podCgroups, error) {
	if len(p.Brokers) == 0 {
		return nil, nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	c := &podCgroups{ctx: ctx, config: config, at: p, shells: map[string]*shell{}}
	for _, b := range p.Brokers {
		c.shell(b)
	}
	return c, nil
}

const (
	// cgroupTimeout is how long the shell of a pod may take for one answer, and startTimeout for the first one: on a busy node
	// the container runtime takes its time.
	cgroupTimeout = 2 * time.Second
	startTimeout  = 30 * time.Second
)

var errStarting = errors.New("its shell has not answered yet")

// Sample implements load.Source. A pod that does not answer is left out, and tried again the next time.
func (c *podCgroups) Sample(ctx context.Context) ([]bench.Sample, error) {
	samples, failures := make([]*bench.Sample, len(c.at.Brokers)), make([]error, len(c.at.Brokers))
	var all sync.WaitGroup
	for i, b := range c.at.Brokers {
		all.Go(func() {
			if text, err := c.read(ctx, b); err != nil {
				failures[i] = fmt.Errorf("the control group of pod %s: %w", b.Pod, err)
			} else if s, known := load.CgroupSample(b.Node, text); known {
				samples[i] = &s
			} else {
				failures[i] = fmt.Errorf("pod %s has no control group that can be read", b.Pod)
			}
		})
	}
	all.Wait()
	var found []bench.Sample
	for _, s := range samples {
		if s != nil {
			found = append(found, *s)
		}
	}
	return found, errors.Join(failures...)
}

// shell of a pod; one is started where there is none.
func (c *podCgroups) shell(b job.BrokerPod) *shell {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shells[b.Pod]
	if s == nil {
		s = c.start(b)
		c.shells[b.Pod] = s
	}
	return s
}

// read asks the pod's shell once. It does not wait for one that is being started.
func (c *podCgroups) read(ctx context.Context, b job.BrokerPod) (text string, err error) {
	s := c.shell(b)
	select {
	case <-s.ready:
	default:
		return "", errStarting
	}
	if err = s.fault; err == nil {
		text, err = s.ask(ctx, cgroupTimeout)
	}
	if err != nil {
		s.stop(err)
		c.mu.Lock()
		delete(c.shells, b.Pod)
		c.mu.Unlock()
	}
	return text, err
}

// address of what executes the script in a pod.
func (c *podCgroups) address(b job.BrokerPod) (*url.URL, error) {
	address, err := url.Parse(c.config.Host)
	if err != nil || address.Scheme == "" {
		return nil, fmt.Errorf("the address of the API server, %q, cannot be used", c.config.Host)
	}
	address = address.JoinPath("api", "v1", "namespaces", c.at.Namespace, "pods", b.Pod, "exec")
	address.RawQuery = url.Values{
		"container": {b.Container}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "command": {"sh", "-c", load.CgroupScript},
	}.Encode()
	return address, nil
}

func (c *podCgroups) start(b job.BrokerPod) *shell {
	ctx, stop := context.WithCancelCause(c.ctx)
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	s := &shell{in: in, out: bufio.NewReader(out), stop: stop, ready: make(chan struct{})}
	go func() {
		err := c.run(ctx, b, theirs, ours)
		stop(err)
		_, _ = theirs.CloseWithError(err), ours.CloseWithError(err)
	}()
	go func() {
		defer close(s.ready)
		if _, s.fault = s.ask(ctx, startTimeout); s.fault != nil {
			stop(s.fault)
		}
	}()
	return s
}

// run the shell until it ends, which is always an error.
func (c *podCgroups) run(ctx context.Context, b job.BrokerPod, in io.Reader, out io.Writer) error {
	address, err := c.address(b)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, address)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &said})
	if err == nil {
		err = errors.New("its shell has ended")
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		err = fmt.Errorf("%w: %.200s", err, text)
	}
	return err
}

// ask for the files, and wait until they have all come.
func (s *shell) ask(ctx context.Context, timeout time.Duration) (string, error) {
	type answer struct {
		text string
		err  error
	}
	came := make(chan answer, 1)
	go func() {
		if _, err := io.WriteString(s.in, "\n"); err != nil {
			came <- answer{err: err}
			return
		}
		var text strings.Builder
		for {
			line, err := s.out.ReadString('\n')
			if err != nil || strings.TrimSpace(line) == load.CgroupEnd {
				came <- answer{text.String(), err}
				return
			}
			text.WriteString(line)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	select {
	case a := <-came:
		return a.text, a.err
	case <-ctx.Done():
		_ = s.in.Close() // the shell ends, and with it who waits for it
		return "", context.Cause(ctx)
	}
}
