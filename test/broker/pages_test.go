package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
)

func testPages(t *testing.T, s *subject) {
	client := s.client(t)
	vhost := s.vhost(t, client, "/paged")
	t.Run("empty-vhost", func(t *testing.T) {
		if names := queueNames(t, client, vhost); len(names) != 0 {
			t.Errorf("got %q", names)
		}
	})
	const total = 1200
	declareMany(t, client, vhost, total)
	t.Run("G1-1200-queues-in-three-pages", func(t *testing.T) {
		counted := 0
		client := s.client(t, func(o *management.Options) { o.OnRequest = func(string, string) { counted++ } })
		queues, err := client.Queues(context.Background(), vhost, broker.WithoutCounts)
		must(t, err)
		wantMany(t, queues, total)
		// Three pages and the census; before 4.2 also both kinds of policies.
		if counted > 6 {
			t.Errorf("%d requests for 1200 queues", counted)
		}
	})
	t.Run("G1-counts-of-all", func(t *testing.T) {
		queues, err := client.Queues(context.Background(), vhost)
		must(t, err)
		wantMany(t, queues, total)
		for _, queue := range queues {
			if queue.Messages == nil {
				t.Fatalf("queue %q has no count", queue.Name)
			}
		}
	})
	t.Run("G1-page-size-is-500-at-most", func(t *testing.T) {
		path := "/api/queues/" + url.PathEscape(vhost)
		if status, _ := s.raw(t, http.MethodGet, path+"?page=1&page_size=501", ""); status != http.StatusBadRequest {
			t.Errorf("page_size=501: status %d", status)
		}
		status, reply := s.raw(t, http.MethodGet, path+"?page=4&page_size=500", "")
		if status != http.StatusBadRequest || reply["error"] != "page_out_of_range" {
			t.Errorf("page 4 of 3: %d %v", status, reply)
		}
	})
	t.Run("G1-small-pages", func(t *testing.T) {
		client := s.client(t, func(o *management.Options) { o.PageSize = 97 })
		queues, err := client.Queues(context.Background(), vhost, broker.WithoutCounts)
		must(t, err)
		wantMany(t, queues, total)
	})
}

func declareMany(t *testing.T, client broker.Client, vhost string, total int) {
	t.Helper()
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range numbers {
				if err := client.PutQueue(context.Background(), broker.Queue{VHost: vhost, Name: manyName(i), Durable: true}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for i := range total {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
}

func manyName(i int) string { return fmt.Sprintf("queue/%05d", i) }

func wantMany(t *testing.T, queues []broker.Queue, total int) {
	t.Helper()
	if len(queues) != total {
		t.Fatalf("got %d queues, want %d", len(queues), total)
	}
	for i, queue := range queues {
		if queue.Name != manyName(i) {
			t.Fatalf("queue %d is %q, want %q", i, queue.Name, manyName(i))
		}
	}
}
