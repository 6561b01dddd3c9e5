package load

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/internal/bench"
)

// The generator's own figures: a benchmark whose generator is short of CPU, or is delayed, measures itself.

const (
	schedLatencies = "/sched/latencies:seconds"
	gcPauses       = "/sched/pauses/total/gc:seconds"
	heapBytes      = "/memory/classes/heap/objects:bytes"
	gcCPU          = "/cpu/classes/gc/total:cpu-seconds"
)

// selfReading is what the runtime and the kernel say of this process at one moment. Counters are since its start.
type selfReading struct {
	at         time.Time
	cpuSeconds float64
	gcCPU      float64                  // seconds
	gcPaused   float64                  // seconds in which all goroutines stood still
	heap       uint64                   // bytes
	delays     metrics.Float64Histogram // of goroutines from runnable to running, in seconds
}

func readSelf() selfReading {
	samples := []metrics.Sample{{Name: schedLatencies}, {Name: gcCPU}, {Name: heapBytes}, {Name: gcPauses}}
	metrics.Read(samples)
	r := selfReading{at: time.Now(), cpuSeconds: cpuSeconds()}
	if v := samples[0].Value; v.Kind() == metrics.KindFloat64Histogram {
		r.delays = clone(v.Float64Histogram())
	}
	if v := samples[1].Value; v.Kind() == metrics.KindFloat64 {
		r.gcCPU = v.Float64()
	}
	if v := samples[2].Value; v.Kind() == metrics.KindUint64 {
		r.heap = v.Uint64()
	}
	if v := samples[3].Value; v.Kind() == metrics.KindFloat64Histogram {
		r.gcPaused = sum(v.Float64Histogram())
	}
	return r
}

// sum is about what a histogram's values add up to: each counts as the middle of its bucket.
func sum(h *metrics.Float64Histogram) float64 {
	total := 0.0
	for i, n := range h.Counts {
		if n > 0 {
			total += float64(n) * middle(h, i)
		}
	}
	return total
}

func middle(h *metrics.Float64Histogram, i int) float64 {
	low, high := h.Buckets[i], h.Buckets[i+1]
	switch {
	case math.IsInf(low, 0):
		return high
	case math.IsInf(high, 0):
		return low
	}
	return (low + high) / 2
}

// schedulingDelay is how long goroutines that could run waited for a processor between two readings.
func schedulingDelay(before, after selfReading) *bench.Histogram {
	if len(after.delays.Counts) == 0 {
		return nil
	}
	h := bench.NewHistogram()
	for i, n := range after.delays.Counts {
		if i < len(before.delays.Counts) {
			n -= before.delays.Counts[i]
		}
		if n > 0 {
			h.RecordN(time.Duration(middle(&after.delays, i)*float64(time.Second)), int64(n))
		}
	}
	return h
}

// ownThrottling is for how long this process's control group was kept from running, in seconds; 0 when it does not say.
func ownThrottling() float64 {
	if seconds := scaled(keyed(filepath.Join(cgroupsOf(os.Getpid()).cpu, "cpu.stat")), "throttled_usec", 1e-6); seconds != nil {
		return *seconds
	}
	return 0
}

// clone copies a histogram, whose memory metrics.Read uses again.
func clone(h *metrics.Float64Histogram) metrics.Float64Histogram {
	return metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: append([]float64(nil), h.Buckets...)}
}

// cpuSeconds is the CPU time of this process, user and system.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// cpuLimit is how many cores this process may use: the quota of its cgroup where there is one, else the cores that it sees.
func cpuLimit() float64 {
	cores := float64(runtime.GOMAXPROCS(0))
	if quota, ok := cpuQuota(cgroupsOf(os.Getpid())); ok {
		return min(cores, quota)
	}
	return cores
}

// cpuQuota reads cpu.max, or its two files in the first version of cgroups, from the group up to the root; the least holds.
func cpuQuota(groups cgroups) (float64, bool) {
	least, found := math.Inf(1), false
	for dir := groups.cpu; strings.HasPrefix(dir, groups.root) && dir != groups.root; dir = filepath.Dir(dir) {
		if quota, ok := quotaAt(dir); ok {
			least, found = min(least, quota), true
		}
	}
	return least, found
}

func quotaAt(dir string) (float64, bool) {
	var quota, period string
	if text, err := os.ReadFile(filepath.Join(dir, "cpu.max")); err == nil {
		fields := strings.Fields(string(text))
		if len(fields) == 2 {
			quota, period = fields[0], fields[1]
		}
	} else {
		quota, period = readText(dir, "cpu.cfs_quota_us"), readText(dir, "cpu.cfs_period_us")
	}
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return q / p, true
}

func readText(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
