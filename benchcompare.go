package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/internal/bench"
)

// exitError ends the program with a code of its own and without another word when text is empty.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }

func benchCompareCommand() *cobra.Command {
	var threshold string
	var across, asJSON bool
	command := &cobra.Command{
		Use:   "compare EARLIER.json... NOW.json",
		Short: "Hold a result against earlier ones",
		Long: `Hold a result, the last argument, against earlier ones of the same scenario, broker version and machine.

A figure is worse when its median is worse by more than the threshold and by more than the earlier results lie apart
(three times their MAD), and no run of it lies in the range of the earlier runs.

Exit codes: 0 nothing is worse, or there is nothing to compare with; 1 a figure is worse; 2 wrong arguments, or a file that is not a result; 3 the results are
of different things; 4 the new result has no valid run.`,
		Example: `  warren bench compare monday/SmallConfirmed.json tuesday/SmallConfirmed.json --threshold 10%`,
		Args:    misused(cobra.MinimumNArgs(2)),
		RunE: func(command *cobra.Command, args []string) error {
			limit, err := parseRatio(threshold)
			if err != nil {
				return exitError{2, "--threshold: " + err.Error()}
			}
			results, err := readResults(args)
			if err != nil {
				return exitError{2, err.Error()}
			}
			last := len(results) - 1
			c := bench.Compare(results[:last], results[last], bench.Gate{MaxRegression: limit, Across: across})
			if err := printComparison(command, results[last].Scenario.Name, c, asJSON); err != nil {
				return err
			}
			if code := c.Outcome.ExitCode(); code != 0 {
				return exitError{code: code}
			}
			return nil
		},
	}
	command.Flags().StringVar(&threshold, "threshold", "5%", "what a figure may be worse by")
	command.Flags().BoolVar(&across, "across", false, "compare results of other versions and machines too, and say what differs")
	command.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	return command
}

// parseRatio reads "10%" or "0.1".
func parseRatio(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if percent {
		value /= 100
	}
	if err != nil || !(value > 0 && value < 1) { // NaN is neither: nothing would ever be worse
		return 0, fmt.Errorf("want a share such as 10%%, not %q", text)
	}
	return value, nil
}

func readResults(files []string) ([]bench.Result, error) {
	var results []bench.Result
	for _, file := range files {
		text, err := readResultFile(file)
		if err != nil {
			return nil, err
		}
		result, err := bench.DecodeResult(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func printComparison(command *cobra.Command, scenario string, c bench.Comparison, asJSON bool) error {
	out := command.OutOrStdout()
	if asJSON {
		return printJSON(out, c)
	}
	fmt.Fprintf(out, "%s: %s, %s\n", scenario, c.Outcome, c.Reason)
	for _, difference := range c.Differences {
		fmt.Fprintf(out, "differs: %s\n", difference)
	}
	if len(c.Figures) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tBEFORE\tNOW\tCHANGE\tALLOWED\tOUTCOME\t")
	for _, d := range c.Figures {
		fmt.Fprintf(table, "%s\t%s\t%s\t%+.1f%%\t%.1f%%\t%s\t%s\n", d.Figure, inUnit(d.Before.Median, d.Unit), inUnit(d.Now.Median, d.Unit),
			100*d.ChangeRatio, 100*d.AllowedRatio, d.Outcome, d.Reason)
	}
	return table.Flush()
}

func inUnit(value float64, unit string) string {
	if unit == "s" {
		return wait(&bench.Spread{Median: value})
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

// scenarioYAML is a scenario as a file, with all its defaults.
func scenarioYAML(s bench.Scenario) ([]byte, error) { return yaml.Marshal(s) }
