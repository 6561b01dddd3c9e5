package job

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/benchtest"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/internal/bench/report"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/golden"
	"github.com/warren-mq/warren/internal/load"
)

func input() Input {
	b := &v1alpha1.Benchmark{ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "baseline", UID: "b-uid"}}
	b.Spec.Generator.Pods = 2
	b.Spec.Generator.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	b.Spec.Generator.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
	b.Spec.Generator.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "runtime", UID: "c-uid"}}
	c.Spec.Replicas = 3
	c.Spec.Resources.Limits.CPU = resource.MustParse("1500m")
	c.Status.Image = "rabbitmq:4.3.6"
	c.Status.Nodes = []v1alpha1.NodeStatus{{Name: "runtime-0", HostNode: "host-a"}, {Name: "runtime-1"}}
	s, _ := bench.Builtin("SmallConfirmed")
	return Input{
		Benchmark: b, Cluster: c, Scenarios: []bench.Scenario{s}, Image: "warren-mq/warren:0.1.0",
		Run: &v1alpha1.ActiveRun{ID: plan.RunID("b-uid", 7), ClusterUID: "c-uid", Number: 7},
	}
}

func TestObjects(t *testing.T) {
	objects, err := Build(input())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	golden.Equal(t, filepath.Join("testdata", "run.yaml"), out.Bytes())
}

// With a volume for results and control groups of the broker.
func TestObjectsWithAVolumeAndControlGroups(t *testing.T) {
	in := input()
	in.Benchmark.Spec.History = v1alpha1.BenchmarkHistory{Limit: 5, VolumeClaimRef: &v1alpha1.VolumeClaimReference{Name: "results"}}
	in.Benchmark.Spec.Generator.BrokerCgroups = true
	in.Benchmark.Spec.Gate.MaxRegression = "20%"
	in.Run.Started = metav1.NewTime(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	plain := kinds(t, input())
	var out bytes.Buffer
	for kind, text := range kinds(t, in) {
		if kind == "Job" || kind == "Role" {
			continue
		}
		if plain[kind] != text && kind != "ConfigMap" {
			t.Errorf("%s is another:\n%s", kind, text)
		}
	}
	all := kinds(t, in)
	for _, kind := range []string{"Role", "Job"} {
		out.WriteString("---\n" + all[kind])
	}
	golden.Equal(t, filepath.Join("testdata", "volume.yaml"), out.Bytes())
	p := planOf(in)
	want := Store{Benchmark: "baseline", Folder: "20270102-030405-" + in.Run.ID[:8], Limit: 5, MaxRegression: 0.2}
	if p.Store == nil || *p.Store != want {
		t.Errorf("store %+v", p.Store)
	}
	if len(p.Brokers) != 3 || p.Brokers[1] != (BrokerPod{"runtime-1", "rabbitmq", "rabbit@runtime-1.runtime-nodes.messaging"}) {
		t.Errorf("brokers %+v", p.Brokers)
	}
}

// kinds are the texts of all objects of a run.
func kinds(t *testing.T, in Input) map[string]string {
	t.Helper()
	objects, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out[o.GetObjectKind().GroupVersionKind().Kind] += string(text)
	}
	return out
}

