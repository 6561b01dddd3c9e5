// Command policy measures the operator with very many QueuePolicies: Warren's own program against a real API server, with a
// fake broker that is checked against real ones, and with a real RabbitMQ.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warren-mq/warren/test/operator"
)

// options of a run.
type options struct {
	out                          string
	policies, vhosts             int
	queues, queueVHosts, manyFor int
	real                         int
	version                      string
	poll, patience               time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "out/bench/bench-policy.json", "file for the figures")
	flag.IntVar(&o.policies, "policies", 10_000, "QueuePolicies on the fake broker")
	flag.IntVar(&o.vhosts, "vhosts", 100, "vhosts that they are spread over")
	flag.IntVar(&o.queues, "queues", 20_000, "queues of the second fake broker")
	flag.IntVar(&o.queueVHosts, "queue-vhosts", 3, "vhosts that they are spread over")
	flag.IntVar(&o.manyFor, "queue-policies", 50, "QueuePolicies on the second fake broker")
	flag.IntVar(&o.real, "real-policies", 1000, "QueuePolicies on the real broker; 0 for none")
	flag.StringVar(&o.version, "version", "4.3.6", "RabbitMQ of the real broker")
	flag.DurationVar(&o.poll, "poll", 30*time.Second, "Warren's --poll-interval")
	flag.DurationVar(&o.patience, "patience", 8*time.Minute, "how long one convergence may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-policy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	at, err := operator.NewLab()
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	l := &lab{options: o, Lab: at}
	var figures report
	for _, scene := range []func(context.Context, *lab, *report) error{tenThousand, manyQueues, realBroker} {
		if err := scene(ctx, l, &figures); err != nil {
			_ = figures.write(o.out)
			return err
		}
	}
	return figures.write(o.out)
}

// lab is the API server and the program that all scenes use.
type lab struct {
	options
	*operator.Lab
}
