package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/warren-mq/warren/hack/progress"
)

// backend is a way to have a Kubernetes.
type backend interface {
	up(ctx context.Context) error
	kubeconfig(ctx context.Context) (string, error)
	// load makes an image archive known to every node.
	load(ctx context.Context, archive string) error
	// images that the chart is given.
	images(ctx context.Context) (images, error)
	// auditLog is a file, or "" if there is none that can be read.
	auditLog(ctx context.Context) (string, error)
	down(ctx context.Context, namespaces []string) error
}

// images are Warren's image and the template of RabbitMQ's. An empty one is the chart's own.
type images struct {
	warren, rabbitmq string
}

// local is a Kubernetes made by hack/local.
type local struct{ *Cluster }

func (l local) command(ctx context.Context, args ...string) (string, error) {
	return l.loud(ctx, "go", append([]string{"run", "./hack/local"}, args...)...)
}

func (l local) up(ctx context.Context) error {
	args := []string{"up", "--name", l.Name}
	if l.Nodes != "" {
		args = append(args, "--nodes", l.Nodes)
	}
	_, err := l.command(ctx, args...)
	return err
}

func (l local) kubeconfig(ctx context.Context) (string, error) {
	out, err := l.run(ctx, "go", "run", "./hack/local", "kubeconfig", "--name", l.Name)
	return strings.TrimSpace(out), err
}

func (l local) load(ctx context.Context, archive string) error {
	_, err := l.command(ctx, "load", "--name", l.Name, archive)
	return err
}

func (l local) images(ctx context.Context) (images, error) {
	warren, err := l.buildWarren(ctx)
	return images{warren: warren, rabbitmq: "localhost/warren/rabbitmq:{version}-management"}, err
}

func (l local) auditLog(ctx context.Context) (string, error) {
	out, err := l.run(ctx, "go", "run", "./hack/local", "status", "--name", l.Name, "--json")
	if err != nil {
		return "", err
	}
	var status struct{ AuditLog string }
	return status.AuditLog, errors.Join(json.Unmarshal([]byte(out), &status), needed("path of the audit log", status.AuditLog))
}

func needed(what, value string) error {
	if value == "" {
		return fmt.Errorf("hack/local does not say the %s", what)
	}
	return nil
}

func (l local) down(ctx context.Context, _ []string) error {
	_, err := l.command(ctx, "down", "--name", l.Name)
	return err
}

// kind is a Kubernetes in Docker.
type kind struct{ *Cluster }

func (k kind) up(ctx context.Context) error {
	if _, err := exec.LookPath("kind"); err != nil {
		return errors.New("CLUSTER=kind needs the program kind, and Docker or Podman: see https://kind.sigs.k8s.io")
	}
	names, err := k.run(ctx, "kind", "get", "clusters")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(names), k.Name) {
		return nil
	}
	config, err := k.folder("kind.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(kindConfig(k.Nodes)), 0o600); err != nil {
		return err
	}
	return progress.Step("start kind cluster "+k.Name, func() error {
		_, err := k.loud(ctx, "kind", "create", "cluster", "--name", k.Name, "--config", config, "--wait", "3m",
			"--kubeconfig", filepath.Join(filepath.Dir(config), "kubeconfig"))
		return err
	})
}

// kindConfig asks for that many nodes, the first of which runs the control plane and pods.
func kindConfig(nodes string) string {
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
	var n int
	if _, err := fmt.Sscan(nodes, &n); err == nil {
		text += strings.Repeat("- role: worker\n", max(0, n-1))
	}
	return text
}

func (k kind) kubeconfig(ctx context.Context) (string, error) {
	path, err := k.folder("kubeconfig")
	if err != nil {
		return "", err
	}
	_, err = k.run(ctx, "kind", "export", "kubeconfig", "--name", k.Name, "--kubeconfig", path)
	return path, err
}

func (k kind) load(ctx context.Context, archive string) error {
	_, err := k.loud(ctx, "kind", "load", "image-archive", archive, "--name", k.Name)
	return err
}

func (k kind) images(ctx context.Context) (images, error) {
	warren, err := k.buildWarren(ctx)
	return images{warren: warren, rabbitmq: os.Getenv("RABBITMQ_IMAGE")}, err
}

func (kind) auditLog(context.Context) (string, error) { return "", nil }

func (k kind) down(ctx context.Context, _ []string) error {
	path, err := k.folder("kubeconfig")
	if err != nil {
		return err
	}
	_, err = k.loud(ctx, "kind", "delete", "cluster", "--name", k.Name, "--kubeconfig", path)
	return err
}

// current is the Kubernetes that the user's kubeconfig names. Images cannot be loaded into it: WARREN_IMAGE and
// RABBITMQ_IMAGE say where they are.
type current struct{ *Cluster }

func (current) up(context.Context) error { return nil }

// kubeconfig writes the current context to a file of its own, so that a later switch of contexts changes nothing here.
func (c current) kubeconfig(context.Context) (string, error) {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return "", err
	}
	if config.CurrentContext == "" {
		return "", errors.New("CLUSTER=current: the kubeconfig has no current context")
	}
	if err := errors.Join(api.MinifyConfig(config), api.FlattenConfig(config)); err != nil {
		return "", err
	}
	progress.Say("CLUSTER=current: the context is %s", config.CurrentContext)
	path, err := c.folder("kubeconfig")
	if err != nil {
		return "", err
	}
	return path, clientcmd.WriteToFile(*config, path)
}

func (current) load(context.Context, string) error { return nil }

func (current) images(context.Context) (images, error) {
	return images{warren: os.Getenv("WARREN_IMAGE"), rabbitmq: os.Getenv("RABBITMQ_IMAGE")}, nil
}

func (current) auditLog(context.Context) (string, error) { return "", nil }

// down removes what was put there. Warren goes last: it lets the objects in the namespaces go.
func (c current) down(ctx context.Context, namespaces []string) error {
	if err := c.Connect(ctx); err != nil {
		return err
	}
	if err := c.RemoveNamespaces(ctx, namespaces...); err != nil {
		return err
	}
	_, err := c.helm(ctx, "uninstall", Release, "--namespace", Namespace, "--ignore-not-found", "--wait", "--timeout", "3m")
	return err
}

// folder is where files of this cluster lie; it answers the path of one of them.
func (c *Cluster) folder(file string) (string, error) {
	dir := filepath.Join(c.Root, "out", "cluster-"+c.Kind+"-"+c.Purpose)
	return filepath.Join(dir, file), os.MkdirAll(dir, 0o755)
}
