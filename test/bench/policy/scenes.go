package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/test/brokers"
)

const (
	mostMemory = 256 // MiB
	secretName = "rabbit"
)

// prepare makes a namespace with a connection Secret and n policies, policy i in a vhost of its own choice.
func (l *lab) prepare(ctx context.Context, namespace string, at broker.Target, n int, vhostOf func(i int) string) error {
	if err := l.Connect(ctx, namespace, secretName, at); err != nil {
		return err
	}
	const makers = 8
	var wg sync.WaitGroup
	failures := make([]error, makers)
	for maker := range makers {
		wg.Go(func() {
			for i := maker; i < n && failures[maker] == nil && ctx.Err() == nil; i += makers {
				failures[maker] = l.Kube.Create(ctx, policyOf(namespace, i, vhostOf(i)))
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

func policyOf(namespace string, i int, vhost string) *v1alpha1.QueuePolicy {
	thousand := int64(1000)
	return &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("policy-%05d", i)},
		Spec: v1alpha1.QueuePolicySpec{
			ConnectionSecretRef: &v1alpha1.LocalSecretReference{Name: secretName},
			VHost:               vhost, Pattern: fmt.Sprintf(`^team-%05d\.`, i), Priority: int32(i % 7),
			Replication: v1alpha1.ReplicationSpec{Mode: v1alpha1.ReplicationQuorum},
			Limits:      &v1alpha1.QueueLimits{MaxLength: &thousand},
		},
	}
}

// tenThousand policies: first convergence, a restart with nothing changed, a drift, and one edit.
func tenThousand(ctx context.Context, l *lab, r *report) error {
	server, err := brokertest.Start(brokertest.V4)
	if err != nil {
		return err
	}
	defer server.Close()
	vhost := func(i int) string { return fmt.Sprintf("vhost-%03d", i%l.vhosts) }
	server.SetNodes(brokertest.Node("rabbit@a"), brokertest.Node("rabbit@b"), brokertest.Node("rabbit@c"))
	for i := range l.policies {
		server.AddVHost(vhost(i))
		if i < 5*l.vhosts { // some policies have a queue
			server.AddQueue(broker.Queue{VHost: vhost(i), Name: fmt.Sprintf("team-%05d.jobs", i), Type: broker.Quorum, Durable: true})
		}
	}
	const namespace = "ten-thousand"
	what := fmt.Sprintf("%d policies in %d vhosts", l.policies, l.vhosts)
	if err := l.prepare(ctx, namespace, server.Target("bench"), l.policies, vhost); err != nil {
		return err
	}
	o, err := l.Start(namespace, l.poll)
	if err != nil {
		return err
	}
	took, err := o.Looked(ctx, l.policies, l.patience)
	r.add("first convergence", took.Seconds(), "s", -1, what)
	o.Stop()
	if err != nil {
		return err
	}
	server.ForgetRequests()
	if o, err = l.Start(namespace, l.poll); err != nil {
		return err
	}
	defer o.Stop()
	if took, err = o.Looked(ctx, l.policies, l.patience); err != nil {
		return err
	}
	reads, single := bulkReads(server.Requests())
	r.add("restart: until all were looked at", took.Seconds(), "s", 60, what+", nothing changed")
	r.add("restart: broker writes", float64(server.Writes()), "requests", 0, what)
	r.add("restart: bulk reads of the busiest vhost", float64(reads), "requests", 2, what)
	r.add("restart: reads of single queues", float64(single), "requests", 0, what)
	r.add("restart: peak memory", o.PeakMemory(), "MiB", mostMemory, "resident, the whole program")
	if err := drift(ctx, l, r, server, vhost(0)); err != nil {
		return err
	}
	return edit(ctx, l, r, server, namespace, vhost(1))
}

// bulkReads counts the reads of policies and queues of the vhost that had most, and those of single queues.
func bulkReads(requests []brokertest.Request) (most, single int) {
	byVHost := map[string]int{}
	for _, request := range requests {
		parts := strings.Split(strings.TrimPrefix(request.Path, "/api/"), "/")
		switch {
		case request.Method != http.MethodGet || len(parts) < 2:
		case parts[0] == "queues" && len(parts) == 3:
			single++
		default:
			byVHost[parts[1]]++
			most = max(most, byVHost[parts[1]])
		}
	}
	return most, single
}

// drift removes one policy behind Warren's back.
func drift(ctx context.Context, l *lab, r *report, server *brokertest.Server, vhost string) error {
	name := server.Policies(vhost)[0].Name
	server.ForgetRequests()
	began := time.Now()
	server.RemovePolicy(vhost, name)
	back := func() bool {
		for _, p := range server.Policies(vhost) {
			if p.Name == name {
				return true
			}
		}
		return false
	}
	for !back() {
		if time.Since(began) > 4*l.poll || ctx.Err() != nil {
			return fmt.Errorf("policy %q is not back after %s", name, time.Since(began))
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.add("drift: until it is repaired", time.Since(began).Seconds()/l.poll.Seconds(), "polls", 1.2, "a policy removed by hand; passes come within a tenth of a poll after it")
	r.add("drift: broker writes", float64(server.Writes()), "requests", 1, "")
	return nil
}

// edit changes one object and counts what that costs the broker.
func edit(ctx context.Context, l *lab, r *report, server *brokertest.Server, namespace, vhost string) error {
	var p v1alpha1.QueuePolicy
	if err := l.Kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "policy-00001"}, &p); err != nil {
		return err
	}
	before := p.DeepCopy()
	more := int64(2000)
	p.Spec.Limits.MaxLength = &more
	server.ForgetRequests()
	if err := l.Kube.Patch(ctx, &p, client.MergeFrom(before)); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := l.Kube.Get(ctx, client.ObjectKeyFromObject(&p), &p); err != nil {
			return err
		}
		if p.Status.ObservedGeneration == p.Generation && p.Status.InForce != "" && ready(&p) {
			break
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("the edited policy is not ready: %+v", p.Status.Conditions)
		}
	}
	calls := 0
	for _, request := range server.Requests() {
		if strings.Contains(request.Path, vhost) {
			calls++
		}
	}
	r.add("edit: broker calls", float64(calls), "requests", 12, "one object changed; reads that a poll of its vhost makes are among them")
	return nil
}

func ready(p *v1alpha1.QueuePolicy) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
		}
	}
	return false
}

