package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Exec runs a command in a container and answers what it prints.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command ...string) (string, error) {
	request := c.Clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, request.URL())
	if err != nil {
		return "", err
	}
	var out, trouble bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &trouble}); err != nil {
		return "", fmt.Errorf("%s in pod %s: %w: %s", strings.Join(command, " "), pod, err, strings.TrimSpace(out.String()+trouble.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// Dial connects to a port of a pod through the API server, so that it works from wherever kubectl works.
func (c *Cluster) Dial(namespace, pod string, port int) (net.Conn, error) {
	url := c.Clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport, Timeout: 10 * time.Second}, http.MethodPost, url)
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forward port %d of pod %s: %w", port, pod, err)
	}
	conn, err := newConn(connection, pod, port)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("forward port %d of pod %s: %w", port, pod, err), connection.Close())
	}
	return conn, nil
}

// conn is one forwarded port. A deadline that passes ends it for good, which is all that its users want of one.
type conn struct {
	connection httpstream.Connection
	data       httpstream.Stream
	address    net.Addr

	mu     sync.Mutex
	timers [2]*time.Timer // of reading, of writing
	closed bool
}

func newConn(connection httpstream.Connection, pod string, port int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	trouble, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if err := trouble.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	c := &conn{connection: connection, data: data, address: podAddress(fmt.Sprintf("%s:%d", pod, port))}
	go func() { // the kubelet says on it that the port does not answer, and ends it with the connection
		text, err := io.ReadAll(trouble)
		if err != nil || len(text) > 0 {
			c.Close()
		}
	}()
	return c, nil
}

func (c *conn) Read(p []byte) (int, error)  { return c.data.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.data.Write(p) }
func (c *conn) LocalAddr() net.Addr         { return podAddress("local") }
func (c *conn) RemoteAddr() net.Addr        { return c.address }

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for _, timer := range c.timers {
		if timer != nil {
			timer.Stop()
		}
	}
	return errors.Join(c.data.Reset(), c.connection.Close())
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *conn) SetReadDeadline(t time.Time) error  { return c.arm(0, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.arm(1, t) }

func (c *conn) arm(which int, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timers[which] != nil {
		c.timers[which].Stop()
	}
	if !t.IsZero() && !c.closed {
		c.timers[which] = time.AfterFunc(time.Until(t), func() { c.Close() })
	}
	return nil
}

type podAddress string

func (podAddress) Network() string  { return "tcp" }
func (a podAddress) String() string { return string(a) }
