package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/report"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/internal/store"
)

// benchFlags are the flags of bench run.
type benchFlags struct {
	place
	prometheus, pids, cgroups []string
	disks                     []string
	link                      string
	scenarios                 []string
	runs                      int
	duration, warmUp          time.Duration
	out                       string
	json, production          bool
	maxRate                   float64
	maxConnections            int
	maxDisk                   string
	interval                  time.Duration
}

// defaultScenarios are short enough for a first look and answer the usual questions.
var defaultScenarios = []string{"SmallConfirmed", "SteadyRate"}

func benchRunCommand() *cobra.Command {
	var f benchFlags
	command := &cobra.Command{
		Use:   "run",
		Short: "Run scenarios against a cluster",
		Long: `Run scenarios against a cluster, say how fast it was and what kept it from being faster, and write the results to files.

A benchmark makes a vhost and a user of its own and removes them again, also when it fails or is interrupted; what a killed
one left behind "warren bench sweep" removes. It refuses a cluster with an alarm, and one that others use: with
--yes-production you answer for the latter. An alarm during a run ends it.

Without --management it works in the vhost of the URI with the user of the URI, under names that nobody else has; it cannot
see alarms or others then, and needs --yes-production.
` + placeHelp,
		Example: `  export WARREN_BENCH_URI=amqp://user:password@rabbit:5672
  warren bench run --management http://rabbit:15672 --prometheus http://rabbit:15692
  warren bench run --management http://rabbit:15672 --scenario SmallConfirmed --scenario mine.yaml --runs 5 --out results`,
		Args: misused(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error { return runBench(command, f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.uri, "uri", "", "AMQP address, as amqp://HOST:5672 or amqps://HOST:5671; several with commas between them")
	f.place.flags(command)
	flags.StringSliceVar(&f.prometheus, "prometheus", nil, "Prometheus endpoint of each node, as http://HOST:15692")
	flags.StringArrayVar(&f.pids, "pid", nil, "NODE=PID: a broker node on this machine, by a process of it")
	flags.StringArrayVar(&f.cgroups, "cgroup", nil, "NODE=FOLDER: a broker node on this machine, by its control group")
	flags.StringArrayVar(&f.disks, "disk", nil, "NODE=FOLDER: the data of a broker node on this machine (default with --pid: its "+load.DataOf+")")
	flags.StringVar(&f.link, "link", "", "speed of each node's network link, as 10Gbit, which no node knows: without it a full link is not seen")
	flags.StringArrayVar(&f.scenarios, "scenario", defaultScenarios, "name of a built-in scenario, a file, or all")
	flags.IntVar(&f.runs, "runs", 0, "runs of each scenario, of which the median counts (default: as the scenario says)")
	flags.DurationVar(&f.duration, "duration", 0, "length of the measured part (default: as the scenario says)")
	flags.DurationVar(&f.warmUp, "warm-up", 0, "what is cut at the beginning (default: as the scenario says)")
	flags.StringVar(&f.out, "out", "", "folder for results (default: bench-results/TIME)")
	flags.BoolVar(&f.json, "json", false, "print the results as JSON instead of a table")
	flags.BoolVar(&f.production, "yes-production", false, "run although others use the cluster, or may")
	flags.Float64Var(&f.maxRate, "max-rate", 0, "most messages per second that are sent; 0 is as the scenario says")
	flags.IntVar(&f.maxConnections, "max-connections", 0, "refuse scenarios that need more connections; 0 is as the scenario says")
	flags.StringVar(&f.maxDisk, "max-disk", "", "most that may wait in queues, as 500MiB; empty is as the scenario says")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "how often the broker is looked at, 1s to 5s")
	return command
}

// check says what flags hold that cannot be meant. A cap that is not one would be no cap.
func (f benchFlags) check() error {
	for _, flag := range []struct {
		name  string
		value float64
	}{
		{"runs", float64(f.runs)}, {"duration", f.duration.Seconds()}, {"warm-up", f.warmUp.Seconds()},
		{"max-rate", f.maxRate}, {"max-connections", float64(f.maxConnections)},
	} {
		if !(flag.value >= 0 && flag.value <= math.MaxFloat64) {
			return fmt.Errorf("--%s: want a number above 0, or 0 for what the scenario says", flag.name)
		}
	}
	if f.interval < time.Second || f.interval > 5*time.Second {
		return fmt.Errorf("--interval %s is not from 1s to 5s", f.interval)
	}
	for _, address := range f.prometheus {
		at, err := url.Parse(address)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return errors.New("--prometheus: want http://HOST:15692 or https://HOST:15691, one for each node")
		}
	}
	if f.link != "" {
		if _, err := load.ParseSpeed(f.link); err != nil {
			return fmt.Errorf("--link %q: %w", f.link, err)
		}
	}
	return nil
}

// scenariosToRun reads the scenarios and bends them as the flags say.
func (f benchFlags) scenariosToRun() ([]bench.Scenario, error) {
	scenarios, err := scenariosOf(f.scenarios)
	if err != nil {
		return nil, err
	}
	var disk bench.Size
	if f.maxDisk != "" {
		if disk, err = bench.ParseSize(f.maxDisk); err != nil {
			return nil, fmt.Errorf("--max-disk: %w", err)
		}
	}
	for i := range scenarios {
		s := &scenarios[i]
		if f.runs > 0 {
			s.Runs = f.runs
		}
		if f.duration > 0 {
			s.Duration = bench.Duration(f.duration)
		}
		if f.warmUp > 0 {
			s.WarmUp = bench.Duration(f.warmUp)
		}
		if *s, err = load.Capped(*s, f.maxRate, f.maxConnections, disk); err != nil {
			return nil, err
		}
		if faults := s.Validate(); len(faults) > 0 {
			return nil, fmt.Errorf("scenario %s:\n%w", s.Name, faults)
		}
		if err := enoughFiles(*s); err != nil {
			return nil, err
		}
	}
	return scenarios, nil
}

// enoughFiles sees that this process may have as many sockets as the scenario needs.
func enoughFiles(s bench.Scenario) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil
	}
	if need := uint64(s.Connections()) + 100; need > limit.Cur {
		return fmt.Errorf("scenario %s needs %d open files, and this process may have %d: raise `ulimit -n`", s.Name, need, limit.Cur)
	}
	return nil
}

