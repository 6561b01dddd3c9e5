// Command warren tunes and shards RabbitMQ clusters on Kubernetes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set by the build.
var version = "dev"

func main() {
	root := &cobra.Command{
		Use:           "warren",
		Short:         "Tunes and shards RabbitMQ clusters on Kubernetes",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.AddCommand(managerCommand(), benchCommand())
	if err := root.ExecuteContext(untilSignalled(os.Args[1:])); err != nil {
		code := 1
		var exit exitError
		if errors.As(err, &exit) {
			code = exit.code
		}
		if err.Error() != "" {
			fmt.Fprintln(os.Stderr, "warren:", err)
		}
		os.Exit(code)
	}
}

// untilSignalled ends with the first signal. A second one ends the program at once, but not a benchmark, which removes from
// the broker what it made: who runs it may signal its whole process group twice.
func untilSignalled(args []string) context.Context {
	if len(args) == 0 || args[0] != "bench" {
		return ctrl.SetupSignalHandler()
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	return ctx
}
