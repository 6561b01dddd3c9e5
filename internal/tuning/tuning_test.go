package tuning

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	kibi = int64(1) << 10
	gi   = int64(1) << 30
)

// spec is a stored spec with all defaults, changed by edits.
func spec(edits ...func(*v1alpha1.WorkloadClusterSpec)) v1alpha1.WorkloadClusterSpec {
	s := v1alpha1.WorkloadClusterSpec{
		Replicas:  3,
		Resources: v1alpha1.ClusterResources{Limits: v1alpha1.ResourceLimits{CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")}},
		Storage:   v1alpha1.StorageSpec{Size: resource.MustParse("10Gi")},
		Erlang:    v1alpha1.ErlangSpec{Schedulers: v1alpha1.SchedulersSpec{Mode: v1alpha1.SchedulersFromCPULimit}, BindType: v1alpha1.BindUnbound},
		Memory:    v1alpha1.MemorySpec{HighWatermark: 0.6},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func cpu(q string) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) { s.Resources.Limits.CPU = resource.MustParse(q) }
}

func memory(q string, watermark float64) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) {
		s.Resources.Limits.Memory, s.Memory.HighWatermark = resource.MustParse(q), watermark
	}
}

func requests(cpu, memory string) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) {
		s.Resources.Requests = &v1alpha1.ResourceRequests{}
		if cpu != "" {
			q := resource.MustParse(cpu)
			s.Resources.Requests.CPU = &q
		}
		if memory != "" {
			q := resource.MustParse(memory)
			s.Resources.Requests.Memory = &q
		}
	}
}

func unlimited(r ...v1alpha1.LimitedResource) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) { s.Resources.Unlimited = r }
}

func schedulersFixed(n int32) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) {
		s.Erlang.Schedulers = v1alpha1.SchedulersSpec{Mode: v1alpha1.SchedulersFixed, Count: &n}
	}
}

func disk(size, free string) func(*v1alpha1.WorkloadClusterSpec) {
	return func(s *v1alpha1.WorkloadClusterSpec) {
		s.Storage.Size = resource.MustParse(size)
		if free != "" {
			q := resource.MustParse(free)
			s.Disk.FreeLimit = &q
		}
	}
}

func text(t *testing.T, s Settings, name string) string {
	t.Helper()
	i := slices.IndexFunc(s.Values, func(v Value) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no value %s among %v", name, s.Values)
	}
	return s.Values[i].Text
}

func warned(s Settings, about string) bool {
	return slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, about) })
}

// A1: schedulers follow the CPU limit, not the host.
func TestSchedulersFollowTheCPULimit(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*v1alpha1.WorkloadClusterSpec)
		want int32
	}{
		{"A1: limit 4", cpu("4"), 4},
		{"A1: limit 8", cpu("8"), 8},
		{"A1: less than one CPU still gets one", cpu("500m"), 1},
		{"A1: only whole CPUs count", cpu("2500m"), 2},
		{"A1: just under a whole CPU", cpu("3999m"), 3},
		{"A1: one CPU more than Erlang has schedulers", cpu("1025"), 1024},
		{"A1: a limit that does not fit 32 bits", cpu("5G"), 1024},
		{"A1: a limit that is not set (no default)", func(s *v1alpha1.WorkloadClusterSpec) { s.Resources.Limits.CPU = resource.Quantity{} }, 1},
		{"A1: a count of one's own wins", schedulersFixed(36), 36},
		{"A1: mode not set (no default)", func(s *v1alpha1.WorkloadClusterSpec) { s.Erlang = v1alpha1.ErlangSpec{} }, 2},
		{"A1: Fixed without a count follows the limit", func(s *v1alpha1.WorkloadClusterSpec) {
			s.Erlang.Schedulers = v1alpha1.SchedulersSpec{Mode: v1alpha1.SchedulersFixed}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Decide(spec(c.edit))
			if s.Schedulers == nil || *s.Schedulers != c.want {
				t.Errorf("schedulers %v, want %d", s.Schedulers, c.want)
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warnings %q, want none", s.Warnings)
			}
		})
	}
}

