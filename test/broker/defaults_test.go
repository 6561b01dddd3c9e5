package broker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// The default queue type changes alone: the broker forgets what else is not sent along.
func testDefaultQueueType(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "/d")
	guest := client.(broker.Guest)
	must(t, guest.PutDescribedVHost(ctx, broker.VHost{Name: vhost, Description: "a, b", Tags: []string{"x", "y"}}))
	kind, err := client.DefaultQueueType(ctx, vhost)
	must(t, err)
	_, err = client.DefaultQueueType(ctx, vhost+"-absent")
	s.wantKind(t, err, broker.NotFound)
	if !s.caps.DefaultQueueType {
		if kind != "" {
			t.Errorf("a broker without a default queue type says %q", kind)
		}
		return
	}
	if kind != broker.Classic {
		t.Errorf("a new vhost has %q", kind)
	}
	for _, want := range []broker.QueueType{broker.Quorum, broker.Quorum, broker.Classic, broker.Quorum} {
		must(t, client.SetDefaultQueueType(ctx, vhost, want))
		if kind, err = client.DefaultQueueType(ctx, vhost); err != nil || kind != want {
			t.Errorf("%q, %v, want %q", kind, err, want)
		}
	}
	must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "untyped", Durable: true}))
	queue, err := client.Queue(ctx, vhost, "untyped")
	must(t, err)
	if queue.Type != broker.Quorum {
		t.Errorf("a queue without a type became %q", queue.Type)
	}
	all, err := guest.DescribedVHosts(ctx)
	must(t, err)
	i := slices.IndexFunc(all, func(v broker.VHost) bool { return v.Name == vhost })
	if i < 0 || all[i].Description != "a, b" || !slices.Equal(all[i].Tags, []string{"x", "y"}) {
		t.Errorf("the vhost's description or tags changed: %+v", all)
	}
	s.wantKind(t, client.SetDefaultQueueType(ctx, vhost+"-absent", broker.Quorum), broker.NotFound)
}
