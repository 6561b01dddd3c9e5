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
)

// The generator's own figures: a benchmark whose generator is short of CPU, or is delayed, measures itself.

const (
	schedLatencies = "/sched/latencies:seconds"
	gcPauses       = "/sched/pauses/total/gc:seconds"
	gcCycles       = "/gc/cycles/total:gc-cycles"
	heapBytes      = "/memory/classes/heap/objects:bytes"
	allocatedBytes = "/gc/heap/allocs:bytes"
)

// selfReading is what the runtime and the kernel say of this process at one moment. Counters are since its start.
type selfReading struct {
	at         time.Time
	cpuSeconds float64
	gcRuns     uint64
	heap       uint64
	allocated  uint64
	delays     metrics.Float64Histogram // of goroutines from runnable to running, in seconds
	pauses     metrics.Float64Histogram // of garbage collection, in seconds
}

func readSelf() selfReading {
	samples := []metrics.Sample{{Name: schedLatencies}, {Name: gcPauses}, {Name: gcCycles}, {Name: heapBytes}, {Name: allocatedBytes}}
	metrics.Read(samples)
	r := selfReading{at: time.Now(), cpuSeconds: cpuSeconds()}
	for _, s := range samples {
		switch {
		case s.Value.Kind() == metrics.KindUint64 && s.Name == gcCycles:
			r.gcRuns = s.Value.Uint64()
		case s.Value.Kind() == metrics.KindUint64 && s.Name == heapBytes:
			r.heap = s.Value.Uint64()
		case s.Value.Kind() == metrics.KindUint64 && s.Name == allocatedBytes:
			r.allocated = s.Value.Uint64()
		case s.Value.Kind() == metrics.KindFloat64Histogram && s.Name == schedLatencies:
			r.delays = clone(s.Value.Float64Histogram())
		case s.Value.Kind() == metrics.KindFloat64Histogram && s.Name == gcPauses:
			r.pauses = clone(s.Value.Float64Histogram())
		}
	}
	return r
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

// quantile of what a histogram counted between two readings: the upper bound of the bucket that it falls into, in seconds.
// It is 0 when nothing was counted.
func quantile(before, after metrics.Float64Histogram, q float64) float64 {
	counts := make([]uint64, len(after.Counts))
	var total uint64
	for i, n := range after.Counts {
		if i < len(before.Counts) {
			n -= before.Counts[i]
		}
		counts[i] = n
		total += n
	}
	var seen uint64
	for i, n := range counts {
		seen += n
		if n == 0 || float64(seen) < q*float64(total) {
			continue
		}
		if upper := after.Buckets[i+1]; !math.IsInf(upper, 0) {
			return upper
		}
		return after.Buckets[i]
	}
	return 0
}

// cpuLimit is how many cores this process may use: the quota of its cgroup where there is one, else the cores that it sees.
func cpuLimit() float64 {
	cores := float64(runtime.NumCPU())
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
