//go:build broker

package load_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

// record writes what was measured to where internal/bench judges it again (TestJudgeRecorded).
var record = flag.String("record", "", "folder for recorded runs, as ../../internal/bench/testdata/recorded")

// provoked runs one scenario, with what happens meanwhile.
func provoked(t *testing.T, at *brokers.Broker, s bench.Scenario, change func(*load.Benchmark)) bench.Run {
	t.Helper()
	b, err := benchmark(at, s)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&b)
	}
	results, err := b.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := results[0].Runs[0]
	t.Logf("%s: %.0f %s, %s by %v, besides %v; valid %v %v", s.Name, run.Figures.Throughput, run.Figures.ThroughputUnit,
		run.Verdict.Bottleneck, rowsOf(run.Verdict), run.Verdict.Others, run.Validity.Valid, run.Validity.Reasons)
	return run
}

func rowsOf(v bench.Verdict) (rows []string) {
	for _, e := range v.Evidence {
		rows = append(rows, e.Series)
	}
	return rows
}

// wantVerdict sees that a rule holds, with the rows that speak for it, and that it is the verdict unless a rule that comes first
// holds as well: on a machine whose cores others use, those of the generator and of the broker's CPU do.
func wantVerdict(t *testing.T, run bench.Run, want bench.Bottleneck, rows ...string) {
	t.Helper()
	v := run.Verdict
	if v.Bottleneck != want && slices.Contains(v.Others, want) && (v.Bottleneck == bench.GeneratorBound || v.Bottleneck == bench.BrokerCPUBound) {
		t.Logf("%s comes before %s: others use the cores of this machine", v.Bottleneck, want)
		return
	}
	if v.Bottleneck != want {
		t.Errorf("the verdict is %s by %v, besides %v; want %s. Missing are %v", v.Bottleneck, rowsOf(v), v.Others, want, v.Missing)
		return
	}
	for _, row := range rows {
		if !slices.Contains(rowsOf(v), row) {
			t.Errorf("%s is not among the evidence %v", row, rowsOf(v))
		}
	}
	if v.CounterExperiment == "" {
		t.Error("nothing would refute it")
	}
}

