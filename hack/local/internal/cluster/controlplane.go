package cluster

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

// marker is the environment variable by which every process of a cluster is found, also when the state
// file was not written any more.
const marker = "WARREN_LOCAL_CLUSTER"

// component is one process of the control plane.
type component struct {
	name   string
	args   []string
	config string // content of its configuration file, so that a change of it restarts the component
}

// provisioner is the name in the StorageClass.
const provisioner = "warren.dev/local"

// auditPolicy records who wrote what, and no reads.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// corefile serves the names of the cluster on the bridge and nothing else. Short times to live let a name
// follow its pod at once.
func (c *Cluster) corefile() string {
	return fmt.Sprintf(`. {
    bind %s
    errors
    ready %s:8181
    cache 1
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods verified
        ttl 1
    }
}
`, c.Slot.Host(), c.Slot.Loopback(), c.kubeconfigOf("coredns"))
}

// etcd is the first component; it listens on loopback only.
func (c *Cluster) etcd() component {
	client, peer := fmt.Sprintf("http://%s:2379", c.Slot.Loopback()), fmt.Sprintf("http://%s:2380", c.Slot.Loopback())
	return component{name: "etcd", args: []string{
		"--name=local", "--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=local=" + peer,
		"--quota-backend-bytes=4294967296",
	}}
}

// apiserver is the second component.
func (c *Cluster) apiserver() component {
	pki := func(name string) string { return c.path("pki", name) }
	host := c.Slot.Host().String()
	return component{name: "kube-apiserver", config: auditPolicy, args: []string{
		"--etcd-servers=http://" + c.Slot.Loopback().String() + ":2379",
		"--bind-address=" + host, "--advertise-address=" + host, "--secure-port=6443",
		"--service-cluster-ip-range=" + c.Slot.Services().String(),
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-accounts.key"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--audit-policy-file=" + c.path("conf", "kube-apiserver"), "--audit-log-path=" + c.AuditLog(),
		"--audit-log-maxsize=1024", "--audit-log-maxbackup=1", "--profiling=false",
	}}
}

// followers are the components that need the API server.
func (c *Cluster) followers() []component {
	loopback := c.Slot.Loopback().String()
	return []component{
		{name: "kube-controller-manager", args: []string{
			"--kubeconfig=" + c.kubeconfigOf("kube-controller-manager"), "--bind-address=" + loopback, "--leader-elect=false",
			"--use-service-account-credentials=true", "--root-ca-file=" + c.path("pki", "ca.crt"),
			"--service-account-private-key-file=" + c.path("pki", "service-accounts.key"),
			"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"), "--cluster-signing-key-file=" + c.path("pki", "ca.key"),
			"--allocate-node-cidrs=false", "--profiling=false",
		}},
		{name: "kube-scheduler", args: []string{
			"--kubeconfig=" + c.kubeconfigOf("kube-scheduler"), "--bind-address=" + loopback, "--leader-elect=false", "--profiling=false",
		}},
		{name: "coredns", args: []string{"-conf", c.path("conf", "coredns")}, config: c.corefile()},
		{name: "localvolumes", args: []string{
			"-kubeconfig", c.kubeconfigOf("localvolumes"), "-root", c.path("volumes"), "-provisioner", provisioner,
		}},
	}
}

// ensure starts a component unless it runs with the same program, arguments and configuration.
func (c *Cluster) ensure(builder tools.Builder, want component) (started bool, err error) {
	path, err := builder.Path(want.name)
	if err != nil {
		return false, err
	}
	parts := [][]byte{[]byte(path), []byte(want.config)}
	for _, arg := range want.args {
		parts = append(parts, []byte(arg))
	}
	hash := cache.Key(parts...)
	old := c.Processes[want.name]
	if old.Alive() && old.Hash == hash {
		return false, nil
	}
	if err := old.Stop(5 * time.Second); err != nil {
		return false, err
	}
	if want.config != "" {
		if err := state.WriteFile(c.path("conf", want.name), []byte(want.config), 0o644); err != nil {
			return false, err
		}
	}
	id, err := proc.Start(proc.Spec{Path: path, Args: want.args, Log: c.log(want.name), Env: []string{marker + "=" + c.Dir}})
	if err != nil {
		return false, err
	}
	c.Processes[want.name] = Process{Identity: id, Hash: hash, Began: time.Now()}
	return true, c.save()
}

// await waits until a check succeeds, as long as the process of the host that it depends on lives.
func (c *Cluster) await(process string, limit time.Duration, check func() error) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if last = check(); last == nil {
			return nil
		}
		if !c.Processes[process].Alive() {
			return fmt.Errorf("%s has ended\n%s", process, proc.Tail(c.log(process), 25))
		}
	}
	return fmt.Errorf("%s: not ready after %s: %w\n%s", process, limit, last, proc.Tail(c.log(process), 25))
}
