package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

func TestEndpoints(t *testing.T) {
	e, err := ParseEndpoint("amqps://u:p%40ss@a:1/v%2Fw, amqps://b")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(e.Hosts, " ") != "a:1 b:5671" || e.Username != "u" || e.Password != "p@ss" || e.VHost != "v/w" || e.TLS == nil || e.TLS.ServerName != "" || e.TLS.InsecureSkipVerify {
		t.Errorf("got %+v", e)
	}
	for _, bad := range []string{"", "http://a", "amqp://", "a:5672", "amqp://a:hunter2:b", "amqps://a,amqp://b", "amqp://a,amqps://b"} {
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

// Whose doing it is that a schedule is behind: a publisher of 100 messages a second, that is one each 10 ms, catches up at
// twice its rate.
func TestWhoseDoingALateSendIs(t *testing.T) {
	const ms = int64(time.Millisecond)
	type step struct {
		room, write  int64 // ms since the send before in which it waited for room, and in which the wire was in a write
		intended, at int64 // ms
		ready        int64 // ms, wanted
		excused      bool
	}
	for name, steps := range map[string][]step{
		"in time": {{0, 0, 10, 10, 10, false}, {1, 1, 20, 20, 20, false}},
		"a pause that fills the window": {
			{0, 0, 10, 10, 10, false}, {1000, 0, 20, 1010, 1010, true}, {0, 0, 30, 1015, 1015, true}, {0, 0, 40, 1020, 1020, true}, {0, 0, 1030, 1030, 1030, false},
		},
		"and that is noticed late":                       {{1000, 0, 20, 1060, 1020, false}, {0, 0, 30, 1065, 1030, false}, {0, 0, 900, 1500, 1500, true}},
		"a write of another publisher of the connection": {{0, 500, 20, 515, 515, true}, {0, 0, 30, 520, 520, true}},
		"the generator's own delay":                      {{0, 0, 20, 520, 20, false}, {0, 1, 30, 525, 31, false}, {1, 0, 40, 530, 42, false}},
		"its own delay while it catches up": {
			{1000, 0, 20, 1015, 1015, true}, {0, 0, 500, 1260, 1260, true}, {0, 0, 510, 1500, 1270, false},
		},
		"a wait before does not excuse it later": {{1000, 0, 20, 1015, 1015, true}, {0, 0, 1100, 1100, 1100, false}, {0, 0, 1110, 1700, 1110, false}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &publisher{wire: &wire{}}
			for i, s := range steps {
				p.inRoom += s.room * ms
				p.wire.held.Add(s.write * ms)
				if ready := p.readyFor(s.intended*ms, s.at*ms); ready != s.ready*ms || p.excused != s.excused {
					t.Errorf("send %d: ready at %d ms, excused %v; want %d, %v", i, ready/ms, p.excused, s.ready, s.excused)
				}
			}
		})
	}
}

// Two publishers of a connection are held by one write, once.
func TestAWriteHoldsAllPublishersOfAConnection(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	w := newWire(here, 64)
	c := clock{started: time.Now()}
	var all sync.WaitGroup
	for range 2 {
		began := c.now()
		if _, err := w.gather(newMessage(1, "", "q", false, true, 64, 4096), &stamp{}); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _, _ = w.push(c, began) })
	}
	before := c.now()
	var buffer [4096]byte
	if _, err := there.Read(buffer[:]); err != nil {
		t.Fatal(err)
	}
	_ = there.Close()
	all.Wait()
	if held := w.held.Load(); held <= 0 || held > c.now() {
		t.Errorf("held for %d ns, of which %d before anybody read, of %d in all", held, before, c.now())
	}
}

func TestReasonsOfFailedAttempts(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), "connection refused"},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), "cut by the broker"},
		{io.EOF, "cut by the broker"},
		{amqp.ErrClosed, "cut by the broker"},
		{amqp.ErrCredentials, "cut by the broker while logging in"},
		{&amqp.Error{Code: amqp.NotAllowed, Reason: "NOT_ALLOWED - connection limit"}, "refused with 530"},
		{syscall.EMFILE, "the generator has no more sockets"},
		{context.DeadlineExceeded, "timed out"},
		{errors.New("whatever"), "other"},
	} {
		if got := shortly(test.err); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
	}
}

