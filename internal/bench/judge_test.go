package bench_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
)

func builtin(t testing.TB, name string) bench.Scenario {
	t.Helper()
	s, err := bench.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name     string
		scenario string
		load     func(*benchtest.Load)
		want     bench.Bottleneck
		// rows that make it, in order; others that hold too.
		rows   []string
		others []bench.Bottleneck
	}{
		{"nothing is full", "SmallConfirmed", func(*benchtest.Load) {}, bench.UnknownBound, nil, nil},
		{"a rate that is reached", "SteadyRate", func(l *benchtest.Load) { l.Intended = l.Published }, bench.RateBound, []string{"client.rate", "client.backlogGrowth"}, nil},
		{"a rate that is not reached", "SteadyRate", func(l *benchtest.Load) { l.Intended = 1.1 * l.Published }, bench.UnknownBound, nil, nil},

		{"the generator's CPU", "SmallConfirmed", func(l *benchtest.Load) { l.GeneratorCPU = 0.86 }, bench.GeneratorBound, []string{"generator.cpu"}, nil},
		{"the generator's pacing", "SteadyRate", func(l *benchtest.Load) { l.Intended, l.Late = l.Published, 0.011 }, bench.GeneratorBound, []string{"generator.pacingError"}, []bench.Bottleneck{bench.RateBound}},
		{"pacing within bounds", "SteadyRate", func(l *benchtest.Load) { l.Intended, l.Late = l.Published, 0.0099 }, bench.RateBound, []string{"client.rate", "client.backlogGrowth"}, nil},
		{"the generator's delay", "SmallConfirmed", func(l *benchtest.Load) { l.SchedulingDelay = 11 * time.Millisecond }, bench.GeneratorBound, []string{"generator.schedulingDelay"}, nil},
		{"the generator wins over all", "SmallConfirmed", func(l *benchtest.Load) {
			l.GeneratorCPU, l.MemoryAlarm, l.CPU, l.Network = 0.9, 1, 4, 1
		}, bench.GeneratorBound, []string{"generator.cpu"}, []bench.Bottleneck{bench.AlarmBound, bench.NetworkBound, bench.BrokerCPUBound}},

		{"the memory alarm", "SmallConfirmed", func(l *benchtest.Load) { l.MemoryAlarm, l.Blocked = 1, 0.2 }, bench.AlarmBound, []string{"memoryAlarm", "client.blocked"}, nil},
		{"blocked without samples", "SmallConfirmed", func(l *benchtest.Load) { l.Blocked, l.NoBroker = 0.2, true }, bench.AlarmBound, []string{"client.blocked"}, nil},

		{"the network", "LargeMessages", func(l *benchtest.Load) { l.Network = 0.86 }, bench.NetworkBound, []string{"network"}, nil},
		{"the broker's CPU", "SmallConfirmed", func(l *benchtest.Load) { l.CPU, l.RunQueue = 3.6, 9 }, bench.BrokerCPUBound, []string{"cpu", "runQueue"}, nil},
		{"a throttled broker", "SmallConfirmed", func(l *benchtest.Load) { l.CPU, l.Throttled = 3, 0.1 }, bench.BrokerCPUBound, []string{"cpuThrottled"}, nil},
		{"a long run queue with CPU left", "SmallConfirmed", func(l *benchtest.Load) { l.RunQueue = 9 }, bench.BrokerCPUBound, []string{"runQueue", "cpu"}, nil},
		{"neighbours", "SmallConfirmed", func(l *benchtest.Load) { l.CPUPressure = 0.6 }, bench.BrokerCPUBound, []string{"cpuPressure", "cpu"}, nil},
		{"a full CPU hides the disk", "Quorum", func(l *benchtest.Load) { l.CPU, l.DiskBusy = 3.9, 0.95 }, bench.BrokerCPUBound, []string{"cpu"}, nil},

		{"a busy disk", "SmallConfirmed", func(l *benchtest.Load) { l.DiskBusy, l.WindowUse, l.WindowWait = 0.9, 0.99, 0.9 },
			bench.DiskBound, []string{"diskBusy", "cpu"}, []bench.Bottleneck{bench.ConfirmWindowBound}},
		{"a slow disk under a quorum queue", "Quorum", func(l *benchtest.Load) { l.Raft, l.Await = 0.05, 0.02 }, bench.DiskBound, []string{"raftCommitLatency", "diskWriteAwait", "cpu"}, nil},
		{"slow commits with a fast disk", "Quorum", func(l *benchtest.Load) { l.Raft = 0.05 }, bench.UnknownBound, nil, nil},
		{"pressure on the disk", "SmallConfirmed", func(l *benchtest.Load) { l.IOPressure = 0.4 }, bench.DiskBound, []string{"ioPressure", "cpu"}, nil},

		{"one queue in flow", "FanIn", func(l *benchtest.Load) { l.FlowShare, l.Intended = 0.5, 1.5*l.Published }, bench.QueueProcessBound, []string{"flow", "cpu"}, nil},
		{"little flow", "FanIn", func(l *benchtest.Load) { l.FlowShare, l.Intended = 0.1, 1.5*l.Published }, bench.UnknownBound, nil, nil},
		{"flow just enough", "FanIn", func(l *benchtest.Load) { l.FlowShare, l.Intended = 0.3, 1.5*l.Published }, bench.QueueProcessBound, []string{"flow", "cpu"}, nil},
		{"publishers that cannot write", "SmallMessages", func(l *benchtest.Load) { l.WriteWait = 0.6 }, bench.QueueProcessBound, []string{"client.writeWait", "cpu"}, nil},
		{"flow without knowledge of CPU", "SmallMessages", func(l *benchtest.Load) { l.FlowShare, l.CPULimit = 0.5, 0 }, bench.UnknownBound, nil, nil},
		{"a queue that does not deliver", "SmallMessages", func(l *benchtest.Load) { l.Ready = 50000 }, bench.QueueProcessBound,
			[]string{"messagesReady", "prefetchUse", "client.handler", "cpu"}, nil},

		{"a window of one", "ConfirmWindow1", func(l *benchtest.Load) { l.WindowUse, l.WindowWait = 1, 0.95 }, bench.ConfirmWindowBound,
			[]string{"client.windowUse", "client.windowWait", "client.backlogGrowth", "cpu"}, nil},
		{"a full window while messages pile up", "ConfirmWindow50", func(l *benchtest.Load) {
			l.WindowUse, l.WindowWait, l.Consumed, l.Ready, l.PrefetchUse = 1, 0.95, l.Published/2, 1e5, 1
		}, bench.PrefetchBound, []string{"messagesReady", "prefetchUse", "client.handler", "cpu"}, nil},
		{"without samples the window is named all the same", "ConfirmWindow1", func(l *benchtest.Load) { l.WindowUse, l.WindowWait, l.NoBroker = 1, 0.95, true },
			bench.ConfirmWindowBound, []string{"client.windowUse", "client.windowWait", "client.backlogGrowth"}, nil},

		{"slow handlers", "BatchConsumers", func(l *benchtest.Load) { l.Ready, l.Handler, l.PrefetchUse = 1e5, 0.95, 1 }, bench.ConsumerBound,
			[]string{"messagesReady", "client.handler"}, nil},
		{"consumers that do not read", "SmallConfirmed", func(l *benchtest.Load) { l.Ready, l.Pending = 1e5, 12 }, bench.ConsumerBound,
			[]string{"messagesReady", "connectionPendingPackets"}, nil},
		{"a small prefetch", "Prefetch1", func(l *benchtest.Load) { l.Ready, l.PrefetchUse = 1e5, 1 }, bench.PrefetchBound,
			[]string{"messagesReady", "prefetchUse", "client.handler", "cpu"}, nil},
		{"a drain after a fill in flow", "Prefetch1", func(l *benchtest.Load) { l.Ready, l.PrefetchUse, l.FlowShare = 1e5, 1, 1 }, bench.PrefetchBound,
			[]string{"messagesReady", "prefetchUse", "client.handler", "cpu"}, nil},
		{"a full prefetch with nothing waiting", "SmallConfirmed", func(l *benchtest.Load) { l.PrefetchUse = 1 }, bench.UnknownBound, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			load := benchtest.Healthy(20000)
			test.load(&load)
			v := benchtest.Run(builtin(t, test.scenario), 1, load).Verdict
			var rows []string
			for _, e := range v.Evidence {
				rows = append(rows, e.Series)
				if e.Meaning == "" {
					t.Errorf("%s means nothing", e.Series)
				}
			}
			if v.Bottleneck != test.want || !slices.Equal(rows, test.rows) || !slices.Equal(v.Others, test.others) {
				t.Errorf("%s by %v, besides %v\nwant %s by %v, besides %v", v.Bottleneck, rows, v.Others, test.want, test.rows, test.others)
			}
			if v.Summary == "" || (v.CounterExperiment == "") != (v.Bottleneck == bench.UnknownBound) {
				t.Errorf("summary %q, counter-experiment %q", v.Summary, v.CounterExperiment)
			}
		})
	}
}