func runBench(command *cobra.Command, f benchFlags) error {
	if err := f.check(); err != nil {
		return exitError{2, err.Error()}
	}
	scenarios, err := f.scenariosToRun()
	if err != nil {
		return err
	}
	endpoint, err := f.endpoint()
	if err != nil {
		return err
	}
	machine, err := f.machine()
	if err != nil {
		return err
	}
	ctx := command.Context()
	b := load.Benchmark{Endpoint: endpoint, Scenarios: scenarios, Interval: f.interval, Alone: !f.production}
	say := newTeller(command.ErrOrStderr())
	if err := f.attach(ctx, &b, machine, say); err != nil {
		return err
	}
	b.OnProgress, b.OnRun = say.second, say.run
	if f.out == "" {
		f.out = filepath.Join("bench-results", time.Now().UTC().Format("20060102-150405"))
	}
	if err := store.Prepare(f.out); err != nil { // before the load: afterwards it would have been for nothing
		return fmt.Errorf("--out: %w", err)
	}
	results, failed := b.Do(ctx)
	if len(results) == 0 {
		_ = os.Remove(f.out) // if it is empty
		return failed
	}
	printed := f.print(command.OutOrStdout(), results)
	written := store.Write(f.out, report.Input{Results: results, Written: time.Now().UTC()})
	if written == nil {
		fmt.Fprintf(command.ErrOrStderr(), "results are in %s\n", f.out)
	}
	return errors.Join(failed, printed, written, validRuns(results))
}

