package bench

import "math"

// Summarize is the median and spread of the valid runs of one scenario. Lost, duplicated and reordered messages are summed
// over all runs. The runs must be finished.
func Summarize(runs []Run) Summary {
	var sum Summary
	var valid []Run
	for _, r := range runs {
		for _, q := range r.Queues {
			sum.Lost += q.Lost
			sum.Duplicated += q.Duplicated
			sum.Reordered += q.Reordered
		}
		if r.Validity.Valid {
			valid = append(valid, r)
		}
	}
	sum.ValidRuns = len(valid)
	if len(valid) == 0 {
		return sum
	}
	sum.ThroughputUnit, sum.LatencyOf = valid[0].Figures.ThroughputUnit, valid[0].Figures.LatencyOf
	over := func(get func(*Figures) *float64) *Spread {
		var values []float64
		for i := range valid {
			if v := get(&valid[i].Figures); v != nil {
				values = append(values, *v)
			}
		}
		return spreadOf(values)
	}
	quantile := func(get func(*Quantiles) *float64) *Spread {
		return over(func(f *Figures) *float64 {
			if f.Latency == nil {
				return nil
			}
			return get(f.Latency)
		})
	}
	sum.Throughput = over(func(f *Figures) *float64 { return &f.Throughput })
	sum.P50Seconds = quantile(func(q *Quantiles) *float64 { return q.P50Seconds })
	sum.P90Seconds = quantile(func(q *Quantiles) *float64 { return q.P90Seconds })
	sum.P99Seconds = quantile(func(q *Quantiles) *float64 { return q.P99Seconds })
	sum.P999Seconds = quantile(func(q *Quantiles) *float64 { return q.P999Seconds })
	sum.MaxSeconds = quantile(func(q *Quantiles) *float64 { return q.MaxSeconds })
	sum.TimeToEmpty = over(func(f *Figures) *float64 { return f.TimeToEmptySeconds })
	for i := range valid {
		if q := valid[i].Figures.Latency; q != nil && (sum.LatencySamples == 0 || q.Samples < sum.LatencySamples) {
			sum.LatencySamples = q.Samples
		}
	}
	sum.Bottleneck = majority(valid)
	return sum
}

// spreadOf values; nil for none.
func spreadOf(values []float64) *Spread {
	if len(values) == 0 {
		return nil
	}
	s := &Spread{Runs: len(values), Median: medianOf(values), Min: math.Inf(1), Max: math.Inf(-1)}
	away := make([]float64, len(values))
	for i, v := range values {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		away[i] = math.Abs(v - s.Median)
	}
	s.MAD = medianOf(away)
	return s
}

func majority(runs []Run) Bottleneck {
	votes := map[Bottleneck]int{}
	for i := range runs {
		b := runs[i].Verdict.Bottleneck
		votes[b]++
		if 2*votes[b] > len(runs) {
			return b
		}
	}
	return UnknownBound
}
