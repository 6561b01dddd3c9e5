package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/test/bench/figures"
)

const (
	// A short copy of a built-in scenario has at most this much, so that all of them take minutes and not hours.
	shortBacklog = 250_000
	shortStorm   = 500
	shortRate    = 2_000 // messages per second: nodes with one CPU would only pile up more
	// slowBacklog is for one consumer that acknowledges message by message.
	slowBacklog = 40_000
	// mostCustom scenarios of one Benchmark.
	mostCustom = 10
)

// short is a copy of a built-in scenario that takes seconds: the same clients and queues, but less time, a shorter
// backlog, fewer connections at once and a rate that a small machine can have.
func short(s bench.Scenario, seconds int) bench.Scenario {
	s.WarmUp, s.Duration, s.CoolDown, s.Runs = bench.Duration(time.Second), bench.Duration(time.Duration(seconds)*time.Second), 0, 1
	s.Load.Rate = min(s.Load.Rate, shortRate)
	if b := s.Backlog; b != nil {
		b.Messages = min(b.Messages, shortBacklog)
		if s.Consumers.Prefetch == 1 {
			b.Messages = slowBacklog
		}
		s.Duration *= 5 // the longest time that draining may take
	}
	if storm := s.Storm; storm != nil {
		storm.Connections = min(storm.Connections, shortStorm)
		storm.Jitter = min(storm.Jitter, s.Duration/2)
	}
	return s
}

// groups are the scenarios of the matrix by Benchmark: so many as one may have. Those that need a number of pods, or of
// which one of the lines knows nothing, have one of their own.
func groups(seconds int) map[string][]bench.Scenario {
	out := map[string][]bench.Scenario{}
	plain := 0
	for _, s := range bench.Matrix() {
		name := fmt.Sprintf("matrix-%d", 1+plain/mostCustom)
		switch {
		case s.Workers > 1:
			name = "several-pods"
		case s.Queues.Type == bench.MirroredQueue:
			name = "mirrored"
		default:
			plain++
		}
		out[name] = append(out[name], short(s, seconds))
	}
	return out
}

// matrix runs all built-in scenarios on three nodes of a version line. The Benchmarks are made at once and wait for one another.
func (j *job) matrix(ctx context.Context, version string) error {
	roomy := func(s *v1alpha1.WorkloadClusterSpec) { s.Resources.Limits.Memory = resource.MustParse("4Gi") } // an alarm would end all: what one scenario leaves in memory is still there in the next
	if _, err := j.rabbit(ctx, "matrix", version, 3, roomy); err != nil {
		return err
	}
	all := groups(j.matrixSeconds)
	for name, scenarios := range all {
		pods := int32(1)
		if name == "several-pods" {
			pods = 2
		}
		b, err := benchmark(name, "matrix", pods, 1, scenarios...)
		if err != nil {
			return err
		}
		if err := j.k.Client.Create(ctx, b); err != nil {
			return err
		}
	}
	found := map[string]figures.Row{}
	defer func() { // also those of a matrix that was broken off
		for _, s := range bench.Matrix() {
			if row, there := found[s.Name]; there {
				j.rows = append(j.rows, row)
			}
		}
	}()
	for name, scenarios := range all {
		run, err := j.waitRun(ctx, name, 1)
		refused := refusedError("")
		switch {
		case errors.As(err, &refused):
			for _, s := range scenarios {
				found[s.Name] = refusal(version, s, string(refused))
			}
			continue
		case err != nil:
			return err
		}
		for _, s := range scenarios {
			found[s.Name] = j.matrixRow(ctx, version, s, run)
		}
	}
	return nil
}

// refusal is the row of a scenario that a version line cannot run, which is right for mirrored queues from 4.0 on.
func refusal(version string, s bench.Scenario, why string) figures.Row {
	return figures.Row{
		Name: version + " " + s.Name, Unit: "messages/s", Goal: "refused where there are no mirrored queues", Note: why,
		Holds: s.Queues.Type == bench.MirroredQueue && version >= "4",
	}
}

// matrixRow is the row of a scenario of a run.
func (j *job) matrixRow(ctx context.Context, version string, s bench.Scenario, run *v1alpha1.BenchmarkRun) figures.Row {
	row := figures.Row{Name: version + " " + s.Name, Unit: "messages/s", Goal: "a valid run", Note: fmt.Sprintf("%s: %s", run.Verdict, run.Message)}
	for _, scenario := range run.Scenarios {
		if scenario.Name != s.Name {
			continue
		}
		r, err := j.result(ctx, scenario)
		if err != nil {
			row.Note = err.Error()
			return row
		}
		row.Holds, row.Unit, row.Value = r.Summary.ValidRuns > 0, scenario.Unit, float64(scenario.Throughput)
		row.Note = fmt.Sprintf("%s, limited by %s, P99 %s, RabbitMQ %s, lost %d, duplicated %d", scenario.Outcome,
			orDash(scenario.Bottleneck), orDash(scenario.P99), r.Fingerprint.BrokerVersion, r.Summary.Lost, r.Summary.Duplicated)
		if !row.Holds {
			row.Note += fmt.Sprintf("; %v", scenario.InvalidReasons)
		}
		break
	}
	return row
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
