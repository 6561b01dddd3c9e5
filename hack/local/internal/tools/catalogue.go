// Package tools builds the programs of the tools module (hack/tools), each once per content.
package tools

import (
	"fmt"
	"sort"
	"strings"
)

// Kubernetes is the version that the tools module pins; the programs report it.
const Kubernetes = "v1.37.2"

// Tool is one program of the tools module.
type Tool struct {
	Name    string   // name of the program
	Package string   // what to build, from the folder of the tools module
	LDFlags string   // for the linker
	Links   []string // further names under which the program acts as something else
	Takes   string   // how long the first build takes on two cores
}

// catalogue lists all tools by name. The flags of "kube" decide whether Go's build cache is warm: keep them.
var catalogue = map[string]Tool{
	"kube": {
		Package: "./kube",
		LDFlags: kubeFlags(),
		Links:   []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"},
		Takes:   "about 15 minutes on two cores",
	},
	"etcd":                    {Package: "go.etcd.io/etcd/server/v3", Takes: "about 1 minute"},
	"containerd":              {Package: "github.com/containerd/containerd/v2/cmd/containerd", Takes: "about 2 minutes"},
	"containerd-shim-runc-v2": {Package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", Takes: "under 1 minute"},
	"ctr":                     {Package: "github.com/containerd/containerd/v2/cmd/ctr", Takes: "about 1 minute"},
	"coredns":                 {Package: "./coredns", Takes: "about 1 minute"},
	"localvolumes":            {Package: "./localvolumes", Takes: "under 1 minute"},
	"helm":                    {Package: "helm.sh/helm/v4/cmd/helm", Takes: "about 2 minutes"},
	"controller-gen":          {Package: "sigs.k8s.io/controller-tools/cmd/controller-gen", Takes: "under 1 minute"},
	"golangci-lint":           {Package: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint", Takes: "about 5 minutes"},
}

// kubeFlags are the linker flags that make Kubernetes report its version.
func kubeFlags() string {
	numbers := strings.Split(strings.TrimPrefix(Kubernetes, "v"), ".")
	const version = " -X k8s.io/component-base/version."
	return "-s -w" + version + "gitVersion=" + Kubernetes + version + "gitMajor=" + numbers[0] + version + "gitMinor=" + numbers[1]
}

// Names lists all tools and the further names of a tool, sorted.
func Names() []string {
	var names []string
	for name, tool := range catalogue {
		names = append(names, name)
		names = append(names, tool.Links...)
	}
	sort.Strings(names)
	return names
}

// Find returns the tool that holds the program of that name.
func Find(program string) (Tool, error) {
	for name, tool := range catalogue {
		tool.Name = name
		if name == program {
			return tool, nil
		}
		for _, link := range tool.Links {
			if link == program {
				return tool, nil
			}
		}
	}
	return Tool{}, fmt.Errorf("no tool is named %q; there are %s", program, strings.Join(Names(), ", "))
}

// All returns every tool, the longest build first.
func All() []Tool {
	order := []string{"kube", "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "coredns", "localvolumes",
		"controller-gen", "helm", "golangci-lint"}
	all := make([]Tool, 0, len(order))
	for _, name := range order {
		tool := catalogue[name]
		tool.Name = name
		all = append(all, tool)
	}
	return all
}
