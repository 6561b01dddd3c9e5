package gate

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pod is what is known of one pod of a cluster.
type Pod struct {
	Name string
	// Node is the name of the broker's node in it.
	Node string
	// Latest: it was made of the template that is wanted.
	Latest bool
	Ready  bool
	// Stopping, and for how long.
	Stopping        bool
	StoppingSeconds int
	// Broken says why it cannot become ready by itself; "" if it may.
	Broken string
}

// PodOf reads a pod. node is the name of its broker's node, revision that of the wanted template.
func PodOf(pod *corev1.Pod, node, revision string, now time.Time) Pod {
	out := Pod{
		Name: pod.Name, Node: node, Latest: pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision,
		Ready: Ready(pod), Stopping: !pod.DeletionTimestamp.IsZero(),
	}
	if out.Stopping {
		asked := pod.DeletionTimestamp.Time
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			asked = asked.Add(-time.Duration(*grace) * time.Second)
		}
		out.StoppingSeconds = max(0, int(now.Sub(asked).Seconds()))
	}
	if !out.Ready {
		out.Broken = broken(pod, now)
	}
	return out
}

// Ready tells whether a pod is ready and stays.
func Ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waits of containers that do not end by themselves while the template stays.
var hopeless = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

const (
	// crashWindow is how long ago a container may have ended so that it is said to crash.
	crashWindow = 10 * time.Minute
	// readyPatience is how long a node may take to become ready, repair of its files included, before its template is doubted.
	readyPatience = 10 * time.Minute
)

// broken says why a pod that is not ready cannot become so by itself.
func broken(pod *corev1.Pod, now time.Time) string {
	if phase := pod.Status.Phase; phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return fmt.Sprintf("%s %s", phase, pod.Status.Reason)
	}
	tooLong := ""
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionFalse {
			continue
		}
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason
		}
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() && now.Sub(c.LastTransitionTime.Time) > readyPatience {
			tooLong = "not ready for more than 10 minutes"
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if why := hopelessContainer(c, now); why != "" {
			return why
		}
	}
	return tooLong
}

func hopelessContainer(c corev1.ContainerStatus, now time.Time) string {
	if w := c.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
		return w.Reason
	}
	ended := c.LastTerminationState.Terminated
	if !c.Ready && c.RestartCount > 1 && ended != nil && now.Sub(ended.FinishedAt.Time) < crashWindow {
		return fmt.Sprintf("container %s ended %d times, the last time with exit code %d", c.Name, c.RestartCount, ended.ExitCode)
	}
	return ""
}
