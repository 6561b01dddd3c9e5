package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

func TestDefaultsAreMadeAndKept(t *testing.T) {
	rest, dlx := exchangeOf("dlx.unrouted", "fanout"), exchangeOf("dlx", "direct")
	dlx.Arguments["alternate-exchange"] = "dlx.unrouted"
	dead := broker.Queue{VHost: "/", Name: "runtime.dead-letters", Type: broker.Quorum, Durable: true}
	private := broker.Queue{VHost: "/", Name: "runtime.dead-letters", Type: broker.Quorum, Exclusive: true}
	there := Vhost{Queues: []broker.Queue{dead}}
	for _, c := range []struct {
		name     string
		kind     v1alpha1.DefaultQueueType
		has      broker.QueueType
		vhost    Vhost
		starting bool
		want     []string
		says     string // of a refusal, a warning or what it waits for
	}{
		{"a new cluster: the exchange comes last", "Quorum", "classic", topology(Vhost{}), false,
			[]string{"SetDefaultQueueType", "DeclareExchange dlx.unrouted", "DeclareQueue runtime.dead-letters", `Bind dlx.unrouted -> runtime.dead-letters by ""`, "DeclareExchange dlx"}, ""},
		{"all is there", "Quorum", "quorum", topology(there, rest, dlx, bound("dlx.unrouted", "runtime.dead-letters", "")), false, nil, ""},
		{"nodes are still starting: the type is set, a quorum queue would have too few members", "Quorum", "classic", topology(Vhost{}), true,
			[]string{"SetDefaultQueueType"}, "waits until all nodes run"},
		{"somebody took the binding off", "", "classic", topology(there, rest, dlx), false, []string{`Bind dlx.unrouted -> runtime.dead-letters by ""`}, ""},
		{"somebody set it back", "Quorum", "classic", topology(there, rest, dlx, bound("dlx.unrouted", "runtime.dead-letters", "")), false, []string{"SetDefaultQueueType"}, ""},
		{"nothing to set, and classic anyway", "Classic", "", topology(there, rest, dlx, bound("dlx.unrouted", "runtime.dead-letters", "")), false, nil, ""},
		{"nothing to set", "Quorum", "", topology(Vhost{}), true, nil, "needs RabbitMQ 3.11.1"},
		{"somebody's direct exchange", "", "", topology(there, exchangeOf("dlx", "direct")), false,
			[]string{`Bind dlx -> runtime.dead-letters by "runtime.dead-letters"`}, "only dead messages with the routing key"},
		{"somebody's topic exchange", "", "", topology(there, exchangeOf("dlx", "topic")), false, []string{`Bind dlx -> runtime.dead-letters by "#"`}, ""},
		{"somebody's fanout exchange, bound", "", "", topology(there, exchangeOf("dlx", "fanout"), bound("dlx", "runtime.dead-letters", "")), false, nil, ""},
		{"somebody's exclusive queue", "", "", topology(Vhost{Queues: []broker.Queue{private}}, rest, dlx), false,
			[]string{`Bind dlx.unrouted -> runtime.dead-letters by ""`}, "exclusive to one connection"},
	} {
		cluster := &v1alpha1.WorkloadCluster{Spec: v1alpha1.WorkloadClusterSpec{WorkloadClass: "runtime", Defaults: &v1alpha1.ClusterDefaults{
			QueueType: c.kind, DeadLetter: &v1alpha1.DefaultDeadLetter{Exchange: "dlx"},
		}}}
		got := PlanDefaults(cluster, DefaultsSeen{QueueType: c.has, Vhost: c.vhost, Complete: !c.starting})
		if actions := actionsOf(got.Actions); !slices.Equal(actions, c.want) {
			t.Errorf("%s: %q, want %q", c.name, actions, c.want)
		}
		said := got.Waits + strings.Join(got.Warnings, " ")
		for _, r := range got.Refusals {
			said += r.Message
		}
		if !strings.Contains(said, c.says) || c.says == "" && said != "" && !(c.starting && c.says == "") {
			t.Errorf("%s: says %q, want %q", c.name, said, c.says)
		}
	}
}

func TestDefaultsOfNothingDoNothing(t *testing.T) {
	if got := PlanDefaults(&v1alpha1.WorkloadCluster{}, DefaultsSeen{QueueType: "classic", Complete: true}); len(got.Actions)+len(got.Refusals)+len(got.Warnings) > 0 || got.Waits != "" {
		t.Errorf("got %+v", got)
	}
}

// A QueuePolicy that goes takes nothing along that the cluster keeps.
func TestDefaultsNameWhatStays(t *testing.T) {
	cluster := &v1alpha1.WorkloadCluster{Spec: v1alpha1.WorkloadClusterSpec{WorkloadClass: "runtime", Defaults: &v1alpha1.ClusterDefaults{DeadLetter: &v1alpha1.DefaultDeadLetter{}}}}
	for _, c := range []struct {
		vhost, exchange, queue string
		want                   bool
	}{{"/", "dlx", "", true}, {"/", "other", "runtime.dead-letters", true}, {"/", "other", "other", false}, {"/a", "dlx", "runtime.dead-letters", false}} {
		dead := &DeadLetter{Exchange: broker.Exchange{VHost: c.vhost, Name: c.exchange}, Queue: &broker.Queue{VHost: c.vhost, Name: c.queue}}
		if got := DefaultDeadLettersOf(cluster).Names(dead); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if DefaultDeadLettersOf(&v1alpha1.WorkloadCluster{}).Names(&DeadLetter{Exchange: broker.Exchange{VHost: "/", Name: "dlx"}}) {
		t.Error("a cluster without defaults keeps something")
	}
}
