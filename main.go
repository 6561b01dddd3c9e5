// Command warren tunes and shards RabbitMQ clusters on Kubernetes.
package main

import (
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
	root.AddCommand(managerCommand())
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "warren:", err)
		os.Exit(1)
	}
}
