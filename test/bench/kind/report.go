package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/report"
	"github.com/warren-mq/warren/test/bench/figures"
)

// write prints the table, and writes it, the results and one page of the comparisons.
func (j *job) write() error {
	if err := figures.Write(os.Stdout, filepath.Join(j.out, "bench-kind.json"), j.rows); err != nil {
		return err
	}
	if len(j.compared) == 0 {
		return nil
	}
	file := filepath.Join(j.out, "bench-kind.html")
	text, err := page(j.compared, time.Now())
	if err != nil {
		return err
	}
	progress.Say("before and after with charts: %s", file)
	return os.WriteFile(file, text, 0o644)
}

// page draws all results; those with one before them are held against it.
func page(all []shown, at time.Time) ([]byte, error) {
	in := report.Input{Title: "What changes are worth", Comparisons: map[string]bench.Comparison{}, Last: map[string]bench.Summary{}, Written: at}
	for _, s := range all {
		in.Results = append(in.Results, s.result)
		if s.before != nil {
			in.Last[s.result.Scenario.Name] = s.before.Summary
			in.Comparisons[s.result.Scenario.Name] = bench.Compare([]bench.Result{*s.before}, s.result, bench.Gate{Across: true})
		}
	}
	return report.Page(in)
}
