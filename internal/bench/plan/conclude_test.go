package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
)

// result of a scenario whose valid runs had these rates.
func result(name string, perSecond ...float64) bench.Result {
	s, err := bench.Builtin(name)
	if err != nil {
		panic(err)
	}
	r := bench.Result{Scenario: s, Fingerprint: bench.Fingerprint{BrokerVersion: "4.3.6"}}
	r.Scenario.Runs = max(3, len(perSecond))
	for i, rate := range perSecond {
		p99 := 0.0081
		run := bench.Run{Number: i + 1, Figures: bench.Figures{Throughput: rate, ThroughputUnit: "messages/s", Latency: &bench.Quantiles{Samples: 1e6, P99Seconds: &p99}}}
		run.Validity.Valid = rate > 0
		if rate == 0 {
			run.Validity.Reasons = []bench.Reason{{Code: "Alarm", Message: "the memory alarm was on"}}
		}
		run.Verdict.Bottleneck = bench.BrokerCPUBound
		r.Runs = append(r.Runs, run)
	}
	r.Summary = bench.Summarize(r.Runs)
	return r
}

func of(r bench.Result, history ...bench.Result) Measured {
	return Measured{Result: r, History: history, ConfigMap: "kept"}
}

func version(r bench.Result, version string) bench.Result {
	r.Fingerprint.BrokerVersion = version
	return r
}

func TestConclude(t *testing.T) {
	before := result("SmallConfirmed", 60000, 60100, 59900)
	limited := result("SmallConfirmed", 61000, 61100, 60900)
	limited.Summary.Bottleneck = bench.GeneratorBound
	for name, c := range map[string]struct {
		measured []Measured
		ending   Ending
		verdict  v1alpha1.RunVerdict
		says     string
		headline string
	}{
		"first":                         {[]Measured{of(result("SmallConfirmed", 61000, 61100, 60900))}, Ending{}, v1alpha1.VerdictBaseline, "first results", "SmallConfirmed 61k/s"},
		"no worse":                      {[]Measured{of(result("SmallConfirmed", 61200, 61300, 61100), before)}, Ending{}, v1alpha1.VerdictPassed, "1 of 1", "SmallConfirmed 61k/s (+2%)"},
		"a new one besides":             {[]Measured{of(result("Backlog", 5000, 5000, 5000)), of(result("SmallConfirmed", 61200, 61300, 61100), before)}, Ending{}, v1alpha1.VerdictPassed, "1 of 2", "SmallConfirmed 61k/s (+2%)"},
		"within the gate":               {[]Measured{of(result("SmallConfirmed", 56000, 56100, 55900), before)}, Ending{}, v1alpha1.VerdictPassed, "", "SmallConfirmed 56k/s (-7%)"},
		"worse":                         {[]Measured{of(result("SmallConfirmed", 50000, 50100, 49900), before)}, Ending{}, v1alpha1.VerdictRegressed, "SmallConfirmed: throughput -16.7% (50k messages/s, was 60k messages/s; 10.0% is allowed)", "SmallConfirmed 50k/s (-17%)"},
		"worse, overlapping":            {[]Measured{of(result("SmallConfirmed", 50000, 59950, 49900), before)}, Ending{}, v1alpha1.VerdictPassed, "", "SmallConfirmed 50k/s (-17%)"},
		"another version":               {[]Measured{of(version(result("SmallConfirmed", 30000, 30000, 30000), "4.3.7"), before)}, Ending{}, v1alpha1.VerdictBaseline, "4.3.6 → 4.3.7", "SmallConfirmed 30k/s (-50%)"},
		"no run counts":                 {[]Measured{of(result("SmallConfirmed", 0, 0, 0), before)}, Ending{}, v1alpha1.VerdictInconclusive, "memory alarm", "SmallConfirmed -"},
		"the generator":                 {[]Measured{of(limited, before)}, Ending{}, v1alpha1.VerdictInconclusive, "generator was the limit", "SmallConfirmed 61k/s (+2%)"},
		"nothing":                       {nil, Ending{}, v1alpha1.VerdictFailed, "nothing was measured", ""},
		"refused":                       {nil, Ending{Refused: "others use it"}, v1alpha1.VerdictRefused, "others use it", ""},
		"failed":                        {nil, Ending{Failed: "pod 0 died"}, v1alpha1.VerdictFailed, "pod 0 died", ""},
		"failed after a good scenario":  {[]Measured{of(result("SmallConfirmed", 61200, 61300, 61100), before)}, Ending{Failed: "pod 0 died"}, v1alpha1.VerdictFailed, "pod 0 died", "SmallConfirmed 61k/s (+2%)"},
		"failed after a worse scenario": {[]Measured{of(result("SmallConfirmed", 50000, 50100, 49900), before)}, Ending{Failed: "pod 0 died"}, v1alpha1.VerdictRegressed, "pod 0 died", "SmallConfirmed 50k/s (-17%)"},
	} {
		t.Run(name, func(t *testing.T) {
			run := v1alpha1.ActiveRun{ID: "id", Number: 2, Trigger: v1alpha1.TriggerChange}
			got := Conclude(run, v1alpha1.BenchmarkGate{MaxRegression: "10%"}, c.measured, c.ending, noon)
			if got.Verdict != c.verdict || !strings.Contains(got.Message, c.says) || got.Headline != c.headline {
				t.Errorf("got %s, %q, headline %q", got.Verdict, got.Message, got.Headline)
			}
			if len(got.Scenarios) != len(c.measured) || got.Number != 2 || !got.Finished.Equal(&metav1.Time{Time: noon}) {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(c.headline, "k/s") && (got.P99 != "8.1ms" || name != "the generator" && got.Bottleneck != "broker CPU") {
				t.Errorf("p99 %q, bottleneck %q", got.P99, got.Bottleneck)
			}
		})
	}
	got := Conclude(v1alpha1.ActiveRun{}, v1alpha1.BenchmarkGate{MaxRegression: "10%"}, []Measured{of(result("SmallConfirmed", 0, 61000, 61000), before)}, Ending{}, noon)
	if s := got.Scenarios[0]; s.Runs != "2/3" || !slices.Equal(s.InvalidReasons, []string{"run 1: the memory alarm was on"}) {
		t.Errorf("got %+v", s)
	}
}

func TestFormats(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 7.4: "7", 950: "950", 999.6: "1.0k", 9800: "9.8k", 9960: "10k", 61400: "61k", 999600: "1.0M", 1.23e6: "1.2M", 45e6: "45M"} {
		if got := rate(value); got != want {
			t.Errorf("rate(%v) is %q, want %q", value, got, want)
		}
	}
	for value, want := range map[float64]string{0: "0s", 0.00085: "850µs", 0.0081: "8.1ms", 0.00814: "8.1ms", 0.12: "120ms", 1.234: "1.2s", 75: "1m15s"} {
		if got := latency(value); got != want {
			t.Errorf("latency(%v) is %q, want %q", value, got, want)
		}
	}
}

