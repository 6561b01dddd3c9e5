package desired

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/schedule"
)

// VersionPlaceholder stands for the version in an image template.
const VersionPlaceholder = "{version}"

// Resolved is what the spec's version and image mean.
type Resolved struct {
	Image        string
	Capabilities broker.Capabilities
}

// Resolve answers which image the nodes run and what it can do. template is the image that a version stands for, with
// VersionPlaceholder in it. It returns one sentence for each fault that no schema can see; with any, nothing is built.
func Resolve(c *v1alpha1.WorkloadCluster, template string) (Resolved, []string) {
	var faults []string
	resolved, err := resolveImage(c.Spec, template)
	if err != nil {
		faults = append(faults, err.Error())
	} else if runs, err := broker.ParseVersion(c.Status.Version); err == nil && runs.Line() != resolved.Capabilities.Version.Line() {
		faults = append(faults, fmt.Sprintf("the cluster runs RabbitMQ %s, and moving it to %s is not supported: create a second WorkloadCluster and move the queues",
			runs, resolved.Capabilities.Version))
	} else {
		faults = append(faults, configFaults(c.Spec, resolved.Capabilities)...)
	}
	if d := c.Spec.Defaults; err == nil && d != nil && d.QueueType == v1alpha1.DefaultQuorum && !resolved.Capabilities.DefaultQueueType {
		faults = append(faults, fmt.Sprintf("defaults.queueType Quorum needs RabbitMQ 3.11.1 or later, and this is %s: leave it out, and have clients say x-queue-type",
			resolved.Capabilities.Version))
	}
	return resolved, slices.Concat(faults, figureFaults(c.Spec), podFaults(c))
}

// most is more than any node has; figures above it do not fit the arithmetic.
var most = resource.MustParse("1Ei")

// figureFaults says which figures no node can have. One that is missing altogether was not defaulted, so the schema in
// the API server does not know it.
func figureFaults(spec v1alpha1.WorkloadClusterSpec) []string {
	var faults []string
	check := func(field string, q resource.Quantity) {
		switch {
		case q.Sign() <= 0:
			faults = append(faults, fmt.Sprintf(
				"%s is %s: set more than 0 (if it is not set at all, the CustomResourceDefinitions are older than Warren)", field, &q))
		case q.Cmp(most) > 0:
			faults = append(faults, fmt.Sprintf("%s is %s, more than any node has", field, &q))
		}
	}
	if !slices.Contains(spec.Resources.Unlimited, v1alpha1.UnlimitedCPU) {
		check("resources.limits.cpu", spec.Resources.Limits.CPU)
	}
	if !slices.Contains(spec.Resources.Unlimited, v1alpha1.UnlimitedMemory) {
		check("resources.limits.memory", spec.Resources.Limits.Memory)
		if spec.Memory.HighWatermark <= 0 {
			faults = append(faults, "memory.highWatermark is not set, so every publisher would be blocked: the CustomResourceDefinitions are older than Warren")
		}
	}
	if spec.Replicas < 1 {
		faults = append(faults, "replicas is not set, and no node is to be stopped for that: the CustomResourceDefinitions are older than Warren")
	}
	if w := spec.Update.Window; w != nil {
		if _, err := schedule.Parse(w.Cron); err != nil {
			faults = append(faults, fmt.Sprintf("update.window.cron: %v", err))
		}
	}
	check("storage.size", spec.Storage.Size)
	if free := spec.Disk.FreeLimit; free != nil {
		check("disk.freeLimit", *free)
		if free.Cmp(spec.Storage.Size) >= 0 {
			faults = append(faults, fmt.Sprintf(
				"disk.freeLimit %s is not less than storage.size %s: the disk alarm would never clear", free, &spec.Storage.Size))
		}
	}
	return faults
}

func resolveImage(spec v1alpha1.WorkloadClusterSpec, template string) (Resolved, error) {
	version := spec.Version
	if spec.Image != "" {
		tagged, err := broker.ParseVersion(imageTag(spec.Image))
		switch {
		case version == "" && err != nil:
			return Resolved{}, fmt.Errorf("the tag of image %q does not begin with a version: set version too", spec.Image)
		case err == nil && !agree(version, tagged.String()):
			return Resolved{}, fmt.Errorf("version %q contradicts the tag of image %q", version, spec.Image)
		case err == nil && len(tagged.String()) > len(version):
			version = tagged.String() // the more exact of the two: what a line can do is what its newest patch can do
		}
	}
	v, err := broker.ParseVersion(version)
	if err != nil {
		return Resolved{}, err
	}
	capabilities, err := broker.CapabilitiesOf(v)
	if err != nil {
		return Resolved{}, err
	}
	image := spec.Image
	if image == "" {
		image = strings.ReplaceAll(template, VersionPlaceholder, version)
	}
	return Resolved{Image: image, Capabilities: capabilities}, nil
}

// agree tells whether two versions may be the same: one of them may name the line only, or nothing.
func agree(a, b string) bool {
	return strings.HasPrefix(a+".", b+".") || strings.HasPrefix(b+".", a+".") || a == ""
}

// imageTag is what follows the last colon of the last path segment, without a digest.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}