// A1: without a limit there is no number to choose, and a warning.
func TestWithoutACPULimitNoSchedulerCountIsInvented(t *testing.T) {
	s := Decide(spec(unlimited(v1alpha1.UnlimitedCPU)))
	if s.Schedulers != nil || s.CPULimit != nil || s.CPURequest != nil {
		t.Errorf("schedulers %v, limit %v, request %v, want none", s.Schedulers, s.CPULimit, s.CPURequest)
	}
	if got := text(t, s, CPULimit); got != "none" {
		t.Errorf("cpuLimit is shown as %q", got)
	}
	if got := text(t, s, Schedulers); got != "Erlang's default" {
		t.Errorf("schedulers are shown as %q", got)
	}
	if !warned(s, "one scheduler for each CPU of the host") {
		t.Errorf("warnings %q do not say what follows", s.Warnings)
	}
}

// A1: a fixed count holds without a limit too, and the warning does not claim otherwise.
func TestAFixedCountHoldsWithoutACPULimit(t *testing.T) {
	s := Decide(spec(unlimited(v1alpha1.UnlimitedCPU), schedulersFixed(8)))
	if s.Schedulers == nil || *s.Schedulers != 8 {
		t.Errorf("schedulers %v, want 8", s.Schedulers)
	}
	if !warned(s, "no CPU limit") || warned(s, "one scheduler for each CPU") {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestRequestsFollowLimits(t *testing.T) {
	for _, c := range []struct {
		name                    string
		edits                   []func(*v1alpha1.WorkloadClusterSpec)
		cpuRequest, memRequest  string
		cpuUnlimited, memoryToo bool
	}{
		{"by default they are the limits", nil, "2", "4Gi", false, false},
		{"CPU alone", []func(*v1alpha1.WorkloadClusterSpec){requests("1", "")}, "1", "4Gi", false, false},
		{"memory alone", []func(*v1alpha1.WorkloadClusterSpec){requests("", "1Gi")}, "2", "1Gi", false, false},
		{"without limits they are what the spec says", []func(*v1alpha1.WorkloadClusterSpec){
			requests("1", "1Gi"), unlimited(v1alpha1.UnlimitedMemory, v1alpha1.UnlimitedCPU)}, "1", "1Gi", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Decide(spec(c.edits...))
			if got := s.CPURequest.String(); got != c.cpuRequest {
				t.Errorf("CPU request %s, want %s", got, c.cpuRequest)
			}
			if got := s.MemoryRequest.String(); got != c.memRequest {
				t.Errorf("memory request %s, want %s", got, c.memRequest)
			}
			if (s.CPULimit == nil) != c.cpuUnlimited || (s.MemoryLimit == nil) != c.memoryToo {
				t.Errorf("limits %v and %v", s.CPULimit, s.MemoryLimit)
			}
		})
	}
}

// A1: binding hurts pods that share a host.
func TestBinding(t *testing.T) {
	for bind, flag := range map[v1alpha1.BindType]string{
		"": "u", v1alpha1.BindUnbound: "u", "DefaultBind": "db", "ThreadNoNodeProcessorSpread": "tnnps",
		"AsOfANewerSchema": "u", // a flag without a value would swallow the next one
	} {
		t.Run("A1: "+string(bind), func(t *testing.T) {
			s := Decide(spec(func(s *v1alpha1.WorkloadClusterSpec) { s.Erlang.BindType = bind }))
			if s.BindFlag != flag {
				t.Errorf("flag %q, want %q", s.BindFlag, flag)
			}
		})
	}
}

// A3: the alarm is a fraction of the container's limit less a documented headroom.
func TestTheMemoryAlarmFollowsTheContainersLimit(t *testing.T) {
	for _, c := range []struct {
		name            string
		limit           string
		watermark       float64
		headroom, alarm int64
	}{
		{"A3: 6Gi at 0.7", "6Gi", 0.7, 1288490188, 3607772529},
		{"A3: a fifth up to 10Gi", "10Gi", 0.5, 2 * gi, 4 * gi},
		{"A3: never more than 2Gi of headroom", "16Gi", 0.5, 2 * gi, 7 * gi},
		{"A3: the least that starts", "256Mi", 0.5, 53687091, 107374182},
		{"A3: 100Ti does not overflow", "100Ti", 0.9, 2 * gi, 98954113764556},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Decide(spec(memory(c.limit, c.watermark)))
			limit := resource.MustParse(c.limit)
			if got, want := text(t, s, MemoryLimit), plain(limit.Value()); got != want {
				t.Errorf("limit %s, want %s", got, want)
			}
			if got, want := text(t, s, MemoryHeadroom), plain(c.headroom); got != want {
				t.Errorf("headroom %s, want %s", got, want)
			}
			if got, want := text(t, s, MemoryAlarm), plain(c.alarm); got != want {
				t.Errorf("alarm %s, want %s", got, want)
			}
			if *s.MemoryHighWatermark != c.alarm {
				t.Errorf("alarm %d, want the same number as shown", *s.MemoryHighWatermark)
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warnings %q, want none", s.Warnings)
			}
		})
	}
}

