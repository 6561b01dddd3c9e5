package load

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/bench"
)

// cgroups are the folders of one process's control groups, of either version.
type cgroups struct {
	root             string // what the folders are below
	unified          bool   // version 2: one folder for all
	cpu, memory, dir string // cpu also has cpuacct; dir is the one of blkio in version 1
	cpuacct          string
}

const cgroupRoot = "/sys/fs/cgroup"

// cgroupsOf finds the control groups of a process by /proc. Folders that cannot be found are those of the root.
func cgroupsOf(pid int) cgroups {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return cgroups{root: cgroupRoot, cpu: cgroupRoot, memory: cgroupRoot, dir: cgroupRoot, cpuacct: cgroupRoot}
	}
	return parseCgroups(cgroupRoot, string(text))
}

func parseCgroups(root, text string) cgroups {
	g := cgroups{root: root}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			at := filepath.Join(root, parts[1], parts[2])
			if _, err := os.Stat(at); err != nil {
				at = filepath.Join(root, controller, parts[2])
			}
			switch controller {
			case "cpu":
				g.cpu = at
			case "cpuacct":
				g.cpuacct = at
			case "memory":
				g.memory = at
			case "blkio":
				g.dir = at
			case "":
				if g.cpu == "" {
					g.unified = true
					at = filepath.Join(root, parts[2])
					g.cpu, g.memory, g.dir, g.cpuacct = at, at, at, at
				}
			}
		}
	}
	return g
}

// Probe reads what the kernel says of one broker node: of its control groups, or, where the node has none of its own, of its
// processes.
type Probe struct {
	// Node is the Erlang name of the broker node.
	Node string
	// Cgroup is the folder of the node's control group (version 2), as /sys/fs/cgroup/kubepods.slice/….
	Cgroup string
	// PID is a process of the node; its descendants count too. 0 when Cgroup alone is known.
	PID int
}

// Read gives the figures that can be had. It is an error when none can.
func (p Probe) Read() (bench.Sample, error) {
	s := bench.Sample{Node: p.Node}
	found := false
	if p.Cgroup != "" {
		found = readCgroup(&s, cgroups{root: cgroupRoot, unified: true, cpu: p.Cgroup, memory: p.Cgroup, dir: p.Cgroup})
	}
	if p.PID != 0 {
		own := cgroupsOf(p.PID)
		if p.Cgroup == "" && own.unified && own.cpu != cgroupRoot && own.cpu != cgroupsOf(os.Getpid()).cpu {
			found = readCgroup(&s, own)
		}
		if !found {
			found = readProcesses(&s, p.PID)
		}
		if receive, transmit, ok := readNetwork(fmt.Sprintf("/proc/%d/net/dev", p.PID)); ok {
			s.NetworkReceiveBytesTotal, s.NetworkTransmitBytesTotal = &receive, &transmit
		}
	}
	if !found {
		return s, fmt.Errorf("nothing can be read about node %q: neither its control group nor its processes", p.Node)
	}
	return s, nil
}

// readCgroup reads version 2. It tells whether there was a figure.
func readCgroup(s *bench.Sample, g cgroups) bool {
	found := cgroupFigures(s, func(name string) string {
		dir := g.cpu
		switch {
		case strings.HasPrefix(name, "memory."):
			dir = g.memory
		case strings.HasPrefix(name, "io."):
			dir = g.dir
		}
		return readText(dir, name)
	})
	s.MemoryUsedBytes = plain(readText(g.memory, "memory.current"))
	limit := float64(runtime.NumCPU())
	if quota, ok := cpuQuota(g); ok {
		limit = min(limit, quota)
	}
	s.CPULimitCores = &limit
	return found
}

