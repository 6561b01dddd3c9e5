//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// TestDeletionKeepsWhatItShouldAndNothingElse goes through the life of a cluster's data. With Retain the volumes and the
// two Secrets stay, and a cluster of the same name has the messages and the password again (D5); the QueuePolicy comes
// into force on the new cluster (E1). With Delete nothing is left, although one node hangs and ends only when it is killed.
func TestDeletionKeepsWhatItShouldAndNothingElse(t *testing.T) {
	eachLine(t, func(t *testing.T, l *line) {
		const messages = 100
		rabbit, queue := l.rabbit(), l.prefix+"kept"
		patch(t, l.namespace, l.cluster, `{"storage":{"deletionPolicy":"Retain"}}`)
		waitCluster(t, l.namespace, l.cluster)
		if err := rabbit.Declare(t.Context(), l.queueType, queue); err != nil {
			t.Fatal(err)
		}
		l.replicated(t, queue)
		publish(t, rabbit, queue, messages)
		_, password, err := rabbit.Admin(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		l.formed = false
		object, err := rabbit.Object(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		deleteCluster(t, object)
		leaves(t, l.namespace, "",
			"PersistentVolumeClaim data-"+l.cluster+"-0", "PersistentVolumeClaim data-"+l.cluster+"-1", "PersistentVolumeClaim data-"+l.cluster+"-2",
			"Secret "+l.cluster+"-admin", "Secret "+l.cluster+"-erlang-cookie")

		again := &v1alpha1.WorkloadCluster{ObjectMeta: object.ObjectMeta, Spec: object.Spec}
		again.ResourceVersion, again.UID, again.Finalizers, again.ManagedFields = "", "", nil, nil
		began := time.Now()
		if err := k.Client.Create(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		waitCluster(t, l.namespace, l.cluster)
		t.Logf("Ready again on the kept volumes after %.0f s", time.Since(began).Seconds())
		if _, now, err := rabbit.Admin(t.Context()); err != nil || now != password {
			t.Errorf("the password is another one: %v", err)
		}
		waitPolicy(t, l.namespace, l.policy)
		if got := consume(t, rabbit, queue, messages); got != messages {
			t.Errorf("%d of %d messages of %s are there again", got, messages, queue)
		}

		patch(t, l.namespace, l.cluster, `{"storage":{"deletionPolicy":"Delete"}}`)
		waitCluster(t, l.namespace, l.cluster)
		if object, err = rabbit.Object(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.freeze(t, l.cluster+"-0")
		deleteCluster(t, object)
		leaves(t, l.namespace, "")
		policy, err := getPolicy(t.Context(), l.namespace, l.policy)
		if err != nil {
			t.Fatal(err)
		}
		deletePolicyObject(t, policy) // its cluster is gone, so there is nothing to wait for (E2)
	})
}

// freeze stops the Erlang VM of a node where it is, as one that hangs while it shuts down.
func (l *line) freeze(t *testing.T, pod string) {
	t.Helper()
	out, err := k.Exec(t.Context(), l.namespace, pod, "rabbitmq", "sh", "-c", `kill -STOP "$(cat "/var/lib/rabbitmq/mnesia/$RABBITMQ_NODENAME.pid")"`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