// Messages are missing that are neither consumed nor said to be left; of a queue that is not told of, nothing is known.
func TestMissing(t *testing.T) {
	r := &run{fleet: &fleet{shared: &shared{book: newBook([]string{"a", "b"}, 7, true)}}}
	for tag := uint64(1); tag <= 3; tag++ {
		r.book.published(0, 0, tag)
		r.book.confirmed(0, 0, tag)
	}
	r.book.received(0, 0, stamp{run: 7, sequence: 1}, false)
	for _, test := range []struct {
		left map[string]int64
		want bool
	}{
		{map[string]int64{"a": 2, "b": 0}, false}, {map[string]int64{"a": 1, "b": 5}, true}, {map[string]int64{"b": 0}, false},
		{map[string]int64{"a": bench.NotTold}, false},
	} {
		if got := r.missing(test.left); got != test.want {
			t.Errorf("%v: %v", test.left, got)
		}
	}
}

// After a storm the statistics of older versions show connections of a vhost that is gone.
func TestConnectionsOfVHostsThatAreGoneAreGhosts(t *testing.T) {
	living, gone := namePrefix+strings.Repeat("a", 32), namePrefix+strings.Repeat("b", 32)
	vhosts := []broker.VHost{{Name: "/"}, {Name: living}}
	for _, c := range []struct {
		vhost, user string
		want        string
		ghosts      int
	}{
		{"/", "shop", "user shop", 0},
		{living, living, "another benchmark", 0},
		{gone, gone, "", 1},
		{"orders", "shop", "user shop", 0}, // no name of ours: whoever it is, it counts
		{"/", "", "", 0},                   // the broker does not say: the total counts it
	} {
		users, ghosts := usersOf([]broker.Connection{{VHost: c.vhost, User: c.user}}, vhosts)
		if got := strings.Join(first(users, 9), ", "); got != c.want || ghosts != c.ghosts {
			t.Errorf("%+v: got %q and %d ghosts", c, got, ghosts)
		}
	}
}

// A benchmark that runs is seen by its vhost, before the statistics have its connections.
func TestALivingBenchmarkIsSeen(t *testing.T) {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	id := strings.Repeat("a", 32)
	vhost := func(change func(*broker.VHost), silent time.Duration) []broker.VHost {
		v := broker.VHost{Name: namePrefix + id, Tags: []string{Label}, Description: describe(id, now.Add(-silent))}
		change(&v)
		return []broker.VHost{{Name: "/"}, v}
	}
	same := func(*broker.VHost) {}
	for name, c := range map[string]struct {
		vhosts []broker.VHost
		own    string
		seen   bool
	}{
		"it runs":                     {vhost(same, 25*time.Second), "", true},
		"its clock is ahead":          {vhost(same, -time.Minute), "", true},
		"it was killed":               {vhost(same, 2*BeatEvery), "", false},
		"it is this one":              {vhost(same, 0), namePrefix + id, false},
		"it is beside this one":       {vhost(same, 0), namePrefix + strings.Repeat("b", 32), true},
		"a user's, without the tag":   {vhost(func(v *broker.VHost) { v.Tags = nil }, 0), "", false},
		"a user's, of another name":   {vhost(func(v *broker.VHost) { v.Name = "warren-bench-mine" }, 0), "", false},
		"it does not say when it was": {vhost(func(v *broker.VHost) { v.Description = "" }, 0), "", false},
	} {
		if got := livingTenant(c.vhosts, c.own, now); (got != "") != c.seen {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// Of several workers none knows what the others consumed: a queue that still has messages after its consumers may get more back.
func TestWhenSeveralWorkersTrustWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		consumers int
		left      map[string]int64
		unsure    bool
	}{
		"all was consumed":              {4, map[string]int64{"a": 0, "b": 0}, false},
		"something is left":             {4, map[string]int64{"a": 0, "b": 3}, true},
		"nobody consumes":               {0, map[string]int64{"a": 900}, false},
		"the broker did not say":        {4, map[string]int64{"a": bench.NotTold}, false},
		"streams, which keep all there": {4, nil, false},
	} {
		s := scenario(func(s *bench.Scenario) { s.Consumers.Count = c.consumers })
		r := &run{Plan: Plan{Workers: 2}, fleet: &fleet{scenario: &s}}
		if got := r.unsure(c.left); got != c.unsure {
			t.Errorf("%s: unsure %v, want %v", name, got, c.unsure)
		}
	}
}