// keep writes the steady part of a run, without histograms and without the names of this machine.
func keep(t *testing.T, s bench.Scenario, run bench.Run) {
	t.Helper()
	if *record == "" {
		return
	}
	var steady bench.Phase
	for _, p := range run.Phases {
		if p.Name == bench.PhaseSteady {
			steady = p
		}
	}
	verdict, rows := run.Verdict, rowsOf(run.Verdict)
	run.Latency, run.Verdict, run.Validity = bench.Histograms{}, bench.Verdict{}, bench.Validity{}
	run.Queues = []bench.QueueAccount{}
	run.Seconds = slices.DeleteFunc(slices.Clone(run.Seconds), func(s bench.Second) bool {
		return float64(s.AtSeconds) < steady.StartSeconds || float64(s.AtSeconds) > steady.EndSeconds
	})
	for i := range run.Seconds {
		run.Seconds[i].Latency, run.Seconds[i].Quantiles = nil, nil
	}
	run.Broker = slices.DeleteFunc(slices.Clone(run.Broker), func(s bench.Sample) bool {
		return s.AtSeconds < steady.StartSeconds || s.AtSeconds > steady.EndSeconds
	})
	for i := range run.Broker {
		run.Broker[i].Node = "rabbit@node"
	}
	run.Events = nil
	text, err := json.MarshalIndent(map[string]any{
		"why": s.Description, "verdict": verdict.Bottleneck, "rows": rows, "scenario": s, "run": run,
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*record, s.Name+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func seconds(n int) bench.Duration { return bench.Duration(time.Duration(n) * time.Second) }

// A broker behind a link of 20 Mbit is limited by it, and bodies of half the size make the messages more.
func TestVerdictNetwork(t *testing.T) {
	t.Parallel()
	at := ownBroker(t, versions[1], "net", "--link-rate", "20mbit")
	const whole bench.Size = 32 << 10
	sized := func(name string, size bench.Size) bench.Run {
		s := quick(name, func(s *bench.Scenario) {
			s.Description = "bodies of " + size.String() + " over a link of 20 Mbit, RabbitMQ " + at.Version
			s.Load = bench.Load{Mode: bench.ClosedLoop}
			s.Message.Sizes, s.Publishers.ConfirmWindow, s.Duration = []bench.Size{size}, 20, seconds(4)
		})
		run := provoked(t, at, s, func(b *load.Benchmark) {
			sources := b.Sources
			b.Sources = func(vhost string) []load.Source {
				return append(sources(vhost), load.Link{Nodes: []string{at.Name + "@localhost"}, BytesPerSecond: 20e6 / 8})
			}
		})
		wantVerdict(t, run, bench.NetworkBound, "network")
		if size == whole {
			keep(t, s, run)
		}
		return run
	}
	full, half := sized("FullLink", whole), sized("FullLinkHalfBodies", whole/2)
	if full.Figures.Throughput*1.4 > half.Figures.Throughput {
		t.Errorf("%.0f messages/s, and with bodies of half the size %.0f", full.Figures.Throughput, half.Figures.Throughput)
	}
}

// A quorum queue on a disk that makes 12 writes a second is limited by the disk, and transient messages in a classic queue are
// not.
func TestVerdictDisk(t *testing.T) {
	t.Parallel()
	at := ownBroker(t, versions[1], "disk", "--disk-writes", "12")
	s := quick("SlowDisk", func(s *bench.Scenario) {
		s.Description = "quorum queues on a disk that makes 12 writes a second, RabbitMQ " + at.Version
		s.Load, s.Queues.Type = bench.Load{Mode: bench.ClosedLoop}, bench.QuorumQueue
		s.Publishers.ConfirmWindow, s.Duration = 50, seconds(4)
	})
	slow := provoked(t, at, s, nil)
	wantVerdict(t, slow, bench.DiskBound, "raftCommitLatency", "diskWriteAwait")
	keep(t, s, slow)
	fast := provoked(t, at, quick("SlowDiskTransient", func(s *bench.Scenario) {
		s.Load, s.Message.Persistent = bench.Load{Mode: bench.ClosedLoop}, false
		s.Publishers.ConfirmWindow, s.Duration = 50, seconds(4)
	}), nil)
	if fast.Figures.Throughput < 2*slow.Figures.Throughput {
		t.Errorf("%.0f messages/s, and without the disk %.0f", slow.Figures.Throughput, fast.Figures.Throughput)
	}
	if v := fast.Verdict; v.Bottleneck == bench.DiskBound {
		t.Errorf("transient messages are limited by the disk: %+v", v.Evidence)
	}
}

// Eight publishers to one classic queue are limited by its process; the broker holds them back while cores are left.
func TestVerdictQueueProcess(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		flatOut := func(name string, queues int) (bench.Scenario, bench.Run) {
			s := quick(name+strings.ReplaceAll(at.Version, ".", ""), func(s *bench.Scenario) {
				s.Description = "eight publishers without confirms, RabbitMQ " + at.Version
				s.Load = bench.Load{Mode: bench.ClosedLoop}
				s.Publishers.Count, s.Publishers.ConfirmWindow, s.Queues.Count = 8, 0, queues
				s.Consumers.Count, s.Consumers.AckEvery, s.Duration = 4, 50, seconds(4)
			})
			return s, provoked(t, at, s, nil)
		}
		s, one := flatOut("OneQueue", 1)
		wantVerdict(t, one, bench.QueueProcessBound, "cpu")
		keep(t, s, one)
		if told := slices.ContainsFunc(one.Broker, func(s bench.Sample) bool {
			return s.ConnectionsInFlow != nil && s.ChannelsInFlow != nil && s.QueuesInFlow != nil
		}); !told {
			t.Error("nobody says what is in flow")
		}
		if *long {
			_, four := flatOut("FourQueues", 4)
			t.Logf("the counter-experiment: %.0f messages/s with one queue, %.0f with four", one.Figures.PublishedPerSecond, four.Figures.PublishedPerSecond)
		}
	})
}

// An alarm that is raised during a run is the verdict, whatever it is an alarm of; with the limits of before there is none.
func TestVerdictAlarm(t *testing.T) {
	at := realBroker(t, versions[0])
	for _, test := range []struct {
		name, row string
		raise, of []string
	}{
		{"MemoryAlarm", "memoryAlarm", []string{"set_vm_memory_high_watermark", "0.000001"}, []string{"set_vm_memory_high_watermark", "0.6"}},
		{"DiskAlarm", "diskAlarm", []string{"set_disk_free_limit", "100000GB"}, []string{"set_disk_free_limit", "50MB"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctl := func(arguments []string) error {
				_, err := at.Run(append([]string{"rabbitmqctl"}, arguments...)...)
				return err
			}
			done := make(chan error, 1)
			s := quick(test.name, func(s *bench.Scenario) {
				s.Description = "the alarm is raised in the steady part, RabbitMQ " + at.Version
				s.Load = bench.Load{Mode: bench.ClosedLoop}
				s.Duration = seconds(60)
			})
			raised := false
			run := provoked(t, at, s, func(b *load.Benchmark) {
				b.OnProgress = func(_ bench.Scenario, _ int, p load.Progress) {
					if p.Phase == bench.PhaseSteady && !raised {
						raised = true
						go func() { done <- ctl(test.raise) }()
					}
				}
			})
			if !raised {
				t.Fatalf("the run ended before its steady part: %+v", run.Events)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			wantVerdict(t, run, bench.AlarmBound, test.row)
			keep(t, s, run)
			if run.Validity.Valid {
				t.Error("the run is valid")
			}
			if err := ctl(test.of); err != nil {
				t.Fatal(err)
			}
			wantDanger(t, apiOf(t, at), "", false)
			time.Sleep(10 * time.Second) // the statistics and the node's own page tell of the end at different times
			if !*long {
				return
			}
			calm := provoked(t, at, quick("Calm", nil), nil)
			if v := calm.Verdict; v.Bottleneck == bench.AlarmBound || slices.Contains(v.Others, bench.AlarmBound) {
				t.Errorf("without the alarm the verdict is %s by %v", v.Bottleneck, rowsOf(v))
			}
		})
	}
}
