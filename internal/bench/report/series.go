package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/bench"
)

func atSeconds(v float64) string { return three(v) }

// secondsUnit of x axes.
const secondsUnit = "seconds since the start of the run"

// timeline is a chart over the seconds of a run.
func timeline(r *bench.Run, title, unit string, y func(float64) string) chart {
	return chart{title: title, yUnit: unit, xUnit: secondsUnit, x: atSeconds, y: y, bands: bandsOf(r)}
}

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
	for _, c := range []chart{throughput(r), latencies(r), distribution(r), depth(r), cpu(r), throttling(r), memory(r)} {
		if v := c.draw(); v != nil {
			out = append(out, v)
		}
	}
	return out
}

func throughput(r *bench.Run) chart {
	c := timeline(r, "Throughput", "messages per second", scaled)
	c.lines = []line{
		perSecond(r, "published", func(s *bench.Second) float64 { return float64(s.Published) }),
		perSecond(r, "confirmed", func(s *bench.Second) float64 { return float64(s.Confirmed) }),
		perSecond(r, "consumed", func(s *bench.Second) float64 { return float64(s.Consumed) }),
		perSecond(r, "scheduled", func(s *bench.Second) float64 { return float64(s.Intended) }),
	}
	if r.Storm != nil {
		c.lines = append(c.lines, perSecond(r, "connections opened", func(s *bench.Second) float64 { return float64(s.Opened) }))
		c.yUnit = "messages or connections per second"
	}
	return c
}

func latencies(r *bench.Run) chart {
	c := timeline(r, "Latency in each second", "latency", latency)
	c.wide = true
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
	c := chart{title: "Latency by percentile", yUnit: "latency", xUnit: "share that waited no longer", wide: true, y: latency, x: func(x float64) string {
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
	c := timeline(r, "Messages in the queues", "messages", scaled)
	c.lines = append(total(r, "ready", func(s *bench.Sample) *float64 { return s.MessagesReady }),
		total(r, "unacknowledged", func(s *bench.Sample) *float64 { return s.MessagesUnacked })...)
	if len(c.lines) > 0 {
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
	c := timeline(r, "CPU", "cores in use", three)
	c.lines = rates(r, func(s *bench.Sample) *float64 { return s.CPUSecondsTotal })
	c.lines = append(c.lines, perSecond(r, "generator", func(s *bench.Second) float64 { return s.CPUSeconds }))
	for i := range r.Broker {
		if v := r.Broker[i].CPULimitCores; v != nil {
			c.limit, c.limitName = v, "limit of a node"
		}
	}
	return c
}

// throttling is the share of a second in which a node may not run, on all its cores together, because its quota is used up.
func throttling(r *bench.Run) chart {
	c := timeline(r, "CPU throttling", "seconds in each second", three)
	c.lines = rates(r, func(s *bench.Sample) *float64 { return s.CPUThrottledSecondsTotal })
	return c
}

func memory(r *bench.Run) chart {
	const mebi = 1 << 20 // the axis has round numbers of these
	c := timeline(r, "Memory", "MiB", scaled)
	c.lines = gauge(r, "", func(s *bench.Sample) *float64 { return s.MemoryUsedBytes })
	c.lines = append(c.lines, gauge(r, "container", func(s *bench.Sample) *float64 { return s.ContainerMemoryBytes })...)
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

// oneRound is how near to one another two figures of a node are that two sources said in the same round.
const oneRound = 0.5

// byNode are the values that each node said, by time. What the first source said of a node in a round counts, since another
// may count otherwise.
func byNode(r *bench.Run, get func(*bench.Sample) *float64) map[string][]point {
	nodes := map[string][]point{}
	for i := range r.Broker {
		s := &r.Broker[i]
		v, before := get(s), nodes[s.Node]
		if v == nil || len(before) > 0 && s.AtSeconds-before[len(before)-1].x < oneRound {
			continue
		}
		nodes[s.Node] = append(before, point{s.AtSeconds, *v})
	}
	return nodes
}

// total is one line of what all nodes have together, at each time at which the last of them has said it.
func total(r *bench.Run, name string, get func(*bench.Sample) *float64) []line {
	nodes := byNode(r, get)
	if len(nodes) == 0 {
		return nil
	}
	l := line{name: name, peaks: true}
	for i := range slices.MaxFunc(slices.Collect(maps.Values(nodes)), func(a, b []point) int { return len(a) - len(b) }) {
		var sum point
		for _, points := range nodes {
			p := points[min(i, len(points)-1)]
			sum.x, sum.y = max(sum.x, p.x), sum.y+p.y
		}
		if n := len(l.points); n == 0 || sum.x > l.points[n-1].x {
			l.points = append(l.points, sum)
		}
	}
	return []line{l}
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

// nodeName of a line. What comes after the first dot is the same for all nodes of a cluster in Kubernetes.
func nodeName(name, node string, nodes int) string {
	node, _, _ = strings.Cut(node, ".")
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