// The verdicts on what real brokers and generators said. Each file has the steady part of one run, without histograms, and
// the verdict that those who were there gave it.
func TestJudgeRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var recorded struct {
			Why      string
			Verdict  bench.Bottleneck
			Rows     []string
			Scenario bench.Scenario
			Run      bench.Run
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		v := bench.Judge(recorded.Scenario, recorded.Run)
		var rows []string
		for _, e := range v.Evidence {
			rows = append(rows, e.Series)
		}
		if v.Bottleneck != recorded.Verdict || !slices.Equal(rows, recorded.Rows) {
			t.Errorf("%s (%s): %s by %v, besides %v; want %s by %v", file, recorded.Why, v.Bottleneck, rows, v.Others, recorded.Verdict, recorded.Rows)
		}
	}
}

func TestJudgeSaysWhatIsMissing(t *testing.T) {
	load := benchtest.Healthy(20000)
	load.NoBroker = true
	v := benchtest.Run(builtin(t, "Quorum"), 1, load).Verdict
	want := []string{"memoryAlarm", "diskAlarm", "network", "cpu", "cpuThrottled", "cpuPressure", "runQueue", "diskBusy", "ioPressure", "diskWriteAwait", "raftCommitLatency", "flow"}
	if v.Bottleneck != bench.UnknownBound || !slices.Equal(v.Missing, want) {
		t.Errorf("%s, missing %v", v.Bottleneck, v.Missing)
	}
}

