//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// TestPoliciesAreInForceAsTheBrokerSays: queues that a client declares get the policy and its replicas, and the status
// counts what the broker counts (case C7 on the mirrored line).
func TestPoliciesAreInForceAsTheBrokerSays(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		names := []string{l.prefix + "a", l.prefix + "b", l.prefix + "c"}
		if err := l.rabbit().Declare(t.Context(), l.queueType, append(names, "other")...); err != nil {
			t.Fatal(err)
		}
		eventually(t, 2*time.Minute, "the broker has the policy in force", func(ctx context.Context) (string, error) {
			queues, err := l.rabbit().Queues(ctx)
			if err != nil {
				return "", err
			}
			return l.fault(queues, names), nil
		})
		eventually(t, time.Minute, "status counts the same", func(ctx context.Context) (string, error) {
			queues, err := l.rabbit().Queues(ctx)
			if err != nil {
				return "", err
			}
			n := 0
			for _, queue := range queues {
				if queue.Policy == l.policy {
					n++
				}
			}
			object, err := getPolicy(ctx, l.namespace, l.policy)
			if want := fmt.Sprintf("%d/%d", n, n); err != nil || object.Status.InForce != want {
				return fmt.Sprintf("status.inForce is %q, the broker says %s", object.Status.InForce, want), err
			}
			return "", nil
		})
		waitPolicy(t, l.namespace, l.policy)
	})
}

// fault says which of the queues lack the policy or a replica, and which other queue has the policy.
func (l *line) fault(queues []cluster.Queue, names []string) string {
	var faults []string
	for _, q := range queues {
		wanted := slices.Contains(names, q.Name)
		switch {
		case !wanted && q.Policy == l.policy && !strings.HasPrefix(q.Name, l.prefix):
			faults = append(faults, q.Name+" has the policy")
		case !wanted:
		case q.Policy != l.policy:
			faults = append(faults, fmt.Sprintf("%s has policy %q", q.Name, q.Policy))
		case l.queueType == "classic" && (len(q.Mirrors) != 1 || len(q.InSync) != 1 || q.Effective["ha-mode"] != "exactly"):
			faults = append(faults, fmt.Sprintf("%s has mirrors %v, in sync %v, definition %v", q.Name, q.Mirrors, q.InSync, q.Effective))
		case l.queueType == "quorum" && (len(q.Members) != 3 || len(q.Online) != 3):
			faults = append(faults, fmt.Sprintf("%s has members %v, online %v", q.Name, q.Members, q.Online))
		}
	}
	if len(queues) < len(names) {
		faults = append(faults, fmt.Sprintf("only %d queues", len(queues)))
	}
	return strings.Join(faults, "; ")
}

// TestConfirmedMessagesSurviveTheLossOfTheirLeader: the pod that leads the queue is killed, and all messages are there.
func TestConfirmedMessagesSurviveTheLossOfTheirLeader(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		const messages = 200
		queue := l.prefix + "survivor"
		if err := l.rabbit().Declare(t.Context(), l.queueType, queue); err != nil {
			t.Fatal(err)
		}
		leader := l.replicated(t, queue)
		publish(t, l.rabbit(), queue, messages)
		before := uids(t, l.rabbit())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: leader}}
		if err := k.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(1)); err != nil {
			t.Fatal(err)
		}
		eventually(t, patience, "the pod is replaced", func(context.Context) (string, error) {
			if uids(t, l.rabbit())[leader] == before[leader] {
				return leader + " is still there", nil
			}
			return "", nil
		})
		if got := consume(t, l.rabbit(), queue, messages); got != messages {
			t.Errorf("%d of %d confirmed messages of %s are left after its leader %s was lost", got, messages, queue, leader)
		}
		waitCluster(t, l.namespace, l.cluster)
		waitPolicy(t, l.namespace, l.policy)
	})
}

// replicated waits until a queue has all its replicas and answers the pod of its leader.
func (l *line) replicated(t *testing.T, queue string) (leader string) {
	t.Helper()
	eventually(t, 2*time.Minute, queue+" is replicated", func(ctx context.Context) (string, error) {
		queues, err := l.rabbit().Queues(ctx)
		if err != nil {
			return "", err
		}
		for _, q := range queues {
			if q.Name == queue {
				leader, _, _ = strings.Cut(strings.TrimPrefix(q.LeaderNode, "rabbit@"), ".")
				return l.fault([]cluster.Queue{q}, []string{queue}), nil
			}
		}
		return "the broker does not list it", nil
	})
	return leader
}

// publish publishes persistent messages and waits until each is confirmed.
func publish(t *testing.T, r *cluster.Rabbit, queue string, n int) {
	t.Helper()
	connection, err := r.AMQP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var pending []*amqp.DeferredConfirmation
	for i := range n {
		confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: fmt.Sprint(i), Body: fmt.Appendf(nil, "message %d", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, confirm)
	}
	for i, confirm := range pending {
		if ok, err := confirm.WaitContext(t.Context()); err != nil || !ok {
			t.Fatalf("message %d of %s: confirmed %v, %v", i, queue, ok, err)
		}
	}
}

// consume takes different messages from a queue until there are enough, or for two minutes, over connections that may
// break, and answers how many it got.
func consume(t *testing.T, r *cluster.Rabbit, queue string, enough int) int {
	t.Helper()
	seen := map[string]bool{}
	err := cluster.Wait(t.Context(), 2*time.Minute, func(ctx context.Context) (string, error) {
		err := take(ctx, r, queue, enough, seen)
		if len(seen) < enough {
			return fmt.Sprintf("%d of %d messages, %v", len(seen), enough, err), nil
		}
		return "", nil
	})
	if err != nil {
		t.Log(err)
	}
	return len(seen)
}

