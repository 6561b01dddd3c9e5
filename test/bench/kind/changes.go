package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/plan"
	"github.com/warren-mq/warren/test/bench/figures"
	"github.com/warren-mq/warren/test/cluster"
)

// load of a comparison: 256 B, persistent, confirmed.
func (j *job) load(name, description string, change func(*bench.Scenario)) bench.Scenario {
	s := bench.Defaults()
	s.Name, s.Description = name, description
	s.WarmUp, s.Duration, s.CoolDown = bench.Duration(3*time.Second), bench.Duration(time.Duration(j.seconds)*time.Second), bench.Duration(time.Second)
	change(&s)
	return s
}

// schedulers: one node with one CPU has 36 schedulers, as one that counts the CPUs of a large machine, and then as many as
// Warren chooses.
func (j *job) schedulers(ctx context.Context) error {
	many := int32(36)
	r, err := j.rabbit(ctx, "tuned", "4.3", 1, func(s *v1alpha1.WorkloadClusterSpec) {
		s.Erlang.Schedulers = v1alpha1.SchedulersSpec{Mode: v1alpha1.SchedulersFixed, Count: &many}
	})
	if err != nil {
		return err
	}
	scenario := j.load("Schedulers", "4 classic queues, 4 publishers with a window of 100, 4 consumers; one node with one CPU.", func(s *bench.Scenario) {
		s.Publishers, s.Queues.Count = bench.Publishers{Count: 4, ConfirmWindow: 100}, 4
		s.Consumers.Count = 4
	})
	before, after, reason, err := j.beforeAfter(ctx, "tuned", scenario, func() error {
		c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tuned"}}
		if err := j.patch(ctx, c, `{"erlang":{"schedulers":{"mode":"FromCPULimit","count":null}}}`); err != nil {
			return err
		}
		return j.waitRabbit(ctx, "tuned")
	})
	if err != nil {
		return err
	}
	nodes, err := r.Nodes(ctx)
	if err != nil || len(nodes) != 1 {
		return fmt.Errorf("%d nodes: %w", len(nodes), err)
	}
	note := fmt.Sprintf("%s; now %d:%d on a CPU limit of %g", reason, nodes[0].Schedulers, nodes[0].Online, nodes[0].CPULimit)
	j.rows = append(j.rows,
		ratio("schedulers 36 -> tuned on 1 CPU, throughput", after, before, throughputs, 1.05, note),
		ratio("schedulers 36 -> tuned on 1 CPU, P99 was so many times as long", before, after, p99s, 1.2, note))
	return nil
}

// mirrored is the pattern and the name of the queues of the comparison of mirrors.
const (
	mirroredPattern = `^runtime\.`
	mirroredQueue   = "runtime.bench"
)

// mirrors: five nodes of 3.10 mirror each queue on all of them, and then on two.
func (j *job) mirrors(ctx context.Context) error {
	r, err := j.rabbit(ctx, "mirrors", "3.10", 5, nil)
	if err != nil {
		return err
	}
	policy, err := j.mirrorAll(ctx, "mirrors")
	if err != nil {
		return err
	}
	scenario := j.load("Mirrors", "8 classic queues, 8 publishers with a window of 100, 8 consumers; five nodes of 3.10.", func(s *bench.Scenario) {
		s.Publishers, s.Queues.Count = bench.Publishers{Count: 8, ConfirmWindow: 100}, 8
		s.Consumers.Count = 8
		s.Queues.Like = &bench.Likeness{Name: mirroredQueue, VHost: "/"}
	})
	watched := watchMirrors(ctx, r)
	before, after, reason, err := j.beforeAfter(ctx, "mirrors", scenario, func() error {
		spec := `{"replication":{"mode":"HATwo"},"definition":null,"quorumDecision":{"by":"2027-09-30"},"acceptMirrorAll":null}`
		if err := j.patch(ctx, policy, spec); err != nil {
			return err
		}
		return j.waitPolicy(ctx)
	})
	seen := watched()
	if err != nil {
		return err
	}
	j.rows = append(j.rows, ratio("ha-mode: all -> HATwo on 5 nodes, throughput", after, before, throughputs, 1.7,
		fmt.Sprintf("%s; mirrors seen of a queue under load: %s", reason, seen)))
	j.rows = append(j.rows, ratio("ha-mode: all -> HATwo on 5 nodes, P99 was so many times as long", before, after, p99s, 0, ""))
	return nil
}

