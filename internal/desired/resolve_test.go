package desired

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func TestResolveImage(t *testing.T) {
	for _, c := range []struct {
		name, version, image string
		wantImage, wantExact string // or:
		fault                string
	}{
		{name: "a line", version: "4.3", wantImage: "rabbitmq:4.3-management", wantExact: "4.3"},
		{name: "an exact version", version: "3.10.8", wantImage: "rabbitmq:3.10.8-management", wantExact: "3.10.8"},
		{name: "an image whose tag says it", image: "rabbitmq:3.13.7-management", wantImage: "rabbitmq:3.13.7-management", wantExact: "3.13.7"},
		{name: "both agree", version: "4.2", image: "mq:4.2.3", wantImage: "mq:4.2.3", wantExact: "4.2.3"},
		{name: "the exacter of both counts", version: "4.1.0", image: "mq:4.1", wantImage: "mq:4.1", wantExact: "4.1.0"},
		{name: "the tag is the exacter: 4.1.0 lacks what 4.1 has", version: "4.1", image: "mq:4.1.0", wantImage: "mq:4.1.0", wantExact: "4.1.0"},
		{name: "a registry with a port", version: "4.3", image: "registry:5000/mq/rabbitmq", wantImage: "registry:5000/mq/rabbitmq", wantExact: "4.3"},
		{name: "a registry with a port, and a tag", image: "registry:5000/mq/rabbitmq:4.3.6", wantImage: "registry:5000/mq/rabbitmq:4.3.6", wantExact: "4.3.6"},
		{name: "a digest with a version", version: "4.3.6", image: "mq@sha256:0a", wantImage: "mq@sha256:0a", wantExact: "4.3.6"},
		{name: "a digest behind a tag", image: "mq:4.3.6@sha256:0a", wantImage: "mq:4.3.6@sha256:0a", wantExact: "4.3.6"},
		{name: "a tag that is no version", version: "4.3", image: "mq:stable", wantImage: "mq:stable", wantExact: "4.3"},

		{name: "a digest alone", image: "mq@sha256:0a", fault: "set version too"},
		{name: "no tag at all", image: "registry:5000/rabbitmq", fault: "set version too"},
		{name: "a tag of one number", image: "rabbitmq:4", fault: "set version too"},
		{name: "lines contradict", version: "4.3", image: "mq:4.2.3", fault: `version "4.3" contradicts the tag of image "mq:4.2.3"`},
		{name: "patches contradict", version: "4.3.5", image: "mq:4.3.6", fault: "contradicts"},
		{name: "3.1 is not the beginning of 3.10", version: "3.10", image: "mq:3.1", fault: "contradicts"},
		{name: "a line that does not exist", version: "3.14", fault: "supported lines are 3.10 to 4.3"},
		{name: "too old", version: "3.9", fault: "supported lines are 3.10 to 4.3"},
		{name: "too new", image: "mq:4.4.0", fault: "supported lines are 3.10 to 4.3"},
		{name: "neither", fault: "is not a RabbitMQ version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := read(t, "minimal", func(w *v1alpha1.WorkloadCluster) { w.Spec.Version, w.Spec.Image = c.version, c.image })
			got, faults := Resolve(cluster, template)
			if c.fault != "" {
				if len(faults) != 1 || !strings.Contains(faults[0], c.fault) {
					t.Errorf("faults %q, want one with %q", faults, c.fault)
				}
				return
			}
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if got.Image != c.wantImage || got.Capabilities.Version.String() != c.wantExact {
				t.Errorf("%s of version %s, want %s of %s", got.Image, got.Capabilities.Version, c.wantImage, c.wantExact)
			}
		})
	}
}

