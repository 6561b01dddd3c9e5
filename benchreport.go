package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/report"
)

func benchReportCommand() *cobra.Command {
	var out, title, threshold string
	command := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Draw results as one page of HTML",
		Long: `Draw results as one page of HTML, which needs nothing but itself: no script and no network.

Of several results of the same scenario the last argument is shown. It is held against those before it, as "warren bench
compare" does, and its ratios are to the newest of them. Files may be packed by gzip, as a Benchmark's ConfigMaps have them.`,
		Example: `  warren bench report bench-results/today/*.json -o report.html
  warren bench report monday/SmallConfirmed.json today/SmallConfirmed.json -o report.html`,
		Args: misused(cobra.MinimumNArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			limit, err := parseRatio(threshold)
			if err != nil {
				return exitError{2, "--threshold: " + err.Error()}
			}
			results, err := readResults(args)
			if err != nil {
				return exitError{2, err.Error()}
			}
			in := pageOf(results, limit)
			in.Title, in.Written = title, time.Now().UTC()
			page, err := report.Page(in)
			if err != nil {
				return err
			}
			if out == "-" {
				_, err = command.OutOrStdout().Write(page)
				return err
			}
			return os.WriteFile(out, page, 0o644)
		},
	}
	command.Flags().StringVarP(&out, "output", "o", "report.html", "file to write; - is standard output")
	command.Flags().StringVar(&title, "title", "", "title of the page")
	command.Flags().StringVar(&threshold, "threshold", "5%", "what a figure may be worse by")
	return command
}

// pageOf shows the last result of each scenario, in the order in which scenarios first come, against those before it.
func pageOf(results []bench.Result, limit float64) report.Input {
	in := report.Input{Comparisons: map[string]bench.Comparison{}, Last: map[string]bench.Summary{}}
	history := map[string][]bench.Result{}
	var order []string
	for _, r := range results {
		name := r.Scenario.Name
		if history[name] == nil {
			order = append(order, name)
		}
		history[name] = append(history[name], r)
	}
	for _, name := range order {
		all := history[name]
		earlier, now := all[:len(all)-1], all[len(all)-1]
		in.Results = append(in.Results, now)
		if len(earlier) == 0 {
			continue
		}
		in.Comparisons[name] = bench.Compare(earlier, now, bench.Gate{MaxRegression: limit})
		if last, found := bench.Last(earlier); found {
			in.Last[name] = last
		}
	}
	return in
}

// mostResultBytes bounds what the file of a result may unpack to.
const mostResultBytes = 1 << 30

// readResultFile reads a file, and unpacks what is packed by gzip.
func readResultFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if text, err = io.ReadAll(io.LimitReader(unpacked, mostResultBytes)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}
