package broker_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// awkward names, which must come back byte by byte. Pairs differ only in how often they are escaped.
var awkward = []string{"a/b", "a%2Fb", "a%252Fb", "görev", "日本", "q?x=1", "q#1", "a+b", "a b", "/lead", "trail/", "%", "%zz",
	"...", "..a", "a:b;c,d", `q"uote\`, "amp&ersand", "<angle>", "[x]{y}|z^`"}

func testNames(t *testing.T, s *subject) {
	t.Run("D1-vhosts", func(t *testing.T) { testVHostNames(t, s) })
	t.Run("D1-default-vhost", func(t *testing.T) {
		if _, err := s.client(t).Policies(context.Background(), "/"); err != nil {
			t.Error(err)
		}
	})
	t.Run("D1-vhost-named-detailed", func(t *testing.T) { testVHostNamedDetailed(t, s) })
	t.Run("D2-queues", func(t *testing.T) { testQueueNames(t, s) })
	t.Run("D2-policies", func(t *testing.T) { testPolicyNames(t, s) })
	t.Run("D2-names-that-the-API-cannot-address-are-refused", func(t *testing.T) { testUnaddressable(t, s) })
	t.Run("D2-line-breaks-in-queue-names", func(t *testing.T) { testLineBreaks(t, s) })
}

func testVHostNames(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	for _, name := range append([]string{"\n"}, awkward...) {
		t.Run(name, func(t *testing.T) {
			vhost := s.vhost(t, client, name)
			names, err := client.VHosts(ctx)
			must(t, err)
			if !slices.Contains(names, vhost) {
				t.Fatalf("%q is not among %q", vhost, names)
			}
			policy := broker.Policy{VHost: vhost, Name: "p", Pattern: "^x", ApplyTo: broker.ApplyToAll, Definition: map[string]any{"max-length": 5}}
			must(t, client.PutPolicy(ctx, policy))
			wantPolicies(t, client, vhost, policy)
			must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "x", Durable: true}))
			queues, err := client.Queues(ctx, vhost)
			must(t, err)
			if len(queues) != 1 || queues[0].VHost != vhost || queues[0].Policy == nil || *queues[0].Policy != "p" {
				t.Errorf("got queues %+v", queues)
			}
			must(t, client.DeleteVHost(ctx, vhost))
			names, err = client.VHosts(ctx)
			must(t, err)
			if slices.Contains(names, vhost) {
				t.Errorf("%q is still there", vhost)
			}
		})
	}
}

func testQueueNames(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	for _, name := range awkward {
		must(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name, Durable: true}))
	}
	want := slices.Sorted(slices.Values(awkward))
	if got := queueNames(t, client, vhost); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for _, name := range awkward {
		queue, err := client.Queue(ctx, vhost, name)
		if err != nil || queue.Name != name {
			t.Errorf("queue %q reads as %q, %v", name, queue.Name, err)
		}
		must(t, client.DeleteQueue(ctx, vhost, name))
		want = slices.DeleteFunc(want, func(other string) bool { return other == name })
		if got := queueNames(t, client, vhost); !slices.Equal(got, want) {
			t.Fatalf("after deleting %q: got %q, want %q", name, got, want)
		}
	}
}

func queueNames(t *testing.T, client broker.Client, vhost string) []string {
	t.Helper()
	queues, err := client.Queues(context.Background(), vhost, broker.WithoutCounts)
	must(t, err)
	var names []string
	for _, queue := range queues {
		names = append(names, queue.Name)
	}
	return names
}

func testPolicyNames(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	var want []broker.Policy
	for i, name := range append([]string{"tail\n"}, awkward...) {
		policy := broker.Policy{VHost: vhost, Name: name, Pattern: "^$", ApplyTo: broker.ApplyToAll, Priority: i,
			Definition: map[string]any{"max-length": i}}
		must(t, client.PutPolicy(ctx, policy))
		want = append(want, policy)
	}
	slices.SortFunc(want, func(a, b broker.Policy) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	wantPolicies(t, client, vhost, want...)
	for len(want) > 0 {
		must(t, client.DeletePolicy(ctx, vhost, want[0].Name))
		want = want[1:]
		wantPolicies(t, client, vhost, want...)
	}
}

func testUnaddressable(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	for _, name := range []string{"..", ".", "", "not\xffUTF-8"} {
		_, err := client.Queues(ctx, name)
		s.wantKind(t, err, broker.Invalid)
		s.wantKind(t, client.DeleteQueue(ctx, vhost, name), broker.Invalid)
		s.wantKind(t, client.DeletePolicy(ctx, vhost, name), broker.Invalid)
		s.wantKind(t, client.DeleteVHost(ctx, name), broker.Invalid)
		s.wantKind(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: name}), broker.Invalid)
	}
	// Why they are refused: the broker takes the escaped dots for a step up and lists all queues.
	if status, _ := s.raw(t, http.MethodGet, "/api/queues/"+vhost+"/%2E%2E", ""); status != http.StatusOK {
		t.Errorf("the broker answers %d to the queue named ..: this rule can go", status)
	}
}

func testLineBreaks(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	vhost := s.vhost(t, client, "")
	s.wantKind(t, client.PutQueue(ctx, broker.Queue{VHost: vhost, Name: "tail\n", Durable: true}), broker.Invalid)
	// Why it is refused: the broker would declare another queue.
	if status, _ := s.raw(t, http.MethodPut, "/api/queues/"+vhost+"/tail%0A", `{"durable":true}`); status != http.StatusCreated {
		t.Fatalf("the broker answers %d to a queue name with a line break", status)
	}
	if got := queueNames(t, client, vhost); !slices.Equal(got, []string{"tail"}) {
		t.Errorf("the broker made %q of it", got)
	}
	s.wantKind(t, client.DeleteQueue(ctx, vhost, "tail\n"), broker.NotFound)
}

// testVHostNamedDetailed: since 3.13 its list of queues is that of all vhosts. No queue of others may be taken for its own.
func testVHostNamedDetailed(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	const name = "detailed"
	must(t, client.PutVHost(ctx, name))
	t.Cleanup(func() { must(t, client.DeleteVHost(ctx, name)) })
	must(t, client.PutQueue(ctx, broker.Queue{VHost: name, Name: "own", Durable: true}))
	must(t, client.PutQueue(ctx, broker.Queue{VHost: s.vhost(t, client, ""), Name: "other", Durable: true}))
	if queue, err := client.Queue(ctx, name, "own"); err != nil || queue.VHost != name {
		t.Errorf("one queue: got %+v, %v", queue, err)
	}
	queues, err := client.Queues(ctx, name)
	if s.caps.MembershipReconciliation { // both came with 3.13
		s.wantKind(t, err, broker.Invalid)
		return
	}
	if err != nil || len(queues) != 1 || queues[0].Name != "own" {
		t.Errorf("got %+v, %v", queues, err)
	}
}
