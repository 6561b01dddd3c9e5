// Package observe reads Kubernetes and brokers once for each pass, into the input of the pure packages.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/status"
	"github.com/warren-mq/warren/internal/tuning"
)

// Reader reads Kubernetes and brokers.
type Reader struct {
	// Cached reads from the informers, which hold only what Warren made.
	Cached client.Reader
	// Direct reads from the API server: it is asked about what the informers do not have before that is taken as absent.
	Direct    client.Reader
	Connector broker.Connector
	// Snapshots are what brokers said, shared by the passes over QueuePolicies.
	Snapshots *Snapshots
}

// Cluster is what Kubernetes has of one WorkloadCluster.
type Cluster struct {
	StatefulSet *appsv1.StatefulSet
	Pods        []corev1.Pod // sorted by name
	Identity    desired.Identity
	Claims      []corev1.PersistentVolumeClaim // of the nodes' volumes, sorted by name
	Jobs        []batchv1.Job                  // of actions
	// Live objects that carry the cluster's label.
	Live map[desired.Key]desired.Object
}

// Cluster reads what Kubernetes has of c.
func (r Reader) Cluster(ctx context.Context, c *v1alpha1.WorkloadCluster) (Cluster, error) {
	out := Cluster{Live: map[desired.Key]desired.Object{}}
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &policyv1.PodDisruptionBudgetList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := r.live(ctx, c.Namespace, client.MatchingLabels{v1alpha1.LabelCluster: c.Name}, list, out.Live); err != nil {
			return Cluster{}, err
		}
	}
	var pods corev1.PodList
	if err := r.Cached.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels(desired.SelectorLabels(c.Name))); err != nil {
		return Cluster{}, fmt.Errorf("list pods: %w", err)
	}
	out.Pods = pods.Items
	slices.SortFunc(out.Pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var claims corev1.PersistentVolumeClaimList
	if err := r.Cached.List(ctx, &claims, client.InNamespace(c.Namespace), client.MatchingLabels(desired.SelectorLabels(c.Name))); err != nil {
		return Cluster{}, fmt.Errorf("list volume claims: %w", err)
	}
	out.Claims = claims.Items
	slices.SortFunc(out.Claims, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) })
	var jobs batchv1.JobList
	if err := r.Cached.List(ctx, &jobs, client.InNamespace(c.Namespace), client.MatchingLabels(desired.ActionLabels(c.Name))); err != nil {
		return Cluster{}, fmt.Errorf("list jobs: %w", err)
	}
	out.Jobs = jobs.Items
	out.StatefulSet, _ = out.Live[desired.Key{Kind: "StatefulSet", Name: desired.StatefulSetName(c.Name)}].(*appsv1.StatefulSet)
	var err error
	out.Identity, err = r.identity(ctx, c, out)
	return out, err
}

// identity asks the API server for what the informers do not have: a pass may come before they have what the last one
// made, and Secrets that are taken for absent would be made anew under the nodes that use them.
func (r Reader) identity(ctx context.Context, c *v1alpha1.WorkloadCluster, seen Cluster) (desired.Identity, error) {
	var out desired.Identity
	for name, into := range map[string]**corev1.Secret{
		desired.CookieSecretName(c.Name): &out.Cookie,
		desired.AdminSecretName(c.Name):  &out.Admin,
	} {
		if *into, _ = seen.Live[desired.Key{Kind: "Secret", Name: name}].(*corev1.Secret); *into != nil {
			continue
		}
		var secret corev1.Secret
		found, err := r.direct(ctx, c.Namespace, name, &secret)
		if err != nil {
			return desired.Identity{}, err
		}
		if found {
			*into = &secret
		}
	}
	var err error
	out.HasNodes, out.Leaving, err = r.dependents(ctx, c, seen.StatefulSet)
	return out, err
}

// direct asks the API server for one object.
func (r Reader) direct(ctx context.Context, namespace, name string, into client.Object) (found bool, err error) {
	err = r.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %T %s: %w", into, name, err)
	}
	return err == nil, nil
}

