package broker_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
)

func testErrors(t *testing.T, s *subject) {
	ctx := context.Background()
	t.Run("unknown-vhost-is-not-found", func(t *testing.T) {
		client := s.client(t)
		for _, vhost := range []string{prefix + "absent", prefix + "absent/%2F"} {
			everyVHostCall(client, vhost, func(what string, err error) {
				if !broker.IsNotFound(err) {
					t.Errorf("%s: got %v, want NotFound", what, err)
				}
			})
		}
	})
	t.Run("wrong-password-is-unauthorized", func(t *testing.T) {
		target := s.target()
		target.Password = "wrong " + target.Password
		client := connect(t, target, management.Options{})
		_, err := client.Overview(ctx)
		s.wantKind(t, err, broker.Unauthorized)
		everyVHostCall(client, "/", func(what string, err error) {
			s.wantKind(t, err, broker.Unauthorized)
		})
		// Nothing may be concluded about objects.
		s.wantKind(t, client.DeletePolicy(ctx, prefix+"absent", "absent"), broker.Unauthorized)
	})
	t.Run("no-permission-for-the-vhost-is-unauthorized", func(t *testing.T) {
		vhost := s.vhost(t, s.client(t), "")
		target := s.target()
		target.Username, target.Password = s.forbidden(t, s, vhost)
		client := connect(t, target, management.Options{})
		everyVHostCall(client, vhost, func(what string, err error) {
			if broker.KindOf(err) != broker.Unauthorized {
				t.Errorf("%s: got %v, want Unauthorized", what, err)
			}
		})
	})
	t.Run("E2-dead-port-is-unavailable", func(t *testing.T) {
		target := s.target()
		target.URL = "http://" + deadAddress(t)
		client := connect(t, target, management.Options{})
		_, err := client.Overview(ctx)
		s.wantKind(t, err, broker.Unavailable)
		everyVHostCall(client, "/", func(what string, err error) {
			s.wantKind(t, err, broker.Unavailable)
		})
	})
	t.Run("cancelled-context-ends-the-call", func(t *testing.T) {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err := s.client(t).Queues(cancelled, "/")
		s.wantKind(t, err, broker.Unavailable)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v does not unwrap to context.Canceled", err)
		}
	})
	t.Run("call-timeout-ends-the-call", func(t *testing.T) {
		client := s.client(t, func(o *management.Options) { o.CallTimeout = time.Nanosecond })
		_, err := client.Overview(ctx)
		s.wantKind(t, err, broker.Unavailable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v does not unwrap to context.DeadlineExceeded", err)
		}
	})
	t.Run("other-properties-of-an-existing-queue-are-invalid", func(t *testing.T) {
		client := s.client(t)
		vhost := s.vhost(t, client, "")
		queue := broker.Queue{VHost: vhost, Name: "q", Durable: true, Type: broker.Classic}
		must(t, client.PutQueue(ctx, queue))
		must(t, client.PutQueue(ctx, queue))
		queue.Type = broker.Quorum
		s.wantKind(t, client.PutQueue(ctx, queue), broker.Invalid)
		queue.Durable = false
		s.wantKind(t, client.PutQueue(ctx, queue), broker.Invalid)
	})
}

// everyVHostCall makes each call that names a vhost.
func everyVHostCall(client broker.Client, vhost string, check func(what string, err error)) {
	ctx := context.Background()
	_, err := client.Policies(ctx, vhost)
	check("Policies", err)
	_, err = client.Queues(ctx, vhost)
	check("Queues", err)
	_, err = client.Queue(ctx, vhost, "q")
	check("Queue", err)
	check("PutPolicy", client.PutPolicy(ctx, broker.Policy{VHost: vhost, Name: "p", Pattern: "^$", Definition: map[string]any{"max-length": 1}}))
	check("DeletePolicy", client.DeletePolicy(ctx, vhost, "p"))
	check("PutQueue", client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "q"}))
	check("DeleteQueue", client.DeleteQueue(ctx, vhost, "q"))
}

// deadAddress was free a moment ago.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
