package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/bench/plan"
)

// Archive is the folder of a Benchmark on its volume. The pods of a run put their parts there, and the first of them makes
// the run's folder of them. It has all seconds and samples, also where a ConfigMap has no room for them.
type Archive struct {
	// Root is where the volume is mounted.
	Root  string
	Store job.Store
}

// Names in the folder of a Benchmark. Nothing else is ever touched.
var (
	runFolder   = regexp.MustCompile(`^\d{8}-\d{6}-[0-9a-f]{8}$`)
	draftFolder = regexp.MustCompile(`^\.(parts|draft)-\d{8}-\d{6}-[0-9a-f]{8}$`)
)

func (a Archive) home() string  { return filepath.Join(a.Root, a.Store.Benchmark) }
func (a Archive) parts() string { return filepath.Join(a.home(), ".parts-"+a.Store.Folder) }
func (a Archive) draft() string { return filepath.Join(a.home(), ".draft-"+a.Store.Folder) }

// Folder of the run, from the volume's root.
func (a Archive) Folder() string { return a.Store.Benchmark + "/" + a.Store.Folder }

// PutPart keeps what a pod measured of one run of a scenario until Keep.
func (a Archive) PutPart(scenario int, key string, packed []byte) error {
	dir := filepath.Join(a.parts(), strconv.Itoa(scenario))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, key)
	if err := write(path+".new", packed); err != nil {
		return err
	}
	return os.Rename(path+".new", path) // whole or not at all
}

// Keep makes the run's folder of the parts of all pods, and removes runs beyond the limit. The folder is there whole or not at
// all. A run in which nothing was measured has none, and the answer is "".
func (a Archive) Keep(scenarios []bench.Scenario, title string, written time.Time) (folder string, err error) {
	if !runFolder.MatchString(a.Store.Folder) {
		return "", fmt.Errorf("%q is not the name of a run's folder", a.Store.Folder)
	}
	measured, err := a.assemble(scenarios)
	if err != nil || len(measured) == 0 {
		return "", errors.Join(err, os.RemoveAll(a.parts()))
	}
	for i := range measured {
		if measured[i].History, err = a.history(measured[i].Result.Scenario.Name); err != nil {
			return "", err
		}
	}
	compare := func(m plan.Measured) bench.Comparison {
		return bench.Compare(m.History, m.Result, bench.Gate{MaxRegression: a.Store.MaxRegression})
	}
	if err := os.RemoveAll(a.draft()); err != nil {
		return "", err
	}
	if err := Write(a.draft(), job.PageOf(title, measured, compare, written)); err != nil {
		return "", errors.Join(err, os.RemoveAll(a.draft())) // it may be full
	}
	if err := os.Rename(a.draft(), filepath.Join(a.home(), a.Store.Folder)); err != nil {
		return "", err
	}
	return a.Folder(), a.prune()
}

// assemble makes results of the parts.
func (a Archive) assemble(scenarios []bench.Scenario) ([]plan.Measured, error) {
	var measured []plan.Measured
	for i, s := range scenarios {
		dir := filepath.Join(a.parts(), strconv.Itoa(i))
		files, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		data := map[string][]byte{}
		for _, file := range files {
			if strings.HasSuffix(file.Name(), ".new") {
				continue
			}
			if data[file.Name()], err = os.ReadFile(filepath.Join(dir, file.Name())); err != nil {
				return nil, err
			}
		}
		if result, faults := job.Assemble(s, data); len(result.Runs) > 0 {
			measured = append(measured, plan.Measured{Result: result, Faults: faults})
		}
	}
	return measured, nil
}

// runs that are kept, oldest first.
func (a Archive) runs() ([]string, error) {
	entries, err := os.ReadDir(a.home())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && runFolder.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// history of a scenario, oldest first, without what only charts need. What cannot be read is left out.
func (a Archive) history(scenario string) ([]bench.Result, error) {
	names, err := a.runs()
	if err != nil {
		return nil, err
	}
	var out []bench.Result
	for _, name := range names {
		if name == a.Store.Folder {
			continue
		}
		text, err := os.ReadFile(filepath.Join(a.home(), name, ResultFile(scenario)))
		if err != nil {
			continue
		}
		if result, err := bench.DecodeResult(text); err == nil {
			out = append(out, result.Compact())
		}
	}
	return out, nil
}

// prune removes the oldest runs beyond the limit, and what runs that were killed left.
func (a Archive) prune() error {
	names, err := a.runs()
	if err != nil {
		return err
	}
	// A clock that was set back must not cost the run that was just kept.
	names = slices.DeleteFunc(names, func(name string) bool { return name == a.Store.Folder })
	remove := names[:max(0, len(names)-max(a.Store.Limit-1, 0))]
	entries, err := os.ReadDir(a.home())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if draftFolder.MatchString(entry.Name()) {
			remove = append(remove, entry.Name())
		}
	}
	var failed []error
	for _, name := range remove {
		failed = append(failed, os.RemoveAll(filepath.Join(a.home(), name)))
	}
	return errors.Join(failed...)
}
