package plan

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/schedule"
)

// Scenarios are those that a spec asks for, in order, with its runs and caps; faults say what is wrong with it.
func Scenarios(spec v1alpha1.BenchmarkSpec) (scenarios []bench.Scenario, faults []string) {
	fault := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	for _, name := range spec.Scenarios {
		s, err := bench.Builtin(string(name))
		if err != nil {
			fault("spec.scenarios: %v", err)
			continue
		}
		scenarios = append(scenarios, s)
	}
	for i, raw := range spec.Custom {
		s, err := bench.DecodeScenario(raw.Raw)
		if err != nil {
			fault("spec.custom[%d]: %v", i, err)
			continue
		}
		scenarios = append(scenarios, s)
	}
	seen := map[string]bool{}
	for i := range scenarios {
		s := &scenarios[i]
		if seen[s.Name] {
			fault("scenario %s is there twice: give one of them another name", s.Name)
		}
		seen[s.Name] = true
		s.Runs, s.Workers = int(spec.Runs), max(int(spec.Generator.Pods), 1) // results of other numbers of pods are not compared
		capTo(s, spec.Caps)
		if most := s.Caps.Connections; most > 0 && s.Connections() > most {
			fault("scenario %s needs %d connections, and spec.caps.connections or its own cap allows %d", s.Name, s.Connections(), most)
		}
		for _, f := range s.Validate() {
			fault("scenario %s: %s", s.Name, f)
		}
	}
	if _, err := schedule.Parse(spec.Trigger.Cron); err != nil {
		fault("spec.trigger.cron: %v", err)
	}
	if _, err := maxRegression(spec.Gate); err != nil {
		fault("spec.gate.maxRegression: %v", err)
	}
	return scenarios, faults
}

// Unsupported says which scenarios the cluster's version cannot run: one of them would end the run of all. It says nothing
// while the version is not known.
func Unsupported(scenarios []bench.Scenario, c *v1alpha1.WorkloadCluster) (faults []string) {
	if c == nil {
		return nil
	}
	for _, s := range scenarios {
		if why := s.UnsupportedBy(c.Status.Version); why != "" {
			faults = append(faults, why)
		}
	}
	return faults
}

// capTo lowers the scenario's caps to those of the spec.
func capTo(s *bench.Scenario, caps v1alpha1.BenchmarkCaps) {
	lower := func(have, most float64) float64 {
		if most > 0 && (have == 0 || most < have) {
			return most
		}
		return have
	}
	s.Caps.Rate = lower(s.Caps.Rate, float64(caps.Rate))
	s.Caps.Connections = int(lower(float64(s.Caps.Connections), float64(caps.Connections)))
	if caps.Disk != nil {
		s.Caps.Disk = bench.Size(lower(float64(s.Caps.Disk), float64(caps.Disk.Value())))
	}
}

const (
	// perRun and perBenchmark are what a run, and all runs together, may take beyond what the scenarios say: connecting,
	// filling a backlog and flushing; pulling an image and meeting.
	perRun       = 5 * time.Minute
	perBenchmark = 15 * time.Minute
	// warmUps is how many times as long as asked for a warm-up may take.
	warmUps = 3
)

// Deadline is how long all runs may take. What takes longer is broken, and is ended.
func Deadline(scenarios []bench.Scenario) time.Duration {
	total := perBenchmark
	for _, s := range scenarios {
		one := warmUps*s.WarmUp.Std() + s.Duration.Std() + s.CoolDown.Std() + perRun
		total += time.Duration(s.Runs) * one
	}
	return total
}
