//go:build broker

package load_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

// A storm of connections is counted: how many were opened, why others were not, how long it took; the broker had as many, and
// has none afterwards. With -long it is the built-in scenario, 5,000 connections.
func TestConnectionStorm(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		client := apiOf(t, at)
		before := census(t, client)
		for _, name := range []string{"ConnectionStorm", "ConnectionStormJittered"} {
			s, err := bench.Builtin(name)
			if err != nil {
				t.Fatal(err)
			}
			s.WarmUp, s.CoolDown, s.Runs, s.Duration = seconds(1), 0, 1, seconds(45)
			if *long {
				roomFor(t, at)
			} else {
				s.Storm.Connections, s.Storm.Jitter, s.Duration = 500, s.Storm.Jitter/15, seconds(3)
			}
			run := storm(t, at, s)
			figures := run.Storm
			if figures.OpenSeconds < s.Storm.Jitter.Seconds()*0.9 {
				t.Errorf("%s: all were open after %.1f s, spread over %s", name, figures.OpenSeconds, s.Storm.Jitter)
			}
			if s.Storm.Jitter > 0 && !*long && figures.Opened != figures.Attempted { // of 5,000 a busy machine may refuse some
				t.Errorf("%s: %d of %d were opened, not %v", name, figures.Opened, figures.Attempted, figures.Failed)
			}
			if most := mostConnections(run); *long && most < 0.9*float64(figures.Opened) { // statistics are late by seconds
				t.Errorf("%s: the broker had %.0f connections at most, %d were opened", name, most, figures.Opened)
			}
		}
		if after := census(t, client); after != before {
			t.Errorf("there is\n%s\nwant\n%s", after, before)
		}
		connections, err := at.Run("rabbitmqctl", "-q", "list_connections", "user") // not from the statistics, which are late
		if err != nil || strings.Contains(string(connections), load.Label) {
			t.Errorf("connections are left: %s, %v", connections, err)
		}
		wantDanger(t, client, "", false)
	})
}

// storm runs the scenario and sees that its account is complete.
func storm(t *testing.T, at *brokers.Broker, s bench.Scenario) bench.Run {
	t.Helper()
	run := provoked(t, at, s, func(b *load.Benchmark) { b.Interval = 2 * time.Second })
	figures, latency := run.Storm, run.Figures.Latency
	if figures == nil || latency == nil || latency.P90Seconds == nil || run.Figures.LatencyOf != "connect" {
		t.Fatalf("%s: storm %+v, latency of %s %+v", s.Name, figures, run.Figures.LatencyOf, latency)
	}
	failed := int64(0)
	for _, n := range figures.Failed {
		failed += n
	}
	highest := "too few for a P99"
	if latency.P99Seconds != nil {
		highest = fmt.Sprintf("P99 %.3f s", *latency.P99Seconds)
	}
	t.Logf("%s on %s: %d of %d open after %.1f s, P50 %.3f s, P90 %.3f s, %s, failed %v; the messages beside them: P90 %.3f s", s.Name, at.Version,
		figures.Opened, figures.Attempted, figures.OpenSeconds, *latency.P50Seconds, *latency.P90Seconds, highest, figures.Failed, *run.Figures.Confirm.P90Seconds)
	if figures.Attempted != int64(s.Storm.Connections) || figures.Opened+failed != figures.Attempted || figures.Opened == 0 {
		t.Errorf("%s: %+v", s.Name, figures)
	}
	if *long && figures.Opened >= 1000 && latency.P99Seconds == nil {
		t.Errorf("%s: no P99 of %d connections", s.Name, figures.Opened)
	}
	if latency.Samples != figures.Opened {
		t.Errorf("%s: %d latencies of %d connections", s.Name, latency.Samples, figures.Opened)
	}
	if sum := sumOf(run); sum.Lost+sum.Duplicated+sum.Reordered+sum.Foreign != 0 || sum.Confirmed == 0 {
		t.Errorf("%s: the messages beside them: %+v", s.Name, sum)
	}
	return run
}

func sumOf(run bench.Run) (sum bench.QueueAccount) {
	for _, q := range run.Queues {
		sum.Published, sum.Confirmed, sum.Consumed = sum.Published+q.Published, sum.Confirmed+q.Confirmed, sum.Consumed+q.Consumed
		sum.Lost, sum.Duplicated, sum.Reordered, sum.Foreign = sum.Lost+q.Lost, sum.Duplicated+q.Duplicated, sum.Reordered+q.Reordered, sum.Foreign+q.Foreign
	}
	return sum
}

func mostConnections(run bench.Run) float64 {
	most := math.Inf(-1)
	for _, s := range run.Broker {
		if s.Connections != nil {
			most = max(most, *s.Connections)
		}
	}
	return most
}

// roomFor 5,000 connections, which take about a GiB: as much as brokers of tests have before their alarm.
func roomFor(t *testing.T, at *brokers.Broker) {
	t.Helper()
	set := func(limit string) {
		if _, err := at.Run("rabbitmqctl", "set_vm_memory_high_watermark", "absolute", limit); err != nil {
			t.Error(err)
		}
	}
	set("4GiB")
	t.Cleanup(func() { set("1GiB") })
}
