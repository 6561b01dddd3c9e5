//go:build broker

package load_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/test/brokers"
)

// brief makes a built-in scenario one of few seconds, with as many clients and queues.
func brief(s bench.Scenario) bench.Scenario {
	s.WarmUp, s.Duration, s.CoolDown, s.Runs = seconds(1), seconds(4), 0, 1
	if s.Backlog != nil {
		s.Backlog.Messages = min(s.Backlog.Messages, 20000)
		s.Duration = seconds(30)
	}
	if s.Storm != nil {
		s.Storm.Connections, s.Storm.Jitter = s.Storm.Connections/10, s.Storm.Jitter/10
	}
	return s
}

// Each built-in scenario runs on both brokers: the run counts, nothing is lost, doubled or out of order, the verdict has
// evidence. All of them with -long, else the first one that a user meets.
func TestTheMatrix(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		client := apiOf(t, at)
		before := census(t, client)
		var scenarios []bench.Scenario
		for _, s := range bench.Matrix() {
			mirrored := s.Queues.Type == bench.MirroredQueue && at.Version != versions[0]
			if s.Name == "SteadyRate" || *long && !mirrored {
				scenarios = append(scenarios, brief(s))
			}
		}
		b, err := benchmark(at, scenarios...)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b.OnRun = func(s bench.Scenario, r bench.Run) {
			t.Logf("%4.0f s %s: %.0f %s, %s by %v, besides %v", time.Since(began).Seconds(), s.Name, r.Figures.Throughput, r.Figures.ThroughputUnit,
				r.Verdict.Bottleneck, rowsOf(r.Verdict), r.Verdict.Others)
			sane(t, s, r)
		}
		results, err := b.Do(t.Context())
		if err != nil {
			t.Error(err)
		}
		if len(results) != len(scenarios) {
			t.Errorf("%d results of %d scenarios", len(results), len(scenarios))
		}
		if after := census(t, client); after != before {
			t.Errorf("there is\n%s\nwant\n%s", after, before)
		}
		wantDanger(t, client, "", false)
	})
}

// sane is what must hold of any run on a broker that nobody else uses.
func sane(t *testing.T, s bench.Scenario, r bench.Run) {
	t.Helper()
	short := s.Backlog != nil && r.Drain != nil && r.Drain.Left == 0 && len(r.Validity.Reasons) == 1 && r.Validity.Reasons[0].Code == "TooShort"
	if !r.Validity.Valid && !short { // a small backlog may be gone before it can be measured
		t.Errorf("%s is not valid: %v, events %v", s.Name, r.Validity.Reasons, r.Events)
	}
	sum := sumOf(r)
	if sum.Lost+sum.Duplicated+sum.Reordered+sum.Foreign != 0 || s.Publishers.Count > 0 && sum.Published == 0 {
		t.Errorf("%s: %+v", s.Name, sum)
	}
	if s.Publishers.ConfirmWindow > 0 && sum.Confirmed != sum.Published {
		t.Errorf("%s: %d of %d are confirmed", s.Name, sum.Confirmed, sum.Published)
	}
	v := r.Verdict
	held := append([]bench.Bottleneck{v.Bottleneck}, v.Others...)
	if v.Bottleneck != bench.UnknownBound && (len(v.Evidence) == 0 || v.CounterExperiment == "" || v.Summary == "") {
		t.Errorf("%s: %+v", s.Name, v)
	}
	if slices.Contains(held, bench.AlarmBound) || slices.Contains(held, bench.NetworkBound) {
		t.Errorf("%s: %v, and there was no alarm, and nobody told the speed of the link", s.Name, held)
	}
	if s.Load.Mode == bench.ClosedLoop && slices.Contains(held, bench.RateBound) {
		t.Errorf("%s: asks for no rate, and has reached it", s.Name)
	}
	if slices.Contains(held, bench.ConfirmWindowBound) && s.Publishers.ConfirmWindow == 0 || slices.Contains(held, bench.PrefetchBound) && s.Consumers.Count == 0 {
		t.Errorf("%s: %v is of what it does not have", s.Name, held)
	}
	for name, get := range map[string]func(*bench.Sample) *float64{
		"memoryAlarm":       func(s *bench.Sample) *float64 { return s.MemoryAlarm },
		"cpuSecondsTotal":   func(s *bench.Sample) *float64 { return s.CPUSecondsTotal },
		"runQueue":          func(s *bench.Sample) *float64 { return s.RunQueue },
		"connectionsInFlow": func(s *bench.Sample) *float64 { return s.ConnectionsInFlow },
	} {
		if told(r, get) == 0 {
			t.Errorf("%s: nobody told %s", s.Name, name)
		}
	}
}

