package desired

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	// ContainerName is the container that runs RabbitMQ.
	ContainerName = "rabbitmq"

	homeFolder    = "/var/lib/rabbitmq"
	dataFolder    = homeFolder + "/mnesia"
	configFolder  = "/etc/rabbitmq/conf.d"
	pluginsFolder = "/etc/warren"
	cookieFolder  = "/run/secrets/erlang-cookie"
	podInfoFolder = "/etc/pod-info"

	rabbitUser = int64(999) // as in the official image

	// stopSeconds is how long a node may take to stop: to wait until no queue depends on it, to hand its leaders
	// over, and to shut down.
	stopSeconds     = 600
	stopWaitSeconds = 480
	// goSeconds is how long a node that serves nobody, or of a cluster that goes as a whole, may take to shut down.
	goSeconds = 60
	// Of two nodes one can never spare the other: the wait is only for the other to be there at all.
	stopWaitSecondsOfTwo = 30
)

func podTemplate(in Input) corev1.PodTemplateSpec {
	c := in.Cluster
	grace, needsToken := int64(stopSeconds), in.Capabilities.PeerDiscoveryNeedsAPI
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      with(c.Spec.Pod.Labels, labels(c)),
			Annotations: with(c.Spec.Pod.Annotations, map[string]string{annotationConfig: configHash(in)}),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            accountName(c.Name),
			AutomountServiceAccountToken:  &needsToken,
			TerminationGracePeriodSeconds: &grace,
			PriorityClassName:             c.Spec.Scheduling.PriorityClassName,
			Affinity:                      affinity(c),
			Tolerations:                   tolerations(c.Spec.Scheduling),
			NodeSelector:                  c.Spec.Scheduling.NodeSelector,
			ImagePullSecrets:              c.Spec.Pod.ImagePullSecrets,
			TopologySpreadConstraints:     spread(c),
			SecurityContext:               podSecurity(),
			InitContainers:                append([]corev1.Container{cookieContainer(in)}, extraContainers(c.Spec.Pod.InitContainers)...),
			Containers:                    append([]corev1.Container{rabbitContainer(in)}, extraContainers(c.Spec.Pod.Containers)...),
			Volumes:                       append(volumes(in), extraVolumes(c.Spec.Pod.Volumes)...),
		},
	}
}

func podSecurity() *corev1.PodSecurityContext {
	user, nonRoot, policy := rabbitUser, true, corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsUser:           &user,
		RunAsGroup:          &user,
		FSGroup:             &user,
		RunAsNonRoot:        &nonRoot,
		FSGroupChangePolicy: &policy,
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem:   &yes,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// cookieContainer copies the cookie: Erlang wants a file that only its own user can read, and a Secret's files belong
// to root.
func cookieContainer(in Input) corev1.Container {
	return corev1.Container{
		Name:  "erlang-cookie",
		Image: in.Image,
		Command: []string{"/bin/sh", "-ec", fmt.Sprintf(
			"umask 077; cp %[1]s/%[2]s %[3]s/%[2]s.new; mv %[3]s/%[2]s.new %[3]s/%[2]s", cookieFolder, KeyErlangCookie, homeFolder)},
		Resources:       resources(in),
		SecurityContext: containerSecurity(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeHome, MountPath: homeFolder},
			{Name: volumeCookie, MountPath: cookieFolder, ReadOnly: true},
		},
	}
}

func rabbitContainer(in Input) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           in.Image,
		Env:             environment(in),
		Ports:           containerPorts(),
		Resources:       resources(in),
		SecurityContext: containerSecurity(),
		ReadinessProbe:  readiness(in),
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", stopScript(in)}},
		}},
		VolumeMounts: append(rabbitMounts(), extraMounts(in.Cluster.Spec.Pod.VolumeMounts)...),
	}
}

func rabbitMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: volumeHome, MountPath: homeFolder},
		{Name: volumeData, MountPath: dataFolder},
		{Name: volumeTemporary, MountPath: "/tmp"},
		{Name: volumeConfig, MountPath: configFolder, ReadOnly: true},
		{Name: volumePlugins, MountPath: pluginsFolder, ReadOnly: true},
		{Name: volumePodInfo, MountPath: podInfoFolder, ReadOnly: true},
	}
}

func environment(in Input) []corev1.EnvVar {
	c := in.Cluster
	env := []corev1.EnvVar{
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
		{Name: "HOME", Value: homeFolder},
		{Name: "RABBITMQ_NODENAME", Value: NodeName(c.Namespace, c.Name, "$(POD_NAME)")},
		{Name: "RABBITMQ_USE_LONGNAME", Value: "true"},
		{Name: "RABBITMQ_ENABLED_PLUGINS_FILE", Value: pluginsFolder + "/" + keyPlugins},
		{Name: "RABBITMQ_LOGS", Value: "-"},
		// Versions before 4.0 open a log of upgrades besides; the image's own folder for it is read-only here.
		{Name: "RABBITMQ_LOG_BASE", Value: homeFolder + "/log"},
		// Later flags win over the image's own, so this variable adds and replaces nothing else.
		{Name: "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", Value: erlangFlags(in)},
	}
	return env
}