// attach connects the management API and the samplers, and refuses what must not be put under load.
func (f benchFlags) attach(ctx context.Context, b *load.Benchmark, machine []load.Source, say *teller) error {
	b.Fingerprint = bench.Fingerprint{
		CPUModel: cpuModel(), Kernel: kernelRelease(), Generator: version, SharedHost: onThisMachine(ctx, b.Endpoint),
	}
	if f.management == "" {
		if !f.production {
			return errors.New("without --management it cannot be seen whether the cluster has an alarm or is used by others: give it, or --yes-production")
		}
		return nil
	}
	api, err := f.connect(b.Endpoint)
	if err != nil {
		return err
	}
	overview, err := api.Overview(ctx)
	if err != nil {
		return err
	}
	if b.Scenarios, err = f.supported(b.Scenarios, overview.RabbitMQVersion, say); err != nil {
		return err
	}
	if err := f.safe(ctx, api, b.Scenarios); err != nil {
		return err
	}
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return err
	}
	b.API, b.Policies, b.Owner = api, api, api.username
	b.Fingerprint.BrokerVersion, b.Fingerprint.ErlangVersion, b.Fingerprint.Nodes = overview.RabbitMQVersion, overview.ErlangVersion, len(nodes)
	if b.Fingerprint.SharedHost {
		b.Fingerprint.CPUCores = float64(runtime.NumCPU())
	}
	if f.link != "" {
		speed, err := load.ParseSpeed(f.link)
		if err != nil {
			return fmt.Errorf("--link %q: %w", f.link, err)
		}
		link := load.Link{BytesPerSecond: speed}
		for _, node := range nodes {
			link.Nodes = append(link.Nodes, node.Name)
		}
		machine = append(machine, link)
	}
	b.Sources = func(vhost string) []load.Source {
		sources := []load.Source{load.Management{API: api, VHost: vhost}}
		if len(f.prometheus) > 0 {
			scraper, _ := api.connector.(broker.Scraper)
			sources = append(sources, load.Prometheus{Scraper: scraper, URLs: f.prometheus, VHost: vhost})
		}
		return append(sources, machine...)
	}
	return nil
}

// supported are the scenarios that the broker's version can run. One that it cannot is refused, since it would end the others
// when its turn came, but of "all" it is left out.
func (f benchFlags) supported(scenarios []bench.Scenario, version string, say *teller) (can []bench.Scenario, err error) {
	all := slices.Contains(f.scenarios, "all")
	for _, s := range scenarios {
		why := s.UnsupportedBy(version)
		_, builtin := bench.Builtin(s.Name)
		switch {
		case why == "":
			can = append(can, s)
		case all && builtin == nil:
			say.leftOut(why)
		default:
			return nil, errors.New(why)
		}
	}
	return can, nil
}

// machine are the sources for nodes on this machine.
func (f benchFlags) machine() (sources []load.Source, err error) {
	kernel, err := probesOf(f.pids, f.cgroups)
	if err != nil {
		return nil, err
	}
	if len(kernel) > 0 {
		sources = append(sources, kernel)
	}
	disks, err := disksOf(f.disks, kernel)
	if err != nil {
		return nil, err
	}
	for _, disk := range disks {
		sources = append(sources, disk)
	}
	return sources, nil
}

// settle is how long traces of an earlier benchmark may take to leave the broker's statistics.
const settle = 12 * time.Second

