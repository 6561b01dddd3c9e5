package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/warren-mq/warren/hack/local/internal/state"
)

// server is the address of the API server.
func (c *Cluster) server() string { return fmt.Sprintf("https://%s:6443", c.Slot.Host()) }

// certificates makes all certificates and kubeconfigs that are missing.
func (c *Cluster) certificates(nodes int) error {
	ca, err := openAuthority(c.path("pki"))
	if err != nil {
		return err
	}
	subjects := c.subjects()
	for number := 1; number <= nodes; number++ {
		subjects = append(subjects, c.nodeSubject(number))
	}
	for _, s := range subjects {
		if err := ca.issue(s); err != nil {
			return fmt.Errorf("certificate %s: %w", s.name, err)
		}
		if s.name == "apiserver" || s.name == "kubelet-client" {
			continue // no clients with a kubeconfig
		}
		if err := c.writeKubeconfig(s.name); err != nil {
			return err
		}
	}
	admin, err := os.ReadFile(c.kubeconfigOf("admin"))
	if err != nil {
		return err
	}
	return state.WriteFile(c.Kubeconfig(), admin, 0o600)
}

// kubeconfigOf is the kubeconfig of a client.
func (c *Cluster) kubeconfigOf(name string) string { return c.path("pki", name+".kubeconfig") }

// writeKubeconfig writes the kubeconfig of a client with everything inline, so that it can be copied.
func (c *Cluster) writeKubeconfig(name string) error {
	var parts []any
	for _, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		content, err := os.ReadFile(c.path("pki", file))
		if err != nil {
			return err
		}
		parts = append(parts, base64.StdEncoding.EncodeToString(content))
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: %[3]s
    certificate-authority-data: %[4]s
users:
- name: %[2]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[2]s
`, append([]any{"warren-" + c.Name, name, c.server()}, parts...)...)
	path := c.kubeconfigOf(name)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return state.WriteFile(path, []byte(text), 0o600)
}
