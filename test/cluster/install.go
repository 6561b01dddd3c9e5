package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/warren-mq/warren/hack/progress"
)

// buildWarren builds the static program and its image, and answers the image's name. Its tag follows from the
// program's bytes: the same program is not rolled out again, another one is.
func (c *Cluster) buildWarren(ctx context.Context) (name string, err error) {
	program, err := c.folder("warren")
	if err != nil {
		return "", err
	}
	err = progress.Step("build Warren", func() error {
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".")
		command.Dir, command.Env, command.Stderr = c.Root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux"), os.Stderr
		return command.Run()
	})
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	name = "localhost/warren/warren:" + hex.EncodeToString(sum[:6])
	return name, progress.Step("put image "+name+" on the nodes", func() error {
		archive := program + ".tar"
		if _, err := c.run(ctx, "go", "run", "./hack/local", "image", "--binary", program, "--tag", name, "-o", archive); err != nil {
			return err
		}
		return c.backend.load(ctx, archive)
	})
}

// install installs the chart of the checkout, or upgrades it, and waits until Warren runs.
func (c *Cluster) install(ctx context.Context) error {
	images, err := c.backend.images(ctx)
	if err != nil {
		return err
	}
	args := []string{"upgrade", "--install", Release, "charts/warren", "--namespace", Namespace, "--create-namespace",
		"--set", "pollInterval=" + PollInterval.String(), "--set", "benchmark.brokerCgroups=true", "--wait", "--timeout", "3m"}
	if images.warren != "" {
		repository, tag := splitImage(images.warren)
		args = append(args, "--set", "image.repository="+repository, "--set-string", "image.tag="+tag)
	}
	if images.rabbitmq != "" {
		args = append(args, "--set", "rabbitmq.image="+strings.NewReplacer("{", `\{`, "}", `\}`, ",", `\,`).Replace(images.rabbitmq))
	}
	return progress.Step("install Warren with its chart", func() error {
		_, err := c.helm(ctx, args...)
		if err == nil || !strings.Contains(err.Error(), "another operation") {
			return err
		}
		progress.Say("an earlier installation was broken off: starting over")
		if _, err := c.helm(ctx, "uninstall", Release, "--namespace", Namespace, "--wait"); err != nil {
			return err
		}
		_, err = c.helm(ctx, args...)
		return err
	})
}

// splitImage parts a name from its tag. A colon before the last slash belongs to a port.
func splitImage(image string) (repository, tag string) {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, "latest"
}

func (c *Cluster) helm(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "helm", args...)
}

// Kubectl runs kubectl on this cluster.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "kubectl", args...)
}

// tool runs a client with the cluster's kubeconfig: the pinned one where Kubernetes is built anyway, else that of the
// user, if there is one.
func (c *Cluster) tool(ctx context.Context, name string, args ...string) (string, error) {
	if c.Kubeconfig == "" {
		return "", errors.New("the cluster has no kubeconfig yet")
	}
	path, err := exec.LookPath(name)
	if c.Kind == "local" || err != nil {
		out, err := c.run(ctx, "go", "run", "./hack/local", "tools", "--path", name)
		if err != nil {
			return "", fmt.Errorf("build %s: %w", name, err)
		}
		path = strings.TrimSpace(out)
	}
	return c.run(ctx, path, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

// RemoveNamespaces removes namespaces that exist with all in them. Clusters go first: Kubernetes would delete their pods
// before anybody can tell these that they need not wait for one another. Then their pods: Kubernetes looks at a namespace that has pods only
// after half of the time that these may take to end.
func (c *Cluster) RemoveNamespaces(ctx context.Context, names ...string) error {
	for _, name := range names {
		for _, args := range [][]string{
			{"delete", "workloadclusters", "--all", "--namespace", name, "--timeout", "3m"},
			{"wait", "--for=delete", "pods", "--all", "--namespace", name, "--timeout", "3m"},
			{"delete", "namespace", name, "--ignore-not-found", "--timeout", "10m"},
		} {
			_, err := c.Kubectl(ctx, args...)
			if err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") &&
				!strings.Contains(err.Error(), "no matching resources found") {
				return err
			}
		}
	}
	return nil
}
