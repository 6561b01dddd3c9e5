package job

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/bench/report"
)

// KeyReport of the ConfigMap with the report of a run.
const KeyReport = "report.html.gz"

// ErrReportTooLarge says that a report does not fit into a ConfigMap, even without charts.
var ErrReportTooLarge = errors.New("the report of the run does not fit into a ConfigMap: use fewer scenarios or runs, or a volume")

// PageOf is what the report of a run shows: each scenario held against its history, and beside the run before.
func PageOf(title string, measured []plan.Measured, compare func(plan.Measured) bench.Comparison, written time.Time) report.Input {
	in := report.Input{Title: title, Comparisons: map[string]bench.Comparison{}, Last: map[string]bench.Summary{}, Written: written}
	for _, m := range measured {
		if len(m.Result.Runs) == 0 {
			continue
		}
		name := m.Result.Scenario.Name
		in.Results = append(in.Results, m.Result)
		in.Comparisons[name] = compare(m)
		if last, found := bench.Last(m.History); found {
			in.Last[name] = last
		}
	}
	return in
}

// EncodeReport draws the report and packs it. When it is too large for a ConfigMap the scenarios in which nothing is wrong
// lose their charts, then all do.
func EncodeReport(in report.Input) ([]byte, error) { return encodeReport(in, mostBytes) }

func encodeReport(in report.Input, most int) ([]byte, error) {
	for _, thin := range []func(name string) bool{
		func(string) bool { return false },
		func(name string) bool { return in.Comparisons[name].Outcome != bench.Regressed },
		func(string) bool { return true },
	} {
		fewer := in
		fewer.Results = slices.Clone(in.Results)
		for i, r := range fewer.Results {
			if thin(r.Scenario.Name) {
				fewer.Results[i] = r.Compact()
			}
		}
		page, err := report.Page(fewer)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(page); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		if packed.Len() <= most {
			return packed.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("%d scenarios: %w", len(in.Results), ErrReportTooLarge)
}
