package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/load"
)

func benchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure a RabbitMQ cluster and compare results",
		Long: `Measure a RabbitMQ cluster under load, and say what limits it.

A benchmark works in a vhost and as a user of its own, which it removes again. It refuses clusters that raise an alarm or
that others use. docs/benchmark.md says what is measured and how.`,
		Args: misused(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{2, err.Error()} })
	command.AddCommand(benchRunCommand(), benchCompareCommand(), benchReportCommand(), benchScenariosCommand(), benchSweepCommand(), benchWorkerCommand())
	return command
}

// misused has wrong arguments end with a code of their own: 1 would tell a CI that something got worse.
func misused(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return exitError{2, fmt.Sprintf("%v; usage: %s", err, command.UseLine())}
		}
		return nil
	}
}

// place is where a cluster is and how to log in.
type place struct {
	uri, management, username, passwordFile, caFile string
}

const placeHelp = `
Credentials are not arguments, which others on the machine can read. They come from the environment, or the password from a
file:
  WARREN_BENCH_USERNAME, WARREN_BENCH_PASSWORD   of an administrator
  WARREN_BENCH_URI                               the AMQP address, which may hold both`

func (p *place) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&p.management, "management", "", "management API, as http://HOST:15672")
	flags.StringVar(&p.username, "username", "", "user of the management API (default: WARREN_BENCH_USERNAME, or that of WARREN_BENCH_URI)")
	flags.StringVar(&p.passwordFile, "password-file", "", "file with the user's password (default: WARREN_BENCH_PASSWORD)")
	flags.StringVar(&p.caFile, "ca-file", "", "PEM certificates that servers are checked against (default: the system's)")
}

