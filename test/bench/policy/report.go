package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// row is one figure of the report, as those of the other benchmarks.
type row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"`
	Holds  bool    `json:"holds"`
	Spread float64 `json:"spread"`
	Note   string  `json:"note"`
}

type report struct{ rows []row }

// add a figure; most is what it may be, below 0 for no goal.
func (r *report) add(name string, value float64, unit string, most float64, note string) {
	one := row{Name: name, Value: value, Unit: unit, Holds: true, Note: strings.TrimPrefix(note+", load average "+loadAverage(), ", ")}
	if most >= 0 {
		one.Goal, one.Holds = fmt.Sprintf("at most %g", most), value <= most
	}
	r.rows = append(r.rows, one)
	fmt.Fprintf(os.Stderr, "%s: %.4g %s\n", name, value, unit)
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func (r *report) write(file string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tUNIT\tGOAL\tHOLDS\tNOTE")
	for _, r := range r.rows {
		fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\t%v\t%s\n", r.Name, r.Value, r.Unit, r.Goal, r.Holds, r.Note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r.rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
