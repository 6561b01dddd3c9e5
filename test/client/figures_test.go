//go:build broker

package client_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"
)

// figure is one measured value and what it must be.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"`
	Holds  bool    `json:"holds"`
	Spread string  `json:"spread"`
	Note   string  `json:"note"`

	low, high float64
	rounds    int
}

// table gathers the figures of all scenarios. The worst of all rounds is kept, which is the largest.
type table struct {
	mu    sync.Mutex
	order []*figure
	names map[string]*figure
	total int
}

var figures = &table{names: map[string]*figure{}}

func (t *table) add(f figure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.names[f.Name]
	if known == nil {
		f.low, f.high, f.rounds = f.Value, f.Value, 1
		t.names[f.Name] = &f
		t.order = append(t.order, &f)
		return
	}
	known.low, known.high = min(known.low, f.Value), max(known.high, f.Value)
	known.Value = known.high
	known.Holds = known.Holds && f.Holds
	known.Note = f.Note
	known.rounds++
}

func (t *table) count(messages int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += messages
}

// write prints the table in the long form, and writes it if a file is named.
func (t *table) write(path string) error {
	if !*long && path == "" {
		return nil
	}
	t.add(figure{Name: "messages in all scenarios", Value: float64(t.total), Unit: "messages", Goal: fmt.Sprintf("≥ %d", *messages), Holds: t.total >= *messages})
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "FIGURE\tVALUE\tUNIT\tGOAL\tHOLDS\tSPREAD\tNOTE")
	for _, f := range t.order {
		f.Spread = fmt.Sprintf("%.4g–%.4g in %d", f.low, f.high, f.rounds)
		fmt.Fprintf(out, "%s\t%.6g\t%s\t%s\t%v\t%s\t%s\n", f.Name, f.Value, f.Unit, f.Goal, f.Holds, f.Spread, f.Note)
	}
	if err := out.Flush(); err != nil || path == "" {
		return err
	}
	content, err := json.MarshalIndent(t.order, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}