// A3: without a limit there is a warning and no number.
func TestWithoutAMemoryLimitNoAlarmIsInvented(t *testing.T) {
	s := Decide(spec(unlimited(v1alpha1.UnlimitedMemory)))
	if s.MemoryLimit != nil || s.MemoryHighWatermark != nil || s.MemoryRequest != nil {
		t.Errorf("limit %v, alarm %v, request %v, want none", s.MemoryLimit, s.MemoryHighWatermark, s.MemoryRequest)
	}
	if got := text(t, s, MemoryAlarm); strings.ContainsAny(got, "0123456789") {
		t.Errorf("the alarm is shown as %q", got)
	}
	if !warned(s, "no memory limit") {
		t.Errorf("warnings %q do not say it", s.Warnings)
	}
}

// A3: a request below the limit may get the node evicted.
func TestAMemoryRequestThatDiffersFromTheLimitIsWarnedOf(t *testing.T) {
	s := Decide(spec(memory("6Gi", 0.6), requests("", "2Gi")))
	if !warned(s, "2Gi is less than the limit 6Gi") {
		t.Errorf("warnings %q do not name both numbers", s.Warnings)
	}
	if s := Decide(spec(memory("6Gi", 0.6), requests("", "6144Mi"))); len(s.Warnings) > 0 {
		t.Errorf("the same amount in another unit: %q", s.Warnings)
	}
}

// A5: the default follows the volume, and is never RabbitMQ's 50 MB.
func TestTheDiskAlarmFollowsTheVolume(t *testing.T) {
	for _, c := range []struct {
		name, size, free string
		want             int64
	}{
		{"A5: a tenth", "100Gi", "", 10 * gi},
		{"A5: at least 512Mi", "4Gi", "", 512 * mebi},
		{"A5: at most half of the volume", "512Mi", "", 256 * mebi},
		{"A5: a tiny volume", "1Ki", "", kibi / 2},
		{"A5: 100Ti", "100Ti", "", 10995116277760},
		{"A5: what the spec says", "100Gi", "5Gi", 5 * gi},
		{"A5: parts of a byte round up", "100Gi", "1500m", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Decide(spec(disk(c.size, c.free)))
			if *s.DiskFreeLimit != c.want {
				t.Errorf("free limit %d, want %d", *s.DiskFreeLimit, c.want)
			}
			if got := text(t, s, DiskAlarm); got != plain(c.want) {
				t.Errorf("shown as %s, want %d", got, c.want)
			}
		})
	}
}

func TestEveryValueHasAReason(t *testing.T) {
	for name, edits := range map[string][]func(*v1alpha1.WorkloadClusterSpec){
		"default":      nil,
		"unlimited":    {unlimited(v1alpha1.UnlimitedCPU, v1alpha1.UnlimitedMemory)},
		"all explicit": {schedulersFixed(3), disk("10Gi", "1Gi"), requests("1", "1Gi")},
		"nothing set":  {func(s *v1alpha1.WorkloadClusterSpec) { *s = v1alpha1.WorkloadClusterSpec{} }},
	} {
		t.Run(name, func(t *testing.T) {
			values := Decide(spec(edits...)).Values
			if len(values) < 6 {
				t.Errorf("only %d values", len(values))
			}
			for _, v := range values {
				if v.Name == "" || v.Text == "" || v.Reason == "" {
					t.Errorf("%+v has a gap", v)
				}
			}
			if !slices.IsSortedFunc(values, func(a, b Value) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("%v is not sorted by name", values)
			}
		})
	}
}

// A spec must not change under whoever else reads it.
func TestDecideLeavesTheSpecAlone(t *testing.T) {
	s := spec(requests("1", "1Gi"))
	before := s.DeepCopy()
	settings := Decide(s)
	settings.CPULimit.Add(resource.MustParse("1"))
	settings.MemoryLimit.Add(resource.MustParse("1"))
	if s.Resources.Limits.CPU.Cmp(before.Resources.Limits.CPU) != 0 || s.Resources.Limits.Memory.Cmp(before.Resources.Limits.Memory) != 0 {
		t.Errorf("limits became %v", s.Resources.Limits)
	}
}
