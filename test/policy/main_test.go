//go:build broker

package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/test/bench/figures"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/operator"
)

const (
	oldVersion, newVersion = "3.10.8", "4.3.6"
	secretName             = "rabbit"
	pollInterval           = 5 * time.Second
)

var (
	long   = flag.Bool("long", false, "300 queues in waves, and more messages")
	report = flag.String("report", "", "file for the figures")

	lab     *operator.Lab
	found   figureList
	started brokerList
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	var err error
	if lab, err = operator.NewLab(); err == nil {
		code = m.Run()
		err = lab.Close()
	}
	err = errors.Join(err, started.stop())
	if *report != "" {
		err = errors.Join(err, found.write(*report))
	}
	if err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// size is what the short and the long form take of something.
func size(short, whole int) int {
	if *long {
		return whole
	}
	return short
}

// brokerList is what has to be stopped.
type brokerList struct {
	mu  sync.Mutex
	all []*brokers.Broker
}

func (l *brokerList) add(b *brokers.Broker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, b)
}

func (l *brokerList) stop() error {
	var errs []error
	for _, b := range l.all {
		errs = append(errs, b.Stop())
	}
	return errors.Join(errs...)
}

// figureList is what the report tells.
type figureList struct {
	mu   sync.Mutex
	rows []figures.Row
}

// add a figure. goal says in words what holds, figures.NoGoal for nothing.
func (l *figureList) add(t *testing.T, name string, value float64, unit, goal string, holds bool, note string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	note = strings.TrimPrefix(note+", load average "+figures.LoadAverage(), ", ")
	l.rows = append(l.rows, figures.Row{Name: name, Value: value, Unit: unit, Goal: goal, Holds: holds, Note: note})
	t.Logf("%s: %.6g %s", name, value, unit)
	if !holds {
		t.Errorf("%s: %g %s, want %s", name, value, unit, goal)
	}
}

func (l *figureList) write(file string) error { return figures.Write(os.Stdout, file, l.rows) }

// cluster is a RabbitMQ of several nodes.
type cluster struct {
	nodes []*brokers.Broker
	api   broker.Client
}

// newCluster starts nodes one after the other, as an operator of RabbitMQ would let them join.
func newCluster(t *testing.T, version string, nodes int) *cluster {
	t.Helper()
	c := &cluster{}
	for range nodes {
		c.join(t, version)
	}
	api, err := management.NewConnector(management.Options{}).Connect(c.target())
	must(t, err)
	c.api = api
	return c
}

func (c *cluster) join(t *testing.T, version string) {
	t.Helper()
	name := fmt.Sprintf("qp-%s-%d-%d", strings.ReplaceAll(version, ".", "-"), len(c.nodes)+1, os.Getpid())
	arguments := []string{"--plugins", "rabbitmq_management,rabbitmq_prometheus"}
	if len(c.nodes) > 0 {
		arguments = append(arguments, "--join", c.nodes[0].Name)
	}
	b, err := brokers.Start(version, name, arguments...)
	started.add(b)
	must(t, err)
	c.nodes = append(c.nodes, b)
}

func (c *cluster) target() broker.Target {
	first := c.nodes[0]
	return broker.Target{Key: first.Name, URL: first.Management, Username: first.Username, Password: first.Password}
}

// amqp is the address of a vhost on the node with this number, counted round.
func (c *cluster) amqp(node int, vhost string) string {
	return strings.TrimSuffix(c.nodes[node%len(c.nodes)].AMQP, "/") + "/" + url.PathEscape(vhost)
}

// ask one node's management API, past all of Warren's code.
func (c *cluster) ask(ctx context.Context, node int, path string, into any) error {
	at := c.nodes[node%len(c.nodes)]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Management+"/api"+path, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(at.Username, at.Password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// scene is one namespace with policies for one vhost, and Warren working on it.
type scene struct {
	t                *testing.T
	cluster          *cluster
	namespace, vhost string
	operator         *operator.Operator
}

func newScene(t *testing.T, c *cluster, name string) *scene {
	t.Helper()
	s := &scene{t: t, cluster: c, namespace: name, vhost: name}
	must(t, c.api.PutVHost(t.Context(), s.vhost))
	must(t, lab.Connect(t.Context(), s.namespace, secretName, c.target()))
	t.Cleanup(s.explain)
	return s
}

// warren begins to work; it ends with the test.
func (s *scene) warren() {
	s.t.Helper()
	o, err := lab.Start(s.namespace, pollInterval)
	must(s.t, err)
	s.operator = o
	s.t.Cleanup(func() { s.operator.Stop() })
}

// explain a failure by what the objects say.
func (s *scene) explain() {
	if !s.t.Failed() {
		return
	}
	var list v1alpha1.QueuePolicyList
	_ = lab.Kube.List(context.Background(), &list, client.InNamespace(s.namespace))
	for _, p := range list.Items {
		text, _ := json.MarshalIndent(p.Status, "", " ")
		s.t.Logf("status of %s: %s", p.Name, text)
	}
	if s.operator != nil {
		s.t.Logf("the end of Warren's log:\n%s", s.operator.LogEnd())
	}
}

func (s *scene) policy(name, pattern string, mode v1alpha1.ReplicationMode, edit func(*v1alpha1.QueuePolicySpec)) {
	s.t.Helper()
	p := &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1alpha1.QueuePolicySpec{
			ConnectionSecretRef: &v1alpha1.LocalSecretReference{Name: secretName},
			VHost:               s.vhost, Pattern: pattern, Priority: 10, Replication: v1alpha1.ReplicationSpec{Mode: mode},
		},
	}
	edit(&p.Spec)
	must(s.t, lab.Kube.Create(s.t.Context(), p))
}

func (s *scene) get(name string) *v1alpha1.QueuePolicy {
	s.t.Helper()
	var p v1alpha1.QueuePolicy
	must(s.t, lab.Kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &p))
	return &p
}

// ready waits until all of these policies are, with so many queues.
func (s *scene) ready(patience time.Duration, queues int, names ...string) {
	s.t.Helper()
	eventually(s.t, patience, func() error {
		for _, name := range names {
			p := s.get(name)
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != p.Generation || p.Status.InForce != fmt.Sprintf("%d/%d", queues, queues) {
				return fmt.Errorf("%s: in force %q, rollout %q, %+v", name, p.Status.InForce, p.Status.Rollout, c)
			}
		}
		return nil
	})
}

// event tells whether one of this reason is about a policy.
func (s *scene) event(name, reason string) bool {
	s.t.Helper()
	var list corev1.EventList
	must(s.t, lab.Kube.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			return true
		}
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, patience time.Duration, check func() error) {
	t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if last = check(); last == nil {
			return
		}
	}
	t.Fatalf("not within %s: %v", patience, last)
}

func ptr[T any](v T) *T { return &v }
