package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Action is what only RabbitMQ's command line can do: one Job, whose name follows from what it does.
type Action struct {
	// Name begins the Job's name, as "forget".
	Name string
	// Commands are run one after the other, up to the first that fails. Each must be harmless when it is repeated.
	Commands [][]string
}

const (
	// componentAction marks pods of Jobs: no Service selects them.
	componentAction = "action"
	// actionSeconds bound a Job, the start of its pod included.
	actionSeconds = 300
	// actionKeptSeconds is how long an ended Job stays for a look.
	actionKeptSeconds = 600
	actionTries       = 2
)

// ActionLabels pick the Jobs of a cluster's actions, and their pods.
func ActionLabels(cluster string) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cluster, labelComponent: componentAction}
}

// ActionName is the name of an action's Job.
func ActionName(cluster string, action Action) string {
	sum := sha256.Sum256([]byte(action.script()))
	return cluster + "-" + action.Name + "-" + hex.EncodeToString(sum[:5])
}

// script quotes every word: names of queues may hold anything.
func (a Action) script() string {
	var b strings.Builder
	for _, command := range a.Commands {
		for i, word := range command {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString("'" + strings.ReplaceAll(word, "'", `'\''`) + "'")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ActionJob runs an action with the image, the cookie and the tolerations of the cluster's own pods. Its pod is named by the nodes'
// Service, because Erlang wants a long name to speak to nodes that have one.
func ActionJob(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, action Action) *batchv1.Job {
	labels := labels(c)
	labels[labelComponent] = componentAction
	tries, seconds, kept := int32(actionTries), int64(actionSeconds), int32(actionKeptSeconds)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ActionName(c.Name, action), Namespace: c.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{ownerReference(c)},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: &tries, ActiveDeadlineSeconds: &seconds, TTLSecondsAfterFinished: &kept,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       actionPod(c, set, action),
			},
		},
	}
}

func actionPod(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, action Action) corev1.PodSpec {
	of := set.Spec.Template.Spec
	image := ""
	for _, container := range of.Containers {
		if container.Name == ContainerName {
			image = container.Image
		}
	}
	no := false
	ownerOnly := int32(0o400)
	own := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return corev1.PodSpec{
		ServiceAccountName: accountName(c.Name), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Subdomain: NodesServiceName(c.Name), RestartPolicy: corev1.RestartPolicyNever,
		ImagePullSecrets: of.ImagePullSecrets, Tolerations: of.Tolerations, PriorityClassName: of.PriorityClassName,
		SecurityContext: podSecurity(),
		Containers: []corev1.Container{{
			Name: "action", Image: image,
			Command: []string{"/bin/sh", "-ec", "umask 077; cp " + cookieFolder + "/" + KeyErlangCookie + " " + homeFolder + "\n" + action.script()},
			Env: []corev1.EnvVar{
				{Name: "HOME", Value: homeFolder},
				{Name: "RABBITMQ_USE_LONGNAME", Value: "true"},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			SecurityContext:          containerSecurity(),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts: []corev1.VolumeMount{
				{Name: volumeHome, MountPath: homeFolder},
				{Name: volumeTemporary, MountPath: "/tmp"},
				{Name: volumeCookie, MountPath: cookieFolder, ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: volumeHome, VolumeSource: own},
			{Name: volumeTemporary, VolumeSource: own},
			{Name: volumeCookie, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: CookieSecretName(c.Name), DefaultMode: &ownerOnly,
			}}},
		},
	}
}

// Forget has the others forget a node that has stopped for ever.
func Forget(through, node string) Action {
	return Action{Name: "forget", Commands: [][]string{{"rabbitmqctl", "-n", through, "forget_cluster_node", node}}}
}

// MemberCommand adds a member of a quorum queue on node, or removes it.
func MemberCommand(through, vhost, queue, node string, add bool) []string {
	verb := "delete_member"
	if add {
		verb = "add_member"
	}
	return []string{"rabbitmq-queues", "-n", through, verb, "--vhost", vhost, queue, node}
}

// JobEnd says when a Job ended, and whether it failed; no time while it runs.
func JobEnd(job *batchv1.Job) (at time.Time, failed bool) {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.LastTransitionTime.Time, c.Type == batchv1.JobFailed
		}
	}
	return time.Time{}, false
}

// SetNodes is the change of the StatefulSet by which the node with the highest index stops, or the next one starts.
func SetNodes(c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet, nodes int) []Edit {
	if set == nil || !metav1.IsControlledBy(set, c) {
		return nil
	}
	after, n := set.DeepCopy(), int32(nodes)
	after.Spec.Replicas = &n
	return []Edit{{Before: set, After: after}}
}