// What is there is not touched, what somebody else has is left alone, and what is over goes.
func TestMissingAndObsolete(t *testing.T) {
	in := input()
	wanted, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	live := map[desired.Key]desired.Object{}
	all, err := Missing(in.Benchmark, wanted, live)
	if err != nil || len(all.Apply) != len(wanted) {
		t.Fatalf("%d of %d objects are made, error %v", len(all.Apply), len(wanted), err)
	}
	for _, o := range wanted {
		live[desired.KeyOf(o)] = o
	}
	if none, err := Missing(in.Benchmark, wanted, live); err != nil || len(none.Apply)+len(none.Taken) > 0 {
		t.Errorf("%+v, error %v", none, err)
	}
	name := RunName("baseline", in.Run.ID)
	foreign := map[desired.Key]desired.Object{{Kind: "Role", Name: name}: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	if taken, err := Missing(in.Benchmark, wanted, foreign); err != nil || len(taken.Taken) != 1 || len(taken.Apply) > 0 {
		t.Errorf("%+v, error %v", taken, err)
	}
	kept, err := Result(in, 0, bench.Result{Scenario: in.Scenarios[0]})
	if err != nil {
		t.Fatal(err)
	}
	live[desired.KeyOf(kept)] = kept
	page, err := Report(in, report.Input{Results: []bench.Result{{Scenario: in.Scenarios[0]}}})
	if err != nil || page.Immutable == nil || !*page.Immutable || page.Name != name+"-report" {
		t.Fatalf("%+v, error %v", page, err)
	}
	live[desired.KeyOf(page)] = page
	record := []v1alpha1.RunRecord{{ID: in.Run.ID}}
	for what, c := range map[string]struct {
		started int64
		active  string
		history []v1alpha1.RunRecord
		goes    int
	}{
		"under way":              {7, in.Run.ID, nil, 0},
		"over, and kept":         {7, "", record, len(wanted)},
		"over":                   {7, "", nil, len(wanted) + 2},
		"not known to this pass": {6, "", nil, 0},
	} {
		in.Benchmark.Status.Started = c.started
		if got := Obsolete(in.Benchmark, live, c.active, c.history); len(got) != c.goes {
			t.Errorf("%s: %d objects go, want %d", what, len(got), c.goes)
		}
	}
}

// part of a run of many seconds with histograms.
func part(of int) Part {
	p := Part{Of: of, Fingerprint: bench.Fingerprint{BrokerVersion: "4.3.6"}, Left: map[string]int64{"q": 0}}
	r := &p.Part.Run
	r.Number, r.Started = 1, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	r.Phases = []bench.Phase{{Name: bench.PhaseSteady, StartSeconds: 0, EndSeconds: 200}}
	seed := uint64(of)
	for at := range 200 {
		h := bench.NewCoarseHistogram()
		for range 50 {
			seed = seed*6364136223846793005 + 1442695040888963407
			h.Record(time.Duration(seed>>40) * time.Microsecond)
		}
		r.Seconds = append(r.Seconds, bench.Second{AtSeconds: at, Published: 100, Confirmed: 100, Consumed: 100, Latency: h})
		value := float64(seed)
		r.Broker = append(r.Broker, bench.Sample{AtSeconds: float64(at), CPUSecondsTotal: &value, MessagesReady: &value})
	}
	r.Generator.Workers = 1
	return p
}

// All parts of a scenario fit into one ConfigMap, whatever the number of pods and runs.
func TestPartsFit(t *testing.T) {
	for _, c := range []struct{ runs, pods int }{{1, 1}, {3, 1}, {3, 8}, {20, 2}, {20, 8}} {
		packed, err := EncodePart(part(c.pods), c.runs)
		if err != nil || len(packed)*c.runs*c.pods > mostBytes {
			t.Errorf("%d runs of %d pods: %d bytes each, error %v", c.runs, c.pods, len(packed), err)
		}
	}
	if _, err := EncodePart(part(1), 10000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("what cannot fit: %v", err)
	}
}

func TestAssemble(t *testing.T) {
	s := bench.Defaults()
	s.Name = "Mine"
	data := map[string][]byte{}
	put := func(run, pod int, started time.Duration) {
		p := part(2)
		p.Part.Run.Number, p.Part.Run.Started = run, p.Part.Run.Started.Add(started)
		packed, err := EncodePart(p, 3)
		if err != nil {
			t.Fatal(err)
		}
		data[PartKey(run, pod)] = packed
	}
	put(1, 0, 0)
	put(1, 1, time.Second)
	put(2, 0, 0) // the other pod handed nothing back
	put(3, 0, 0)
	put(3, 1, time.Minute) // it began too late
	data[PartKey(4, 0)] = []byte("no gzip")
	r, faults := Assemble(s, data)
	if len(r.Runs) != 1 || r.Runs[0].Figures.Throughput != 200 || r.Runs[0].Generator.Workers != 2 || r.Summary.ValidRuns != 1 || r.Fingerprint.BrokerVersion != "4.3.6" {
		t.Errorf("%d runs, %+v", len(r.Runs), r.Summary)
	}
	if len(faults) != 3 || !strings.Contains(faults[0], "1 of 2 pods") || !strings.Contains(faults[1], "apart") || !strings.Contains(faults[2], "cannot be read") {
		t.Errorf("faults %q", faults)
	}
	text, binary, err := EncodeResult(r)
	if err != nil || len(binary[KeyResult]) == 0 {
		t.Fatalf("%d bytes, error %v", len(binary[KeyResult]), err)
	}
	compact, err := bench.DecodeResult([]byte(text[KeyCompact]))
	if err != nil || compact.Summary.Throughput.Median != 200 || len(compact.Runs[0].Seconds) > 0 {
		t.Errorf("compact %+v, error %v", compact.Summary, err)
	}
}

func TestEndingOf(t *testing.T) {
	made := &Plan{Pods: 2}
	failed := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
		Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "too long",
	}}}}
	done, refused := Ending{Code: Done}, Ending{Code: Refused, Message: "others use it"}
	for name, c := range map[string]struct {
		made            *Plan
		endings         map[int]Ending
		job             *batchv1.Job
		refused, failed string
	}{
		"well":             {made, map[int]Ending{0: done, 1: done}, &batchv1.Job{}, "", ""},
		"one said nothing": {made, map[int]Ending{0: done}, failed, "", "pod 1 did not come to its end: DeadlineExceeded: too long"},
		"the Job is gone":  {made, nil, nil, "", "pod 0 did not come to its end: the Job is gone"},
		"refused":          {made, map[int]Ending{0: refused, 1: {Code: Failed, Message: "nobody came"}}, failed, "others use it", ""},
		"refused by one":   {made, map[int]Ending{0: refused}, failed, "others use it", ""},
		"failed":           {made, map[int]Ending{0: {Code: Failed, Message: "an alarm"}, 1: done}, failed, "", "an alarm"},
		"one was killed":   {made, map[int]Ending{0: {Code: Stopped, Message: "terminated"}}, failed, "", "pod 1 did not come to its end: DeadlineExceeded: too long"},
		"one failed":       {made, map[int]Ending{0: {Code: Stopped, Message: "terminated"}, 1: {Code: Failed, Message: "an alarm"}}, failed, "", "an alarm"},
		"all were stopped": {made, map[int]Ending{0: {Code: Stopped}, 1: {Code: Stopped}}, failed, "", "pod 0 was told to stop: DeadlineExceeded: too long"},
		"no plan":          {nil, nil, nil, "", "the Job is gone, and nothing was handed back"},
	} {
		t.Run(name, func(t *testing.T) {
			got := EndingOf(c.endings, c.made, c.job, "the Job is gone")
			if got.Refused != c.refused || !strings.Contains(got.Failed, c.failed) || c.failed == "" && got.Failed != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// What became of the folder on the volume is told by the first pod, unless another could not put its parts there.
func TestEndingOfAStore(t *testing.T) {
	made := &Plan{Pods: 2, Store: &Store{}}
	kept := Ending{Code: Done, Folder: "b/run"}
	for name, c := range map[string]struct {
		endings map[int]Ending
		folder  string
		fault   string
	}{
		"kept":               {map[int]Ending{0: kept, 1: {Code: Done}}, "b/run", ""},
		"full":               {map[int]Ending{0: {Code: Done, StoreFault: "no space"}, 1: {Code: Done}}, "", "no space"},
		"full for the other": {map[int]Ending{0: kept, 1: {Code: Done, StoreFault: "no space"}}, "b/run", "generator pod 1: no space"},
		"killed":             {map[int]Ending{1: {Code: Done}}, "", "did not come so far"},
		"refused":            {map[int]Ending{0: {Code: Refused, Message: "others"}, 1: {Code: Failed}}, "", ""},
	} {
		got := EndingOf(c.endings, made, &batchv1.Job{}, "")
		if got.Folder != c.folder || !strings.Contains(got.StoreFault, c.fault) || c.fault == "" && got.StoreFault != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := EndingOf(map[int]Ending{0: {Code: Done}}, &Plan{Pods: 1}, &batchv1.Job{}, ""); got.Folder+got.StoreFault != "" {
		t.Errorf("without a volume: %+v", got)
	}
}

func unpacked(t *testing.T, packed []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A report fits into a ConfigMap: the scenarios in which nothing is wrong lose their charts first.
func TestReportFits(t *testing.T) {
	s := bench.Defaults()
	result := func(name string) bench.Result {
		s.Name = name
		load := benchtest.Healthy(1000)
		load.Seconds = 20
		return benchtest.Result(s, 1, func(int) benchtest.Load { return load })
	}
	in := report.Input{Comparisons: map[string]bench.Comparison{"Bad": {Outcome: bench.Regressed}}}
	for _, name := range []string{"Bad", "Good1", "Good2"} {
		in.Results = append(in.Results, result(name))
	}
	whole, err := EncodeReport(in)
	if err != nil || strings.Count(unpacked(t, whole), "<figure") < 15 {
		t.Fatalf("a small report has not all charts, error %v", err)
	}
	fewer, err := encodeReport(in, len(whole)-1)
	if err != nil || len(fewer) >= len(whole) {
		t.Fatalf("%d bytes, error %v", len(fewer), err)
	}
	text := unpacked(t, fewer)
	bad, good, _ := strings.Cut(text[strings.Index(text, `<section id="Bad"`):], `<section id="Good1"`)
	if !strings.Contains(bad, "<figure") || strings.Contains(good, "<figure") || !strings.Contains(good, "Good2") {
		t.Error("not the right charts are left")
	}
	none, err := encodeReport(in, len(fewer)-1)
	if err != nil || len(none) >= len(fewer) || strings.Contains(unpacked(t, none), "<figure") {
		t.Errorf("%d bytes, error %v", len(none), err)
	}
	if _, err := encodeReport(in, len(none)-1); !errors.Is(err, ErrReportTooLarge) {
		t.Errorf("what cannot fit: %v", err)
	}
}

// The report is of what was measured, beside the run before.
func TestPageOf(t *testing.T) {
	now, before := bench.Result{Scenario: bench.Scenario{Name: "A"}, Runs: []bench.Run{{}}}, bench.Result{Summary: bench.Summary{ValidRuns: 1, Throughput: &bench.Spread{Median: 5}}}
	in := PageOf("t", []plan.Measured{{Result: now, History: []bench.Result{before, {}}}, {Result: bench.Result{Scenario: bench.Scenario{Name: "B"}}}},
		func(plan.Measured) bench.Comparison { return bench.Comparison{Outcome: bench.Passed} }, time.Time{})
	if len(in.Results) != 1 || in.Last["A"].Throughput.Median != 5 || in.Comparisons["A"].Outcome != bench.Passed || len(in.Comparisons) != 1 {
		t.Errorf("%+v", in)
	}
}

// The password is the same for all pods, and other than that of every other run and cluster.
func TestTenantPassword(t *testing.T) {
	all := []string{TenantPassword("a", "x"), TenantPassword("b", "x"), TenantPassword("a", "y")}
	slices.Sort(all)
	if len(slices.Compact(all)) != 3 || len(all[0]) != 64 || !slices.Contains(all, TenantPassword("a", "x")) {
		t.Errorf("got %q", all)
	}
}

// The plan says nothing that is secret, and comes back as it was.
func TestPlan(t *testing.T) {
	p := planOf(input())
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := load.ParseEndpoint(back.URI) // as the pods do
	want := []string{"runtime-0.runtime-nodes.messaging.svc:5672", "runtime-1.runtime-nodes.messaging.svc:5672", "runtime-2.runtime-nodes.messaging.svc:5672"}
	if err != nil || !slices.Equal(endpoint.Hosts, want) {
		t.Errorf("hosts %q of %q, error %v", endpoint.Hosts, back.URI, err)
	}
	if _, err := DecodePlan([]byte(`{"runID": "x"}`)); err == nil {
		t.Error("a plan without scenarios is taken")
	}
}