// live adds to into what the informers have with the labels.
func (r Reader) live(ctx context.Context, namespace string, labels client.MatchingLabels, list client.ObjectList, into map[desired.Key]desired.Object) error {
	if err := r.Cached.List(ctx, list, client.InNamespace(namespace), labels); err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	gvk, err := apiutil.GVKForObject(list, scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return eachItem(list, func(o desired.Object) {
		o.GetObjectKind().SetGroupVersionKind(gvk)
		into[desired.KeyOf(o)] = o
	})
}

// dependents tells whether volumes or a StatefulSet of the cluster exist, and whether they are those of an earlier
// cluster that Kubernetes is about to delete. It asks the API server when the informers have no StatefulSet, since new
// secrets for old volumes would lock everybody out.
func (r Reader) dependents(ctx context.Context, c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet) (exist, leaving bool, err error) {
	if set == nil {
		set = &appsv1.StatefulSet{}
		found, err := r.direct(ctx, c.Namespace, desired.StatefulSetName(c.Name), set)
		if err != nil {
			return false, false, err
		}
		if !found || set.Labels[v1alpha1.LabelCluster] != c.Name { // somebody else's of the same name
			set = nil
		}
	}
	if set != nil {
		owner := metav1.GetControllerOf(set)
		return true, owner != nil && owner.UID != c.UID, nil
	}
	var claims corev1.PersistentVolumeClaimList
	err = r.Direct.List(ctx, &claims, client.InNamespace(c.Namespace), client.MatchingLabels(desired.SelectorLabels(c.Name)))
	if err != nil {
		return false, false, fmt.Errorf("list volume claims: %w", err)
	}
	stays := func(claim corev1.PersistentVolumeClaim) bool { // a StatefulSet that is gone takes its claims along
		return claim.DeletionTimestamp.IsZero() && !slices.ContainsFunc(claim.OwnerReferences,
			func(o metav1.OwnerReference) bool {
				return o.Kind == "StatefulSet" && o.Name == desired.StatefulSetName(c.Name)
			})
	}
	return len(claims.Items) > 0, len(claims.Items) > 0 && !slices.ContainsFunc(claims.Items, stays), nil
}

// DoomedVolumes are the volume claims that would be deleted with the StatefulSet, by name.
func (r Reader) DoomedVolumes(ctx context.Context, c *v1alpha1.WorkloadCluster, set *appsv1.StatefulSet) ([]string, error) {
	if set == nil {
		return nil, nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Direct.List(ctx, &claims, client.InNamespace(c.Namespace), client.MatchingLabels(desired.SelectorLabels(c.Name))); err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	var doomed []string
	for _, claim := range claims.Items {
		if slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == set.UID }) {
			doomed = append(doomed, claim.Name)
		}
	}
	return doomed, nil
}

// Unseen adds to live those wanted objects that exist although the informers do not have them: somebody else's, or ours
// with a label taken off, or just created.
func (r Reader) Unseen(ctx context.Context, namespace string, wanted []desired.Object, live map[desired.Key]desired.Object) error {
	for _, object := range wanted {
		key := desired.KeyOf(object)
		if _, seen := live[key]; seen {
			continue
		}
		gvk := object.GetObjectKind().GroupVersionKind()
		empty, err := scheme.New(gvk)
		if err != nil {
			return err
		}
		there := empty.(client.Object)
		found, err := r.direct(ctx, namespace, key.Name, there)
		if err != nil {
			return err
		}
		if found {
			there.GetObjectKind().SetGroupVersionKind(gvk)
			live[key] = there
		}
	}
	return nil
}

// Target says how to reach the cluster's management API, or an error if its credentials are not there.
func Target(c *v1alpha1.WorkloadCluster, admin *corev1.Secret) (broker.Target, error) {
	if admin == nil || len(admin.Data[desired.KeyAdminPassword]) == 0 {
		return broker.Target{}, fmt.Errorf("Secret %s with the administrator's credentials does not exist yet", desired.AdminSecretName(c.Name))
	}
	return broker.Target{
		Key:      string(c.UID),
		URL:      desired.ManagementURL(c.Namespace, c.Name),
		Username: string(admin.Data[desired.KeyAdminUser]),
		Password: string(admin.Data[desired.KeyAdminPassword]),
	}, nil
}

