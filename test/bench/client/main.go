// Command client measures the client library against amqp091-go on the same brokers and machine.
//
// Each variant runs in a child process of this program, so that its CPU and allocations are its own; queues are made anew
// for every run, and the variants of a comparison take turns, so that what slows the machine slows all. Figures are medians
// of the runs; a comparison is made run by run, and its median is what counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/hack/progress"
)

type config struct {
	versions []string
	types    []string
	sizes    []int
	only     []string
	runs     int

	backlog, slowBacklog int
	batch, workers       int
	window, callers      int
	publish              time.Duration
	network              float64
	contend, settle      time.Duration

	name     string
	out      string
	markdown bool
	profiles string
}

// prefetch that fills all workers and one batch more.
func (c config) prefetch() int { return (c.workers + 1) * c.batch }

// wants tells whether one of some parts, with blanks between them, was asked for.
func (c config) wants(parts string) bool {
	return slices.ContainsFunc(strings.Fields(parts), func(p string) bool { return slices.Contains(c.only, p) })
}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-client:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == childArgument {
		return child()
	}
	if len(args) == 1 && args[0] == brokerArgument {
		return runNullBroker()
	}
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	var figures []figure
	for _, version := range cfg.versions {
		got, err := measure(cfg, version)
		figures = append(figures, got...)
		if err != nil {
			return errors.Join(err, save(cfg.out, figures))
		}
	}
	if err := save(cfg.out, figures); err != nil {
		return err
	}
	progress.Say("written to %s", cfg.out)
	if cfg.markdown {
		markdown(os.Stdout, figures)
		return nil
	}
	return table(os.Stdout, figures)
}

// measure runs all groups against one broker.
func measure(cfg config, version string) (figures []figure, err error) {
	rig, err := newRig(version, cfg.name+"-"+strings.ReplaceAll(version, ".", "-"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	run, err := newRunner(cfg, rig)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := progress.Step("warming the broker up", run.warmUp); err != nil {
		return nil, err
	}
	for _, g := range plan(cfg, version) {
		figures = append(figures, g.figures(run.group(g))...)
	}
	return figures, nil
}

func parse(args []string) (config, error) {
	c := config{}
	set := flag.NewFlagSet("bench-client", flag.ContinueOnError)
	versions := set.String("versions", "4.3.6", "versions of RabbitMQ, with commas between them: 4.3.6, 3.10.8")
	types := set.String("types", "classic,quorum", "types of queues")
	only := set.String("only", "", "parts, with commas between them: all by default")
	small := set.Int("small", 256, "bytes of a small message")
	large := set.Int("large", 1024, "bytes of a larger message")
	mb := set.Float64("network", 10, "MB/s (10^6 bytes) of the slow network of part d, in each direction")
	set.IntVar(&c.runs, "runs", 3, "runs of each variant")
	set.IntVar(&c.backlog, "backlog", 60000, "messages of the backlog")
	set.IntVar(&c.slowBacklog, "slow-backlog", 2000, "messages of the backlog for what takes one at a time")
	set.IntVar(&c.batch, "batch", 100, "messages of a batch")
	set.IntVar(&c.workers, "workers", 4, "batches at once; the prefetch is that of one more batch")
	set.IntVar(&c.window, "window", 500, "unconfirmed messages at most")
	set.IntVar(&c.callers, "callers", 100, "goroutines that publish and wait")
	set.DurationVar(&c.publish, "publish", 2*time.Second, "how long a publisher publishes")
	set.DurationVar(&c.contend, "contend", 4*time.Second, "how long a contended consumer is measured")
	set.DurationVar(&c.settle, "settle", 20*time.Second, "how long back-pressure has to settle before that")
	set.StringVar(&c.name, "name", "bench", "beginning of the names of brokers that are started")
	set.StringVar(&c.out, "out", "out/bench/bench-client.json", "file for the figures")
	set.BoolVar(&c.markdown, "markdown", false, "print a Markdown table")
	set.StringVar(&c.profiles, "profiles", "", "folder for CPU and allocation profiles of the children (of the last run)")
	set.Usage = func() { usage(set) }
	if err := set.Parse(args); err != nil {
		return c, err
	}
	c.versions, c.types, c.sizes, c.network = list(*versions), list(*types), []int{*small, *large}, *mb*1e6
	if c.only = list(*only); len(c.only) == 0 {
		for _, p := range parts {
			c.only = append(c.only, p.name)
		}
	}
	return c, c.check()
}

func (c config) check() error {
	for _, p := range c.only {
		if !slices.ContainsFunc(parts, func(q struct{ name, what string }) bool { return q.name == p }) {
			return fmt.Errorf("no part is named %q", p)
		}
	}
	for _, kind := range c.types {
		if goals[kind].one == 0 {
			return fmt.Errorf("no goals are known for queues of type %q", kind)
		}
	}
	for _, version := range c.versions {
		if variables[version] == "" {
			return fmt.Errorf("versions are 4.3.6 and 3.10.8, not %q", version)
		}
	}
	if len(c.types) == 0 || len(c.versions) == 0 || c.sizes[0] == c.sizes[1] {
		return errors.New("want at least one type and version, and two sizes that differ")
	}
	for name, n := range map[string]int{
		"runs": c.runs, "backlog": c.backlog, "slow-backlog": c.slowBacklog, "batch": c.batch, "workers": c.workers,
		"window": c.window, "callers": c.callers, "small": c.sizes[0], "large": c.sizes[1], "network": int(c.network),
		"publish": int(c.publish), "contend": int(c.contend), "settle": int(c.settle),
	} {
		if n < 1 {
			return fmt.Errorf("--%s is too small", name)
		}
	}
	return nil
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func usage(set *flag.FlagSet) {
	to := set.Output()
	fmt.Fprint(to, `bench-client compares the client library with amqp091-go: same broker, same durability (durable queues, persistent
messages, publisher confirms). It prints a table and writes it as JSON; ratios have goals, rates have none.

Brokers are started with hack/local, or are those that WARREN_BROKER_4_3 and WARREN_BROKER_3_10 name as JSON.

Parts for --only:
`)
	for _, p := range parts {
		fmt.Fprintf(to, "  %-5s %s\n", p.name, p.what)
	}
	fmt.Fprintf(to, "\nWhat work contends for in part f: %s.\n\nFlags:\n", rowLocks)
	set.PrintDefaults()
}
