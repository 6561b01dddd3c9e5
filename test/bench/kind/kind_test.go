package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/plan"
)

// Each built-in scenario is in one Benchmark, of no more than a Benchmark may have, with faults in none.
func TestGroupsHaveTheWholeMatrix(t *testing.T) {
	seen := map[string]int{}
	for name, scenarios := range groups(5) {
		pods := int32(1)
		if name == "several-pods" {
			pods = 2
		}
		b, err := benchmark(name, "matrix", pods, 1, scenarios...)
		if err != nil {
			t.Fatal(err)
		}
		b.Spec.Gate.MaxRegression = "10%"
		if _, faults := plan.Scenarios(b.Spec); len(faults) > 0 || len(scenarios) > mostCustom {
			t.Errorf("%s: %d scenarios, faults %q", name, len(scenarios), faults)
		}
		for _, s := range scenarios {
			seen[s.Name]++
			if s.Duration > bench.Duration(25*time.Second) || s.Backlog != nil && s.Backlog.Messages > shortBacklog {
				t.Errorf("%s is not short: %+v", s.Name, s)
			}
		}
	}
	for _, s := range bench.Matrix() {
		if seen[s.Name] != 1 {
			t.Errorf("%s is in %d Benchmarks", s.Name, seen[s.Name])
		}
	}
}

func measured(rates ...float64) bench.Result {
	r := bench.Result{Scenario: bench.Defaults()}
	r.Scenario.Name = "Measured"
	for i, rate := range rates {
		run := bench.Run{Number: i + 1}
		run.Figures.Throughput, run.Figures.ThroughputUnit = rate, "messages/s"
		run.Validity.Valid = rate > 0
		r.Runs = append(r.Runs, run)
	}
	r.Summary = bench.Summarize(r.Runs)
	return r
}

// A goal that is not met, and one of which nothing can be said, do not hold.
func TestRatios(t *testing.T) {
	for _, c := range []struct {
		what          string
		above, below  bench.Result
		goal, value   float64
		holds         bool
		goalText, say string
	}{
		{"reached", measured(180, 170, 190), measured(100, 90, 110), 1.7, 1.8, true, ">= 1.7", "180/s (3 runs) by 100/s"},
		{"missed", measured(150), measured(100), 1.7, 1.5, false, ">= 1.7", ""},
		{"no goal", measured(50), measured(100), 0, 0.5, true, "none", ""},
		{"no valid run", measured(0), measured(100), 1, 0, false, ">= 1", "a side has no valid run"},
		{"no valid run before", measured(100), measured(0), 0, 0, false, "none", "a side has no valid run"},
	} {
		got := ratio(c.what, c.above, c.below, throughputs, c.goal, "")
		if got.Value != c.value || got.Holds != c.holds || got.Goal != c.goalText || !strings.Contains(got.Note, c.say) {
			t.Errorf("%s: got %+v", c.what, got)
		}
	}
}

// One page has both sides of a comparison, and says how they differ.
func TestPageHasBothSides(t *testing.T) {
	before, after := measured(100, 101, 99), measured(180, 181, 179)
	earlier := before
	earlier.Scenario.Name = "MeasuredBefore"
	text, err := page([]shown{{result: earlier}, {result: after, before: &before}}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MeasuredBefore", "What changes are worth", "×\u00a01.80", "80.0\u00a0%"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestChosenParts(t *testing.T) {
	if all, err := chosen(""); err != nil || len(all) != len(parts) {
		t.Errorf("%d parts, %v", len(all), err)
	}
	if some, err := chosen("prefetch,mirrors"); err != nil || len(some) != 2 || some[0].name != "prefetch" {
		t.Errorf("%+v, %v", some, err)
	}
	if _, err := chosen("mirror"); err == nil {
		t.Error("a part that is not there was taken")
	}
}

// Only the line that has no mirrored queues may refuse them.
func TestRefusals(t *testing.T) {
	mirrored, classic := bench.Scenario{Name: "M", Queues: bench.Queues{Type: bench.MirroredQueue}}, bench.Scenario{Name: "C"}
	if !refusal("4.3", mirrored, "no").Holds || refusal("3.10", mirrored, "no").Holds || refusal("4.3", classic, "no").Holds {
		t.Error("a refusal is taken for right")
	}
	row := (&job{}).matrixRow(t.Context(), "4.3", classic, &v1alpha1.BenchmarkRun{Verdict: v1alpha1.VerdictFailed, Message: "pod 0 died"})
	if row.Holds || !strings.Contains(row.Note, "pod 0 died") {
		t.Errorf("a scenario that did not run: %+v", row)
	}
}
