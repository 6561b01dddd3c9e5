// Package benchtest makes runs of benchmarks for tests: what a generator and a broker would have said of a load whose
// figures are given.
package benchtest

import (
	"math"
	"time"

	"github.com/warren-mq/warren/internal/bench"
)

// Started is when all runs start.
var Started = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Load is what a run was like in its steady part. Shares are 0 to 1. The zero value is idle; Healthy is not.
type Load struct {
	// Published and Consumed messages per second; Intended is 0 in Closed mode.
	Published, Consumed, Intended float64
	// Latency is the median; P99 is about four times as much.
	Latency time.Duration
	// Seconds of the steady part, after 10 seconds of warm-up.
	Seconds int

	Late, GeneratorCPU float64 // shares
	// SchedulingDelay of each wake-up of the generator.
	SchedulingDelay                       time.Duration
	WindowUse, WindowWait, WriteWait      float64 // shares of the publishers'
	Blocked, Handler, PrefetchUse         float64 // shares
	CPU, CPULimit, Throttled, CPUPressure float64 // cores, cores, shares
	RunQueue, Pending, Ready              float64
	DiskBusy, IOPressure, Await, Raft     float64 // share, share, seconds, seconds
	Network                               float64 // share of the link
	FlowShare                             float64 // of the samples
	MemoryAlarm, DiskAlarm                float64
	Received                              float64 // by the broker per second; 0: as published
	NoBroker                              bool
}

// Healthy is a load of so many messages per second in which nothing is near a limit.
func Healthy(rate float64) Load {
	return Load{
		Published: rate, Consumed: rate, Latency: 2 * time.Millisecond, Seconds: 60,
		GeneratorCPU: 0.3, WindowUse: 0.2, WindowWait: 0.01, WriteWait: 0.02, Handler: 0.1, PrefetchUse: 0.1,
		CPU: 1.5, CPULimit: 4, DiskBusy: 0.2, IOPressure: 0.02, Await: 0.001, Raft: 0.002, Network: 0.1,
	}
}

// Run is a finished run of the scenario under the load.
func Run(s bench.Scenario, number int, load Load) bench.Run {
	const warmUp = 10
	end := warmUp + load.Seconds
	r := bench.Run{
		Number: number, Started: Started.Add(time.Duration(number-1) * 2 * time.Minute),
		Phases: []bench.Phase{
			{Name: bench.PhaseWarmUp, EndSeconds: warmUp},
			{Name: bench.PhaseSteady, StartSeconds: warmUp, EndSeconds: float64(end)},
			{Name: bench.PhaseFlush, StartSeconds: float64(end), EndSeconds: float64(end) + 1},
		},
	}
	r.Latency.EndToEnd, r.Latency.Uncorrected = bench.NewHistogram(), bench.NewHistogram()
	r.Latency.Pacing, r.Latency.SchedulingDelay = bench.NewHistogram(), bench.NewHistogram()
	r.Latency.SchedulingDelay.RecordN(load.SchedulingDelay, 5000)
	if s.Publishers.ConfirmWindow > 0 {
		r.Latency.Confirm = bench.NewHistogram()
	}
	for at := range end {
		r.Seconds = append(r.Seconds, second(&s, &r, load, at, at >= warmUp))
	}
	published := int64(load.Published * float64(end))
	r.Queues = []bench.QueueAccount{{Queue: "bench.0", Published: published, Confirmed: published, Consumed: int64(load.Consumed * float64(end))}}
	cores, limit := 4*load.GeneratorCPU, 4.0
	r.Generator = bench.GeneratorFigures{Workers: 1, CPUCores: &cores, CPULimitCores: &limit, BusiestRatio: &load.GeneratorCPU}
	r.Generator.IntendedSends = int64(load.Intended * float64(load.Seconds))
	r.Generator.LateSends = int64(load.Late * float64(r.Generator.IntendedSends))
	if !load.NoBroker {
		for at := 0.0; at <= float64(end); at += 2 {
			r.Broker = append(r.Broker, sample(&s, load, at))
		}
	}
	bench.Finish(&r, s)
	return r
}

// wobble moves a rate by up to 5 %, the same way each time.
func wobble(at, number int) float64 { return 1 + 0.05*math.Sin(float64(at)*1.3+float64(number)) }

