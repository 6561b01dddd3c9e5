//go:build e2e

package e2e_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// kinds are all that a cluster may consist of.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{},
		&corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &appsv1.StatefulSetList{}, &appsv1.ControllerRevisionList{}, &batchv1.JobList{},
		&policyv1.PodDisruptionBudgetList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &discoveryv1.EndpointSliceList{},
	}
}

// objects lists what a namespace holds besides what every namespace holds, as "Secret runtime-admin". A cluster's name
// limits it to what belongs to that cluster.
func objects(ctx context.Context, namespace, of string) (map[string]client.Object, error) {
	found := map[string]client.Object{}
	for _, list := range kinds() {
		if err := k.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "*"), "List")
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			inherent := object.GetName() == "kube-root-ca.crt" || kind == "ServiceAccount" && object.GetName() == "default"
			if !inherent && (of == "" || object.GetLabels()[v1alpha1.LabelCluster] == of) {
				found[kind+" "+object.GetName()] = object
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func names(found map[string]client.Object) []string {
	out := make([]string, 0, len(found))
	for name := range found {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// uids maps each pod to its UID.
func uids(t *testing.T, r *cluster.Rabbit) map[string]string {
	t.Helper()
	pods, err := r.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, pod := range pods {
		out[pod.Name] = string(pod.UID)
	}
	return out
}

// events lists "reason: note" of what is said about an object.
func events(ctx context.Context, namespace, kind, name string) ([]string, error) {
	var list eventsv1.EventList
	if err := k.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Compare(a.CreationTimestamp.Unix(), b.CreationTimestamp.Unix())
	})
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name {
			out = append(out, e.Reason+": "+e.Note)
		}
	}
	return out, nil
}

// warrenPods are the operator's own pods.
func warrenPods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := k.Client.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "warren"})
	return list.Items, err
}

// killWarren deletes the operator's pods without letting them finish.
func killWarren(t *testing.T) {
	t.Helper()
	pods, err := warrenPods(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("Warren's pods: %d, %v", len(pods), err)
	}
	for i := range pods {
		if err := k.Client.Delete(t.Context(), &pods[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("deleted pod %s", pods[0].Name)
}

// metrics reads the figures of the working operator, by series as written.
func metrics(ctx context.Context) (map[string]float64, error) {
	pods, err := warrenPods(ctx)
	if err != nil || len(pods) != 1 {
		return nil, fmt.Errorf("Warren has %d pods, wanted 1: %w", len(pods), err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return k.Dial(cluster.Namespace, pods[0].Name, 8080)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://warren/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return parseMetrics(response.Body)
}

func parseMetrics(text io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	scanner := bufio.NewScanner(text)
	for scanner.Scan() {
		series, value, ok := cutLast(scanner.Text())
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			out[series] = n
		}
	}
	return out, scanner.Err()
}

func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// brokerWrites sums Warren's requests to brokers that are not GETs.
func brokerWrites(figures map[string]float64) float64 {
	sum := 0.0
	for series, n := range figures {
		if strings.HasPrefix(series, "warren_broker_requests_total") && !strings.Contains(series, `"GET"`) {
			sum += n
		}
	}
	return sum
}
