package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/tools"
)

func toolsCommand() command {
	return command{
		name:  "tools",
		args:  "[--path] [name...]",
		short: "Build programs of the tools module into the cache and print their folders",
		long: "Without names it builds all of them. The cache is keyed by content, so that a second call is cheap.\n" +
			"Names: " + strings.Join(tools.Names(), ", ") + ".",
		run: runTools,
	}
}

func runTools(flags *flag.FlagSet, args []string) error {
	path := flags.Bool("path", false, "print the path of each named program instead of the folders")
	if err := flags.Parse(args); err != nil {
		return err
	}
	builder, err := tools.NewBuilder()
	if err != nil {
		return err
	}
	if *path {
		return printPaths(builder, flags.Args())
	}
	wanted, err := wantedTools(flags.Args())
	if err != nil {
		return err
	}
	for _, tool := range wanted {
		dir, err := builder.Dir(tool)
		if err != nil {
			return err
		}
		fmt.Println(dir)
	}
	return nil
}

// wantedTools are the tools that hold the named programs, each once; all without names.
func wantedTools(names []string) ([]tools.Tool, error) {
	if len(names) == 0 {
		return tools.All(), nil
	}
	var wanted []tools.Tool
	seen := map[string]bool{}
	for _, name := range names {
		tool, err := tools.Find(name)
		if err != nil {
			return nil, err
		}
		if !seen[tool.Name] {
			seen[tool.Name] = true
			wanted = append(wanted, tool)
		}
	}
	return wanted, nil
}

func printPaths(builder tools.Builder, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("tools --path needs the name of a program")
	}
	for _, name := range names {
		path, err := builder.Path(name)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

func assetsCommand() command {
	return command{
		name:  "assets",
		short: "Build etcd, kube-apiserver and kubectl, and print the folder for KUBEBUILDER_ASSETS",
		run: func(flags *flag.FlagSet, args []string) error {
			if err := flags.Parse(args); err != nil {
				return err
			}
			builder, err := tools.NewBuilder()
			if err != nil {
				return err
			}
			dir, err := builder.Assets()
			if err != nil {
				return err
			}
			fmt.Println(dir)
			return nil
		},
	}
}
