package bench

import (
	"fmt"
	"math"
)

const (
	// steadyLeast is the fewest seconds of which one can say that they are steady.
	steadyLeast = 5
	// steadyCV bounds the coefficient of variation of one-second rates, steadyDrift how much the trend may change the rate
	// over the window.
	steadyCV    = 0.30
	steadyDrift = 0.10
	// warmUpMost is how many times longer than asked the warm-up may become.
	warmUpMost = 3
)

// Steadiness of a series.
type Steadiness struct {
	Steady bool `json:"steady"`
	// DriftRatio is the change of the fitted line over the window, by the mean. VariationRatio is the standard deviation by
	// the mean.
	DriftRatio     float64 `json:"driftRatio"`
	VariationRatio float64 `json:"variationRatio"`
	// Reason why it is not steady; empty when it is.
	Reason string `json:"reason,omitempty"`
}

// CheckSteady says whether a series of rates, one a second, neither climbs nor falls nor jumps: its coefficient of
// variation is at most 30 %, and its trend over the window is at most 10 % of the mean or within two standard errors of
// none. Fewer than five values, and a mean of zero, are not steady.
func CheckSteady(rates []float64) Steadiness {
	n := float64(len(rates))
	if len(rates) < steadyLeast {
		return Steadiness{Reason: fmt.Sprintf("%d seconds are too few to tell", len(rates))}
	}
	mean := meanOf(rates)
	if !(mean > 0) {
		return Steadiness{Reason: "nothing happened"}
	}
	middle := (n - 1) / 2
	var xx, xy, yy float64
	for i, y := range rates {
		x := float64(i) - middle
		xx += x * x
		xy += x * (y - mean)
		yy += (y - mean) * (y - mean)
	}
	slope := xy / xx
	residual := max(yy-slope*xy, 0)
	standardError := math.Sqrt(residual / (n - 2) / xx)
	s := Steadiness{Steady: true, DriftRatio: slope * n / mean, VariationRatio: math.Sqrt(yy/(n-1)) / mean}
	switch {
	case math.Abs(s.DriftRatio) > steadyDrift && math.Abs(slope) > 2*standardError:
		s.Steady = false
		s.Reason = fmt.Sprintf("the rate changes by %+.0f %% over %d s", 100*s.DriftRatio, len(rates))
	case s.VariationRatio > steadyCV:
		s.Steady = false
		s.Reason = fmt.Sprintf("the rate varies by ±%.0f %%", 100*s.VariationRatio)
	}
	return s
}

// WarmUpDone says whether the warm-up may end after these seconds, whose rates are given from its start: not before it is
// as long as asked; then as soon as its last half is steady (no less than its last five seconds); and in any case when it
// is three times as long. A warm-up of less than five seconds ends when it is over, steady or not.
func WarmUpDone(rates []float64, warmUp Duration) (done bool, s Steadiness) {
	asked := int(math.Ceil(warmUp.Seconds()))
	if len(rates) < asked {
		return false, Steadiness{Reason: "the warm-up is not over"}
	}
	half := max((len(rates)+1)/2, min(steadyLeast, len(rates)))
	s = CheckSteady(rates[len(rates)-half:])
	return s.Steady || asked < steadyLeast || len(rates) >= warmUpMost*asked, s
}

// Rate of the second that says how much work was done: consumed, or else confirmed, or else published.
func (s Second) Rate() float64 {
	switch {
	case s.Consumed > 0:
		return float64(s.Consumed)
	case s.Confirmed > 0:
		return float64(s.Confirmed)
	}
	return float64(s.Published)
}

func meanOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