// credentials from flags, files and the environment.
func (p *place) credentials(endpoint load.Endpoint) (username, password string, err error) {
	username = firstText(p.username, os.Getenv("WARREN_BENCH_USERNAME"), endpoint.Username)
	password = firstText(os.Getenv("WARREN_BENCH_PASSWORD"), endpoint.Password)
	if p.passwordFile != "" {
		text, err := os.ReadFile(p.passwordFile)
		if err != nil {
			return "", "", err
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	if username == "" || password == "" {
		return "", "", errors.New("no credentials: set WARREN_BENCH_USERNAME, and WARREN_BENCH_PASSWORD or --password-file, or have both in WARREN_BENCH_URI")
	}
	return username, password, nil
}

// endpoint for AMQP.
func (p *place) endpoint() (load.Endpoint, error) {
	text := p.uri
	if text == "" {
		text = os.Getenv("WARREN_BENCH_URI")
	}
	if text == "" {
		return load.Endpoint{}, errors.New("where is the broker? Set WARREN_BENCH_URI=amqp://USER:PASSWORD@HOST:5672, or give --uri amqp://HOST:5672")
	}
	endpoint, err := load.ParseEndpoint(text)
	if err != nil {
		return load.Endpoint{}, err
	}
	if p.uri != "" && endpoint.Password != "" {
		return load.Endpoint{}, errors.New("--uri holds a password, which others can read in the list of processes: set WARREN_BENCH_URI instead, or --password-file")
	}
	if endpoint.TLS != nil && p.caFile != "" {
		if endpoint.TLS.RootCAs, err = p.roots(); err != nil {
			return load.Endpoint{}, err
		}
		endpoint.CAFile = p.caFile
	}
	return endpoint, nil
}

// roots are the certificates of --ca-file; nil, for the system's, without it.
func (p *place) roots() (*x509.CertPool, error) {
	if p.caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(p.caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", p.caFile)
	}
	return roots, nil
}

// connected is a management API with what it may be asked for.
type connected struct {
	broker.Client
	broker.Guest
	connector broker.Connector
	username  string
}

func (p *place) connect(endpoint load.Endpoint) (connected, error) {
	username, password, err := p.credentials(endpoint)
	if err != nil {
		return connected{}, err
	}
	target := broker.Target{Key: "bench", URL: p.management, Username: username, Password: password}
	if p.caFile != "" {
		pem, err := os.ReadFile(p.caFile)
		if err != nil {
			return connected{}, err
		}
		target.CABundle = string(pem)
	}
	roots, err := p.roots()
	if err != nil {
		return connected{}, err
	}
	connector := management.NewConnector(management.Options{ListTimeout: 2 * time.Minute, RuntimeRoots: roots})
	client, err := connector.Connect(target)
	if err != nil {
		return connected{}, err
	}
	guest, ok := client.(broker.Guest)
	if !ok {
		return connected{}, errors.New("the adapter of the management API cannot make users")
	}
	return connected{Client: client, Guest: guest, connector: connector, username: username}, nil
}

// connectAlone is connect where nothing is done by AMQP: of its address only the credentials count, if it is given.
func (p *place) connectAlone() (connected, error) {
	var endpoint load.Endpoint
	if os.Getenv("WARREN_BENCH_URI") != "" {
		var err error
		if endpoint, err = p.endpoint(); err != nil {
			return connected{}, err
		}
	}
	return p.connect(endpoint)
}

func benchSweepCommand() *cobra.Command {
	var at place
	var dry bool
	age := load.Abandoned
	command := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what killed benchmarks left behind",
		Long: `Remove the vhosts and users of benchmarks that were killed.

Only vhosts and users with the tag ` + load.Label + ` and a name of ` + load.Label + `- with 32 random digits are looked at, so nothing of
anybody else is touched. A benchmark says every ` + load.BeatEvery.String() + ` in the description of its vhost that it lives: those that did
within --older-than, and those that have connections, are left alone.
` + placeHelp,
		Args: misused(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if age < 0 {
				return exitError{2, fmt.Sprintf("--older-than %s is negative: benchmarks that live would be taken for silent ones", age)}
			}
			if at.management == "" {
				return exitError{2, "where is the broker? Give --management http://HOST:15672"}
			}
			api, err := at.connectAlone()
			if err != nil {
				return err
			}
			return sweep(command, api, age, dry)
		},
	}
	at.flags(command)
	command.Flags().DurationVar(&age, "older-than", age, "how long a benchmark must have been silent")
	command.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	return command
}

func sweep(command *cobra.Command, api connected, age time.Duration, dry bool) error {
	ctx, out := command.Context(), command.OutOrStdout()
	found, err := load.Leftovers(ctx, api, time.Now(), age)
	if err != nil {
		return err
	}
	for _, l := range found {
		switch {
		case l.Alive:
			fmt.Fprintf(out, "kept     %s: %s\n", l.Name, l.Why)
		case dry:
			fmt.Fprintf(out, "would go %s\n", l.Name)
		}
	}
	if dry {
		return nil
	}
	removed, err := load.Sweep(ctx, api, found)
	for _, name := range removed {
		fmt.Fprintf(out, "removed  %s\n", name)
	}
	if len(found) == 0 {
		fmt.Fprintln(out, "no benchmark left anything behind")
	}
	return err
}

func benchScenariosCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "scenarios [NAME]",
		Short: "List the built-in scenarios, or print one as a file to change",
		Long: `List the built-in scenarios. With a name, print that one as YAML with all its defaults: save it, change it, and run it
with --scenario FILE.`,
		Args: misused(cobra.MaximumNArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			out := command.OutOrStdout()
			if len(args) == 1 {
				s, err := bench.Builtin(args[0])
				if err != nil {
					return err
				}
				text, err := scenarioYAML(s)
				if err != nil {
					return err
				}
				_, err = out.Write(text)
				return err
			}
			for _, s := range bench.Matrix() {
				fmt.Fprintf(out, "%-24s %s\n", s.Name, s.Description)
			}
			return nil
		},
	}
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// scenariosOf reads names of built-in scenarios and files.
func scenariosOf(names []string) ([]bench.Scenario, error) {
	var all []bench.Scenario
	for _, name := range names {
		if name == "all" {
			all = append(all, bench.Matrix()...)
			continue
		}
		if !strings.ContainsAny(name, "./") {
			s, err := bench.Builtin(name)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := bench.DecodeScenario(text)
		if err != nil {
			return nil, fmt.Errorf("%s:\n%w", name, err)
		}
		all = append(all, s)
	}
	for i, s := range all {
		if slices.ContainsFunc(all[:i], func(other bench.Scenario) bool { return other.Name == s.Name }) {
			return nil, fmt.Errorf("scenario %s is there twice", s.Name)
		}
	}
	return all, nil
}

// probesOf reads NODE=PID or NODE=FOLDER.
func probesOf(pids, folders []string) (load.Kernel, error) {
	var probes load.Kernel
	for _, text := range pids {
		node, value, found := strings.Cut(text, "=")
		pid, err := strconv.Atoi(value)
		if !found || err != nil {
			return nil, fmt.Errorf("--pid %q: want NODE=PID, as rabbit@host=4711", text)
		}
		probes = append(probes, load.Probe{Node: node, PID: pid})
	}
	for _, text := range folders {
		node, folder, found := strings.Cut(text, "=")
		if !found || !strings.HasPrefix(folder, "/") {
			return nil, fmt.Errorf("--cgroup %q: want NODE=FOLDER, as rabbit@host=/sys/fs/cgroup/…", text)
		}
		probes = append(probes, load.Probe{Node: node, Cgroup: folder})
	}
	return probes, nil
}

// disksOf reads NODE=FOLDER, and finds the disks of the nodes of which a process is known.
func disksOf(folders []string, kernel load.Kernel) (disks []load.Disk, err error) {
	for _, text := range folders {
		node, folder, found := strings.Cut(text, "=")
		if !found || !strings.HasPrefix(folder, "/") {
			return nil, fmt.Errorf("--disk %q: want NODE=FOLDER, as rabbit@host=/var/lib/rabbitmq", text)
		}
		disk := load.Disk{Node: node, Folder: folder}
		if _, err := disk.Sample(context.Background()); err != nil {
			return nil, fmt.Errorf("--disk: %w", err)
		}
		disks = append(disks, disk)
	}
	for _, probe := range kernel {
		told := slices.ContainsFunc(disks, func(d load.Disk) bool { return d.Node == probe.Node })
		if disk, ok := load.DiskOf(probe.Node, probe.PID); ok && !told && probe.PID != 0 {
			disks = append(disks, disk)
		}
	}
	return disks, nil
}

// onThisMachine tells whether a host of the endpoint is this one: then generator and broker share their cores.
func onThisMachine(ctx context.Context, endpoint load.Endpoint) bool {
	own := map[string]bool{}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok {
			own[network.IP.String()] = true
		}
	}
	for _, at := range endpoint.Hosts {
		host, _, _ := net.SplitHostPort(at)
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err == nil && slices.ContainsFunc(found, func(a string) bool { return own[a] || net.ParseIP(a).IsLoopback() }) {
			return true
		}
	}
	return false
}
