package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker/brokertest"
)

// benched runs warren bench with arguments, and tells what it printed and the code with which the program would end.
func benched(args ...string) (out string, code int) {
	command := benchCommand()
	command.SilenceErrors, command.SilenceUsage = true, true
	var text bytes.Buffer
	command.SetOut(&text)
	command.SetErr(&text)
	command.SetArgs(args)
	err := command.Execute()
	var exit exitError
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case err != nil:
		code = 1
	}
	if err != nil {
		text.WriteString(err.Error())
	}
	return text.String(), code
}

// A CI tells by the exit code whether something got worse, so nothing else may end with 0 or 1.
func TestBenchCompareExitCodes(t *testing.T) {
	dir := t.TempDir()
	fast := resultFile(t, dir, "fast.json", "SmallConfirmed", 2000)
	slow := resultFile(t, dir, "slow.json.gz", "SmallConfirmed", 1000)
	other := resultFile(t, dir, "other.json", "SmallMessages", 2000)
	whole, err := os.ReadFile(fast)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no worse":                {[]string{"compare", fast, fast}, 0, "Passed"},
		"better":                  {[]string{"compare", slow, fast}, 0, "Better"},
		"worse":                   {[]string{"compare", fast, slow}, 1, "Worse"},
		"worse, as JSON":          {[]string{"compare", fast, slow, "--json"}, 1, `"Regressed"`},
		"another scenario":        {[]string{"compare", other, fast}, 3, "scenario SmallMessages"},
		"another one besides":     {[]string{"compare", other, fast, slow}, 1, "Worse"},
		"one file":                {[]string{"compare", fast}, 2, "usage: bench compare EARLIER.json... NOW.json"},
		"no file":                 {[]string{"compare"}, 2, "usage"},
		"an unknown flag":         {[]string{"compare", fast, fast, "--treshold", "5%"}, 2, "--treshold"},
		"a misspelt command":      {[]string{"compre", fast, slow}, 2, `unknown command "compre"`},
		"a threshold of nothing":  {[]string{"compare", fast, slow, "--threshold", "0"}, 2, "--threshold"},
		"a threshold of NaN":      {[]string{"compare", fast, slow, "--threshold", "NaN"}, 2, "--threshold"},
		"a threshold of NaN%":     {[]string{"compare", fast, slow, "--threshold", "nan%"}, 2, "--threshold"},
		"a threshold of infinity": {[]string{"compare", fast, slow, "--threshold", "Inf"}, 2, "--threshold"},
		"a file that is absent":   {[]string{"compare", fast, filepath.Join(dir, "absent.json")}, 2, "absent.json"},
		"a folder":                {[]string{"compare", fast, dir}, 2, "is a directory"},
		"a truncated file":        {[]string{"compare", fast, file("truncated.json", whole[:len(whole)/2])}, 2, "truncated.json: this is not the result"},
		"a later schema":          {[]string{"compare", file("later.json", bytes.Replace(whole, []byte(`"schemaVersion":1`), []byte(`"schemaVersion":2`), 1)), fast}, 2, "schemaVersion 2"},
		"nothing valid":           {[]string{"compare", fast, file("none.json", []byte(`{"schemaVersion":1,"scenario":{"name":"SmallConfirmed"}}`))}, 4, "no run of the new result is valid"},
	} {
		if out, code := benched(c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: %d, %s", name, code, out)
		}
	}
}

// What a flag holds that cannot be meant is refused and not left out: a cap that is no number would be no cap.
func TestBenchRunFlags(t *testing.T) {
	t.Setenv("WARREN_BENCH_URI", "amqp://guest:guest@127.0.0.1:1")
	for _, args := range [][]string{
		{"--runs", "-1"}, {"--duration", "-1s"}, {"--warm-up", "-1s"}, {"--max-rate", "-1"}, {"--max-rate", "NaN"}, {"--max-rate", "Inf"},
		{"--max-connections", "-1"}, {"--interval", "500ms"}, {"--prometheus", "rabbit:15692"}, {"--link", "fast"}, {"--rusn", "1"}, {"mine.yaml"},
	} {
		out, code := benched(append([]string{"run", "--management", "http://127.0.0.1:1"}, args...)...)
		if want := strings.TrimPrefix(args[0], "--"); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
}

// What has no place for its results makes no load, and what measured nothing leaves no folder.
func TestBenchRunMakesItsFolderFirst(t *testing.T) {
	t.Setenv("WARREN_BENCH_URI", "amqp://guest:guest@127.0.0.1:1")
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(out string) (string, int) {
		return benched("run", "--scenario", "SteadyRate", "--out", out, "--yes-production")
	}
	if out, code := run(taken); code != 1 || !strings.Contains(out, "--out: ") {
		t.Errorf("a file as folder: %d, %s", code, out)
	}
	fresh := filepath.Join(dir, "fresh")
	if out, code := run(fresh); code != 1 || !strings.Contains(out, "connection refused") {
		t.Errorf("nobody at the AMQP port: %d, %s", code, out)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the empty folder is still there: %v", err)
	}
}

// Of all scenarios those are left out that the version cannot run; one that is named is refused before any other runs.
func TestScenariosThatTheVersionCannotRun(t *testing.T) {
	all, err := scenariosOf([]string{"all"})
	if err != nil {
		t.Fatal(err)
	}
	for version, left := range map[string]int{"4.3.6": 1, "3.10.8": 0, "": 0} {
		var said bytes.Buffer
		can, err := benchFlags{scenarios: []string{"all"}}.supported(all, version, newTeller(&said))
		if err != nil || len(can) != len(all)-left || strings.Count(said.String(), "left out: scenario Mirrored") != left {
			t.Errorf("%s: %d scenarios, %v, %s", version, len(can), err, &said)
		}
	}
	_, err = benchFlags{scenarios: []string{"Mirrored"}}.supported(all, "4.3.6", newTeller(os.Stderr))
	if err == nil || !strings.Contains(err.Error(), "use type Quorum") {
		t.Errorf("got %v", err)
	}
}

// The sweeper takes the credentials that a benchmark takes, and does not take the living for dead.
func TestBenchSweepFlags(t *testing.T) {
	server := brokertest.New(t, brokertest.V4)
	t.Setenv("WARREN_BENCH_URI", "amqp://somebody:secret@127.0.0.1:1")
	api, err := (&place{management: server.URL()}).connectAlone()
	if err != nil || api.username != "somebody" {
		t.Fatalf("as %q: %v", api.username, err)
	}
	if _, err := api.DescribedVHosts(t.Context()); err != nil {
		t.Error(err)
	}
	if out, code := benched("sweep", "--management", server.URL(), "--older-than", "-1h"); code != 2 || !strings.Contains(out, "--older-than") {
		t.Errorf("%d, %s", code, out)
	}
	if out, code := benched("sweep"); code != 2 || !strings.Contains(out, "--management") {
		t.Errorf("%d, %s", code, out)
	}
	t.Setenv("WARREN_BENCH_URI", "")
	if out, code := benched("sweep", "--management", server.URL()); code != 1 || !strings.Contains(out, "WARREN_BENCH_USERNAME") {
		t.Errorf("%d, %s", code, out)
	}
}
