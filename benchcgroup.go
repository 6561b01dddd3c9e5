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
// the files each time that it is sent a line, so that sampling costs the broker one process of few milliseconds. It ends with
// its input.
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
}

// brokerCgroups is nil when the run samples none.
func brokerCgroups(ctx context.Context, p job.Plan) (*podCgroups, error) {
	if len(p.Brokers) == 0 {
		return nil, nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return &podCgroups{ctx: ctx, config: config, at: p, shells: map[string]*shell{}}, nil
}

// cgroupTimeout is how long the shell of a pod may take for one answer.
const cgroupTimeout = 2 * time.Second

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

// read asks the pod's shell once.
func (c *podCgroups) read(ctx context.Context, b job.BrokerPod) (string, error) {
	c.mu.Lock()
	s := c.shells[b.Pod]
	c.mu.Unlock()
	if s == nil {
		var err error
		if s, err = c.start(b); err != nil {
			return "", err
		}
		c.mu.Lock()
		c.shells[b.Pod] = s
		c.mu.Unlock()
	}
	text, err := s.ask(ctx)
	if err != nil {
		s.stop(err)
		c.mu.Lock()
		delete(c.shells, b.Pod)
		c.mu.Unlock()
	}
	return text, err
}

func (c *podCgroups) start(b job.BrokerPod) (*shell, error) {
	address, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, err
	}
	if address.Scheme == "" {
		return nil, fmt.Errorf("the address of the API server, %q, has no scheme", c.config.Host)
	}
	address = address.JoinPath("api", "v1", "namespaces", c.at.Namespace, "pods", b.Pod, "exec")
	address.RawQuery = url.Values{
		"container": {b.Container}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "command": {"sh", "-c", load.CgroupScript},
	}.Encode()
	executor, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(c.ctx)
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	go func() {
		var said bytes.Buffer
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: theirs, Stdout: ours, Stderr: &said})
		if err == nil {
			err = errors.New("its shell has ended")
		}
		if text := strings.TrimSpace(said.String()); text != "" {
			err = fmt.Errorf("%w: %.200s", err, text)
		}
		stop(err)
		_, _ = theirs.CloseWithError(err), ours.CloseWithError(err)
	}()
	return &shell{in: in, out: bufio.NewReader(out), stop: stop}, nil
}

// ask for the files, and wait until they have all come.
func (s *shell) ask(ctx context.Context) (string, error) {
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
	ctx, cancel := context.WithTimeoutCause(ctx, cgroupTimeout, fmt.Errorf("no answer within %s", cgroupTimeout))
	defer cancel()
	select {
	case a := <-came:
		return a.text, a.err
	case <-ctx.Done():
		_ = s.in.Close() // the shell ends, and with it who waits for it
		return "", context.Cause(ctx)
	}
}
