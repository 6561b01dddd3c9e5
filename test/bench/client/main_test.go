package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		values           []float64
		median, min, max float64
		mad              float64
	}{
		{nil, 0, 0, 0, 0},
		{[]float64{7}, 7, 7, 7, 0},
		{[]float64{9, 10, 20}, 10, 9, 20, 0.1},
		{[]float64{4, 1, 3, 2}, 2.5, 1, 4, 0.4},
		{[]float64{0, 0, 5}, 0, 0, 5, 0},
	} {
		before := slices.Clone(c.values)
		got := spreadOf(c.values)
		if m := median(c.values); m != c.median || got.Min != c.min || got.Max != c.max || math.Abs(got.MAD-c.mad) > 1e-9 {
			t.Errorf("%v: median %v, spread %+v", c.values, m, got)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("%v was sorted in place", before)
		}
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	if got := ratios([]float64{10, 40, 9}, []float64{5, 20, 0}); !slices.Equal(got, []float64{2, 2}) {
		t.Errorf("got %v", got)
	}
	if got := ratios([]float64{10}, nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestPercentile(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[len(values)-1-i] = float64(i + 1)
	}
	if p95, most := percentile(values, 95), percentile(values, 100); p95 != 95 || most != 100 {
		t.Errorf("got %v and %v", p95, most)
	}
	if percentile(nil, 95) != 0 {
		t.Error("of nothing")
	}
}

func TestBucketLetsThroughTheRate(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBucket(1000, 100, now)
	if wait := b.take(100, now); wait != 0 {
		t.Errorf("the burst waited %v", wait)
	}
	passed := 0
	begin := now
	for range 200 {
		now = now.Add(b.take(50, now))
		passed += 50
	}
	if rate := float64(passed) / now.Sub(begin).Seconds(); math.Abs(rate-1000) > 10 {
		t.Errorf("%.0f bytes a second passed", rate)
	}
	if wait := b.take(100, now.Add(time.Hour)); wait != 0 {
		t.Errorf("after a pause the burst waited %v", wait)
	}
	if wait := b.take(1, now.Add(time.Hour)); wait == 0 {
		t.Error("a pause saved up more than the burst")
	}
}

func TestBucketHoldsWhenManyTakeAtOnce(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBucket(1000, 100, now)
	b.take(100, now)
	if first, second := b.take(100, now), b.take(100, now); first != 100*time.Millisecond || second != 200*time.Millisecond {
		t.Errorf("waits of %v and %v", first, second)
	}
}

func TestProxyPassesBothWays(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		c.Close()
	}()
	p, err := startProxy(server.Addr().String(), 1e9)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("echo"), 100000)
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); err == nil {
		t.Error("the connection outlived the proxy")
	}
	c.Close()
}

func TestFiguresAndGoals(t *testing.T) {
	r := &results{
		rounds: map[string][]outcome{
			"slow": {{Messages: 100, Seconds: 1}, {Messages: 300, Seconds: 3}, {Messages: 50, Seconds: 1}},
			"fast": {{Messages: 200, Seconds: 1}, {Messages: 250, Seconds: 1}, {Messages: 200, Seconds: 1}},
		},
		errs:  map[string]error{"broken": errors.New("no queue")},
		loads: map[string][]float64{"slow": {1, 2, 3}, "fast": {1.5, 2.5, 0.5}},
	}
	f := r.faster("fast to slow", "fast", "slow", 2.5)
	if f.Value != 2.5 || !*f.Holds || f.Spread.Min != 2 || f.Spread.Max != 4 || f.Note != "load 0.5–3.0" {
		t.Errorf("%+v", f)
	}
	if f := r.faster("fast to slow", "fast", "slow", 2.6); *f.Holds {
		t.Error("2.5 is less than 2.6")
	}
	if f := r.faster("fast to broken", "fast", "broken", 0.1); *f.Holds || !strings.Contains(f.Note, "no queue") {
		t.Errorf("%+v", f)
	}
	if f := r.rate("slow", "slow", "", "a note"); f.Goal != nil || f.Holds != nil || f.Note != "load 1.0–3.0; a note" {
		t.Errorf("%+v", f)
	}
}

func TestReports(t *testing.T) {
	figures := []figure{of("a rate", "messages/s", []float64{1234, 1300}), of("a|ratio", "×", []float64{1.5}, "why").atLeast(2)}
	var out bytes.Buffer
	if err := table(&out, figures); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || strings.Index(lines[0], "UNIT") != strings.Index(lines[1], "messages/s") {
		t.Errorf("not aligned:\n%s", out.String())
	}
	out.Reset()
	markdown(&out, figures)
	if !strings.Contains(out.String(), `| a\|ratio | 1.50 | × | ≥ 2.00 | no | 1.50–1.50 | 0.0 % | why |`) {
		t.Errorf("got\n%s", out.String())
	}
	path := filepath.Join(t.TempDir(), "new", "figures.json")
	if err := save(path, figures); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back []map[string]any
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back[0]["goal"] != nil || back[0]["holds"] != nil || back[1]["goal"] != 2.0 || back[1]["holds"] != false {
		t.Errorf("%s", text)
	}
}

func TestModelIsBestAtTen(t *testing.T) {
	if got := rowLocks.best(); got != 10 {
		t.Errorf("best at %d", got)
	}
	if alone := rowLocks.takes(1, 0.5); alone != rowLocks.Base {
		t.Errorf("alone it takes %v", alone)
	}
	if low, high := rowLocks.takes(1, 0), rowLocks.takes(1, 1); low >= rowLocks.Base || high <= rowLocks.Base {
		t.Errorf("from %v to %v", low, high)
	}
}

func TestBodiesAreTheSameEveryTime(t *testing.T) {
	for _, kind := range []string{bodyRandom, bodyJSON} {
		first, second := bodies(kind, 1000, 3), bodies(kind, 1000, 3)
		for i := range first {
			if !bytes.Equal(first[i], second[i]) || len(first[i]) < 1000 {
				t.Errorf("%s: body %d has %d and %d bytes", kind, i, len(first[i]), len(second[i]))
			}
		}
		if bytes.Equal(first[0], first[1]) {
			t.Errorf("%s: all bodies are the same", kind)
		}
		if kind == bodyJSON && !json.Valid(first[0]) {
			t.Errorf("not JSON: %s", first[0])
		}
	}
}

func TestFlags(t *testing.T) {
	c, err := parse(nil)
	if err != nil || len(c.only) != len(parts) || c.prefetch() != 500 {
		t.Fatalf("%+v, %v", c, err)
	}
	c, err = parse([]string{"--only", "a,e", "--types", "quorum"})
	if err != nil || !c.wants("e f") || c.wants("b") {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, wrong := range []string{"--only=z", "--types=stream", "--versions=1.0", "--runs=0", "--small=1024", "--types="} {
		if _, err := parse([]string{wrong}); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
}

func TestEveryTrialIsOfAPartAndHasAName(t *testing.T) {
	c, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range plan(c, "4.3.6") {
		seen := map[string]bool{}
		for _, trial := range g.trials {
			if seen[trial.key] || !c.wants(trial.parts) {
				t.Errorf("%s: %s", g.title, trial.key)
			}
			seen[trial.key] = true
			if publishers[trial.job.Variant] == nil && consumers[trial.job.Variant] == nil {
				t.Errorf("%s: no variant %s", g.title, trial.job.Variant)
			}
		}
	}
}
