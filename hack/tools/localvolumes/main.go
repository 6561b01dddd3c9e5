// Command localvolumes provisions `local` PersistentVolumes for the local cluster: one directory per
// volume, on the node that the scheduler selected, removed with the volume. It runs as a process of the
// host, which all nodes of the local cluster share, so that it can make the directories of every node.
// A hostPath volume would not do: kubelet does not apply fsGroup to it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	root := flag.String("root", "", "`folder` in which each volume gets a directory")
	name := flag.String("provisioner", "warren.dev/local", "name of the provisioner, as in the StorageClass")
	flag.Parse()
	if err := run(*kubeconfig, *root, *name); err != nil {
		fmt.Fprintln(os.Stderr, "localvolumes:", err)
		os.Exit(1)
	}
}

// run serves claims until the process is told to stop.
func run(kubeconfig, root, name string) error {
	if kubeconfig == "" || !filepath.IsAbs(root) {
		return fmt.Errorf("-kubeconfig and an absolute -root are needed")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	controller.NewProvisionController(ctx, client, name, directories{root: filepath.Clean(root)},
		controller.LeaderElection(false),
	).Run(ctx)
	return nil
}

// directories keeps each volume in a directory of root named like its PersistentVolume.
type directories struct{ root string }

// Provision makes the directory and describes the volume, bound to the selected node.
func (d directories) Provision(_ context.Context, options controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim selectors are not supported")
	}
	if options.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished,
			fmt.Errorf("no node is selected: the StorageClass needs volumeBindingMode WaitForFirstConsumer")
	}
	path := filepath.Join(d.root, options.PVName)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// Any user of a pod may write, like on other provisioners of directories; fsGroup narrows it. A plain
	// MkdirAll is subject to the umask, hence the separate call.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return volume(options, path), controller.ProvisioningFinished, nil
}

// Delete removes the directory of a volume, and nothing outside the root.
func (d directories) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	if pv.Spec.Local == nil || filepath.Dir(filepath.Clean(pv.Spec.Local.Path)) != d.root {
		return &controller.IgnoredError{Reason: "the volume is not in this provisioner's folder"}
	}
	return os.RemoveAll(pv.Spec.Local.Path)
}

// volume is the PersistentVolume for a directory on a node.
func volume(options controller.ProvisionOptions, path string) *v1.PersistentVolume {
	claim := options.PVC
	mode := v1.PersistentVolumeFilesystem
	policy := v1.PersistentVolumeReclaimDelete
	if options.StorageClass.ReclaimPolicy != nil {
		policy = *options.StorageClass.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity: v1.ResourceList{
				v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage],
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
					Key:      v1.LabelHostname,
					Operator: v1.NodeSelectorOpIn,
					Values:   []string{options.SelectedNodeName},
				}}}},
			}},
		},
	}
}