// Broker asks the management API, if there is a ready node that could answer.
func (r Reader) Broker(ctx context.Context, c *v1alpha1.WorkloadCluster, seen Cluster) status.Broker {
	target, err := Target(c, seen.Identity.Admin)
	if err != nil || !slices.ContainsFunc(seen.Pods, ready) {
		return status.Broker{}
	}
	out := status.Broker{Asked: true}
	api, err := r.Connector.Connect(target)
	if err != nil {
		out.Err = err
		return out
	}
	// One that does not answer is not asked again in this pass: each question to a dead cluster costs a worker its limit.
	if out.Overview, out.Err = api.Overview(ctx); out.Err == nil {
		out.Nodes, out.Err = api.Nodes(ctx)
	}
	return out
}

// Runtime asks the Prometheus endpoint of every ready node, all at once; a node that does not answer is left out, and
// all of them when the broker could not be asked.
func (r Reader) Runtime(ctx context.Context, c *v1alpha1.WorkloadCluster, pods []corev1.Pod, answered status.Broker) map[string]broker.Runtime {
	if !answered.Asked || broker.KindOf(answered.Err) == broker.Unavailable {
		return nil
	}
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		out = map[string]broker.Runtime{}
	)
	for _, pod := range pods {
		if !ready(pod) {
			continue
		}
		wg.Go(func() {
			figures, err := r.Connector.Runtime(ctx, desired.PrometheusURL(c.Namespace, c.Name, pod.Name))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[pod.Name] = figures
		})
	}
	wg.Wait()
	return out
}

// WithRuntime fills in what the management API does not say yet of a node that runs: it collects figures every 5 s, and the
// node itself has them from its start. What the API says stays.
func WithRuntime(c *v1alpha1.WorkloadCluster, pods []corev1.Pod, b status.Broker, runtime map[string]broker.Runtime) status.Broker {
	byNode := map[string]broker.Runtime{}
	for _, pod := range pods {
		byNode[desired.NodeName(c.Namespace, c.Name, pod.Name)] = runtime[pod.Name]
	}
	b.Nodes = slices.Clone(b.Nodes)
	for i := range b.Nodes {
		node := &b.Nodes[i]
		if !node.Running {
			continue
		}
		said := byNode[node.Name]
		node.MemoryUsed, node.MemoryLimit = cmp.Or(node.MemoryUsed, said.MemoryUsed), cmp.Or(node.MemoryLimit, said.MemoryLimit)
		node.DiskFreeLimit = cmp.Or(node.DiskFreeLimit, said.DiskFreeLimit)
		node.MemoryAlarm, node.DiskAlarm = cmp.Or(node.MemoryAlarm, said.MemoryAlarm), cmp.Or(node.DiskAlarm, said.DiskAlarm)
	}
	return b
}

// Tuning joins what Kubernetes and the broker say of each node's tuned values.
func Tuning(c *v1alpha1.WorkloadCluster, pods []corev1.Pod, b status.Broker, runtime map[string]broker.Runtime) []tuning.Observed {
	byName := map[string]broker.Node{}
	for _, node := range b.Nodes {
		if node.Running {
			byName[node.Name] = node
		}
	}
	out := make([]tuning.Observed, 0, len(pods))
	for _, pod := range pods {
		node := byName[desired.NodeName(c.Namespace, c.Name, pod.Name)]
		o := tuning.Observed{
			Node:                pod.Name,
			Schedulers:          runtime[pod.Name].Schedulers,
			SchedulersOnline:    runtime[pod.Name].SchedulersOnline,
			MemoryHighWatermark: node.MemoryLimit,
			DiskFreeLimit:       node.DiskFreeLimit,
		}
		o.CPULimit, o.MemoryLimit = containerLimits(pod)
		out = append(out, o)
	}
	return out
}

// containerLimits are the limits that the kubelet says are in force, in thousandths of a CPU and in bytes.
func containerLimits(pod corev1.Pod) (cpu, memory *int64) {
	for _, container := range pod.Status.ContainerStatuses {
		if container.Name != desired.ContainerName || container.Resources == nil {
			continue
		}
		if q, ok := container.Resources.Limits[corev1.ResourceCPU]; ok {
			n := q.MilliValue()
			cpu = &n
		}
		if q, ok := container.Resources.Limits[corev1.ResourceMemory]; ok {
			n := q.Value()
			memory = &n
		}
	}
	return cpu, memory
}

func ready(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