func second(s *bench.Scenario, r *bench.Run, load Load, at int, steady bool) bench.Second {
	w := wobble(at, r.Number)
	if !steady {
		w *= 0.5 + 0.05*float64(at)
	}
	p, c := float64(s.Publishers.Count), float64(s.Consumers.Count)
	out := bench.Second{
		AtSeconds: at, Intended: int64(load.Intended), Published: int64(load.Published * w), Consumed: int64(load.Consumed * w),
		WindowWaitSeconds: p * load.WindowWait, WriteWaitSeconds: p * load.WriteWait, BlockedSeconds: p * load.Blocked,
		HandleSeconds: c * load.Handler, CPUSeconds: 4 * load.GeneratorCPU,
		Unconfirmed:    int64(load.WindowUse * p * float64(s.Publishers.ConfirmWindow)),
		Unacknowledged: int64(load.PrefetchUse * c * float64(s.Consumers.Prefetch)),
		Latency:        bench.NewCoarseHistogram(),
	}
	if load.Intended > 0 {
		out.Published = int64(load.Published)
	}
	if s.Publishers.ConfirmWindow > 0 {
		out.Confirmed = out.Published
	}
	out.Acknowledged = out.Consumed
	out.PublishedBytes, out.ConsumedBytes = out.Published*int64(s.Message.Sizes[0]), out.Consumed*int64(s.Message.Sizes[0])
	n := max(out.Consumed, out.Confirmed)
	for _, part := range []struct{ share, times float64 }{{0.6, 1}, {0.3, 2}, {0.095, 4}, {0.005, 10}} {
		d := time.Duration(float64(load.Latency) * part.times * w)
		many := int64(float64(n) * part.share)
		out.Latency.RecordN(d, many)
		if steady {
			r.Latency.EndToEnd.RecordN(d, many)
			r.Latency.Uncorrected.RecordN(d/2, many)
			r.Latency.Pacing.RecordN(50*time.Microsecond, many)
			if r.Latency.Confirm != nil {
				r.Latency.Confirm.RecordN(d*3/4, many)
			}
		}
	}
	return out
}

func sample(s *bench.Scenario, load Load, at float64) bench.Sample {
	received := load.Received
	if received == 0 {
		received = load.Published
	}
	flow := 0.0
	if math.Mod(at/2, 10) < 10*load.FlowShare {
		flow = 1
	}
	speed := 125e6
	return bench.Sample{
		AtSeconds: at, Node: "rabbit@node",
		CPUSecondsTotal: new(at * load.CPU), CPULimitCores: &load.CPULimit, CPUThrottledSecondsTotal: new(at * load.Throttled * load.CPULimit),
		CPUPressureSecondsTotal: new(at * load.CPUPressure),
		MemoryUsedBytes:         new(200e6 + at*1e6), MemoryWatermarkBytes: new(1e9), MemoryLimitBytes: new(2e9),
		DiskBusySecondsTotal: new(at * load.DiskBusy), IOPressureSecondsTotal: new(at * load.IOPressure),
		DeviceWritesTotal: new(at * 100), DiskWriteSecondsTotal: new(at * 100 * load.Await), DiskWriteBytesTotal: new(at * 5e6),
		NetworkReceiveBytesTotal: new(at * load.Network * speed), NetworkTransmitBytesTotal: new(at * load.Network * speed / 2),
		NetworkLimitBytesPerSecond: &speed,
		ConnectionPendingPackets:   &load.Pending, ConnectionsInFlow: &flow,
		Connections: new(float64(s.Connections())), ConnectionsOpenedTotal: new(16.0),
		MemoryAlarm: &load.MemoryAlarm, DiskAlarm: &load.DiskAlarm,
		RunQueue: &load.RunQueue, Schedulers: &load.CPULimit,
		MessagesReady: &load.Ready, MessagesUnacked: new(load.PrefetchUse * float64(s.Consumers.Count*s.Consumers.Prefetch)),
		ReceivedTotal: new(at * received), RaftCommitLatencySeconds: &load.Raft,
	}
}

// Result is of so many runs under the load, which the caller may change for each.
func Result(s bench.Scenario, runs int, load func(number int) Load) bench.Result {
	r := bench.Result{
		SchemaVersion: bench.SchemaVersion, Scenario: s, Started: Started,
		Fingerprint: bench.Fingerprint{
			CPUModel: "Example CPU 3000", CPUCores: 4, Kernel: "6.12.1", BrokerVersion: "4.3.6", ErlangVersion: "27.1", Image: "rabbitmq:4.3.6",
			Nodes: 1, QueueType: s.Queues.Type, Generator: "v0.1.0",
		},
	}
	for number := 1; number <= runs; number++ {
		r.Runs = append(r.Runs, Run(s, number, load(number)))
	}
	r.Summary = bench.Summarize(r.Runs)
	return r
}