// cgroupFigures reads the figures of version 2, and tells whether there was one. What is not there stays unknown.
func cgroupFigures(s *bench.Sample, read func(name string) string) bool {
	stat := pairs(read("cpu.stat"))
	s.CPUSecondsTotal = scaled(stat, "usage_usec", 1e-6)
	s.CPUThrottledSecondsTotal = scaled(stat, "throttled_usec", 1e-6)
	s.CPUPeriodsTotal, s.CPUThrottledPeriodsTotal = scaled(stat, "nr_periods", 1), scaled(stat, "nr_throttled", 1)
	s.ContainerMemoryBytes = withoutCache(read("memory.current"), pairs(read("memory.stat")), "inactive_file")
	s.MemoryLimitBytes = plain(read("memory.max"))
	if io := read("io.stat"); io != "" {
		read, written, writes := parseIOStat(io)
		s.DiskReadBytesTotal, s.DiskWriteBytesTotal, s.DiskWritesTotal = &read, &written, &writes
	}
	if total, ok := parsePressure(read("cpu.pressure")); ok {
		s.CPUPressureSecondsTotal = &total
	}
	if total, ok := parsePressure(read("io.pressure")); ok {
		s.IOPressureSecondsTotal = &total
	}
	return s.CPUSecondsTotal != nil || s.ContainerMemoryBytes != nil
}

// noLimit is more than any machine has: version 1 writes a number near to 2^63 where there is no limit.
const noLimit = 1 << 60

// cgroupFiguresV1 are those of version 1, whose files are in folders of their own.
func cgroupFiguresV1(s *bench.Sample, read func(name string) string) bool {
	if usage := plain(read("cpuacct/cpuacct.usage")); usage != nil {
		s.CPUSecondsTotal = new(*usage * 1e-9)
	}
	stat := pairs(read("cpu/cpu.stat"))
	s.CPUThrottledSecondsTotal = scaled(stat, "throttled_time", 1e-9)
	s.CPUPeriodsTotal, s.CPUThrottledPeriodsTotal = scaled(stat, "nr_periods", 1), scaled(stat, "nr_throttled", 1)
	s.ContainerMemoryBytes = withoutCache(read("memory/memory.usage_in_bytes"), pairs(read("memory/memory.stat")), "total_inactive_file")
	if most := plain(read("memory/memory.limit_in_bytes")); most != nil && *most < noLimit {
		s.MemoryLimitBytes = most
	}
	return s.CPUSecondsTotal != nil || s.ContainerMemoryBytes != nil
}

// withoutCache is what cannot be dropped when memory runs short; all of it where the cache is not known.
func withoutCache(used string, stat map[string]float64, cache string) *float64 {
	value := plain(used)
	if value != nil {
		*value = max(*value-stat[cache], 0)
	}
	return value
}

// plain number; nil for anything else, as "max".
func plain(text string) *float64 {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return nil
	}
	return &value
}

// CgroupScript prints, for each line that it reads, the files of the control group in which its container is, of either
// version, and then CgroupEnd. tail writes the name of each file before it.
const CgroupScript = `cd /sys/fs/cgroup || exit 1
files=
for f in cpu.stat cpu.max memory.current memory.max memory.stat io.stat cpu.pressure io.pressure 	cpuacct/cpuacct.usage cpu/cpu.stat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us 	memory/memory.usage_in_bytes memory/memory.limit_in_bytes memory/memory.stat; do
	[ -r "$f" ] && files="$files $f"
done
[ -n "$files" ] || exit 2
while read -r _; do
	tail -n +1 /dev/null $files 2>/dev/null
	echo "` + CgroupEnd + `"
done`

// CgroupEnd is the last line of an answer of CgroupScript.
const CgroupEnd = "==> end <=="

// CgroupSample reads an answer of CgroupScript. It is false when there is no figure in it.
func CgroupSample(node, text string) (bench.Sample, bool) {
	files := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if head, found := strings.CutPrefix(strings.TrimSpace(line), "==> "); found {
			name = strings.TrimSuffix(head, " <==")
			continue
		}
		files[name] += line
	}
	read := func(name string) string { return strings.TrimSpace(files[name]) }
	s := bench.Sample{Node: node}
	found := cgroupFigures(&s, read)
	if !found {
		found = cgroupFiguresV1(&s, read)
	}
	if quota, ok := quotaOf(read("cpu.max"), read("cpu/cpu.cfs_quota_us"), read("cpu/cpu.cfs_period_us")); ok {
		s.CPULimitCores = &quota
	}
	return s, found
}

// quotaOf is the number of cores by cpu.max, or else by the two files of version 1.
func quotaOf(most, quota, period string) (float64, bool) {
	if fields := strings.Fields(most); len(fields) == 2 {
		quota, period = fields[0], fields[1]
	}
	q, p := plain(quota), plain(period)
	if q == nil || p == nil || *q <= 0 || *p <= 0 {
		return 0, false
	}
	return *q / *p, true
}