// What the kernel of a node far away says of its network is not known; the broker's own count of its clients' bytes is.
func TestTheNetworkByTheBrokersCount(t *testing.T) {
	load := benchtest.Healthy(20000)
	run := benchtest.Run(builtin(t, "LargeMessages"), 1, load)
	limit := 1e6
	for i := range run.Broker {
		s := &run.Broker[i]
		s.NetworkReceiveBytesTotal, s.NetworkTransmitBytesTotal, s.NetworkLimitBytesPerSecond = nil, nil, &limit
		s.BrokerTransmitBytesTotal = new(s.AtSeconds * 0.9 * limit)
	}
	v := bench.Judge(builtin(t, "LargeMessages"), run)
	if v.Bottleneck != bench.NetworkBound || len(v.Evidence) != 1 || v.Evidence[0].Value < 0.89 || v.Evidence[0].Value > 0.91 {
		t.Errorf("%s by %+v", v.Bottleneck, v.Evidence)
	}
	for i := range run.Broker {
		run.Broker[i].BrokerTransmitBytesTotal = nil
	}
	if v := bench.Judge(builtin(t, "LargeMessages"), run); v.Bottleneck == bench.NetworkBound || !slices.Contains(v.Missing, "network") {
		t.Errorf("%s, missing %v", v.Bottleneck, v.Missing)
	}
}

func TestCounterExperimentsSpeakOfTheScenario(t *testing.T) {
	load := benchtest.Healthy(20000)
	load.WindowUse, load.WindowWait = 1, 1
	if v := benchtest.Run(builtin(t, "ConfirmWindow50"), 1, load).Verdict; !strings.Contains(v.CounterExperiment, "a window of 200 instead of 50") {
		t.Error(v.CounterExperiment)
	}
}
