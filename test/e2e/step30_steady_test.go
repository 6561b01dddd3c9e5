//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// polls is how many times every object is looked at while nothing may be written.
const polls = 4

// TestSteadyStateWritesNothing: the manifests are applied a second time and every object is looked at some times more;
// Warren writes nothing to Kubernetes but its lease, and sends the brokers nothing but GETs.
func TestSteadyStateWritesNothing(t *testing.T) {
	for _, l := range lines {
		l.ready(t)
		waitCluster(t, l.namespace, l.cluster)
		waitPolicy(t, l.namespace, l.policy)
	}
	audit, err := k.AuditLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from := size(t, audit)
	before, err := metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	versions := resourceVersions(t)
	for _, l := range lines {
		l.apply(t)
	}
	after := waitPolls(t, before)
	if n := brokerWrites(after) - brokerWrites(before); n != 0 {
		t.Errorf("%v requests to brokers were not GETs", n)
	}
	for name, version := range resourceVersions(t) {
		if versions[name] != version {
			t.Errorf("%s was written", name)
		}
	}
	if audit == "" {
		t.Log("no audit log here; resource versions were compared")
		return
	}
	for _, write := range warrenWrites(t, audit, from) {
		t.Errorf("Warren wrote: %s", write)
	}
}

// waitPolls waits until both controllers have looked at every object so many times more, and answers the figures then.
func waitPolls(t *testing.T, before map[string]float64) (after map[string]float64) {
	t.Helper()
	passes := func(figures map[string]float64, controller string) float64 {
		sum := 0.0
		for series, n := range figures {
			if strings.HasPrefix(series, "controller_runtime_reconcile_total") && strings.Contains(series, fmt.Sprintf("controller=%q", controller)) {
				sum += n
			}
		}
		return sum
	}
	eventually(t, 3*polls*cluster.PollInterval, fmt.Sprintf("%d polls", polls), func(ctx context.Context) (string, error) {
		var err error
		if after, err = metrics(ctx); err != nil {
			return "", err
		}
		for _, controller := range []string{"workloadcluster", "queuepolicy"} {
			if n := passes(after, controller) - passes(before, controller); n < float64(polls*len(lines)) {
				return fmt.Sprintf("%s: %v passes, wanted %d", controller, n, polls*len(lines)), nil
			}
		}
		return "", nil
	})
	get := `warren_broker_requests_total{method="GET"}`
	t.Logf("%v GETs to brokers meanwhile", after[get]-before[get])
	if after[get] <= before[get] {
		t.Errorf("%s did not grow from %v", get, before[get])
	}
	return after
}

// resourceVersions are the versions of all that Warren writes.
func resourceVersions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, l := range lines {
		found, err := objects(t.Context(), l.namespace, l.cluster)
		if err != nil {
			t.Fatal(err)
		}
		for name, object := range found {
			// The API server and its controllers write these for reasons of their own.
			if !slices.Contains([]string{"Pod", "EndpointSlice", "PersistentVolumeClaim"}, strings.Fields(name)[0]) {
				out[l.namespace+" "+name] = object.GetResourceVersion()
			}
		}
		var cluster v1alpha1.WorkloadCluster
		var policy v1alpha1.QueuePolicy
		for name, object := range map[string]client.Object{l.cluster: &cluster, l.policy: &policy} {
			if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, object); err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%s %T %s", l.namespace, object, name)] = object.GetResourceVersion()
		}
	}
	return out
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	if file == "" {
		return 0
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// warrenWrites reads the audit log from an offset for writes of Warren, but for its lease.
func warrenWrites(t *testing.T, file string, from int64) (writes []string) {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Seek(from, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	renewals := 0
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			continue // the last line may not be whole yet
		}
		ref := line.ObjectRef
		switch {
		case line.User.Username != cluster.ServiceAccount || slices.Contains([]string{"get", "list", "watch"}, line.Verb):
		case ref.Resource == "leases" && ref.Namespace == cluster.Namespace:
			renewals++
		default:
			writes = append(writes, strings.TrimSpace(fmt.Sprintf("%s %s %s/%s %s", line.Verb, ref.Resource, ref.Namespace, ref.Name, ref.Subresource)))
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	if renewals == 0 {
		t.Errorf("the audit log has no renewal of Warren's lease in %s: it is not the right log", time.Duration(polls)*cluster.PollInterval)
	}
	return writes
}
