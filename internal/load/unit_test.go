package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

func TestEndpoints(t *testing.T) {
	e, err := ParseEndpoint("amqps://u:p%40ss@a:1/v%2Fw, amqps://b")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(e.Hosts, " ") != "a:1 b:5671" || e.Username != "u" || e.Password != "p@ss" || e.VHost != "v/w" || e.TLS.ServerName != "a" {
		t.Errorf("got %+v", e)
	}
	for _, bad := range []string{"", "http://a", "amqp://", "a:5672", "amqp://a:hunter2:b"} {
		if _, err := ParseEndpoint(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestStampsAndMessages(t *testing.T) {
	want := stamp{run: 7, publisher: 65535, queue: 9, sequence: 1 << 40, intended: -5, sent: 1 << 50}
	body := make([]byte, stampSize)
	want.put(body)
	if got, ok := readStamp(body, 7); !ok || got != want {
		t.Errorf("got %+v", got)
	}
	if _, ok := readStamp(body, 8); ok {
		t.Error("another run's message was taken for this run's")
	}
	if _, ok := readStamp(body[:31], 7); ok {
		t.Error("a short body was read")
	}
}

func TestControlGroups(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("pod/box/cpu.stat", "usage_usec 1500000\nuser_usec 1\nnr_throttled 3\nthrottled_usec 250000\n")
	put("pod/box/cpu.max", "max 100000\n")
	put("pod/cpu.max", "150000 100000\n")
	put("pod/box/memory.current", "4096\n")
	put("pod/box/memory.max", "max\n")
	put("pod/box/io.stat", "8:0 rbytes=1 wbytes=20 rios=3 wios=4 dbytes=0 dios=0\n8:16 rbytes=10 wbytes=200 rios=3 wios=5\n")
	put("pod/box/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n")
	put("pod/box/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n")
	groups := parseCgroups(root, "0::/pod/box\n")
	var s bench.Sample
	if !groups.unified || !readCgroup(&s, groups) {
		t.Fatalf("got %+v", groups)
	}
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"cpu": {s.CPUSecondsTotal, 1.5}, "throttled": {s.CPUThrottledSecondsTotal, 0.25}, "memory": {s.MemoryUsedBytes, 4096},
		"read": {s.DiskReadBytesTotal, 11}, "written": {s.DiskWriteBytesTotal, 220}, "writes": {s.DiskWritesTotal, 9},
		"waiting for a core": {s.CPUPressureSecondsTotal, 3}, "pressure": {s.IOPressureSecondsTotal, 2},
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if *s.CPULimitCores > 1.5 || s.MemoryLimitBytes != nil {
		t.Errorf("limits %v, %v", *s.CPULimitCores, s.MemoryLimitBytes)
	}
	put("cpu/one/cpu.cfs_quota_us", "50000\n")
	put("cpu/one/cpu.cfs_period_us", "100000\n")
	old := parseCgroups(root, "3:cpu:/one\n2:memory:/two\n0::/\n")
	if quota, ok := cpuQuota(old); !ok || quota != 0.5 {
		t.Errorf("version 1: %v, %v", quota, ok)
	}
}

func TestOwnProcessIsMeasured(t *testing.T) {
	s, err := Probe{Node: "n", PID: os.Getpid()}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if s.CPUSecondsTotal == nil || s.MemoryUsedBytes == nil || *s.MemoryUsedBytes < 1<<20 || s.NetworkReceiveBytesTotal == nil {
		t.Errorf("got %+v", s)
	}
	if _, err := (Probe{Node: "n", PID: 1 << 30}).Read(); err == nil {
		t.Error("a process that is not there was read")
	}
}

func TestDescriptionsAreReadBack(t *testing.T) {
	id, now := randomHex(), time.Now().Truncate(time.Second)
	v := broker.VHost{Name: namePrefix + id, Tags: []string{Label}, Description: describe(id, now)}
	if got, err := lastBeat(v); err != nil || !got.Equal(now) || !isOwn(v.Name, v.Tags) {
		t.Errorf("got %v, %v", got, err)
	}
	v.Description = describe(randomHex(), now)
	if _, err := lastBeat(v); err == nil {
		t.Error("another run's description was taken")
	}
	for _, c := range []struct {
		name string
		tags []string
	}{{"warren-bench-report", []string{Label}}, {namePrefix + id, nil}, {namePrefix + id + "0", []string{Label}}, {"x" + namePrefix + id, []string{Label}}} {
		if isOwn(c.name, c.tags) {
			t.Errorf("%v was taken for a benchmark's", c)
		}
	}
}

func TestSleepsAreNotEarly(t *testing.T) {
	c := clock{started: time.Now()}
	for _, least := range []time.Duration{0, 50 * time.Microsecond} {
		for _, d := range []time.Duration{300 * time.Microsecond, 25 * time.Millisecond} {
			at := c.now() + int64(d)
			if !c.sleepUntil(nil, at, least) || c.now() < at {
				t.Errorf("%s with least %s: woke %s early", d, least, time.Duration(at-c.now()))
			}
		}
	}
	closed := make(chan struct{})
	close(closed)
	if c.sleepUntil(closed, c.now()+int64(time.Hour), 50*time.Microsecond) {
		t.Error("it was not interrupted")
	}
}

func TestCaps(t *testing.T) {
	s := bench.Defaults()
	s.Name = "S"
	capped, err := Capped(s, 100, 0, 1<<20)
	if err != nil || capped.Caps.Rate != 100 || capped.Caps.Disk != 1<<20 {
		t.Errorf("got %+v, %v", capped.Caps, err)
	}
	if _, err := Capped(s, 0, 1, 0); err == nil {
		t.Error("more connections than allowed")
	}
	if capped, _ = Capped(s, 0, 0, 1<<62); capped.Caps.Disk != s.Caps.Disk {
		t.Error("a cap of the scenario was raised")
	}
}

// The scenario that the user's page shows can be run.
func TestTheScenarioOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/benchmark.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page has no scenario")
	}
	s, err := bench.DecodeScenario([]byte(text))
	if err != nil || s.Name != "Orders" || s.Publishers.Connections != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
}