// mirrorAll makes a QueuePolicy that mirrors on all nodes. Warren may want it said that this is meant.
func (j *job) mirrorAll(ctx context.Context, of string) (*unstructured.Unstructured, error) {
	const accept = "acceptMirrorAll"
	made := func(accepted bool) *unstructured.Unstructured {
		p := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"clusterRef": map[string]any{"name": of}, "pattern": mirroredPattern, "replication": map[string]any{"mode": "None"},
			"definition": map[string]any{"ha-mode": "all", "ha-sync-mode": "automatic"},
		}}}
		if accepted {
			p.Object["spec"].(map[string]any)[accept] = true
		}
		p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("QueuePolicy"))
		p.SetNamespace(namespace)
		p.SetName("runtime-ha")
		return p
	}
	p := made(false)
	err := j.k.Client.Create(ctx, p)
	if err != nil && strings.Contains(err.Error(), accept) {
		p = made(true)
		err = j.k.Client.Create(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	err = j.waitPolicy(ctx)
	if err != nil && strings.Contains(err.Error(), accept) {
		if err := j.patch(ctx, p, `{"`+accept+`":true}`); err != nil {
			return nil, err
		}
		err = j.waitPolicy(ctx)
	}
	return p, err
}

func (j *job) waitPolicy(ctx context.Context) error {
	refused := ""
	err := cluster.Wait(ctx, goneLimit, func(ctx context.Context) (string, error) {
		var p v1alpha1.QueuePolicy
		if err := j.k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "runtime-ha"}, &p); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
		if c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == p.Generation {
			refused = c.Message
			return "", nil
		}
		return unready(&p, p.Status.Conditions), nil
	})
	if refused != "" {
		err = errors.New("the QueuePolicy is refused: " + refused)
	}
	return err
}

// watchMirrors looks at the queues under load until it is told to stop, and says how many mirrors they had, in order.
func watchMirrors(ctx context.Context, r *cluster.Rabbit) (stop func() string) {
	ctx, cancel := context.WithCancel(ctx)
	var seen []string
	var running sync.WaitGroup
	running.Go(func() {
		_ = cluster.WaitEvery(ctx, 2*time.Second, time.Hour, func(ctx context.Context) (string, error) {
			var queues []struct {
				Name, VHost string
				Mirrors     []string `json:"slave_nodes"`
			}
			if err := r.Call(ctx, http.MethodGet, "queues?columns=name,vhost,slave_nodes", nil, &queues); err != nil {
				return "", err
			}
			for _, q := range queues {
				if !strings.HasPrefix(q.VHost, plan.TenantTag) {
					continue
				}
				if n := fmt.Sprint(len(q.Mirrors)); len(seen) == 0 || seen[len(seen)-1] != n {
					seen = append(seen, n)
				}
				break
			}
			return "until it is told to stop", nil
		})
	})
	return func() string {
		cancel()
		running.Wait()
		return strings.Join(seen, ", ")
	}
}

// beforeAfter measures a scenario, makes a change, and waits until the Benchmark has found it and measured again.
func (j *job) beforeAfter(ctx context.Context, name string, s bench.Scenario, change func() error) (before, after bench.Result, reason string, err error) {
	b, err := benchmark(name, name, 1, int32(j.runs), s)
	if err != nil {
		return before, after, "", err
	}
	b.Spec.Trigger.OnChange = true
	if err := j.k.Client.Create(ctx, b); err != nil {
		return before, after, "", err
	}
	if before, _, err = j.measured(ctx, name, 1, s); err != nil {
		return before, after, "", err
	}
	if err := progress.Step("make the change", change); err != nil {
		return before, after, "", err
	}
	after, run, err := j.measured(ctx, name, 2, s)
	if err != nil {
		return before, after, "", err
	}
	if run.Trigger != v1alpha1.TriggerChange {
		return before, after, "", fmt.Errorf("run 2 was started by %s: %s", run.Trigger, run.Reason)
	}
	reason = run.Reason
	earlier := before
	earlier.Scenario.Name += "Before"
	j.compared = append(j.compared, shown{result: earlier}, shown{result: after, before: &before})
	return before, after, reason, nil
}

// measured waits for a run of one scenario and reads it.
func (j *job) measured(ctx context.Context, name string, number int64, s bench.Scenario) (bench.Result, *v1alpha1.BenchmarkRun, error) {
	run, err := j.waitRun(ctx, name, number)
	if err != nil {
		return bench.Result{}, nil, err
	}
	if run.Number != number {
		return bench.Result{}, nil, fmt.Errorf("Benchmark %s: run %d ended before run %d could be read", name, run.Number, number)
	}
	all, err := j.results(ctx, run)
	if err != nil {
		return bench.Result{}, nil, err
	}
	r, found := all[s.Name]
	if !found {
		return bench.Result{}, nil, fmt.Errorf("Benchmark %s: run %d is %s: %s", name, number, run.Verdict, run.Message)
	}
	return r, run, nil
}