func erlangFlags(in Input) string {
	var flags []string
	if n := in.Tuning.Schedulers; n != nil {
		flags = append(flags, fmt.Sprintf("+S %d:%d", *n, *n))
	}
	return strings.Join(append(flags, "+stbt "+in.Tuning.BindFlag), " ")
}

func containerPorts() []corev1.ContainerPort {
	return []corev1.ContainerPort{
		{Name: "epmd", ContainerPort: portEpmd, Protocol: corev1.ProtocolTCP},
		{Name: "amqp", ContainerPort: PortAMQP, Protocol: corev1.ProtocolTCP},
		{Name: "management", ContainerPort: PortManagement, Protocol: corev1.ProtocolTCP},
		{Name: "prometheus", ContainerPort: PortPrometheus, Protocol: corev1.ProtocolTCP},
	}
}

func resources(in Input) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
	if q := in.Tuning.CPULimit; q != nil {
		r.Limits[corev1.ResourceCPU] = *q
	}
	if q := in.Tuning.MemoryLimit; q != nil {
		r.Limits[corev1.ResourceMemory] = *q
	}
	if q := in.Tuning.CPURequest; q != nil {
		r.Requests[corev1.ResourceCPU] = *q
	}
	if q := in.Tuning.MemoryRequest; q != nil {
		r.Requests[corev1.ResourceMemory] = *q
	}
	return r
}

// readiness asks the broker where it can answer without credentials, and else whether it listens: it does so only
// after it has joined its cluster, and stops when it is drained.
func readiness(in Input) *corev1.Probe {
	probe := &corev1.Probe{InitialDelaySeconds: 3, PeriodSeconds: 3, TimeoutSeconds: 3, FailureThreshold: 3, SuccessThreshold: 1}
	if in.Capabilities.AnonymousReadyProbe {
		probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/api/health/checks/ready-to-serve-clients", Port: intstr.FromString("management"), Scheme: corev1.URISchemeHTTP,
		}}
		return probe
	}
	probe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("amqp")}}
	return probe
}

// StopNowParameter is the broker's global parameter that holds the UID of a WorkloadCluster that is being deleted. It says
// what AnnotationStopNow says, to a node that the kubelet has not told: a pod that is stopping already never is. A
// cluster that comes back on kept volumes has another UID.
const StopNowParameter = "warren-stop-now"

// stopScript waits until every queue can do without this node, then hands over what the node leads. A node that does
// not run, or has paused because it is in a minority, has nothing to hand over, and its stop may hang as below; a cluster that is
// being deleted as a whole waits for nobody. Status 75 is a time-out: a node that is too busy to say that it runs is the last that may skip
// the wait.
//
// Nodes that all stop at once may wait for one another inside RabbitMQ, without end: the last one finds itself in a
// minority, and pausing and stopping then block each other. So partitions are ignored first, and what has not ended
// after goSeconds is killed; all that was confirmed is on disk by then.
func stopScript(in Input) string {
	ready := "rabbitmq-upgrade -q await_online_quorum_plus_one -t 10"
	if in.Capabilities.MirroredQueues {
		ready += " && rabbitmq-upgrade -q await_online_synchronized_mirror -t 10"
	}
	wait := stopWaitSeconds
	if in.Cluster.Spec.Replicas == 2 {
		wait = stopWaitSecondsOfTwo
	}
	forget := ""
	if in.Capabilities.PartitionHandling {
		forget = "\n  rabbitmqctl -q eval 'application:set_env(rabbit, cluster_partition_handling, ignore).' -t 10"
	}
	return fmt.Sprintf(`stop_now() {
  grep -q '^%[1]s="true"' %[2]s/annotations ||
    rabbitmqctl -q list_global_parameters -t 10 | grep -q '%[5]s.*%[6]s'
}
running() {
  rabbitmq-diagnostics -q check_running -t 20
  case $? in 0 | 75) ;; *) return 1 ;; esac
}
go_together() {
  { sleep %[8]d; kill -KILL "$(cat "%[9]s/$RABBITMQ_NODENAME.pid")"; } > /dev/null 2>&1 &%[7]s
  exit 0
}
until=$(( $(date +%%s) + %[3]d ))
until stop_now; do
  running || go_together
  { %[4]s; } && break
  [ "$(date +%%s)" -lt "$until" ] || break
  sleep 1
done
stop_now && go_together
rabbitmq-upgrade -q drain -t 60
exit 0
`, v1alpha1.AnnotationStopNow, podInfoFolder, wait, ready, StopNowParameter, in.Cluster.UID, forget, goSeconds, dataFolder)
}
