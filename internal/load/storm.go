package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
)

// storm opens many connections at once, or spread over a time, and holds them.
type storm struct {
	*shared
	endpoint Endpoint
	name     string
	worker   int
	workers  int

	mu      sync.Mutex
	open    []*amqp.Connection
	figures bench.StormFigures
	connect *bench.Histogram
	first   time.Time
}

// blow makes the attempts and returns when all have succeeded or failed.
func (s *storm) blow(ctx context.Context, settings bench.Storm) {
	s.first = time.Now()
	s.figures.Failed = map[string]int64{}
	var all sync.WaitGroup
	for i := s.worker; i < settings.Connections; i += s.workers {
		if settings.Jitter > 0 {
			at := time.Duration(float64(settings.Jitter) * float64(i) / float64(settings.Connections))
			if !pause(ctx, time.Until(s.first.Add(at))) && ctx.Err() != nil {
				break
			}
		}
		s.figures.Attempted++
		all.Go(func() { s.attempt(ctx, i) })
	}
	all.Wait()
}

// attempt opens one connection with one channel.
func (s *storm) attempt(ctx context.Context, i int) {
	began := time.Now()
	conn, err := s.endpoint.plain(ctx, i, fmt.Sprintf("%s storm %d", s.name, i))
	if err == nil {
		if _, err = conn.Channel(); err != nil {
			_ = conn.CloseDeadline(time.Now().Add(time.Second))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused.Add(1)
		s.figures.Failed[shortly(err)]++
		return
	}
	s.opened.Add(1)
	s.open = append(s.open, conn)
	s.figures.Opened++
	s.figures.OpenSeconds = time.Since(s.first).Seconds()
	s.connect.Record(time.Since(began))
}

// plain opens a connection that only stays open.
func (e Endpoint) plain(ctx context.Context, n int, name string) (*amqp.Connection, error) {
	address := e.Hosts[n%len(e.Hosts)]
	return amqp.DialConfig("amqp://"+address, amqp.Config{
		Vhost: e.VHost, Heartbeat: 30 * time.Second, Locale: "en_US",
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: e.Username, Password: e.Password}},
		Properties: amqp.Table{"product": "Warren benchmark", "connection_name": name},
		Dial:       func(string, string) (net.Conn, error) { return e.connect(ctx, address) },
	})
}

// calm closes the connections in order, some at a time. Those that were lost meanwhile count as failed.
func (s *storm) calm(limit time.Duration) {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	end := time.Now().Add(limit)
	var all sync.WaitGroup
	tokens := make(chan struct{}, 64)
	for _, conn := range open {
		tokens <- struct{}{}
		all.Go(func() {
			defer func() { <-tokens }()
			if conn.IsClosed() {
				s.mu.Lock()
				s.figures.Failed["lost later"]++
				s.mu.Unlock()
				return
			}
			_ = conn.CloseDeadline(end)
			s.closed.Add(1)
		})
	}
	all.Wait()
}

// shortly is the reason of a failed attempt in a few words, the same for all attempts that failed alike.
func shortly(err error) string {
	var refusal *amqp.Error
	var network net.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		// amqp091-go says so of every connection that ends while it logs in, and the login of this user is known to be right.
		return "cut by the broker while logging in"
	case errors.As(err, &refusal) && refusal.Code == amqp.FrameError, errors.Is(err, amqp.ErrClosed):
		return "cut by the broker"
	case errors.As(err, &refusal):
		return fmt.Sprintf("refused with %d", refusal.Code)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		return "cut by the broker"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return "the generator has no more sockets"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timed out"
	}
	return "other"
}