// safe refuses a cluster that must not be put under load.
func (f benchFlags) safe(ctx context.Context, api load.API, scenarios []bench.Scenario) error {
	deadline := time.Now().Add(settle)
	for {
		dangers, err := load.Dangers(ctx, api, scenarios)
		if err != nil {
			return err
		}
		var reasons []string
		waits := true
		for _, d := range dangers {
			if !d.Production || !f.production {
				reasons = append(reasons, d.Reason)
			}
			waits = waits && d.Production
		}
		if len(reasons) == 0 {
			return nil
		}
		if !waits || time.Now().After(deadline) {
			return unsafeError{reasons: reasons, mayAllow: waits}
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unsafeError says why a cluster must not be put under load.
type unsafeError struct {
	reasons []string
	// mayAllow: whoever answers for the cluster may allow it.
	mayAllow bool
}

func (e unsafeError) Error() string { return e.explain("say --yes-production") }

// explain the refusal; allow is how it is allowed.
func (e unsafeError) explain(allow string) string {
	text := "this cluster must not be put under load: " + strings.Join(e.reasons, "; ")
	if e.mayAllow {
		text += ". If you answer for it, " + allow
	}
	return text
}

// validRuns is an error when a scenario has no run that counts.
func validRuns(results []bench.Result) error {
	var failures []error
	for _, r := range results {
		if r.Summary.ValidRuns > 0 {
			continue
		}
		reason := "it was cut short"
		for _, run := range r.Runs {
			for _, why := range run.Validity.Reasons {
				reason = why.Message
			}
		}
		failures = append(failures, fmt.Errorf("scenario %s has no valid run: %s", r.Scenario.Name, reason))
	}
	return errors.Join(failures...)
}

func (f benchFlags) print(out io.Writer, results []bench.Result) error {
	if f.json {
		return printJSON(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tRUNS\tRATE\tSPREAD\tP50\tP99\tP99.9\tLOST\tDUPLICATED\tREORDERED\tBOTTLENECK")
	for _, r := range results {
		s := r.Summary
		fmt.Fprintf(table, "%s\t%d/%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Scenario.Name, s.ValidRuns, len(r.Runs),
			rate(s.Throughput, s.ThroughputUnit), spread(s.Throughput), wait(s.P50Seconds), wait(s.P99Seconds), wait(s.P999Seconds),
			s.Lost, s.Duplicated, s.Reordered, s.Bottleneck)
	}
	return table.Flush()
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	return encoder.Encode(value)
}

func rate(s *bench.Spread, unit string) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %s", s.Median, unit)
}

func spread(s *bench.Spread) string {
	if s == nil || s.Median == 0 {
		return "-"
	}
	return fmt.Sprintf("±%.1f%%", 100*s.MAD/s.Median)
}

func wait(s *bench.Spread) string {
	if s == nil {
		return "-"
	}
	return time.Duration(s.Median * float64(time.Second)).Round(10 * time.Microsecond).String()
}

// teller says how runs go: a line each second on a terminal, else a line for each phase.
type teller struct {
	out      io.Writer
	terminal bool
	phase    string
	silent   string
}

func newTeller(out io.Writer) *teller {
	file, ok := out.(*os.File)
	return &teller{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

func (t *teller) second(s bench.Scenario, run int, p load.Progress) {
	head := fmt.Sprintf("%s run %d/%d %s", s.Name, run, s.Runs, p.Phase)
	if p.Silent != "" && p.Silent != t.silent {
		t.silent = p.Silent
		fmt.Fprintf(t.out, "no samples of the broker: %s\n", p.Silent)
	}
	if !t.terminal {
		if head != t.phase {
			fmt.Fprintln(t.out, head)
		}
		t.phase = head
		return
	}
	second := p.Second
	fmt.Fprintf(t.out, "%-44s %4d s  published %7d  confirmed %7d  consumed %7d  waiting %9d\n",
		head, second.AtSeconds+1, second.Published, second.Confirmed, second.Consumed, p.Waiting)
}

func (t *teller) leftOut(why string) { fmt.Fprintf(t.out, "left out: %s\n", why) }

func (t *teller) run(s bench.Scenario, r bench.Run) {
	word := "valid"
	if !r.Validity.Valid {
		var reasons []string
		for _, why := range r.Validity.Reasons {
			reasons = append(reasons, why.Message)
		}
		word = "not valid (" + strings.Join(reasons, "; ") + ")"
	}
	fmt.Fprintf(t.out, "%s run %d/%d: %.0f %s, %s; %s\n", s.Name, r.Number, s.Runs, r.Figures.Throughput, r.Figures.ThroughputUnit, word, r.Verdict.Summary)
}

// cpuModel of this machine, by /proc/cpuinfo; "" where it has none.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kernelRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
