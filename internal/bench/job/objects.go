package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/bench/report"
	"github.com/warren-mq/warren/internal/desired"
)

// Input is all that the objects of a run depend on.
type Input struct {
	Benchmark *v1alpha1.Benchmark
	Run       *v1alpha1.ActiveRun
	Cluster   *v1alpha1.WorkloadCluster
	Scenarios []bench.Scenario
	// Image of Warren itself.
	Image string
}

// Environment of the pods.
const (
	EnvUsername = "WARREN_BENCH_USERNAME"
	EnvPassword = "WARREN_BENCH_PASSWORD"
	EnvHost     = "WARREN_BENCH_HOST"
	// EnvStore is where the volume for results is mounted, if elsewhere than at StorePath.
	EnvStore = "WARREN_BENCH_STORE"
	// EnvIndex is set by Kubernetes.
	EnvIndex = "JOB_COMPLETION_INDEX"
	// StorePath is where the volume for results is mounted.
	StorePath = "/var/lib/warren-bench"
	// PlanPath is where the plan is mounted.
	PlanPath = "/etc/warren-bench/" + KeyPlan
)

// RunName is the name of the run's Job, and begins the names of its other objects.
func RunName(benchmark, runID string) string { return benchmark + "-" + runID[:8] }

// PlanName is the ConfigMap with the run's plan.
func PlanName(run string) string { return run + "-plan" }

// ControlName is the ConfigMap in which the run's pods meet.
func ControlName(run string) string { return run + "-control" }

// PartName is the ConfigMap of what pods hand back of the scenario with the index.
func PartName(run string, i int) string { return fmt.Sprintf("%s-part-%d", run, i) }

// ResultName is the ConfigMap that keeps the result of the scenario with the index.
func ResultName(run string, i int) string { return fmt.Sprintf("%s-result-%d", run, i) }

func owned(b *v1alpha1.Benchmark) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(b, v1alpha1.GroupVersion.WithKind("Benchmark"))}
}

// Build returns the objects of a run in the order in which they are to be applied: what pods need comes before the pods.
func Build(in Input) ([]desired.Object, error) {
	run := RunName(in.Benchmark.Name, in.Run.ID)
	p := planOf(in)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	immutable := true
	made := configMap(in, PlanName(run))
	made.Data, made.Immutable = map[string]string{KeyPlan: string(text)}, &immutable
	// The role comes early: when the manager may not give its rights, nothing but the plan is made.
	objects := []desired.Object{made, role(in, run, p), roleBinding(in, run), serviceAccount(in, run), configMap(in, p.Control)}
	for _, name := range p.Parts {
		objects = append(objects, configMap(in, name))
	}
	return append(objects, job(in, run)), nil
}

// Labels of all objects of a run, and of its results.
func Labels(b *v1alpha1.Benchmark, runID string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": "warren-benchmark", "app.kubernetes.io/instance": b.Name,
		desired.LabelManagedBy: desired.ManagedBy, v1alpha1.LabelBenchmark: b.Name, v1alpha1.LabelRun: runID,
	}
}

func metaOf(in Input, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: in.Benchmark.Namespace, Name: name, Labels: Labels(in.Benchmark, in.Run.ID), OwnerReferences: owned(in.Benchmark),
		Annotations: map[string]string{annotationNumber: strconv.FormatInt(in.Run.Number, 10)},
	}
}

func configMap(in Input, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metaOf(in, name)}
}

func planOf(in Input) Plan {
	c := in.Cluster
	run := RunName(in.Benchmark.Name, in.Run.ID)
	p := Plan{
		RunID: in.Run.ID, Pods: int(in.Benchmark.Spec.Generator.Pods), Namespace: in.Benchmark.Namespace, Control: ControlName(run),
		Management: desired.ManagementURL(c.Namespace, c.Name), AllowProduction: in.Benchmark.Spec.AllowProduction,
		Scenarios: in.Scenarios,
		Fingerprint: bench.Fingerprint{
			CPUCores: float64(c.Spec.Resources.Limits.CPU.MilliValue()) / 1000, Image: c.Status.Image, Nodes: int(c.Spec.Replicas),
		},
	}
	var addresses []string
	for i := range int(c.Spec.Replicas) {
		pod := fmt.Sprintf("%s-%d", desired.StatefulSetName(c.Name), i)
		addresses = append(addresses, fmt.Sprintf("amqp://%s.%s.%s.svc:%d", pod, desired.NodesServiceName(c.Name), c.Namespace, desired.PortAMQP))
		p.Prometheus = append(p.Prometheus, desired.PrometheusURL(c.Namespace, c.Name, pod))
	}
	p.URI = strings.Join(addresses, ",")
	for _, node := range c.Status.Nodes {
		if node.HostNode != "" {
			p.BrokerHosts = append(p.BrokerHosts, node.HostNode)
		}
	}
	if in.Benchmark.Spec.Generator.BrokerCgroups {
		for i := range int(c.Spec.Replicas) {
			pod := fmt.Sprintf("%s-%d", desired.StatefulSetName(c.Name), i)
			p.Brokers = append(p.Brokers, BrokerPod{Pod: pod, Container: desired.ContainerName, Node: desired.NodeName(c.Namespace, c.Name, pod)})
		}
	}
	if history := in.Benchmark.Spec.History; history.VolumeClaimRef != nil {
		p.Store = &Store{
			Benchmark: in.Benchmark.Name, Folder: plan.Folder(*in.Run), Limit: max(int(history.Limit), 1),
			MaxRegression: plan.MaxRegression(in.Benchmark.Spec.Gate),
		}
	}
	for i := range in.Scenarios {
		p.Parts = append(p.Parts, PartName(run, i))
	}
	return p
}

