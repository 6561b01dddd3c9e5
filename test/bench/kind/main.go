// Command kind measures with the Kind Benchmark on a real Kubernetes: the matrix of built-in scenarios on both version lines,
// and what schedulers, mirrors and prefetch are worth, before and after changes that are made by Warren's own Kinds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/test/bench/figures"
	"github.com/warren-mq/warren/test/cluster"
)

// options of the command line.
type options struct {
	out, only string
	runs      int
	limit     time.Duration
	// measured part of each run of the comparisons, and of each scenario of the matrix.
	seconds, matrixSeconds int
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "out/bench", "folder for bench-kind.json, the reports and results")
	flag.StringVar(&o.only, "only", "", "parts to do, in this order, with commas between: mirrors, schedulers, prefetch, matrix-4.3, matrix-3.10 (default: all)")
	flag.IntVar(&o.runs, "runs", 3, "runs of each scenario of the comparisons; the matrix has one")
	flag.IntVar(&o.seconds, "seconds", 10, "measured seconds of a run of the comparisons")
	flag.IntVar(&o.matrixSeconds, "matrix-seconds", 5, "measured seconds of a scenario of the matrix")
	flag.DurationVar(&o.limit, "limit", 32*time.Minute, "when it is broken off")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-kind:", err)
		os.Exit(1)
	}
}

// part is one thing that is measured, on a RabbitMQ cluster of its own kind.
type part struct {
	name    string
	minutes float64 // on two cores, for the line that says how long it takes
	do      func(context.Context, *job) error
}

var parts = []part{
	{"mirrors", 5, func(ctx context.Context, j *job) error { return j.mirrors(ctx) }},
	{"schedulers", 4, func(ctx context.Context, j *job) error { return j.schedulers(ctx) }},
	{"prefetch", 4, func(ctx context.Context, j *job) error { return j.prefetch(ctx) }},
	{"matrix-4.3", 7, func(ctx context.Context, j *job) error { return j.matrix(ctx, "4.3") }},
	{"matrix-3.10", 7, func(ctx context.Context, j *job) error { return j.matrix(ctx, "3.10") }},
}

func chosen(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	var out []part
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only: there is no part %q", name)
		}
		out = append(out, parts[i])
	}
	return out, nil
}

// job is what the parts work with, and what they have found.
type job struct {
	options
	k    *cluster.Cluster
	rows []figures.Row
	// compared are the results of the comparisons, for one page.
	compared []shown
}

// shown is a result on the page, and the one before it.
type shown struct {
	result bench.Result
	before *bench.Result
}

// removal is how long taking all down may take.
const removal = 5 * time.Minute

func run(ctx context.Context, o options) (err error) {
	todo, err := chosen(o.only)
	if err != nil {
		return err
	}
	expected := 2.0 // to start and to end Kubernetes
	for _, p := range todo {
		expected += p.minutes
	}
	progress.Say("this takes about %.0f minutes on two idle cores, and is broken off after %s. It starts a Kubernetes of its own and removes it, also on Ctrl-C", expected, o.limit)
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not done after %s", o.limit))
	defer cancel()
	j := &job{options: o}
	defer func() { err = errors.Join(err, j.end(context.WithoutCancel(ctx))) }()
	if j.k, err = cluster.New(cluster.FromEnvironment("bench")); err != nil {
		return err
	}
	started, err := cluster.Start(ctx, cluster.FromEnvironment("bench"))
	if err != nil {
		return err
	}
	j.k = started
	var failed []error
	for _, p := range todo {
		progress.Say("part %s, about %.0f minutes", p.name, p.minutes)
		if err := j.part(ctx, p); err != nil {
			progress.Say("part %s failed: %v", p.name, err)
			failed = append(failed, fmt.Errorf("part %s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(append(failed, context.Cause(ctx), j.write())...)
		}
	}
	return errors.Join(append(failed, j.write())...)
}

// namespace of all that is measured.
const namespace = "bench-kind"

// part does one part in a namespace that is empty before and after it.
func (j *job) part(ctx context.Context, p part) error {
	if err := j.removeNamespace(ctx); err != nil {
		return err
	}
	if err := j.makeNamespace(ctx); err != nil {
		return err
	}
	err := p.do(ctx, j)
	if ctx.Err() != nil {
		return err // all is taken down at once
	}
	return errors.Join(err, j.removeNamespace(ctx))
}

// end removes everything, whatever happened.
func (j *job) end(ctx context.Context) error {
	if j.k == nil {
		return nil
	}
	if os.Getenv("KEEP") == "1" {
		progress.Say("KEEP=1: the cluster stays: export KUBECONFIG=%s", j.k.Kubeconfig)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	return progress.Step("take everything down", func() error { return j.k.Down(ctx, namespace) })
}