// Each figure that a rule looks at is told by brokers of both versions where it applies, and is unknown and not zero where it
// does not.
func TestWhatBrokersTell(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		longer := func(s *bench.Scenario) { s.Duration = seconds(3) }
		classic := provoked(t, at, quick("ToldOfClassic", longer), nil)
		quorum := provoked(t, at, quick("ToldOfQuorum", func(s *bench.Scenario) { longer(s); s.Queues.Type = bench.QuorumQueue }), nil)
		for name, get := range map[string]func(*bench.Sample) *float64{
			"connectionsInFlow":        func(s *bench.Sample) *float64 { return s.ConnectionsInFlow },
			"channelsInFlow":           func(s *bench.Sample) *float64 { return s.ChannelsInFlow },
			"queuesInFlow":             func(s *bench.Sample) *float64 { return s.QueuesInFlow },
			"connectionsBlocked":       func(s *bench.Sample) *float64 { return s.ConnectionsBlocked },
			"cpuSecondsTotal":          func(s *bench.Sample) *float64 { return s.CPUSecondsTotal },
			"diskBusySecondsTotal":     func(s *bench.Sample) *float64 { return s.DiskBusySecondsTotal },
			"diskWriteSecondsTotal":    func(s *bench.Sample) *float64 { return s.DiskWriteSecondsTotal },
			"deviceWritesTotal":        func(s *bench.Sample) *float64 { return s.DeviceWritesTotal },
			"diskWriteBytesTotal":      func(s *bench.Sample) *float64 { return s.DiskWriteBytesTotal },
			"networkReceiveBytesTotal": func(s *bench.Sample) *float64 { return s.NetworkReceiveBytesTotal },
			"brokerReceiveBytesTotal":  func(s *bench.Sample) *float64 { return s.BrokerReceiveBytesTotal },
			"connectionPendingPackets": func(s *bench.Sample) *float64 { return s.ConnectionPendingPackets },
			"memoryAlarm":              func(s *bench.Sample) *float64 { return s.MemoryAlarm },
			"diskAlarm":                func(s *bench.Sample) *float64 { return s.DiskAlarm },
			"runQueue":                 func(s *bench.Sample) *float64 { return s.RunQueue },
			"messagesReady":            func(s *bench.Sample) *float64 { return s.MessagesReady },
			"messagesUnacked":          func(s *bench.Sample) *float64 { return s.MessagesUnacked },
			"receivedTotal":            func(s *bench.Sample) *float64 { return s.ReceivedTotal },
		} {
			if told(classic, get) == 0 {
				t.Errorf("nobody told %s", name)
			}
		}
		raft := func(s *bench.Sample) *float64 { return s.RaftCommitLatencySeconds }
		if told(quorum, raft) == 0 {
			t.Error("nobody told raftCommitLatencySeconds of quorum queues")
		}
		if n := told(classic, raft); n > 0 {
			t.Errorf("%d samples tell raftCommitLatencySeconds, and there is no quorum queue", n)
		}
		for name, get := range map[string]func(*bench.Sample) *float64{
			"networkLimitBytesPerSecond": func(s *bench.Sample) *float64 { return s.NetworkLimitBytesPerSecond },
			"cpuThrottledSecondsTotal":   func(s *bench.Sample) *float64 { return s.CPUThrottledSecondsTotal },
		} {
			if n := told(classic, get); n > 0 {
				t.Errorf("%d samples tell %s, which nobody can know here", n, name)
			}
		}
	})
}

func told(run bench.Run, get func(*bench.Sample) *float64) (n int) {
	for i := range run.Broker {
		if get(&run.Broker[i]) != nil {
			n++
		}
	}
	return n
}
