package desired

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
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
	}
	if free, size := c.Spec.Disk.FreeLimit, c.Spec.Storage.Size; free != nil && free.Cmp(size) >= 0 {
		faults = append(faults, fmt.Sprintf(
			"disk.freeLimit %s is not less than storage.size %s: the disk alarm would never clear", free, &size))
	}
	return resolved, faults
}

func resolveImage(spec v1alpha1.WorkloadClusterSpec, template string) (Resolved, error) {
	version := spec.Version
	if spec.Image != "" {
		tagged, err := broker.ParseVersion(imageTag(spec.Image))
		switch {
		case version == "" && err != nil:
			return Resolved{}, fmt.Errorf("the tag of image %q does not begin with a version: set version too", spec.Image)
		case version == "":
			version = tagged.String()
		case err == nil && !strings.HasPrefix(version+".", tagged.Line()+"."):
			return Resolved{}, fmt.Errorf("version %q contradicts the tag of image %q", version, spec.Image)
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

// imageTag is what follows the last colon of the last path segment, without a digest.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}
