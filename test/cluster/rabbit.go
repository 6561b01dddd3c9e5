package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
)

// Rabbit is one RabbitMQ cluster, seen from outside of Warren: through its pods, its ports and its own commands.
type Rabbit struct {
	Cluster         *Cluster
	Namespace, Name string

	once sync.Once
	http *http.Client
}

const (
	container      = "rabbitmq"
	portAMQP       = 5672
	portManagement = 15672
)

// Rabbit names the cluster of a WorkloadCluster.
func (c *Cluster) Rabbit(namespace, name string) *Rabbit {
	return &Rabbit{Cluster: c, Namespace: namespace, Name: name}
}

// Object reads the WorkloadCluster.
func (r *Rabbit) Object(ctx context.Context) (*v1alpha1.WorkloadCluster, error) {
	var object v1alpha1.WorkloadCluster
	return &object, r.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, &object)
}

// Pods lists the pods by name.
func (r *Rabbit) Pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.Cluster.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels(desired.SelectorLabels(r.Name)))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, err
}

// PodReady tells whether a pod serves and is not about to stop.
func PodReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Admin are the administrator's name and password.
func (r *Rabbit) Admin(ctx context.Context) (user, password string, err error) {
	var secret corev1.Secret
	err = r.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name + "-admin"}, &secret)
	return string(secret.Data["username"]), string(secret.Data["password"]), err
}

// dial connects to a port of any ready pod.
func (r *Rabbit) dial(ctx context.Context, port int) (net.Conn, error) {
	pods, err := r.Pods(ctx)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !PodReady(&p) })
	if len(pods) == 0 {
		return nil, fmt.Errorf("cluster %s has no ready pod", r.Name)
	}
	return r.Cluster.Dial(r.Namespace, pods[rand.IntN(len(pods))].Name, port)
}

// AMQP connects a client to any ready node.
func (r *Rabbit) AMQP(ctx context.Context) (*amqp.Connection, error) {
	user, password, err := r.Admin(ctx)
	if err != nil {
		return nil, err
	}
	return amqp.DialConfig("amqp://broker", amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Vhost:     "/",
		Heartbeat: 10 * time.Second,
		Dial:      func(string, string) (net.Conn, error) { return r.dial(ctx, portAMQP) },
	})
}

// Declare declares durable queues of one type.
func (r *Rabbit) Declare(ctx context.Context, queueType string, names ...string) error {
	connection, err := r.AMQP(ctx)
	if err != nil {
		return err
	}
	channel, err := connection.Channel()
	for _, name := range names {
		if err == nil {
			_, err = channel.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: queueType})
		}
	}
	return errors.Join(err, connection.Close())
}

// Call sends one request to the management API of any ready node and decodes the answer.
func (r *Rabbit) Call(ctx context.Context, method, path string, body, answer any) error {
	user, password, err := r.Admin(ctx)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://broker/api/"+path, &content)
	if err != nil {
		return err
	}
	request.SetBasicAuth(user, password)
	r.once.Do(func() {
		r.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx, portManagement) },
			DisableKeepAlives: true, // the node may be gone at the next call
		}}
	})
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode >= 300:
		return &StatusError{Code: response.StatusCode, Text: fmt.Sprintf("%s %s: %s: %s", method, path, response.Status, text)}
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}

// StatusError is an answer of the management API that is not a success.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// Queue is what the management API says of a queue.
type Queue struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Policy     string         `json:"policy"`
	Effective  map[string]any `json:"effective_policy_definition"`
	Mirrors    []string       `json:"slave_nodes"`
	InSync     []string       `json:"synchronised_slave_nodes"`
	Members    []string       `json:"members"`
	Online     []string       `json:"online"`
	Messages   int            `json:"messages"`
	LeaderNode string         `json:"node"`
}

// Queues lists the queues of the vhost /.
func (r *Rabbit) Queues(ctx context.Context) ([]Queue, error) {
	var queues []Queue
	return queues, r.Call(ctx, http.MethodGet, "queues/%2F", nil, &queues)
}

// Policy is a policy as the management API has it.
type Policy struct {
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// Policy reads a policy of the vhost /; nil if there is none.
func (r *Rabbit) Policy(ctx context.Context, name string) (*Policy, error) {
	var policy Policy
	err := r.Call(ctx, http.MethodGet, policyPath(name), nil, &policy)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil, nil
	}
	return &policy, err
}

// PutPolicy writes a policy behind Warren's back.
func (r *Rabbit) PutPolicy(ctx context.Context, name string, policy Policy) error {
	return r.Call(ctx, http.MethodPut, policyPath(name), policy, nil)
}

// DeletePolicy deletes a policy behind Warren's back.
func (r *Rabbit) DeletePolicy(ctx context.Context, name string) error {
	return r.Call(ctx, http.MethodDelete, policyPath(name), nil, nil)
}

func policyPath(name string) string { return "policies/%2F/" + url.PathEscape(name) }

// Node is what a running node says of itself and its container.
type Node struct {
	Pod, Host, Version         string
	CPULimit                   float64 // of the control group; 0 means none
	Schedulers, Online         int
	BindType                   string
	MemoryLimit, DiskFreeLimit int64 // bytes at which the alarms go off
}

const (
	// cpuQuota prints quota and period of either version of control groups.
	cpuQuota = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us"

	nodeFacts = `io:format("~s ~b ~b ~s ~b ~b~n", [rabbit:product_version(), erlang:system_info(schedulers), ` +
		`erlang:system_info(schedulers_online), erlang:system_info(scheduler_bind_type), ` +
		`vm_memory_monitor:get_memory_limit(), rabbit_disk_monitor:get_disk_free_limit()]).`
)

// Nodes asks every pod at once.
func (r *Rabbit) Nodes(ctx context.Context) ([]Node, error) {
	pods, err := r.Pods(ctx)
	if err != nil {
		return nil, err
	}
	nodes, failures := make([]Node, len(pods)), make([]error, len(pods))
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() { nodes[i], failures[i] = r.node(ctx, pod) })
	}
	wg.Wait()
	return nodes, errors.Join(failures...)
}

func (r *Rabbit) node(ctx context.Context, pod corev1.Pod) (Node, error) {
	n := Node{Pod: pod.Name, Host: pod.Spec.NodeName}
	quota, err := r.Cluster.Exec(ctx, pod.Namespace, pod.Name, container, "sh", "-c", cpuQuota)
	if err != nil {
		return n, err
	}
	if n.CPULimit, err = parseQuota(quota); err != nil {
		return n, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	facts, err := r.Cluster.Exec(ctx, pod.Namespace, pod.Name, container, "rabbitmqctl", "-q", "eval", nodeFacts)
	if err != nil {
		return n, err
	}
	_, err = fmt.Sscan(facts, &n.Version, &n.Schedulers, &n.Online, &n.BindType, &n.MemoryLimit, &n.DiskFreeLimit)
	if err != nil {
		return n, fmt.Errorf("pod %s says %q: %w", pod.Name, facts, err)
	}
	return n, nil
}

// parseQuota reads "max 100000", "50000 100000" or "-1 100000".
func parseQuota(text string) (float64, error) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return 0, fmt.Errorf("no CPU quota in %q", text)
	}
	if words[0] == "max" || words[0] == "-1" {
		return 0, nil
	}
	quota, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return 0, err
	}
	period, err := strconv.ParseFloat(words[1], 64)
	return quota / period, err
}
