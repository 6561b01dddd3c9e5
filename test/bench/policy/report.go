package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/warren-mq/warren/test/bench/figures"
)

type report struct{ rows []figures.Row }

// add a figure; most is what it may be, below 0 for no goal.
func (r *report) add(name string, value float64, unit string, most float64, note string) {
	one := figures.Row{
		Name: name, Value: value, Unit: unit, Goal: figures.NoGoal, Holds: true,
		Note: strings.TrimPrefix(note+", load average "+figures.LoadAverage(), ", "),
	}
	if most >= 0 {
		one.Goal, one.Holds = fmt.Sprintf("at most %g", most), value <= most
	}
	r.rows = append(r.rows, one)
	fmt.Fprintf(os.Stderr, "%s: %.4g %s\n", name, value, unit)
}

func (r *report) write(file string) error { return figures.Write(os.Stdout, file, r.rows) }
