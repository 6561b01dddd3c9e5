package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// with is what users add and what Warren says, which wins.
func with(theirs, own map[string]string) map[string]string {
	if len(theirs) == 0 {
		return own
	}
	out := maps.Clone(theirs)
	maps.Copy(out, own)
	return out
}

func extraVolumes(extra []v1alpha1.ExtraVolume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range extra {
		out = append(out, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			ConfigMap: v.ConfigMap, Secret: v.Secret, EmptyDir: v.EmptyDir, PersistentVolumeClaim: v.PersistentVolumeClaim,
		}})
	}
	return out
}

func extraMounts(extra []v1alpha1.ExtraMount) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, m := range extra {
		out = append(out, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
	}
	return out
}

func extraContainers(extra []v1alpha1.ExtraContainer) []corev1.Container {
	var out []corev1.Container
	for _, e := range extra {
		out = append(out, corev1.Container{
			Name: e.Name, Image: e.Image, Command: e.Command, Args: e.Args, Env: e.Env, Ports: e.Ports,
			Resources: e.Resources, SecurityContext: containerSecurity(), VolumeMounts: extraMounts(e.VolumeMounts),
		})
	}
	return out
}

// podFaults says which additions to the pods collide with what Warren has there. A StatefulSet would be refused for most
// of them, but only after the objects before it were applied.
func podFaults(c *v1alpha1.WorkloadCluster) []string {
	var faults []string
	own := []string{volumeData}
	for _, v := range volumes(Input{Cluster: c}) {
		own = append(own, v.Name)
	}
	for _, v := range c.Spec.Pod.Volumes {
		if slices.Contains(own, v.Name) {
			faults = append(faults, fmt.Sprintf("pod.volumes: %s is the name of a volume of Warren's: give it another", v.Name))
		}
	}
	for _, m := range c.Spec.Pod.VolumeMounts {
		for _, o := range rabbitMounts() {
			if path := strings.TrimRight(m.MountPath, "/"); path == o.MountPath || strings.HasPrefix(o.MountPath, path+"/") {
				faults = append(faults, fmt.Sprintf("pod.volumeMounts: %s would hide %s, which RabbitMQ needs: choose another folder", m.MountPath, o.MountPath))
				break
			}
		}
	}
	names := map[string]bool{}
	for _, e := range slices.Concat(c.Spec.Pod.InitContainers, c.Spec.Pod.Containers) {
		if names[e.Name] {
			faults = append(faults, fmt.Sprintf("pod.containers: the name %s is there twice, once in pod.initContainers: give one of them another", e.Name))
		}
		names[e.Name] = true
	}
	return faults
}
