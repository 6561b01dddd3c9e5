// Command local runs a real Kubernetes and real RabbitMQ brokers on a plain Linux machine without Docker.
// See docs/development/local-cluster.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/broker"
	"github.com/warren-mq/warren/hack/local/internal/node"
)

// command is one word after the program's name.
type command struct {
	name  string
	args  string // how its arguments are written
	short string
	long  string
	run   func(flags *flag.FlagSet, args []string) error
}

// commands are all commands in the order of the help.
func commands() []command {
	return []command{toolsCommand(), assetsCommand(), imagesCommand(), imageCommand(),
		upCommand(), downCommand(), statusCommand(), kubeconfigCommand(), loadCommand(), brokerCommand(), browserCommand()}
}

// hidden are the ways in which this program starts itself inside new namespaces.
var hidden = map[string]func(specFile string) error{
	broker.InitCommand: broker.Init,
	node.InitCommand:   node.Init,
}

func main() {
	err := run(os.Args[1:])
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.As(err, &exit) && len(os.Args) > 2 && os.Args[2] == "exec":
		// The command that ran inside has already said what is wrong.
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "local:", err)
	os.Exit(1)
}

// run finds the command and hands it its arguments.
func run(args []string) error {
	if len(args) == 2 && hidden[args[0]] != nil {
		return hidden[args[0]](args[1])
	}
	if len(args) == 0 || args[0] == "help" || strings.TrimLeft(args[0], "-") == "help" || args[0] == "-h" {
		usage()
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.start(args[1:])
		}
	}
	usage()
	return fmt.Errorf("no command is named %q", args[0])
}

// start prepares the flags of a command and runs it.
func (c command) start(args []string) error {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: go run ./hack/local %s %s\n\n%s.\n", c.name, c.args, c.short)
		if c.long != "" {
			fmt.Fprintf(os.Stderr, "\n%s\n", c.long)
		}
		any := false
		flags.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprintln(os.Stderr, "\nFlags:")
			flags.PrintDefaults()
		}
	}
	return c.run(flags, args)
}

func usage() {
	fmt.Fprintln(os.Stderr, "A real Kubernetes and real RabbitMQ on a plain Linux machine, without Docker.\n\nCommands of go run ./hack/local:")
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", c.name, c.short)
	}
	fmt.Fprintln(os.Stderr, "\n<command> --help tells more. WARREN_CACHE and WARREN_STATE name the folders for builds and for what runs.")
}