func serviceAccount(in Input, run string) *corev1.ServiceAccount {
	mount := false // the Job says so for its pods
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metaOf(in, run),
		AutomountServiceAccountToken: &mount, ImagePullSecrets: in.Benchmark.Spec.Generator.ImagePullSecrets,
	}
}

// role lets the pods meet, and hand back what they measured: two verbs on ConfigMaps that exist already, by name. Only when
// control groups are asked for may they execute programs in the broker's pods, by name too.
func role(in Input, run string, p Plan) *rbacv1.Role {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}, ResourceNames: []string{p.Control}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}, ResourceNames: p.Parts},
	}
	if len(p.Brokers) > 0 {
		exec := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}}
		for _, b := range p.Brokers {
			exec.ResourceNames = append(exec.ResourceNames, b.Pod)
		}
		rules = append(rules, exec)
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metaOf(in, run), Rules: rules,
	}
}

func roleBinding(in Input, run string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: metaOf(in, run),
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: run, Namespace: in.Benchmark.Namespace}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: run},
	}
}

const (
	// keptSeconds is how long Kubernetes keeps an ended Job that Warren has not collected.
	keptSeconds = 7 * 24 * 3600
	// graceSeconds is how long a pod that is told to stop has to remove what it made on the broker. Warren sweeps after it.
	graceSeconds = 60
	// userID of the image.
	userID = 65532
)

func job(in Input, run string) *batchv1.Job {
	generator := in.Benchmark.Spec.Generator
	pods, none := generator.Pods, int32(0)
	indexed, kept := batchv1.IndexedCompletion, int32(keptSeconds)
	deadline := int64(plan.Deadline(in.Scenarios).Seconds())
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}, ObjectMeta: metaOf(in, run),
		Spec: batchv1.JobSpec{
			Completions: &pods, Parallelism: &pods, CompletionMode: &indexed, BackoffLimit: &none,
			ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &kept,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: Labels(in.Benchmark, in.Run.ID)},
				Spec:       podSpec(in, run),
			},
		},
	}
}

func podSpec(in Input, run string) corev1.PodSpec {
	generator := in.Benchmark.Spec.Generator
	yes, no, id, grace := true, false, int64(userID), int64(graceSeconds)
	spec := corev1.PodSpec{
		ServiceAccountName: run, AutomountServiceAccountToken: &yes, EnableServiceLinks: &no,
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		NodeSelector: generator.NodeSelector, Tolerations: generator.Tolerations, Affinity: affinity(in),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "generator", Image: in.Image, Args: []string{"bench", "worker", "--plan=" + PlanPath},
			Env: []corev1.EnvVar{
				fromSecret(in, EnvUsername, desired.KeyAdminUser), fromSecret(in, EnvPassword, desired.KeyAdminPassword),
				{Name: EnvHost, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
			},
			Resources:                generator.Resources,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "plan", MountPath: "/etc/warren-bench", ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "plan", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: PlanName(run)},
		}}}},
	}
	if ref := in.Benchmark.Spec.History.VolumeClaimRef; ref != nil {
		mountStore(&spec, ref.Name, id)
	}
	return spec
}

// mountStore gives the pods the volume for results. What is on it already is not given to their group again.
func mountStore(spec *corev1.PodSpec, claim string, group int64) {
	const name = "results"
	change := corev1.FSGroupChangeOnRootMismatch
	spec.SecurityContext.FSGroup, spec.SecurityContext.FSGroupChangePolicy = &group, &change
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: StorePath})
}

func fromSecret(in Input, name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: desired.AdminSecretName(in.Cluster.Name)}, Key: key,
	}}}
}

// affinity keeps the generator off the broker's nodes, and its pods off one another, where there are other nodes.
func affinity(in Input) *corev1.Affinity {
	apart := func(weight int32, labels map[string]string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: corev1.LabelHostname,
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			apart(100, desired.SelectorLabels(in.Cluster.Name)),
			apart(50, map[string]string{v1alpha1.LabelRun: in.Run.ID}),
		},
	}}
}

// Result is the ConfigMap that keeps the result of one scenario.
func Result(in Input, i int, r bench.Result) (*corev1.ConfigMap, error) {
	data, binary, err := EncodeResult(r)
	if err != nil {
		return nil, err
	}
	immutable := true
	out := configMap(in, ResultName(RunName(in.Benchmark.Name, in.Run.ID), i))
	out.Data, out.BinaryData, out.Immutable = data, binary, &immutable
	out.Labels[v1alpha1.LabelResult] = r.Scenario.Name
	return out, nil
}

// ReportName is the ConfigMap that keeps the report of a run.
func ReportName(run string) string { return run + "-report" }

// Report is the ConfigMap that keeps the report of a run as HTML.
func Report(in Input, page report.Input) (*corev1.ConfigMap, error) {
	packed, err := EncodeReport(page)
	if err != nil {
		return nil, err
	}
	immutable := true
	out := configMap(in, ReportName(RunName(in.Benchmark.Name, in.Run.ID)))
	out.BinaryData, out.Immutable = map[string][]byte{KeyReport: packed}, &immutable
	out.Labels[v1alpha1.LabelReport] = "true"
	return out, nil
}

// annotationNumber is the run's number on its objects and results.
const annotationNumber = "rabbitmq.warren.dev/run-number"

// NumberOf the run that an object is of; 0 when it does not say.
func NumberOf(o metav1.Object) int64 {
	n, _ := strconv.ParseInt(o.GetAnnotations()[annotationNumber], 10, 64)
	return n
}