func take(ctx context.Context, r *cluster.Rabbit, queue string, enough int, seen map[string]bool) error {
	connection, err := r.AMQP(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	for len(seen) < enough {
		message, ok, err := channel.Get(queue, true)
		if err != nil || !ok {
			return err
		}
		seen[message.MessageId] = true
	}
	return nil
}

// TestDriftIsCorrected: a policy that somebody deletes or edits behind Warren's back returns, and an event says so (E1).
func TestDriftIsCorrected(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		rabbit := l.rabbit()
		waitPolicy(t, l.namespace, l.policy)
		want, err := rabbit.Policy(t.Context(), l.policy)
		if err != nil || want == nil {
			t.Fatalf("policy %s: %v, %v", l.policy, want, err)
		}
		returns := func(what string) {
			began := time.Now()
			eventually(t, 3*cluster.PollInterval, "the policy is as before after it was "+what, func(ctx context.Context) (string, error) {
				got, err := rabbit.Policy(ctx, l.policy)
				if err != nil || fmt.Sprint(got) == fmt.Sprint(want) {
					return "", err
				}
				return fmt.Sprintf("the broker has %v, wanted %v", got, want), nil
			})
			t.Logf("%s: back after %.0f s", what, time.Since(began).Seconds())
		}
		if err := rabbit.DeletePolicy(t.Context(), l.policy); err != nil {
			t.Fatal(err)
		}
		returns("deleted")
		edited := *want
		edited.Pattern, edited.Priority = "^nothing$", 1
		if err := rabbit.PutPolicy(t.Context(), l.policy, edited); err != nil {
			t.Fatal(err)
		}
		returns("edited")
		eventually(t, time.Minute, "event DriftCorrected", func(ctx context.Context) (string, error) {
			all, err := events(ctx, l.namespace, "QueuePolicy", l.policy)
			if !slices.ContainsFunc(all, func(e string) bool { return strings.HasPrefix(e, "DriftCorrected: ") }) {
				return strings.Join(all, "\n"), err
			}
			return "", err
		})
		waitPolicy(t, l.namespace, l.policy)
	})
}

// TestMirroringIsRefusedWhereItDoesNotExist: HATwo on 4.x is refused with the way out, and nothing is sent (C7).
func TestMirroringIsRefusedWhereItDoesNotExist(t *testing.T) {
	l := lines[0]
	l.ready(t)
	before, err := metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	object := newPolicy(l, "mirrored", "^mirrored\\.")
	object.Spec.Replication.Mode = v1alpha1.HATwo
	object.Spec.QuorumDecision = &v1alpha1.QuorumDecision{By: "2027-09-30"}
	if err := k.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	said := ""
	eventually(t, time.Minute, "Accepted=False", func(ctx context.Context) (string, error) {
		got, err := getPolicy(ctx, l.namespace, object.Name)
		said = condition(got, got.Status.Conditions, v1alpha1.ConditionAccepted)
		if !strings.HasPrefix(said, "False "+v1alpha1.ReasonUnsupportedByServer) {
			return said, err
		}
		return "", err
	})
	t.Log(said)
	if !strings.Contains(said, "Quorum") {
		t.Errorf("the refusal names no way out: %s", said)
	}
	if sent, err := l.rabbit().Policy(t.Context(), object.Name); err != nil || sent != nil {
		t.Errorf("the broker has %v, %v", sent, err)
	}
	after, err := metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := brokerWrites(after) - brokerWrites(before); n != 0 {
		t.Errorf("%v writes were sent to brokers", n)
	}
	deletePolicyObject(t, object)
}

// TestDeletedQueuePolicyLeavesNoPolicy: the broker's policy goes with the object (E2 (d): one that is gone already too).
func TestDeletedQueuePolicyLeavesNoPolicy(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		for _, gone := range []bool{false, true} {
			object := newPolicy(l, "passing", "^passing/ü .*")
			object.Spec.Definition = &runtime.RawExtension{Raw: []byte(`{"max-length":1000,"overflow":"reject-publish"}`)}
			object.Spec.PolicyName = "passing / ü %2F"
			if err := k.Client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			waitPolicy(t, l.namespace, object.Name)
			if sent, err := l.rabbit().Policy(t.Context(), object.Spec.PolicyName); err != nil || sent == nil {
				t.Fatalf("the broker has %v, %v", sent, err)
			}
			if gone {
				err := l.rabbit().DeletePolicy(t.Context(), object.Spec.PolicyName)
				if status, ok := err.(*cluster.StatusError); err != nil && (!ok || status.Code != http.StatusNotFound) {
					t.Fatal(err)
				}
			}
			deletePolicyObject(t, object)
			if left, err := l.rabbit().Policy(t.Context(), object.Spec.PolicyName); err != nil || left != nil {
				t.Errorf("the broker still has %v, %v", left, err)
			}
		}
	})
}

func newPolicy(l *line, name, pattern string) *v1alpha1.QueuePolicy {
	p := &v1alpha1.QueuePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	p.Spec.ClusterRef, p.Spec.Pattern = &v1alpha1.PolicyClusterReference{Name: l.cluster}, pattern
	p.Spec.Replication.Mode = v1alpha1.ReplicationNone
	return p
}

func deletePolicyObject(t *testing.T, object *v1alpha1.QueuePolicy) {
	t.Helper()
	if err := k.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "QueuePolicy "+object.Name+" goes", func(ctx context.Context) (string, error) {
		left, err := getPolicy(ctx, object.Namespace, object.Name)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return fmt.Sprintf("still there: %+v", left.Status.Conditions), err
	})
}