// keyed reads a file of lines "key number".
func keyed(file string) map[string]float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return map[string]float64{}
	}
	return pairs(string(text))
}

// pairs are lines "key number".
func pairs(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		key, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil {
			values[key] = value
		}
	}
	return values
}

func scaled(values map[string]float64, key string, by float64) *float64 {
	value, ok := values[key]
	if !ok {
		return nil
	}
	value *= by
	return &value
}

// parseIOStat sums io.stat over devices: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0".
func parseIOStat(text string) (read, written, writes float64) {
	for field := range strings.FieldsSeq(text) {
		key, number, _ := strings.Cut(field, "=")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		switch key {
		case "rbytes":
			read += value
		case "wbytes":
			written += value
		case "wios":
			writes += value
		}
	}
	return read, written, writes
}

// parsePressure reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds in which a task waited.
func parsePressure(text string) (float64, bool) {
	first, _, _ := strings.Cut(text, "\n")
	if _, total, found := strings.Cut(first, "total="); found && strings.HasPrefix(first, "some ") {
		value, err := strconv.ParseFloat(total, 64)
		return value * 1e-6, err == nil
	}
	return 0, false
}

// clockTick is the unit of /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go supports.
const clockTick = 0.01

// readProcesses sums CPU time, memory and disk over a process and its descendants.
func readProcesses(s *bench.Sample, root int) bool {
	members, err := descendants(root)
	if err != nil {
		return false
	}
	var cpu, memory, read, written float64
	io := false
	for pid := range members {
		dir := fmt.Sprintf("/proc/%d", pid)
		if fields, err := statFields(dir); err == nil {
			for _, at := range []int{11, 12, 13, 14} { // utime, stime and those of ended children, counted after the name
				value, _ := strconv.ParseFloat(fields[at], 64)
				cpu += value * clockTick
			}
		}
		if fields := strings.Fields(readText(dir, "statm")); len(fields) > 1 {
			pages, _ := strconv.ParseFloat(fields[1], 64)
			memory += pages * float64(os.Getpagesize())
		}
		if counters := colons(filepath.Join(dir, "io")); len(counters) > 0 {
			io = true
			read, written = read+counters["read_bytes"], written+counters["write_bytes"]
		}
	}
	limit := float64(runtime.NumCPU())
	s.CPUSecondsTotal, s.CPULimitCores, s.MemoryUsedBytes = &cpu, &limit, &memory
	if io {
		s.DiskReadBytesTotal, s.DiskWriteBytesTotal = &read, &written
	}
	return true
}

// descendants of a process, with itself.
func descendants(root int) (map[int]bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	alive := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields, err := statFields(filepath.Join("/proc", entry.Name()))
		if err != nil {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		alive = alive || pid == root
	}
	if !alive {
		return nil, errors.New("the process is gone")
	}
	found := map[int]bool{}
	for todo := []int{root}; len(todo) > 0; {
		pid := todo[0]
		todo = append(todo[1:], children[pid]...)
		found[pid] = true
	}
	return found, nil
}

// statFields are those of /proc/PID/stat after the name, which may hold spaces: the first is the state.
func statFields(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return nil, errors.New("not a stat file")
	}
	return fields, nil
}

func colons(file string) map[string]float64 {
	values := map[string]float64{}
	text, err := os.ReadFile(file)
	if err != nil {
		return values
	}
	for line := range strings.Lines(string(text)) {
		key, number, _ := strings.Cut(line, ":")
		if value, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil {
			values[key] = value
		}
	}
	return values
}

// readNetwork sums the bytes of /proc/PID/net/dev over devices but loopback, or over all when there is no other traffic: a
// broker on loopback is a broker under test.
func readNetwork(file string) (receive, transmit float64, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = f.Close() }() // what was read was read
	var loop [2]float64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, found := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if !found || len(fields) < 9 {
			continue
		}
		in, _ := strconv.ParseFloat(fields[0], 64)
		out, _ := strconv.ParseFloat(fields[8], 64)
		if strings.TrimSpace(name) == "lo" {
			loop = [2]float64{in, out}
			continue
		}
		receive, transmit = receive+in, transmit+out
	}
	if receive == 0 && transmit == 0 {
		receive, transmit = loop[0], loop[1]
	}
	return receive, transmit, !math.IsNaN(receive) && lines.Err() == nil
}
