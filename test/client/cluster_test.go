//go:build broker

package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warren-mq/warren/test/brokers"
)

// nodes are a cluster of three, whose start was begun before.
func nodes(t *testing.T) []*brokers.Broker {
	t.Helper()
	all, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cluster starts three nodes, once.
var cluster = sync.OnceValues(func() ([]*brokers.Broker, error) {
	first, err := startBroker(newVersion, "node-1")
	if err != nil {
		return nil, err
	}
	out := []*brokers.Broker{first, nil, nil}
	errs := make([]error, len(out))
	var wg sync.WaitGroup
	for i := 1; i < len(out); i++ {
		wg.Go(func() { out[i], errs[i] = startBroker(newVersion, fmt.Sprintf("node-%d", i+1), "--join", first.Name) })
	}
	wg.Wait()
	return out, errors.Join(errs...)
})

// A quorum queue whose leader moves, and whose leader's node dies, loses nothing that was confirmed and keeps the order.
func TestQuorumLeaderMovesAndDies(t *testing.T) {
	noLeaks(t)
	all := nodes(t)
	for range *rounds {
		s := newStage(t, all[0], quorum, settings{hosts: all[1:]})
		s.run(func() {
			s.events.await(t, "connected publish", connections, patience)
			for range times(1, 6) {
				for _, queue := range []string{s.first, s.second} {
					from := s.leader(queue)
					to := (from + 1) % len(all)
					moved := s.admin().ctl(t, "eval", fmt.Sprintf("ra:transfer_leadership(%s, %s).", member(all[from], queue), member(all[to], queue)))
					if got := strings.TrimSpace(moved); got != "ok" && got != "already_leader" {
						t.Errorf("moving the leader of %s: %s", queue, got)
					}
				}
			}
			for range times(1, 3) {
				at := s.leader(s.first)
				lost := s.events.disconnects()
				if err := all[at].Kill(); err != nil {
					t.Fatal(err)
				}
				// A connection may have been to another node, but the queue goes on in any case.
				s.confirmsGoOn(500)
				if err := all[at].Restart(); err != nil {
					t.Fatal(err)
				}
				t.Logf("node %d died: %d connections lost", at+1, s.events.disconnects()-lost)
			}
		})
	}
}

// member is what Erlang calls a queue's replica on a node.
func member(b *brokers.Broker, queue string) string {
	return fmt.Sprintf("{'%%2F_%s', '%s@localhost'}", queue, b.Name)
}

// leader is the number of the node that leads a queue.
func (s *stage) leader(queue string) int {
	s.t.Helper()
	var said struct {
		Leader string `json:"leader"`
	}
	if err := s.admin().call(http.MethodGet, "/api/queues/%2F/"+queue+"?disable_stats=true&enable_queue_totals=true", &said); err != nil {
		s.t.Fatal(err)
	}
	for i, b := range s.brokers {
		if said.Leader == b.Name+"@localhost" {
			return i
		}
	}
	s.t.Fatalf("the leader of %s is %q", queue, said.Leader)
	return 0
}

// confirmsGoOn waits until so many more messages were confirmed.
func (s *stage) confirmsGoOn(n int) {
	s.t.Helper()
	s.events.await(s.t, "confirmed", s.events.get("confirmed")+n, patience)
}