func TestResolveFigures(t *testing.T) {
	free := func(q string) func(*v1alpha1.WorkloadCluster) {
		return func(c *v1alpha1.WorkloadCluster) { n := resource.MustParse(q); c.Spec.Disk.FreeLimit = &n }
	}
	for _, c := range []struct {
		name string
		edit func(*v1alpha1.WorkloadCluster)
		want []string
	}{
		{"all as by default", func(*v1alpha1.WorkloadCluster) {}, nil},
		{"A5: a limit below the volume", free("9Gi"), nil},
		{"A5: the limit is the volume", free("10Gi"), []string{"disk.freeLimit 10Gi is not less than storage.size 10Gi"}},
		{"A5: the limit is more than the volume", free("16Gi"), []string{"disk.freeLimit 16Gi is not less than storage.size 10Gi"}},
		{"A5: no limit", free("0"), []string{"disk.freeLimit is 0"}},
		{"A5: less than nothing", free("-1Gi"), []string{"disk.freeLimit is -1Gi"}},
		{"a volume of no size", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.Size = resource.MustParse("0") }, []string{"storage.size is 0"}},
		{"A3: memory beyond 64 bits", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.Memory = resource.MustParse("10E") }, []string{"more than any node has"}},
		{"a volume beyond 64 bits", func(c *v1alpha1.WorkloadCluster) { c.Spec.Storage.Size = resource.MustParse("1e30") }, []string{"more than any node has"}},
		{"A3: 100Ti of memory", func(c *v1alpha1.WorkloadCluster) { c.Spec.Resources.Limits.Memory = resource.MustParse("100Ti") }, nil},
		{"no limits where none are wanted", func(c *v1alpha1.WorkloadCluster) {
			c.Spec.Resources = v1alpha1.ClusterResources{Unlimited: []v1alpha1.LimitedResource{"CPU", "Memory"}}
		}, nil},
		{"E8: an API server that knows no defaults", func(c *v1alpha1.WorkloadCluster) {
			c.Spec = v1alpha1.WorkloadClusterSpec{WorkloadClass: "runtime", Version: "4.3"}
		}, []string{"resources.limits.cpu is 0", "resources.limits.memory is 0", "memory.highWatermark is not set", "replicas is not set", "storage.size is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := Resolve(read(t, "minimal", c.edit), template)
			if len(faults) != len(c.want) {
				t.Fatalf("faults %q, want %q", faults, c.want)
			}
			for i := range faults {
				if !strings.Contains(faults[i], c.want[i]) {
					t.Errorf("fault %q, want %q", faults[i], c.want[i])
				}
			}
		})
	}
}

// B11, D5: secrets are made once; nodes and volumes are bound to them.
func TestCarryOver(t *testing.T) {
	fresh := Secrets{ErlangCookie: "fresh-cookie", AdminPassword: "fresh-password"}
	cookie := &corev1.Secret{Data: map[string][]byte{KeyErlangCookie: []byte("old-cookie")}}
	admin := &corev1.Secret{Data: map[string][]byte{KeyAdminPassword: []byte("old-password")}}
	empty := &corev1.Secret{}
	for _, c := range []struct {
		name     string
		identity Identity
		want     Secrets
		missing  string
	}{
		{"B11: a new cluster", Identity{}, fresh, ""},
		{"B11: both are carried over", Identity{Cookie: cookie, Admin: admin, HasNodes: true}, Secrets{"old-cookie", "old-password"}, ""},
		{"B11: both are carried over before there are nodes", Identity{Cookie: cookie, Admin: admin}, Secrets{"old-cookie", "old-password"}, ""},
		{"B11: only the password was lost before there were nodes", Identity{Cookie: cookie}, Secrets{"old-cookie", "fresh-password"}, ""},
		{"B11: the cookie was deleted while nodes run", Identity{Admin: admin, HasNodes: true}, Secrets{}, "Secret runtime-erlang-cookie"},
		{"B11: the cookie was emptied while nodes run", Identity{Cookie: empty, Admin: admin, HasNodes: true}, Secrets{}, "Secret runtime-erlang-cookie"},
		{"D5: the password was deleted while volumes exist", Identity{Cookie: cookie, HasNodes: true}, Secrets{}, "Secret runtime-admin"},
		{"D5: both were deleted", Identity{HasNodes: true}, Secrets{}, "Secret runtime-erlang-cookie"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, missing := c.identity.CarryOver("runtime", fresh)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if (c.missing == "") != (missing == "") || !strings.Contains(missing, c.missing) {
				t.Errorf("missing %q, want %q", missing, c.missing)
			}
			if missing != "" && !strings.Contains(missing, "restore it") {
				t.Errorf("%q does not say what to do", missing)
			}
		})
	}
}

// The schema sees the version but not an image's tag, so the running line is compared here.
func TestARunningClusterKeepsItsLine(t *testing.T) {
	for _, c := range []struct {
		name, image, runs, says string
	}{
		{"another patch", "mq:4.3.7", "4.3.6", ""},
		{"another line", "mq:4.3.6", "4.2.3", "the cluster runs RabbitMQ 4.2.3"},
		{"nothing runs yet", "mq:4.3.6", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := Resolve(read(t, "minimal", func(w *v1alpha1.WorkloadCluster) {
				w.Spec.Version, w.Spec.Image, w.Status.Version = "", c.image, c.runs
			}), template)
			if (c.says == "") != (len(faults) == 0) || !strings.Contains(strings.Join(faults, ""), c.says) {
				t.Errorf("faults %q, want %q", faults, c.says)
			}
		})
	}
}