// prefetch: one consumer takes a backlog of one classic queue, each message acknowledged on its own.
func (j *job) prefetch(ctx context.Context) error {
	if _, err := j.rabbit(ctx, "prefetch", "4.3", 1, nil); err != nil {
		return err
	}
	var scenarios []bench.Scenario
	for _, c := range []struct {
		prefetch int
		backlog  int64
	}{{1, 25_000}, {200, 120_000}, {1000, 120_000}} {
		scenarios = append(scenarios, j.load(fmt.Sprintf("PrefetchOf%d", c.prefetch), "One consumer drains a classic queue; one node with one CPU.", func(s *bench.Scenario) {
			s.Publishers.Count, s.Backlog = 1, &bench.Backlog{Messages: c.backlog}
			s.Consumers.Prefetch = c.prefetch
			s.Duration *= 6 // the longest time that draining may take
		}))
	}
	b, err := benchmark("prefetch", "prefetch", 1, int32(j.runs), scenarios...)
	if err != nil {
		return err
	}
	if err := j.k.Client.Create(ctx, b); err != nil {
		return err
	}
	run, err := j.waitRun(ctx, "prefetch", 1)
	if err != nil {
		return err
	}
	all, err := j.results(ctx, run)
	if err != nil {
		return err
	}
	for _, s := range scenarios {
		if _, found := all[s.Name]; !found {
			return fmt.Errorf("scenario %s has no result: %s: %s", s.Name, run.Verdict, run.Message)
		}
		j.compared = append(j.compared, shown{result: all[s.Name]})
	}
	one, some, most := all["PrefetchOf1"], all["PrefetchOf200"], all["PrefetchOf1000"]
	j.rows = append(j.rows,
		ratio("prefetch 1 -> 200, classic, acknowledged singly", some, one, throughputs, 4, ""),
		ratio("prefetch 200 -> 1000, classic, acknowledged singly", most, some, throughputs, 0, "more than enough brings little"))
	return nil
}

// throughputs and p99s of the valid runs of a result.
func throughputs(r bench.Result) (out figures.Series) {
	for _, run := range r.Runs {
		if run.Validity.Valid {
			out = append(out, run.Figures.Throughput)
		}
	}
	return out
}

func p99s(r bench.Result) (out figures.Series) {
	for _, run := range r.Runs {
		if run.Validity.Valid && run.Figures.Latency != nil && run.Figures.Latency.P99Seconds != nil {
			out = append(out, *run.Figures.Latency.P99Seconds)
		}
	}
	return out
}

// ratio of the medians of two results: a is to be goal times b; 0 is no goal. The spread is that of the two together.
func ratio(name string, a, b bench.Result, of func(bench.Result) figures.Series, goal float64, note string) figures.Row {
	above, below := of(a), of(b)
	row := figures.Row{Name: name, Unit: "×", Goal: figures.NoGoal, Holds: true, Spread: above.Spread() + below.Spread()}
	if goal > 0 {
		row.Goal = fmt.Sprintf(">= %g", goal)
	}
	row.Note = fmt.Sprintf("%s by %s, load average %s, %s and %s", medianText(above), medianText(below), figures.LoadAverage(), limited(a), limited(b))
	if note != "" {
		row.Note += "; " + note
	}
	if len(above) == 0 || below.Median() <= 0 {
		row.Holds, row.Note = false, row.Note+"; a side has no valid run"
		return row
	}
	row.Value = above.Median() / below.Median()
	row.Holds = row.Value >= goal
	return row
}

// medianText is a rate as "9,123/s" or a latency as "86 ms".
func medianText(s figures.Series) string {
	switch m := s.Median(); {
	case len(s) == 0:
		return "nothing"
	case m < 60:
		return fmt.Sprintf("%.1f ms (%d runs)", 1000*m, len(s))
	default:
		return fmt.Sprintf("%.0f/s (%d runs)", m, len(s))
	}
}

// limited says what kept a result from being better.
func limited(r bench.Result) string {
	text := "limited by " + r.Summary.Bottleneck.Text()
	for _, run := range r.Runs {
		for _, why := range run.Validity.Reasons {
			text += fmt.Sprintf(" (run %d does not count: %s)", run.Number, why.Message)
		}
	}
	if r.Fingerprint.SharedHost {
		text += " on a shared host"
	}
	return text
}
