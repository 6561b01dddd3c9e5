package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
)

// resultFile of a run with so many messages per second, packed or not.
func resultFile(t *testing.T, dir, name, scenario string, rate float64) string {
	t.Helper()
	s, err := bench.Builtin(scenario)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bench.EncodeResult(benchtest.Result(s, 3, func(n int) benchtest.Load { return benchtest.Healthy(rate + float64(n)) }))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = packed.Bytes()
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func drawn(args ...string) (string, error) {
	command := benchReportCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err := command.Execute()
	return out.String(), err
}

// The last result of each scenario is drawn, beside the one before it; ConfigMaps' packed results are taken as they are.
func TestBenchReport(t *testing.T) {
	dir := t.TempDir()
	before := resultFile(t, dir, "before.json", "SmallConfirmed", 2000)
	now := resultFile(t, dir, "now.json.gz", "SmallConfirmed", 1000)
	other := resultFile(t, dir, "other.json", "SmallMessages", 1000)
	file := filepath.Join(dir, "page.html")
	if out, err := drawn(before, other, now, "-o", file, "--title", "Mine"); err != nil || out != "" {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>Mine: ", "Regressed", "×\u00a00.50", `<section id="SmallConfirmed"`, `<section id="SmallMessages"`, "<figure"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := bytes.Count(page, []byte("<section")); n != 2 {
		t.Errorf("%d scenarios are shown, want 2", n)
	}
	if out, err := drawn(other, "-o", "-"); err != nil || !strings.Contains(out, "SmallMessages") {
		t.Errorf("to standard output: %v", err)
	}
	broken := filepath.Join(dir, "broken.json.gz")
	if err := os.WriteFile(broken, []byte{0x1f, 0x8b, 1}, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{broken}, {file}, {filepath.Join(dir, "absent.json")}, {now, "--threshold", "much"}, {}} {
		if _, err := drawn(args...); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
