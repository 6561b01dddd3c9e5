package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/bench"
)

// space does not break: a number stays with its unit.
const space = "\u00a0"

// none is written where nobody measured.
const none = "–"

// three writes a number with three significant digits, and without an exponent.
func three(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	text := strconv.FormatFloat(v, 'f', max(digits, 0), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// scaled writes a number with a prefix of 1000: "61.2k".
func scaled(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size*0.9995 {
			return three(v/unit.size) + unit.name
		}
	}
	return three(v)
}

// rate is "61.2k msg/s".
func rate(v float64, unit string) string {
	return scaled(v) + space + strings.NewReplacer("messages", "msg", "connections", "conn").Replace(unit)
}

// latency is "8.1 ms".
func latency(seconds float64) string {
	switch {
	case seconds >= 0.9995:
		return three(seconds) + space + "s"
	case seconds >= 0.0009995:
		return three(seconds*1e3) + space + "ms"
	case seconds == 0:
		return "0" + space + "ms"
	}
	return three(seconds*1e6) + space + "µs"
}

// sizeText is "1.2 GiB".
func sizeText(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if v >= unit.size {
			return three(v/unit.size) + space + unit.name
		}
	}
	return three(v) + space + "B"
}

// percent is with one digit after the point, or three significant ones: "0.7 %", "85.5 %", "103 %".
func percent(ratio float64) string {
	if v := math.Abs(100 * ratio); v < 100 {
		return strings.TrimSuffix(strconv.FormatFloat(100*ratio, 'f', 1, 64), ".0") + space + "%"
	}
	return three(100*ratio) + space + "%"
}

// change is "+2.1 %".
func change(ratio float64) string {
	if math.Abs(ratio) < 0.0005 {
		return "±0" + space + "%"
	}
	return strings.Replace(fmt.Sprintf("%+.1f"+space+"%%", 100*ratio), "-", "−", 1)
}

func optional(v *float64, write func(float64) string) string {
	if v == nil {
		return none
	}
	return write(*v)
}

// quantile of a distribution; a refused one says why.
func quantile(q *bench.Quantiles, name string, v *float64) string {
	switch {
	case q == nil:
		return none
	case v != nil:
		return latency(*v)
	}
	for _, refused := range q.Insufficient {
		if refused == name {
			return "insufficient samples"
		}
	}
	return none
}

// spread is "61.2k msg/s ± 0.3 %", or without runs a dash.
func spread(s *bench.Spread, write func(float64) string) string {
	if s == nil {
		return none
	}
	text := write(s.Median)
	if s.Runs > 1 && s.Median > 0 {
		text += " ±" + space + percent(s.MAD/s.Median)
	}
	return text
}

// evidence writes a value of a row of a verdict in the unit of the row.
func evidence(v float64, unit string) string {
	switch unit {
	case "ratio":
		return percent(v)
	case "s":
		return latency(v)
	case "":
		return three(v)
	}
	return scaled(v) + space + unit
}