func TestRecord(t *testing.T) {
	kept := []v1alpha1.ScenarioResult{{Name: "S", ConfigMap: "kept"}}
	var history []v1alpha1.RunRecord
	for _, id := range []string{"1", "2", "3", "3"} { // a pass that was repeated
		history = Record(history, v1alpha1.BenchmarkRun{ID: id, Scenarios: kept}, 2)
	}
	history = Record(history, v1alpha1.BenchmarkRun{ID: "4"}, 2) // measured nothing
	if len(history) != 2 || history[0].ID != "3" || history[1].ID != "2" {
		t.Errorf("got %+v", history)
	}
}

func TestNotification(t *testing.T) {
	verdict := func(v v1alpha1.RunVerdict) *v1alpha1.BenchmarkRun { return &v1alpha1.BenchmarkRun{Verdict: v} }
	for _, c := range []struct {
		before, now v1alpha1.RunVerdict
		tell        bool
	}{
		{"", v1alpha1.VerdictBaseline, false}, {"", v1alpha1.VerdictFailed, true},
		{v1alpha1.VerdictPassed, v1alpha1.VerdictPassed, false}, {v1alpha1.VerdictPassed, v1alpha1.VerdictRegressed, true},
		{v1alpha1.VerdictRegressed, v1alpha1.VerdictRegressed, true}, {v1alpha1.VerdictRegressed, v1alpha1.VerdictPassed, true},
		{v1alpha1.VerdictRegressed, v1alpha1.VerdictInconclusive, false}, {v1alpha1.VerdictRefused, v1alpha1.VerdictBaseline, true},
	} {
		var before *v1alpha1.BenchmarkRun
		if c.before != "" {
			before = verdict(c.before)
		}
		if got := WorthTelling(*verdict(c.now), before); got != c.tell {
			t.Errorf("%q after %q: %v", c.now, c.before, got)
		}
	}
	n, at := &v1alpha1.RunNotification{}, noon
	var waits []time.Duration
	for {
		next, due := TellAt(n)
		if !due {
			break
		}
		if !next.IsZero() {
			waits = append(waits, next.Sub(at))
			at = next
		}
		n = Told(*n, "no answer", at)
	}
	want := []time.Duration{10 * time.Second, 40 * time.Second, 160 * time.Second, 640 * time.Second}
	if n.Attempts != MostAttempts || n.Sent || !slices.Equal(waits, want) {
		t.Errorf("%+v after waits of %v", n, waits)
	}
	if _, due := TellAt(Told(v1alpha1.RunNotification{}, "", noon)); due {
		t.Error("what was told is told again")
	}
}

