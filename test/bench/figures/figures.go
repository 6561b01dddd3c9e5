// Package figures writes what a benchmark of this project found: as a table for people and as JSON.
package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one figure. Spread is half of the range of the runs by their median.
type Row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"`
	Holds  bool    `json:"holds"`
	Spread float64 `json:"spread"`
	Note   string  `json:"note"`
}

// NoGoal is the goal of a figure that is only for comparison.
const NoGoal = "none"

// Series is one figure over runs.
type Series []float64

// Median of the runs; 0 without any.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// Spread is half of the range by the median.
func (s Series) Spread() float64 {
	if m := s.Median(); m > 0 {
		return (slices.Max(s) - slices.Min(s)) / 2 / m
	}
	return 0
}

// LoadAverage of the machine in the last minute; "unknown" where it cannot be read.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// Write prints the rows as a table and writes them to a file as JSON.
func Write(out io.Writer, file string, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tUNIT\tSPREAD\tGOAL\tHOLDS\tNOTE")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%.6g\t%s\t±%.0f%%\t%s\t%v\t%s\n", r.Name, r.Value, r.Unit, 100*r.Spread, r.Goal, r.Holds, r.Note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // goals have ">=" in them
	if err := encoder.Encode(rows); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
