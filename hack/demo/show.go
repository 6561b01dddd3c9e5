package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/cluster"
)

// effect is what a broker itself says of one policy.
type effect struct {
	name, cluster, mode string
	sent                bool // the broker has a policy of this name
	declared            int  // queues of the demo that it is meant for
	matched, inForce    int
	status              string // what the QueuePolicy says
}

// fault is what is wrong with it, or "".
func (e effect) fault() string {
	switch {
	case !e.sent:
		return fmt.Sprintf("%s: broker %s does not have the policy", e.name, e.cluster)
	case e.matched < e.declared:
		return fmt.Sprintf("%s: broker %s has %d of %d queues", e.name, e.cluster, e.matched, e.declared)
	case e.inForce < e.matched:
		return fmt.Sprintf("%s: in force on %d of %d queues of %s", e.name, e.inForce, e.matched, e.cluster)
	case e.status != fmt.Sprintf("%d/%d", e.inForce, e.matched):
		return fmt.Sprintf("%s: the status says %s, the broker %d/%d", e.name, e.status, e.inForce, e.matched)
	}
	return ""
}

// effectsOf asks the brokers for every QueuePolicy of the demo.
func effectsOf(ctx context.Context, c *cluster.Cluster) ([]effect, error) {
	var list v1alpha1.QueuePolicyList
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no QueuePolicy in the namespace %s", namespace)
	}
	var out []effect
	for _, object := range list.Items {
		e, err := effectOf(ctx, c, &object)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func effectOf(ctx context.Context, c *cluster.Cluster, object *v1alpha1.QueuePolicy) (effect, error) {
	e := effect{
		name: object.Name, mode: string(object.Spec.Replication.Mode), status: object.Status.InForce,
	}
	if object.Spec.ClusterRef == nil {
		return e, fmt.Errorf("QueuePolicy %s names no cluster: the demo's name one each", object.Name)
	}
	e.cluster = object.Spec.ClusterRef.Name
	rabbit := c.Rabbit(namespace, e.cluster)
	sent, err := rabbit.Policy(ctx, object.BrokerPolicyName())
	if err != nil {
		return e, err
	}
	e.sent = sent != nil
	all, err := rabbit.Queues(ctx)
	if err != nil {
		return e, err
	}
	names := declared(e.cluster)
	e.declared = len(names)
	for _, queue := range all {
		if !slices.Contains(names, queue.Name) && queue.Policy != object.BrokerPolicyName() {
			continue
		}
		e.matched++
		if queue.Policy == object.BrokerPolicyName() && replicated(queue, object.Spec.Replication) {
			e.inForce++
		}
	}
	return e, nil
}

func declared(clusterName string) []string {
	for _, q := range queues {
		if q.cluster == clusterName {
			return q.names
		}
	}
	return nil
}

// replicated tells whether the broker says that the queue has the replicas that are asked for, all with its messages.
func replicated(q cluster.Queue, r v1alpha1.ReplicationSpec) bool {
	switch r.Mode {
	case v1alpha1.HATwo:
		return len(q.Mirrors) == 1 && len(q.InSync) == 1
	case v1alpha1.HAThree:
		return len(q.Mirrors) == 2 && len(q.InSync) == 2
	case v1alpha1.ReplicationQuorum:
		want := 3
		if r.Size != nil {
			want = int(*r.Size)
		}
		return q.Type == "quorum" && len(q.Members) >= want && len(q.Online) >= want
	}
	return true
}

// show prints what is true, and fails if anything is not as it should be.
func show(ctx context.Context, c *cluster.Cluster) error {
	var facts facts
	err := progress.Step("ask the running nodes", func() (err error) {
		facts, err = gather(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	facts.print(os.Stdout)
	kinds, err := c.Kubectl(ctx, "get", "workloadclusters,queuepolicies", "--namespace", namespace)
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get wlc,qpol -n %s\n%s", namespace, kinds)
	if err := facts.check(); err != nil {
		return err
	}
	next(c)
	return nil
}

// facts are all that the demo shows.
type facts struct {
	clusters []clusterFacts
	effects  []effect
}

type clusterFacts struct {
	object *v1alpha1.WorkloadCluster
	nodes  []cluster.Node
}

func gather(ctx context.Context, c *cluster.Cluster) (facts, error) {
	var out facts
	var list v1alpha1.WorkloadClusterList
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return out, err
	}
	if len(list.Items) == 0 {
		return out, fmt.Errorf("there is no WorkloadCluster in the namespace %s: run `go run ./hack/demo up`", namespace)
	}
	for i := range list.Items {
		nodes, err := c.Rabbit(namespace, list.Items[i].Name).Nodes(ctx)
		if err != nil {
			return out, err
		}
		out.clusters = append(out.clusters, clusterFacts{&list.Items[i], nodes})
	}
	var err error
	out.effects, err = effectsOf(ctx, c)
	return out, err
}

func (f facts) print(to io.Writer) {
	out := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "\nCLUSTER\tNODE\tHOST\tRABBITMQ\tCPU LIMIT\tSCHEDULERS\tONLINE\tBINDING\tMEMORY ALARM AT\tDISK ALARM BELOW")
	for _, c := range f.clusters {
		for _, n := range c.nodes {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%d\t%d\n", c.object.Name, n.Pod, n.Host, n.Version,
				strconv.FormatFloat(n.CPULimit, 'f', -1, 64), n.Schedulers, n.Online, n.BindType, n.MemoryLimit, n.DiskFreeLimit)
		}
	}
	fmt.Fprintln(out, "\nPOLICY\tCLUSTER\tMODE\tQUEUES MATCHED\tIN FORCE")
	for _, e := range f.effects {
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\n", e.name, e.cluster, e.mode, e.matched, e.inForce)
	}
	_ = out.Flush()
}

// check compares what the nodes and brokers say with what was asked for.
func (f facts) check() error {
	var faults []error
	for _, c := range f.clusters {
		if ready := meta.FindStatusCondition(c.object.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
			faults = append(faults, fmt.Errorf("WorkloadCluster %s is not Ready", c.object.Name))
		}
		if len(c.nodes) != int(c.object.Spec.Replicas) {
			faults = append(faults, fmt.Errorf("WorkloadCluster %s has %d nodes, wanted %d", c.object.Name, len(c.nodes), c.object.Spec.Replicas))
		}
		for _, n := range c.nodes {
			faults = append(faults, cluster.CheckNode(c.object, n))
		}
	}
	for _, e := range f.effects {
		if e.fault() != "" {
			faults = append(faults, errors.New(e.fault()))
		}
	}
	return errors.Join(faults...)
}

func next(c *cluster.Cluster) {
	fmt.Printf(`
All of it is true. What to try next:

  export KUBECONFIG=%s
  kubectl get wlc,qpol -n demo --watch
  kubectl describe wlc runtime -n demo                                # conditions, tuning with reasons, events
  kubectl patch wlc runtime -n demo --type merge -p '{"spec":{"resources":{"limits":{"cpu":"2"}}}}'   # one node at a time
  kubectl exec -n demo legacy-0 -- rabbitmqctl clear_policy payments-ha      # it comes back within seconds
  kubectl logs -n %s deployment/%s
  make demo-down%s
`, c.Kubeconfig, cluster.Namespace, cluster.Release, variable(c.Kind))
}

// variable is what make has to be told about a cluster that is not the default one.
func variable(kind string) string {
	if kind == "local" {
		return ""
	}
	return " CLUSTER=" + kind
}
