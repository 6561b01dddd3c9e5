package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/warren-mq/warren/internal/bench"
)

func atSeconds(v float64) string { return three(v) + space + "s" }

// bandsOf are the phases that are not measured.
func bandsOf(r *bench.Run) []band {
	var out []band
	for _, p := range r.Phases {
		if p.Name != bench.PhaseSteady {
			out = append(out, band{name: map[bench.PhaseName]string{
				bench.PhaseFill: "fill", bench.PhaseWarmUp: "warm-up", bench.PhaseFlush: "flush",
			}[p.Name], from: p.StartSeconds, to: p.EndSeconds})
		}
	}
	return out
}

// perSecond is one line of what the generator counted; none when it is zero throughout.
func perSecond(r *bench.Run, name string, get func(*bench.Second) float64) line {
	l := line{name: name}
	some := false
	for i := range r.Seconds {
		v := get(&r.Seconds[i])
		some = some || v != 0
		l.points = append(l.points, point{float64(r.Seconds[i].AtSeconds), v})
	}
	if !some {
		l.points = nil
	}
	return l
}

func charts(r *bench.Run) []*chartView {
	var out []*chartView
	for _, c := range []chart{throughput(r), latencies(r), distribution(r), depth(r), cpu(r), memory(r)} {
		if v := c.draw(); v != nil {
			out = append(out, v)
		}
	}
	return out
}

func throughput(r *bench.Run) chart {
	lines := []line{
		perSecond(r, "published", func(s *bench.Second) float64 { return float64(s.Published) }),
		perSecond(r, "confirmed", func(s *bench.Second) float64 { return float64(s.Confirmed) }),
		perSecond(r, "consumed", func(s *bench.Second) float64 { return float64(s.Consumed) }),
	}
	if r.Storm != nil {
		lines = append(lines, perSecond(r, "connections opened", func(s *bench.Second) float64 { return float64(s.Opened) }))
	}
	return chart{title: "Throughput per second", x: atSeconds, y: scaled, bands: bandsOf(r), lines: lines}
}

func latencies(r *bench.Run) chart {
	c := chart{title: "Latency by second", x: atSeconds, y: latency, bands: bandsOf(r)}
	for _, one := range []struct {
		name string
		get  func(*bench.Quantiles) *float64
	}{
		{"P50", func(q *bench.Quantiles) *float64 { return q.P50Seconds }},
		{"P90", func(q *bench.Quantiles) *float64 { return q.P90Seconds }},
		{"P99", func(q *bench.Quantiles) *float64 { return q.P99Seconds }},
	} {
		l := line{name: one.name, peaks: true}
		for i := range r.Seconds {
			if q := r.Seconds[i].Quantiles; q != nil {
				if v := one.get(q); v != nil {
					l.points = append(l.points, point{float64(r.Seconds[i].AtSeconds), *v})
				}
			}
		}
		c.lines = append(c.lines, l)
	}
	return c
}

// distribution is latency by quantile over the whole steady part, with as many nines as the samples allow.
func distribution(r *bench.Run) chart {
	nines := func(q float64) float64 { return -math.Log10(1 - q) }
	c := chart{title: "Latency by percentile", y: latency, x: func(x float64) string {
		digits := max(int(math.Ceil(x-1e-9))-2, 0)
		return fmt.Sprintf("P%.*f", digits, 100*(1-math.Pow(10, -x)))
	}}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		c.ticks = append(c.ticks, nines(q))
	}
	h := r.Latency
	corrected, uncorrected := h.EndToEnd, h.Uncorrected
	if r.Figures.Latency != nil && corrected.Count() == 0 {
		corrected, uncorrected = h.Confirm, h.ConfirmUncorrected
	}
	for _, one := range []struct {
		name string
		h    *bench.Histogram
	}{{"from the intended time", corrected}, {"uncorrected", uncorrected}, {"fresh messages", h.Fresh}, {"connect", h.Connect}} {
		l := line{name: one.name}
		for x := 0.0; x <= 5; x += 0.125 {
			q := 1 - math.Pow(10, -x)
			if x == 0 {
				q = 0.01
			}
			v, ok := one.h.At(q)
			if !ok {
				break
			}
			l.points = append(l.points, point{x, v})
		}
		c.lines = append(c.lines, l)
	}
	return c
}

