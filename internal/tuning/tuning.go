// Package tuning chooses the values that make a RabbitMQ node fit its container, each with a reason. It is pure:
// a function of the spec and of what the broker's version can do.
package tuning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Names of the chosen values, as in status.tuning.
const (
	CPULimit       = "cpuLimit"
	MemoryLimit    = "memoryLimit"
	Schedulers     = "schedulers"
	BindType       = "schedulerBindType"
	MemoryHeadroom = "memoryHeadroom"
	MemoryAlarm    = "memoryHighWatermark"
	DiskAlarm      = "diskFreeLimit"
)

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30

	// Headroom covers the runtime's own overhead and the page cache that the container pays for: a fifth of the
	// limit, but no more than 2 GiB.
	headroomDivisor = 5
	headroomMost    = 2 * gibi

	diskFreeDivisor = 10
	diskFreeLeast   = 512 * mebi

	// schedulersMost is where Erlang stops: it refuses to start with more.
	schedulersMost = 1024
)

// Settings are the chosen values. A nil pointer means that the value is left to RabbitMQ or Erlang.
type Settings struct {
	// CPULimit and MemoryLimit of the container.
	CPULimit, MemoryLimit *resource.Quantity
	// CPURequest and MemoryRequest of the container.
	CPURequest, MemoryRequest *resource.Quantity
	// Schedulers to start and to have online.
	Schedulers *int32
	// BindFlag is the value of Erlang's +stbt flag.
	BindFlag string
	// MemoryHighWatermark and DiskFreeLimit in bytes.
	MemoryHighWatermark, DiskFreeLimit *int64

	// Values are the same choices as data, each with its reason, sorted by name.
	Values []Value
	// Warnings say what the spec gave up.
	Warnings []string
}

// Value is one choice and its reason. Text is what a person reads, bytes as plain numbers.
type Value struct {
	Name, Text, Reason string
}

