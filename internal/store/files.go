package store

import (
	"os"
	"path/filepath"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/report"
)

// PageFile is the report in a folder of results.
const PageFile = "report.html"

// ResultFile and LogFile of a scenario in a folder of results: all that was measured as JSON, and the latencies of each second
// as a log of HdrHistogram.
func ResultFile(scenario string) string { return scenario + ".json" }

// LogFile is beside ResultFile.
func LogFile(scenario string) string { return scenario + ".hlog" }

// Prepare makes a folder for results, and sees that files can be made in it.
func Prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// Write fills a folder with the results of a report, and the report.
func Write(dir string, in report.Input) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range in.Results {
		text, err := bench.EncodeResult(r)
		if err != nil {
			return err
		}
		log, err := bench.WriteHDRLog(r)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, ResultFile(r.Scenario.Name)), text); err != nil {
			return err
		}
		if err := write(filepath.Join(dir, LogFile(r.Scenario.Name)), log); err != nil {
			return err
		}
	}
	page, err := report.Page(in)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, PageFile), page)
}

// write a file so that it is on the disk when it returns.
func write(path string, content []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
