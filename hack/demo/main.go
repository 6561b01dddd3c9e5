// Command demo shows Warren at work: it starts a Kubernetes, installs Warren with its chart, applies config/samples/demo,
// and prints what the running nodes and brokers themselves say. See docs/development/testing.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/cluster"
)

const usage = `Usage: go run ./hack/demo up | status | down

up      start a Kubernetes, install Warren, apply config/samples/demo, wait, and show what is true; safe to repeat
status  show what is true of a demo that runs
down    remove all of it

Variables: CLUSTER is local (default), kind, or current, the current context of your kubeconfig; NODES is the number of
nodes of a new cluster. With CLUSTER=current, WARREN_IMAGE and RABBITMQ_IMAGE (with {version} in it) say where the images are.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("one command is needed")
	}
	options := cluster.FromEnvironment("demo")
	switch args[0] {
	case "up":
		return up(ctx, options)
	case "status":
		return status(ctx, options)
	case "down":
		return down(ctx, options)
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("no command is named %q", args[0])
}

func up(ctx context.Context, options cluster.Options) error {
	if options.Kind == "local" {
		progress.Say("The first run on a machine builds Kubernetes and the RabbitMQ images: about 25 minutes on two cores.")
		progress.Say("They stay in a cache outside this checkout; later runs take a minute or two.")
	}
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	if err := prepare(ctx, c); err != nil {
		return err
	}
	return show(ctx, c)
}

func status(ctx context.Context, options cluster.Options) error {
	c, err := cluster.New(options)
	if err != nil {
		return err
	}
	if err := c.Connect(ctx); err != nil {
		return err
	}
	return show(ctx, c)
}

func down(ctx context.Context, options cluster.Options) error {
	c, err := cluster.New(options)
	if err != nil {
		return err
	}
	return c.Down(ctx, namespace)
}