// Decide chooses the settings for one node of the cluster.
func Decide(spec v1alpha1.WorkloadClusterSpec) Settings {
	s := Settings{}
	s.decideCPU(spec)
	s.decideBinding(spec)
	s.decideMemory(spec)
	s.decideDisk(spec)
	slices.SortFunc(s.Values, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func (s *Settings) choose(name, text, reason string) {
	s.Values = append(s.Values, Value{Name: name, Text: text, Reason: reason})
}

func (s *Settings) decideCPU(spec v1alpha1.WorkloadClusterSpec) {
	requests := spec.Resources.Requests
	if requests != nil {
		s.CPURequest = requests.CPU
	}
	if slices.Contains(spec.Resources.Unlimited, v1alpha1.UnlimitedCPU) {
		s.Warnings = append(s.Warnings, noCPULimit(spec.Erlang.Schedulers))
		s.choose(CPULimit, "none", "resources.unlimited has CPU")
	} else {
		limit := spec.Resources.Limits.CPU.DeepCopy()
		s.CPULimit = &limit
		s.choose(CPULimit, limit.String(), "resources.limits.cpu")
		if s.CPURequest == nil {
			s.CPURequest = &limit
		}
	}
	s.decideSchedulers(spec.Erlang.Schedulers)
}

func noCPULimit(spec v1alpha1.SchedulersSpec) string {
	if fixed(spec) {
		return "no CPU limit: the node may take CPU time from everything else on its host"
	}
	return "no CPU limit: Erlang starts one scheduler for each CPU of the host"
}

func fixed(spec v1alpha1.SchedulersSpec) bool {
	return spec.Mode == v1alpha1.SchedulersFixed && spec.Count != nil
}

func (s *Settings) decideSchedulers(spec v1alpha1.SchedulersSpec) {
	switch {
	case fixed(spec):
		count := *spec.Count
		s.Schedulers = &count
		s.choose(Schedulers, strconv.Itoa(int(count)), "erlang.schedulers.count")
	case s.CPULimit == nil:
		s.choose(Schedulers, "Erlang's default", "there is no CPU limit to take a number from")
	default:
		count := int32(min(max(1, s.CPULimit.MilliValue()/1000), schedulersMost))
		s.Schedulers = &count
		s.choose(Schedulers, strconv.Itoa(int(count)),
			fmt.Sprintf("whole CPUs of the limit %s, at least 1: more threads than CPUs only wait for the quota", s.CPULimit))
	}
}

// bindFlags are the values of +stbt.
var bindFlags = map[v1alpha1.BindType]string{
	v1alpha1.BindUnbound:          "u",
	"NoSpread":                    "ns",
	"ThreadSpread":                "ts",
	"ProcessorSpread":             "ps",
	"Spread":                      "s",
	"NoNodeThreadSpread":          "nnts",
	"NoNodeProcessorSpread":       "nnps",
	"ThreadNoNodeProcessorSpread": "tnnps",
	"DefaultBind":                 "db",
}

func (s *Settings) decideBinding(spec v1alpha1.WorkloadClusterSpec) {
	bind := spec.Erlang.BindType
	if _, known := bindFlags[bind]; !known { // a flag without a value would swallow the next one
		bind = v1alpha1.BindUnbound
	}
	s.BindFlag = bindFlags[bind]
	reason := "erlang.bindType"
	if bind == v1alpha1.BindUnbound {
		reason = "pods share the host's CPUs, and binding would put the schedulers of each on the same first ones"
	}
	s.choose(BindType, string(bind), reason)
}

func (s *Settings) decideMemory(spec v1alpha1.WorkloadClusterSpec) {
	if spec.Resources.Requests != nil {
		s.MemoryRequest = spec.Resources.Requests.Memory
	}
	if slices.Contains(spec.Resources.Unlimited, v1alpha1.UnlimitedMemory) {
		s.Warnings = append(s.Warnings, "no memory limit: the memory alarm follows the host's memory, and the kernel may kill the node first")
		s.choose(MemoryLimit, "none", "resources.unlimited has Memory")
		s.choose(MemoryAlarm, "RabbitMQ's default", "there is no memory limit to take a number from")
		return
	}
	limit := spec.Resources.Limits.Memory.DeepCopy()
	s.MemoryLimit = &limit
	s.choose(MemoryLimit, strconv.FormatInt(limit.Value(), 10), "resources.limits.memory, in bytes")
	switch {
	case s.MemoryRequest == nil:
		s.MemoryRequest = &limit
	case s.MemoryRequest.Cmp(limit) != 0:
		s.Warnings = append(s.Warnings, fmt.Sprintf("the memory request %s is less than the limit %s: the node may be evicted before its alarm goes off", s.MemoryRequest, &limit))
	}
	headroom := min(limit.Value()/headroomDivisor, headroomMost)
	s.choose(MemoryHeadroom, strconv.FormatInt(headroom, 10),
		"bytes kept for the runtime and the page cache: a fifth of the limit, at most 2Gi")
	fraction := spec.Memory.HighWatermark
	alarm := int64(fraction * float64(limit.Value()-headroom))
	s.MemoryHighWatermark = &alarm
	s.choose(MemoryAlarm, strconv.FormatInt(alarm, 10),
		fmt.Sprintf("bytes: memory.highWatermark %g of the limit %d less the headroom %d", fraction, limit.Value(), headroom))
}

func (s *Settings) decideDisk(spec v1alpha1.WorkloadClusterSpec) {
	if free := spec.Disk.FreeLimit; free != nil {
		bytes := free.Value()
		s.DiskFreeLimit = &bytes
		s.choose(DiskAlarm, strconv.FormatInt(bytes, 10), "bytes: disk.freeLimit")
		return
	}
	size := spec.Storage.Size.Value()
	bytes := min(max(size/diskFreeDivisor, diskFreeLeast), size/2)
	s.DiskFreeLimit = &bytes
	s.choose(DiskAlarm, strconv.FormatInt(bytes, 10),
		fmt.Sprintf("bytes: a tenth of the volume of %d, at least 512Mi and at most half of it", size))
}
