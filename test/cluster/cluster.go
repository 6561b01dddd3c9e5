// Package cluster brings up a Kubernetes with Warren in it, for the demo and the end-to-end tests, and speaks to what
// runs there: to Kubernetes, into pods, to the brokers' ports.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Where Warren is installed.
const (
	Namespace = "warren-system"
	Release   = "warren"
	// ServiceAccount is the user whose writes are Warren's.
	ServiceAccount = "system:serviceaccount:" + Namespace + ":" + Release
	// PollInterval is how often the installed Warren looks at brokers.
	PollInterval = 10 * time.Second
)

// Options say which Kubernetes.
type Options struct {
	// Kind is local (hack/local), kind, or current (the current context of the user's kubeconfig).
	Kind string
	// Nodes is a number; empty keeps what there is, and one for a new cluster.
	Nodes string
	// Purpose tells clusters of one checkout apart: demo, e2e.
	Purpose string
}

// FromEnvironment reads CLUSTER and NODES, as the Makefile sets them, and PURPOSE, with which two runs of one checkout have
// a cluster each.
func FromEnvironment(purpose string) Options {
	o := Options{Kind: os.Getenv("CLUSTER"), Nodes: os.Getenv("NODES"), Purpose: os.Getenv("PURPOSE")}
	if o.Kind == "" {
		o.Kind = "local"
	}
	if o.Purpose == "" {
		o.Purpose = purpose
	}
	return o
}

// Cluster is a running Kubernetes.
type Cluster struct {
	Options
	// Root of the checkout.
	Root string
	// Name of the cluster; empty for current.
	Name string
	// Kubeconfig is the file that every command is given.
	Kubeconfig string

	Config    *rest.Config
	Client    client.WithWatch
	Clientset kubernetes.Interface

	backend backend
}

// New describes a cluster without starting or asking anything.
func New(o Options) (*Cluster, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(root))
	c := &Cluster{Options: o, Root: root, Name: fmt.Sprintf("warren-%s-%s", o.Purpose, hex.EncodeToString(sum[:3]))}
	switch o.Kind {
	case "local":
		c.backend = local{c}
	case "kind":
		c.backend = kind{c}
	case "current":
		c.Name, c.backend = "", current{c}
	default:
		return nil, fmt.Errorf("CLUSTER=%s: use local, kind or current", o.Kind)
	}
	return c, nil
}

// Start starts the cluster or repairs it, installs Warren as it is in the checkout, and waits until it runs. It may be
// called again and again.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := c.backend.up(ctx); err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	return c, c.install(ctx)
}

// Connect finds the kubeconfig of a cluster that runs and makes its clients.
func (c *Cluster) Connect(ctx context.Context) error {
	var err error
	if c.Kubeconfig, err = c.backend.kubeconfig(ctx); err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	c.Config.QPS = -1 // the API server's own fairness is enough
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if c.Client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	c.Clientset, err = kubernetes.NewForConfig(c.Config)
	return err
}

// Down removes the cluster, or from a cluster that is not ours the namespaces and Warren.
func (c *Cluster) Down(ctx context.Context, namespaces ...string) error {
	return c.backend.down(ctx, namespaces)
}

// AuditLog is the API server's log of write requests, or "" where it cannot be read.
func (c *Cluster) AuditLog(ctx context.Context) (string, error) { return c.backend.auditLog(ctx) }

// checkout is the folder of Warren's go.mod, above the working folder.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/warren-mq/warren\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run this inside a checkout of Warren")
		}
		dir = up
	}
}
