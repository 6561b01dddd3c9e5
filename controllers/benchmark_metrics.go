package controllers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/bench"
)

// BenchmarkMetrics are gauges of the newest results, by namespace, name and scenario. They come from the statuses, so that
// they are there after a restart too.
type BenchmarkMetrics struct {
	throughput, p99, regressed, finished *prometheus.GaugeVec

	mu    sync.Mutex
	shown map[string]string // run by namespace/name
}

// NewBenchmarkMetrics registers the gauges.
func NewBenchmarkMetrics(registry prometheus.Registerer) (*BenchmarkMetrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "warren_benchmark_" + name, Help: help}, append([]string{"namespace", "name"}, labels...))
	}
	m := &BenchmarkMetrics{
		shown:      map[string]string{},
		throughput: gauge("throughput", "Median throughput of the newest run, in messages or connections per second.", "scenario"),
		p99:        gauge("p99_seconds", "Median 99th percentile of latency of the newest run.", "scenario"),
		regressed:  gauge("regressed", "1 when the newest run of the scenario is worse than its history allows.", "scenario"),
		finished:   gauge("last_run_timestamp_seconds", "When the newest run ended."),
	}
	for _, one := range m.all() {
		if err := registry.Register(one); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *BenchmarkMetrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.throughput, m.p99, m.regressed, m.finished}
}

// show makes the gauges those of a run.
func (m *BenchmarkMetrics) show(namespace, name string, run *v1alpha1.BenchmarkRun) {
	if m == nil || run == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown[namespace+"/"+name] == run.ID {
		return
	}
	m.drop(namespace, name)
	m.shown[namespace+"/"+name] = run.ID
	m.finished.WithLabelValues(namespace, name).Set(float64(run.Finished.Unix()))
	for _, s := range run.Scenarios {
		if s.Throughput > 0 {
			m.throughput.WithLabelValues(namespace, name, s.Name).Set(float64(s.Throughput))
		}
		if p99, err := time.ParseDuration(s.P99); err == nil {
			m.p99.WithLabelValues(namespace, name, s.Name).Set(p99.Seconds())
		}
		worse := 0.0
		if s.Outcome == string(bench.Regressed) {
			worse = 1
		}
		m.regressed.WithLabelValues(namespace, name, s.Name).Set(worse)
	}
}

// forget drops the gauges of a Benchmark.
func (m *BenchmarkMetrics) forget(namespace, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(namespace, name)
}

func (m *BenchmarkMetrics) drop(namespace, name string) {
	delete(m.shown, namespace+"/"+name)
	for _, one := range m.all() {
		one.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
	}
}
