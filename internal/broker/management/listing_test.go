package management_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/brokertest"
	"github.com/warren-mq/warren/internal/broker/management"
)

func filled(t *testing.T, version, vhost string, queues int) *brokertest.Server {
	t.Helper()
	server := brokertest.New(t, version)
	for i := range queues {
		server.AddQueue(broker.Queue{VHost: vhost, Name: fmt.Sprintf("q%05d", i), Durable: true})
	}
	return server
}

// Case G1: 20,000 queues in three vhosts, complete, 500 at a time, over few connections.
func TestTwentyThousandQueues(t *testing.T) {
	for _, version := range []string{brokertest.V3, brokertest.V4} {
		server := brokertest.New(t, version)
		sizes := map[string]int{"/": 12000, "team/a": 7999, "small": 1}
		for vhost, size := range sizes {
			for i := range size {
				server.AddQueue(broker.Queue{VHost: vhost, Name: fmt.Sprintf("q%05d", i), Durable: true})
			}
		}
		client := clientOf(t, server, management.Options{})
		for vhost, size := range sizes {
			queues, err := client.Queues(t.Context(), vhost)
			if err != nil || len(queues) != size {
				t.Fatalf("%s: vhost %q has %d queues, %v, want %d", version, vhost, len(queues), err, size)
			}
		}
		for _, request := range server.Requests() {
			if request.Method != http.MethodGet {
				t.Errorf("a listing wrote: %+v", request)
			}
			if strings.Contains(request.Query, "page=") && !strings.Contains(request.Query, "page_size=500") {
				t.Errorf("got %+v", request)
			}
		}
	}
}

// Case G1: one page of queues costs one request without counts, two with.
func TestRequestsPerListing(t *testing.T) {
	for _, c := range []struct {
		version string
		options []broker.ListOption
		want    int
	}{
		{brokertest.V4, []broker.ListOption{broker.WithoutCounts}, 1},
		{brokertest.V4, nil, 2},
		{brokertest.V4, []broker.ListOption{broker.WithStatistics}, 3},
		{brokertest.V3, []broker.ListOption{broker.WithoutCounts}, 3},
		{brokertest.V3, nil, 4},
	} {
		server := filled(t, c.version, "v", 500)
		if _, err := clientOf(t, server, management.Options{}).Queues(t.Context(), "v", c.options...); err != nil {
			t.Fatal(err)
		}
		if got := len(server.Requests()); got != c.want {
			t.Errorf("%s %v: %d requests, want %d: %v", c.version, c.options, got, c.want, server.Requests())
		}
	}
}

// onPage calls f when page number n of a listing is asked for, at most times times.
func onPage(server *brokertest.Server, n, times int, f func()) {
	server.Observe(func(request brokertest.Request) {
		if times > 0 && strings.Contains(request.Query, fmt.Sprintf("page=%d&", n)) {
			times--
			f()
		}
	})
}

// Case G1: queues that come and go between two pages never make a listing that lacks one.
func TestListingThatChangesIsReadAnew(t *testing.T) {
	for name, change := range map[string]func(*brokertest.Server){
		"one more": func(s *brokertest.Server) { s.AddQueue(broker.Queue{VHost: "v", Name: "aaa"}) },
		"one less": func(s *brokertest.Server) { s.RemoveQueue("v", "q00000") },
		"one goes and one comes, the total stays": func(s *brokertest.Server) {
			s.RemoveQueue("v", "q00000")
			s.AddQueue(broker.Queue{VHost: "v", Name: "zzz"})
		},
		"one comes in front and one goes behind, the total stays": func(s *brokertest.Server) {
			s.AddQueue(broker.Queue{VHost: "v", Name: "aaa"})
			s.RemoveQueue("v", "q00024")
		},
		"so many go that the page is out of range": func(s *brokertest.Server) {
			for i := range 20 {
				s.RemoveQueue("v", fmt.Sprintf("q%05d", i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := filled(t, brokertest.V4, "v", 25)
			onPage(server, 2, 1, func() { change(server) })
			got, err := clientOf(t, server, management.Options{PageSize: 10}).Queues(t.Context(), "v", broker.WithoutCounts)
			if err != nil {
				t.Fatal(err)
			}
			server.Observe(nil)
			want, err := clientOf(t, server, management.Options{}).Queues(t.Context(), "v", broker.WithoutCounts)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(names(got)) != fmt.Sprint(names(want)) {
				t.Errorf("got %v, want %v", names(got), names(want))
			}
		})
	}
}

func names(queues []broker.Queue) []string {
	var out []string
	for _, queue := range queues {
		out = append(out, queue.Name)
	}
	return out
}

// Where queues never stop coming and going, the last attempt reads all in one answer; too large, it is an error.
func TestListingThatNeverStandsStill(t *testing.T) {
	server := filled(t, brokertest.V4, "v", 25)
	n := 0
	onPage(server, 2, 1000, func() { n++; server.AddQueue(broker.Queue{VHost: "v", Name: fmt.Sprintf("r%05d", n)}) })
	queues, err := clientOf(t, server, management.Options{PageSize: 10, Restarts: 2}).Queues(t.Context(), "v", broker.WithoutCounts)
	if err != nil || len(queues) != 25+n {
		t.Errorf("got %d queues, %v, want %d", len(queues), err, 25+n)
	}
	if n != 3 {
		t.Errorf("read %d times in pages, want 3", n)
	}
	_, err = clientOf(t, server, management.Options{PageSize: 10, Restarts: 1, MaxResponse: 6000}).Queues(t.Context(), "v", broker.WithoutCounts)
	if broker.KindOf(err) != broker.Unavailable {
		t.Errorf("too large: got %v", err)
	}
}

// Case G1: a page that fails ends the listing with an error; what came before is not used.
func TestPartialListingIsAnError(t *testing.T) {
	for _, status := range []int{http.StatusGatewayTimeout, http.StatusInternalServerError, http.StatusNotFound, http.StatusBadRequest} {
		server := filled(t, brokertest.V4, "v", 25)
		onPage(server, 2, 1, func() { server.FailNext(1, status) })
		queues, err := clientOf(t, server, management.Options{PageSize: 10}).Queues(t.Context(), "v")
		if broker.KindOf(err) != broker.Unavailable || queues != nil {
			t.Errorf("status %d: got %d queues, %v", status, len(queues), err)
		}
	}
}

// The broker may leave queues out of the listing with totals (it gives up on slow ones): they stay, uncounted.
func TestQueuesWithoutTotalsStay(t *testing.T) {
	server := filled(t, brokertest.V4, "v", 3)
	hidden := broker.Queue{VHost: "v", Name: "q00001"}
	server.Observe(func(request brokertest.Request) {
		if strings.Contains(request.Query, "enable_queue_totals") {
			server.RemoveQueue("v", hidden.Name)
		}
	})
	queues, err := clientOf(t, server, management.Options{}).Queues(t.Context(), "v")
	if err != nil || len(queues) != 3 {
		t.Fatalf("got %v, %v", names(queues), err)
	}
	if queues[1].Messages != nil || queues[0].Messages == nil {
		t.Errorf("got %+v", queues)
	}
}

func TestCountersAre64Bit(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	many := int64(1) << 62
	server.AddQueue(broker.Queue{VHost: "v", Name: "q", Ready: &many, Consumers: &many})
	queues, err := clientOf(t, server, management.Options{}).Queues(t.Context(), "v", broker.WithStatistics)
	if err != nil || *queues[0].Messages != many || *queues[0].Ready != many || *queues[0].Consumers != many {
		t.Errorf("got %+v, %v", queues, err)
	}
}
