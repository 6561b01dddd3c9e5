package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/warren-mq/warren/hack/local/internal/cluster"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
	"github.com/warren-mq/warren/hack/progress"
)

// nameFlag is the cluster's name; its default comes from the checkout, so that two checkouts differ.
func nameFlag(flags *flag.FlagSet) (*string, error) {
	checkout, err := tools.Checkout()
	if err != nil {
		return nil, err
	}
	return flags.String("name", state.DefaultName(checkout), "name of the cluster"), nil
}

func upCommand() command {
	return command{
		name:  "up",
		args:  "[--name NAME] [--nodes N] [--zones N] [--images=false]",
		short: "Start a Kubernetes, or repair one, and print its kubeconfig",
		long: "On a running cluster it starts only what is missing. Building all programs the first time takes about\n" +
			"20 minutes on two cores, the images 4 minutes; both stay in the cache.",
		run: runUp,
	}
}

func runUp(flags *flag.FlagSet, args []string) error {
	name, err := nameFlag(flags)
	if err != nil {
		return err
	}
	nodes := flags.Int("nodes", 0, "number of nodes; 0 keeps what the cluster has, a new one gets 1")
	zones := flags.Int("zones", 0, "spread the nodes over that many zones (label topology.kubernetes.io/zone); 0 sets no label")
	withImages := flags.Bool("images", true, "build the RabbitMQ images and have them on every node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := host.Root("a local cluster"); err != nil {
		return err
	}
	builder, err := tools.NewBuilder()
	if err != nil {
		return err
	}
	kubeconfig, err := cluster.Up(builder, cluster.Options{Name: *name, Nodes: *nodes, Zones: *zones, Images: *withImages})
	if err != nil {
		return err
	}
	progress.Say("cluster %s is ready: export KUBECONFIG=%s", *name, kubeconfig)
	fmt.Println(kubeconfig)
	return nil
}

func downCommand() command {
	return command{
		name:  "down",
		args:  "[--name NAME]",
		short: "End a cluster and remove all of it",
		run: func(flags *flag.FlagSet, args []string) error {
			name, err := nameFlag(flags)
			if err != nil {
				return err
			}
			if err := flags.Parse(args); err != nil {
				return err
			}
			if err := host.Root("a local cluster"); err != nil {
				return err
			}
			return cluster.Down(*name)
		},
	}
}

func kubeconfigCommand() command {
	return command{
		name:  "kubeconfig",
		args:  "[--name NAME]",
		short: "Print the path of a cluster's kubeconfig",
		run: func(flags *flag.FlagSet, args []string) error {
			name, err := nameFlag(flags)
			if err != nil {
				return err
			}
			if err := flags.Parse(args); err != nil {
				return err
			}
			path, err := cluster.KubeconfigOf(*name)
			if err != nil {
				return err
			}
			fmt.Println(path)
			return nil
		},
	}
}

func loadCommand() command {
	return command{
		name:  "load",
		args:  "[--name NAME] FILE.tar...",
		short: "Import images (docker-archive) into every node of a cluster",
		run: func(flags *flag.FlagSet, args []string) error {
			name, err := nameFlag(flags)
			if err != nil {
				return err
			}
			if err := flags.Parse(args); err != nil {
				return err
			}
			if flags.NArg() == 0 {
				flags.Usage()
				return fmt.Errorf("load needs a file")
			}
			builder, err := tools.NewBuilder()
			if err != nil {
				return err
			}
			for _, file := range flags.Args() {
				if err := cluster.Load(builder, *name, file); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func statusCommand() command {
	return command{
		name:  "status",
		args:  "[--name NAME] [--json]",
		short: "Show what runs of a cluster, its files and its logs",
		run:   runStatus,
	}
}

func runStatus(flags *flag.FlagSet, args []string) error {
	name, err := nameFlag(flags)
	if err != nil {
		return err
	}
	asJSON := flags.Bool("json", false, "print JSON, for tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	status, err := cluster.Look(*name)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(os.Stdout).Encode(status)
	}
	if status.Server == "" {
		names, err := cluster.Names()
		if err != nil {
			return err
		}
		fmt.Printf("there is no cluster %s; clusters of this machine: %v\n", *name, names)
		return nil
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(out, "cluster\t%s\nserver\t%s\nkubeconfig\t%s\naudit log\t%s\n\nPROCESS\tPID\tALIVE\tLOG\n",
		status.Name, status.Server, status.Kubeconfig, status.AuditLog)
	for _, p := range status.Processes {
		_, _ = fmt.Fprintf(out, "%s\t%d\t%t\t%s\n", p.Name, p.PID, p.Alive, p.Log)
	}
	_, _ = fmt.Fprintf(out, "\nNODE\tPID\tSTATE\tADDRESS\tPODS\tLINK\tPROCESSES\tLOGS\n")
	for _, n := range status.Nodes {
		_, _ = fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\t%v\t%s\n", n.Name, n.PID, n.State, n.Address, n.Pods, n.Link, n.Processes, n.Logs)
	}
	return out.Flush()
}