// manyQueues: few policies on very many queues.
func manyQueues(ctx context.Context, l *lab, r *report) error {
	server, err := brokertest.Start(brokertest.V4)
	if err != nil {
		return err
	}
	defer server.Close()
	vhost := func(i int) string { return fmt.Sprintf("large-%d", i%l.queueVHosts) }
	server.SetNodes(brokertest.Node("rabbit@a"), brokertest.Node("rabbit@b"), brokertest.Node("rabbit@c"))
	for i := range l.queues {
		server.AddQueue(broker.Queue{VHost: vhost(i), Name: fmt.Sprintf("team-%05d.queue-%05d", i%l.manyFor, i), Type: broker.Quorum, Durable: true})
	}
	const namespace = "many-queues"
	what := fmt.Sprintf("%d queues in %d vhosts, %d policies", l.queues, l.queueVHosts, l.manyFor)
	if err := l.prepare(ctx, namespace, server.Target("many"), l.manyFor, vhost); err != nil {
		return err
	}
	o, err := l.Start(namespace, l.poll)
	if err != nil {
		return err
	}
	defer o.Stop()
	took, err := o.Looked(ctx, l.manyFor, l.patience)
	if err != nil {
		return err
	}
	r.add("many queues: first convergence", took.Seconds(), "s", -1, what)
	server.ForgetRequests()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * l.poll):
	}
	_, single := bulkReads(server.Requests())
	pages := (l.queues+499)/500 + 2*l.queueVHosts // with the last page of each, and its policies
	r.add("many queues: requests in two polls", float64(server.Reads()), "requests", float64(3*(pages+l.queueVHosts*2+2)), what)
	r.add("many queues: writes in two polls", float64(server.Writes()), "requests", 0, what)
	r.add("many queues: reads of single queues", float64(single), "requests", 0, what)
	r.add("many queues: peak memory", o.PeakMemory(), "MiB", mostMemory, "resident, the whole program")
	return nil
}

// realBroker: policies on a real RabbitMQ, and a restart with nothing changed.
func realBroker(ctx context.Context, l *lab, r *report) error {
	if l.real == 0 {
		return nil
	}
	b, err := brokers.Start(l.version, "bench-policy")
	defer func() { _ = b.Stop() }()
	if err != nil {
		return err
	}
	at := broker.Target{Key: "bench-policy", URL: b.Management, Username: b.Username, Password: b.Password}
	api, err := management.NewConnector(management.Options{}).Connect(at)
	if err != nil {
		return err
	}
	const vhosts = 10
	vhost := func(i int) string { return fmt.Sprintf("vhost-%d", i%vhosts) }
	for i := range vhosts {
		if err := api.PutVHost(ctx, vhost(i)); err != nil {
			return err
		}
	}
	const namespace = "real-broker"
	what := fmt.Sprintf("%d policies in %d vhosts of RabbitMQ %s", l.real, vhosts, l.version)
	if err := l.prepare(ctx, namespace, at, l.real, vhost); err != nil {
		return err
	}
	for _, title := range []string{"real broker, first convergence", "real broker, restart"} {
		o, err := l.Start(namespace, l.poll)
		if err != nil {
			return err
		}
		took, err := o.Looked(ctx, l.real, l.patience)
		if err == nil {
			var writes float64
			writes, err = o.Requests(ctx, http.MethodPut, http.MethodDelete, http.MethodPost)
			most := float64(2 * l.real)
			if strings.HasSuffix(title, "restart") {
				most = 0
			}
			r.add(title+": time", took.Seconds(), "s", -1, what)
			r.add(title+": broker writes", writes, "requests", most, what)
		}
		o.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}
