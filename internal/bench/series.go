package bench

import (
	"math"
	"slices"
)

// pick is one value of a sample.
type pick func(*Sample) *float64

// window is a part of a run, in seconds since its start.
type window struct{ from, to float64 }

func (w window) holds(at float64) bool { return at >= w.from && at <= w.to }
func (w window) length() float64       { return max(w.to-w.from, 0) }

// phaseWindow is the first phase of that name; empty when there is none.
func (r *Run) phaseWindow(name PhaseName) window {
	for _, p := range r.Phases {
		if p.Name == name {
			return window{p.StartSeconds, p.EndSeconds}
		}
	}
	return window{}
}

// wholeSeconds are those that lie in the window as a whole.
func (r *Run) wholeSeconds(w window) []Second {
	var in []Second
	for _, s := range r.Seconds {
		if float64(s.AtSeconds) >= w.from && float64(s.AtSeconds+1) <= w.to {
			in = append(in, s)
		}
	}
	return in
}

// point is a value at a time.
type point struct{ at, value float64 }

// byNode is what each node said of a value in the window, by time. Nodes that never said it are not there.
func (r *Run) byNode(w window, get pick) map[string][]point {
	nodes := map[string][]point{}
	for i := range r.Broker {
		s := &r.Broker[i]
		if v := get(s); v != nil && w.holds(s.AtSeconds) {
			nodes[s.Node] = append(nodes[s.Node], point{s.AtSeconds, *v})
		}
	}
	return nodes
}

// rates are per second and node: of counters, over the whole window. A counter that begins anew counts from there.
func (r *Run) rates(w window, get pick) map[string]float64 {
	out := map[string]float64{}
	for node, points := range r.byNode(w, get) {
		if len(points) < 2 {
			continue
		}
		var sum float64
		for i := 1; i < len(points); i++ {
			step := points[i].value - points[i-1].value
			if step < 0 {
				step = points[i].value
			}
			sum += step
		}
		if elapsed := points[len(points)-1].at - points[0].at; elapsed > 0 {
			out[node] = sum / elapsed
		}
	}
	return out
}

// medians are of gauges, by node.
func (r *Run) medians(w window, get pick) map[string]float64 {
	out := map[string]float64{}
	for node, points := range r.byNode(w, get) {
		values := make([]float64, len(points))
		for i := range points {
			values[i] = points[i].value
		}
		out[node] = medianOf(values)
	}
	return out
}

// highest value of any node in the window; nil when none said it.
func (r *Run) highest(w window, get pick) *float64 {
	var highest *float64
	for _, points := range r.byNode(w, get) {
		for _, p := range points {
			if highest == nil || p.value > *highest {
				highest = &p.value
			}
		}
	}
	return highest
}

// sumOverTime adds what nodes said last, at each time at which one said it.
func (r *Run) sumOverTime(w window, get pick) []point {
	var out []point
	latest := map[string]float64{}
	for i := range r.Broker {
		s := &r.Broker[i]
		v := get(s)
		if v == nil || !w.holds(s.AtSeconds) {
			continue
		}
		latest[s.Node] = *v
		var sum float64
		for _, value := range latest {
			sum += value
		}
		out = append(out, point{s.AtSeconds, sum})
	}
	return out
}

// maxOf is the highest of the nodes, nil when there are none; sumOf adds them.
func maxOf(nodes map[string]float64) *float64 {
	var highest *float64
	for _, v := range nodes {
		if highest == nil || v > *highest {
			highest = &v
		}
	}
	return highest
}

func sumOf(nodes map[string]float64) *float64 {
	if len(nodes) == 0 {
		return nil
	}
	var sum float64
	for _, node := range sortedKeys(nodes) { // the same order each time: floats do not add up alike in any order
		sum += nodes[node]
	}
	return &sum
}

// ratios divides node by node, where both are known and the divisor is more than zero.
func ratios(of, by map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for node, v := range of {
		if d := by[node]; d > 0 {
			out[node] = v / d
		}
	}
	return out
}

func medianOf(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
