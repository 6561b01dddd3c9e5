package load

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the script says inside a broker's pod is read, of both versions of control groups; what it does not say is unknown.
func TestCgroupsOfPods(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		known bool
		want  map[string]float64 // -1 is unknown
	}{
		"version 2": {map[string]string{
			"cpu.stat": "usage_usec 1500000\nuser_usec 1\nnr_periods 40\nnr_throttled 3\nthrottled_usec 250000\n", "cpu.max": "150000 100000\n",
			"memory.current": "5000\n", "memory.max": "9000\n", "memory.stat": "anon 1\ninactive_file 904\n",
			"io.stat": "8:0 rbytes=1 wbytes=20 rios=3 wios=4\n", "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
			"cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n",
		}, true, map[string]float64{
			"cpu": 1.5, "throttled": 0.25, "periods": 40, "throttled periods": 3, "limit": 1.5, "memory": 4096, "memory limit": 9000,
			"written": 20, "cpu pressure": 3, "io pressure": 2, "used": -1,
		}},
		"version 2 without limits": {map[string]string{
			"cpu.stat": "usage_usec 1500000\n", "cpu.max": "max 100000\n", "memory.current": "5000\n", "memory.max": "max\n",
		}, true, map[string]float64{"cpu": 1.5, "throttled": -1, "periods": -1, "limit": -1, "memory": 5000, "memory limit": -1, "written": -1}},
		"version 1": {map[string]string{
			"cpuacct/cpuacct.usage": "1500000000\n", "cpu/cpu.stat": "nr_periods 40\nnr_throttled 3\nthrottled_time 250000000\n",
			"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n", "memory/memory.usage_in_bytes": "5000\n",
			"memory/memory.limit_in_bytes": "9000\n", "memory/memory.stat": "cache 7\ninactive_file 1\ntotal_inactive_file 904\n",
		}, true, map[string]float64{
			"cpu": 1.5, "throttled": 0.25, "periods": 40, "throttled periods": 3, "limit": 1.5, "memory": 4096, "memory limit": 9000,
			"written": -1, "cpu pressure": -1,
		}},
		"version 1 without limits": {map[string]string{
			"cpuacct/cpuacct.usage": "1500000000\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "5000\n",
		}, true, map[string]float64{"cpu": 1.5, "throttled": -1, "limit": -1, "memory": 5000, "memory limit": -1}},
		"of a kernel that says little": {map[string]string{"cpu.max": "150000 100000\n"}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			shell := exec.Command("sh", "-c", strings.Replace(CgroupScript, cgroupRoot, root, 1))
			shell.Stdin = strings.NewReader("\n\n") // asked twice; then it ends
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			first, second, found := strings.Cut(string(out), CgroupEnd+"\n")
			if !found || first != strings.TrimSuffix(second, CgroupEnd+"\n") {
				t.Errorf("the answers are %q and %q", first, second)
			}
			s, known := CgroupSample("rabbit@n", first)
			if known != c.known || s.Node != "rabbit@n" {
				t.Fatalf("known %v, %+v", known, s)
			}
			for what, value := range map[string]*float64{
				"cpu": s.CPUSecondsTotal, "throttled": s.CPUThrottledSecondsTotal, "periods": s.CPUPeriodsTotal,
				"throttled periods": s.CPUThrottledPeriodsTotal, "limit": s.CPULimitCores, "memory": s.ContainerMemoryBytes,
				"memory limit": s.MemoryLimitBytes, "written": s.DiskWriteBytesTotal, "cpu pressure": s.CPUPressureSecondsTotal,
				"io pressure": s.IOPressureSecondsTotal, "used": s.MemoryUsedBytes,
			} {
				want, asked := c.want[what]
				switch {
				case !asked:
				case want == -1 && value != nil:
					t.Errorf("%s is %v, and nobody said it", what, *value)
				case want != -1 && (value == nil || *value != want):
					t.Errorf("%s is %v, want %v", what, value, want)
				}
			}
		})
	}
}