func depth(r *bench.Run) chart {
	c := chart{title: "Messages in the queues", x: atSeconds, y: scaled, bands: bandsOf(r)}
	ready := gauge(r, "ready", func(s *bench.Sample) *float64 { return s.MessagesReady })
	unacked := gauge(r, "unacknowledged", func(s *bench.Sample) *float64 { return s.MessagesUnacked })
	if c.lines = append(ready, unacked...); len(c.lines) > 0 {
		return c
	}
	// Nobody asked the broker: what was sent and not consumed.
	var waiting int64
	c.lines = []line{perSecond(r, "sent and not consumed", func(s *bench.Second) float64 {
		waiting += s.Published - s.Consumed
		return float64(max(waiting, 0))
	})}
	return c
}

func cpu(r *bench.Run) chart {
	c := chart{title: "CPU cores", x: atSeconds, y: three, bands: bandsOf(r)}
	c.lines = rates(r, func(s *bench.Sample) *float64 { return s.CPUSecondsTotal })
	c.lines = append(c.lines, perSecond(r, "generator", func(s *bench.Second) float64 { return s.CPUSeconds }))
	for i := range r.Broker {
		if v := r.Broker[i].CPULimitCores; v != nil {
			c.limit, c.limitName = v, "limit of a node"
		}
	}
	return c
}

func memory(r *bench.Run) chart {
	const mebi = 1 << 20 // the axis has round numbers of these
	c := chart{title: "Memory", x: atSeconds, y: func(v float64) string { return three(v) + space + "MiB" }, bands: bandsOf(r)}
	c.lines = gauge(r, "", func(s *bench.Sample) *float64 { return s.MemoryUsedBytes })
	for _, l := range c.lines {
		for i := range l.points {
			l.points[i].y /= mebi
		}
	}
	for i := range r.Broker {
		if v := r.Broker[i].MemoryWatermarkBytes; v != nil {
			c.limit, c.limitName = new(*v/mebi), "watermark"
		}
	}
	return c
}

// byNode are the values that each node said, by time.
func byNode(r *bench.Run, get func(*bench.Sample) *float64) map[string][]point {
	nodes := map[string][]point{}
	for i := range r.Broker {
		if v := get(&r.Broker[i]); v != nil {
			nodes[r.Broker[i].Node] = append(nodes[r.Broker[i].Node], point{r.Broker[i].AtSeconds, *v})
		}
	}
	return nodes
}

// gauge has a line for each node.
func gauge(r *bench.Run, name string, get func(*bench.Sample) *float64) []line {
	nodes := byNode(r, get)
	var out []line
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, line{name: nodeName(name, node, len(nodes)), points: nodes[node], peaks: true})
	}
	return out
}

// rates has a line for each node, of a counter.
func rates(r *bench.Run, get func(*bench.Sample) *float64) []line {
	nodes := byNode(r, get)
	var out []line
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		l := line{name: nodeName("", node, len(nodes))}
		points := nodes[node]
		for i := 1; i < len(points); i++ {
			elapsed, step := points[i].x-points[i-1].x, points[i].y-points[i-1].y
			if elapsed > 0 && step >= 0 {
				l.points = append(l.points, point{points[i].x, step / elapsed})
			}
		}
		out = append(out, l)
	}
	return out
}

func nodeName(name, node string, nodes int) string {
	switch {
	case name == "" && node == "":
		return "broker"
	case name == "":
		return node
	case nodes == 1:
		return name
	}
	return name + " " + node
}