func TestScenarios(t *testing.T) {
	custom := func(texts ...string) (out []runtime.RawExtension) {
		for _, text := range texts {
			out = append(out, runtime.RawExtension{Raw: []byte(text)})
		}
		return out
	}
	gate := v1alpha1.BenchmarkGate{MaxRegression: "10%"}
	for name, c := range map[string]struct {
		spec  v1alpha1.BenchmarkSpec
		fault string
	}{
		"built-in":             {v1alpha1.BenchmarkSpec{Scenarios: []v1alpha1.BuiltinScenario{"SmallConfirmed"}}, ""},
		"custom":               {v1alpha1.BenchmarkSpec{Custom: custom(`{"name": "Mine", "publishers": {"count": 3}}`)}, ""},
		"misspelt":             {v1alpha1.BenchmarkSpec{Custom: custom(`{"name": "Mine", "publishers": {"cuont": 3}}`)}, "spec.custom[0]: "},
		"impossible":           {v1alpha1.BenchmarkSpec{Custom: custom(`{"name": "Mine", "publishers": {"count": -3}}`)}, "publishers.count"},
		"two of a name":        {v1alpha1.BenchmarkSpec{Scenarios: []v1alpha1.BuiltinScenario{"Backlog"}, Custom: custom(`{"name": "Backlog"}`)}, "there twice"},
		"too many connections": {v1alpha1.BenchmarkSpec{Scenarios: []v1alpha1.BuiltinScenario{"ConnectionStorm"}, Caps: v1alpha1.BenchmarkCaps{Connections: 5}}, "connections"},
		"cron":                 {v1alpha1.BenchmarkSpec{Scenarios: []v1alpha1.BuiltinScenario{"Backlog"}, Trigger: v1alpha1.BenchmarkTrigger{Cron: "0 99 * * *"}}, "spec.trigger.cron"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Gate, c.spec.Runs = gate, 4
			got, faults := Scenarios(c.spec)
			if c.fault == "" && (len(faults) > 0 || len(got) != 1 || got[0].Runs != 4) {
				t.Errorf("%d scenarios, faults %q", len(got), faults)
			}
			if text := strings.Join(faults, "\n"); c.fault != "" && !strings.Contains(text, c.fault) {
				t.Errorf("faults %q, want %q", text, c.fault)
			}
		})
	}
	if d := Deadline([]bench.Scenario{bench.Defaults()}); d < time.Hour/3 || d > 2*time.Hour {
		t.Errorf("a minute three times may take %s", d)
	}
}

// Mirrored queues are for brokers that have them.
func TestUnsupported(t *testing.T) {
	scenarios, _ := Scenarios(v1alpha1.BenchmarkSpec{Scenarios: []v1alpha1.BuiltinScenario{"Classic", "Mirrored"}})
	of := func(version string) *v1alpha1.WorkloadCluster {
		return cluster(func(c *v1alpha1.WorkloadCluster) { c.Status.Version = version })
	}
	for _, c := range []struct {
		cluster *v1alpha1.WorkloadCluster
		faults  int
	}{{nil, 0}, {of(""), 0}, {of("3.10.8"), 0}, {of("4.3.6"), 1}} {
		got := Unsupported(scenarios, c.cluster)
		if len(got) != c.faults || c.faults > 0 && !strings.Contains(got[0], "scenario Mirrored") {
			t.Errorf("%+v: got %q", c.cluster, got)
		}
	}
}

// The schema names the scenarios that there are.
func TestTheSchemaKnowsTheMatrix(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "rabbitmq.warren.dev_benchmarks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties struct {
							Spec struct {
								Properties struct {
									Scenarios struct {
										Items struct{ Enum []string }
									}
								}
							}
						}
					} `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range bench.Matrix() {
		want = append(want, s.Name)
	}
	got := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties.Spec.Properties.Scenarios.Items.Enum
	if !slices.Equal(got, want) {
		t.Errorf("the schema has\n%v\nand there are\n%v", got, want)
	}
}
