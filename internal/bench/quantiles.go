package bench

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// minBeyond is how many samples must lie beyond a quantile for it to be told, gateBeyond for it to be compared with others.
// With fewer than ten the next sample can move it anywhere; with a thousand it holds to some percent.
const (
	minBeyond  = 10
	gateBeyond = 1000
)

// MinSamples that a histogram must have for its quantile q (0.999 for P99.9) to be told: 10 / (1 − q), which is 20 for P50,
// 1,000 for P99 and 10,000 for P99.9. With fewer the quantile is nil and named in Quantiles.Insufficient.
func MinSamples(q float64) int64 { return samplesFor(q, minBeyond) }

// MinSamplesToCompare is the same for Compare: 1,000 / (1 − q), which is a million for P99.9.
func MinSamplesToCompare(q float64) int64 { return samplesFor(q, gateBeyond) }

func samplesFor(q float64, beyond int) int64 { return int64(math.Round(float64(beyond) / (1 - q))) }

// Quantiles of what was recorded. Each is the upper end of its bucket: at most 0.1 % too high (1 % for a coarse
// histogram). Nil for a nil histogram.
func (h *Histogram) Quantiles() *Quantiles {
	if h == nil || h.h == nil {
		return nil
	}
	q := &Quantiles{Samples: h.Count()}
	for _, one := range []struct {
		name string
		at   float64
		into **float64
	}{{"P50", 0.5, &q.P50Seconds}, {"P90", 0.9, &q.P90Seconds}, {"P99", 0.99, &q.P99Seconds}, {"P99.9", 0.999, &q.P999Seconds}} {
		if q.Samples < MinSamples(one.at) {
			q.Insufficient = append(q.Insufficient, one.name)
			continue
		}
		*one.into = seconds(h.h.ValueAtPercentile(one.at * 100))
	}
	if q.Samples > 0 {
		q.MaxSeconds = seconds(h.h.Max())
	}
	return q
}

func seconds(microseconds int64) *float64 {
	s := float64(microseconds) / 1e6
	return &s
}

// WriteHDRLog writes the latencies of each second of all runs as a log of HdrHistogram (version 1.3), which its tools plot.
// Values are in microseconds; the tag of a line is the run: "run1". Phases other than Steady are in it too.
func WriteHDRLog(r Result) ([]byte, error) {
	var out bytes.Buffer
	log := hdrhistogram.NewHistogramLogWriter(&out)
	steps := []func() error{
		log.OutputLogFormatVersion,
		func() error { return log.OutputComment("#[scenario " + r.Scenario.Name + ", values in microseconds]") },
		func() error { return log.OutputStartTime(r.Started.UnixMilli()) },
		func() error { log.SetBaseTime(0); return log.OutputLegend() },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("writing a histogram log: %w", err)
		}
	}
	for _, run := range r.Runs {
		for _, second := range run.Seconds {
			if second.Latency.Count() == 0 {
				continue
			}
			at := run.Started.Add(time.Duration(second.AtSeconds) * time.Second)
			h := second.Latency.Clone().h
			h.SetTag(fmt.Sprintf("run%d", run.Number))
			h.SetStartTimeMs(at.UnixMilli())
			h.SetEndTimeMs(at.Add(time.Second).UnixMilli())
			if err := log.OutputIntervalHistogram(h); err != nil {
				return nil, fmt.Errorf("writing a histogram log: %w", err)
			}
		}
	}
	return out.Bytes(), nil
}

// At is the quantile q (0 to 1) in seconds. It is false when there are too few samples for it: see MinSamples; the quantile
// 1, the maximum, needs one.
func (h *Histogram) At(q float64) (float64, bool) {
	n := h.Count()
	if n == 0 || q < 1 && n < MinSamples(q) {
		return 0, false
	}
	if q >= 1 {
		return *seconds(h.h.Max()), true
	}
	return *seconds(h.h.ValueAtPercentile(q * 100)), true
}
