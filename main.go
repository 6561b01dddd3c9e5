// Command warren tunes and shards RabbitMQ clusters on Kubernetes.
package main

import (
	"errors"
	"fmt"
	"os"

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
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
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
