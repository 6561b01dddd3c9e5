// Command manifests has a real API server check what users apply: the samples, the kustomize default and what the chart
// renders. Nothing is stored: every object is a strict dry run, so that unknown fields, values out of range and CEL rules
// count. Pods of Deployments are checked against the restricted Pod Security Standard too.
//
// KUBEBUILDER_ASSETS names the folder with etcd, kube-apiserver and kubectl, HELM the program helm.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	samples = "config/samples"
	group   = "rabbitmq.warren.dev"
	// restricted is a namespace that only takes pods of the restricted Pod Security Standard.
	restricted = "restricted"
)

func main() {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "hack/verify/manifests:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	sources, err := sources()
	if err != nil {
		return err
	}
	server := &envtest.Environment{CRDDirectoryPaths: []string{"config/crd"}, ErrorIfCRDPathMissing: true}
	config, err := server.Start()
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	checker := checker{api: api}
	if err := checker.namespace(ctx, restricted, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}); err != nil {
		return err
	}
	var failures []error
	for _, source := range sources {
		checked, err := checker.source(ctx, source)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Printf("%-60s %d objects are valid\n", source.name, checked)
	}
	return errors.Join(append(failures, checker.bites(ctx))...)
}

// source is some YAML and where it is from.
type source struct {
	name    string
	objects []unstructured.Unstructured
}

func sources() ([]source, error) {
	var out []source
	err := filepath.WalkDir(samples, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := decode(content)
		out = append(out, source{path, objects})
		return err
	})
	if err != nil {
		return nil, err
	}
	helm := []string{os.Getenv("HELM"), "template", "warren", "charts/warren", "--namespace", "warren-system"}
	for name, command := range map[string][]string{
		"kubectl kustomize config/default":                 {filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", "config/default"},
		"kubectl kustomize config/namespaced":              {filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", "config/namespaced"},
		"helm template":                                    helm,
		"helm template with two replicas and more":         append(slices.Clone(helm), "--set", "replicas=2,log.debug=true,podLabels.team=a,nodeSelector.pool=a,priorityClassName=system-cluster-critical"),
		"helm template with watchNamespaces":               append(slices.Clone(helm), "--set", "watchNamespaces={a,b},crds.install=false"),
		"helm template with an account and pull secrets":   append(slices.Clone(helm), "--set", "serviceAccount.create=false,serviceAccount.name=mine,imagePullSecrets[0].name=pull"),
		"helm template of another release, without a role": append(slices.Clone(helm), "--set", "fullnameOverride=operator,rbac.create=false,metrics.service.create=false"),
	} {
		content, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, source{name, objects})
	}
	slices.SortStableFunc(out, func(a, b source) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return out, nil
}

// decode reads the documents of a YAML file.
func decode(content []byte) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// checker asks the API server.
type checker struct{ api client.Client }

func (c checker) source(ctx context.Context, s source) (checked int, err error) {
	if len(s.objects) == 0 {
		return 0, fmt.Errorf("%s: holds no object", s.name)
	}
	for i := range s.objects {
		object := &s.objects[i]
		if err := c.object(ctx, object); err != nil {
			return 0, fmt.Errorf("%s: %s %s: %w", s.name, object.GetKind(), object.GetName(), err)
		}
	}
	return len(s.objects), nil
}

func (c checker) object(ctx context.Context, object *unstructured.Unstructured) error {
	namespaced, err := c.api.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced {
		if object.GetNamespace() == "" {
			object.SetNamespace(corev1.NamespaceDefault)
		}
		if err := c.namespace(ctx, object.GetNamespace(), nil); err != nil {
			return err
		}
	}
	if object.GetKind() == "CustomResourceDefinition" {
		// It exists already.
		return c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.ForceOwnership, client.FieldOwner("verify"))
	}
	if err := c.create(ctx, object); err != nil && (object.GetKind() != "Namespace" || !apierrors.IsAlreadyExists(err)) {
		return err
	}
	if object.GetKind() == "Deployment" {
		return c.podOf(ctx, object)
	}
	return nil
}

// podOf checks the pod of a Deployment against the restricted Pod Security Standard.
func (c checker) podOf(ctx context.Context, deployment *unstructured.Unstructured) error {
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	if err != nil {
		return err
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName("pod")
	pod.SetNamespace(restricted)
	return c.create(ctx, pod)
}

func (c checker) create(ctx context.Context, object *unstructured.Unstructured) error {
	return c.api.Create(ctx, object.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// namespace makes a namespace for real: a dry run in one that does not exist fails.
func (c checker) namespace(ctx context.Context, name string, labels map[string]string) error {
	err := c.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	return client.IgnoreAlreadyExists(err)
}

// bites sees that the check would find a fault: an unknown field, a value that a CEL rule refuses, a pod with privileges.
func (c checker) bites(ctx context.Context) error {
	for what, text := range map[string]string{
		"an unknown field": `{"apiVersion": "` + group + `/v1alpha1", "kind": "WorkloadCluster", "metadata": {"name": "bad"},
			"spec": {"workloadClass": "a", "version": "4.3", "colour": "blue"}}`,
		"a cluster without a version": `{"apiVersion": "` + group + `/v1alpha1", "kind": "WorkloadCluster", "metadata": {"name": "bad"},
			"spec": {"workloadClass": "a"}}`,
		"a pod that is not restricted": `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "` + restricted + `"},
			"spec": {"containers": [{"name": "a", "image": "a"}]}}`,
	} {
		objects, err := decode([]byte(text))
		if err != nil {
			return err
		}
		err = c.object(ctx, &objects[0])
		if err == nil {
			return fmt.Errorf("%s was accepted, so that this check proves nothing", what)
		}
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}
