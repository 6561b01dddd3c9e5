package main

import (
	"math"
	"slices"
)

// spread is how far the runs of one figure lie apart.
type spread struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// MAD is the median of the distances from the median, as a share of the median.
	MAD float64 `json:"mad"`
}

// median of some values; that of none is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	m := median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - m)
	}
	s := spread{Min: slices.Min(values), Max: slices.Max(values)}
	if m != 0 {
		s.MAD = median(distances) / math.Abs(m)
	}
	return s
}

// ratios divides run by run: the runs of one round are neighbours in time, so that what slows the machine for longer
// than a round falls out. What could not be divided is left out.
func ratios(over, under []float64) []float64 {
	var out []float64
	for i := range min(len(over), len(under)) {
		if under[i] != 0 {
			out = append(out, over[i]/under[i])
		}
	}
	return out
}

// percentile by the nearest rank. It sorts what it is given.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}
