package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// figure is one line of the result. Values with a goal must reach it from below.
type figure struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Goal   *float64 `json:"goal"`
	Holds  *bool    `json:"holds"`
	Spread spread   `json:"spread"`
	Note   string   `json:"note"`
}

// of makes a figure of the values of all runs.
func of(name, unit string, values []float64, notes ...string) figure {
	f := figure{Name: name, Value: median(values), Unit: unit, Spread: spreadOf(values)}
	f.Note = strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
	return f
}

// atLeast sets a goal.
func (f figure) atLeast(goal float64) figure {
	holds := f.Value >= goal
	f.Goal, f.Holds = &goal, &holds
	return f
}

// rates of a trial, one for each run.
func (r *results) rates(key string) []float64 {
	return r.each(key, outcome.rate)
}

func (r *results) each(key string, value func(outcome) float64) []float64 {
	out := make([]float64, 0, len(r.rounds[key]))
	for _, o := range r.rounds[key] {
		out = append(out, value(o))
	}
	return out
}

// note says what the machine was busy with, and why there is no value.
func (r *results) note(keys ...string) string {
	var loads []float64
	for _, key := range keys {
		if err := r.errs[key]; err != nil {
			return fmt.Sprintf("%s failed: %v", key, err)
		}
		loads = append(loads, r.loads[key]...)
	}
	if len(loads) == 0 {
		return ""
	}
	return fmt.Sprintf("load %.1f–%.1f", slices.Min(loads), slices.Max(loads))
}

// rate is a figure without a goal.
func (r *results) rate(name, key string, notes ...string) figure {
	return of(name, "messages/s", r.rates(key), append([]string{r.note(key)}, notes...)...)
}

// faster compares the rates of two trials.
func (r *results) faster(name, key, than string, goal float64, notes ...string) figure {
	return of(name, "×", ratios(r.rates(key), r.rates(than)), append([]string{r.note(key, than)}, notes...)...).atLeast(goal)
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// cells of a figure as they are printed.
func (f figure) cells() []string {
	goal, holds := "", ""
	if f.Goal != nil {
		goal = "≥ " + number(*f.Goal)
		holds = "no"
		if *f.Holds {
			holds = "yes"
		}
	}
	return []string{
		f.Name, number(f.Value), f.Unit, goal, holds, number(f.Spread.Min) + "–" + number(f.Spread.Max),
		fmt.Sprintf("%.1f %%", 100*f.Spread.MAD), f.Note,
	}
}

var columns = []string{"Figure", "Median", "Unit", "Goal", "Holds", "Min–max", "MAD", "Note"}

// table prints aligned columns.
func table(to io.Writer, figures []figure) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
	for _, f := range figures {
		fmt.Fprintln(w, strings.Join(f.cells(), "\t"))
	}
	return w.Flush()
}

// markdown prints a table for documents.
func markdown(to io.Writer, figures []figure) {
	line := func(cells []string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(to, "| %s |\n", strings.Join(cells, " | "))
	}
	line(slices.Clone(columns))
	fmt.Fprintln(to, "|---|---:|---|---:|---|---|---:|---|")
	for _, f := range figures {
		line(f.cells())
	}
}

// save writes all figures as JSON.
func save(path string, figures []figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
