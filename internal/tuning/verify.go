package tuning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observed are the figures of one running node; a nil pointer is a figure that the node did not give.
type Observed struct {
	Node string
	// CPULimit in thousandths of a CPU and MemoryLimit in bytes, of the container.
	CPULimit, MemoryLimit        *int64
	Schedulers, SchedulersOnline *int
	// MemoryHighWatermark and DiskFreeLimit in bytes.
	MemoryHighWatermark, DiskFreeLimit *int64
}

// Check says whether the running nodes have one chosen value.
type Check struct {
	Value
	// Observed is what the nodes have, as "4" or "4, 36" when they differ; "" when none could say.
	Observed string
	InForce  metav1.ConditionStatus
	// Verifiable: a number was chosen that a running node can report.
	Verifiable bool
}

// memoryTolerance is a hundredth: the broker rounds.
const memoryTolerance = 100

// Verify compares the settings with what the nodes report. The broker falls back silently when it cannot read a
// value, so a value counts as in force only when every one of the wanted nodes reports it. What no node can report at
// run time (the headroom, the binding) stays Unknown.
func Verify(s Settings, wanted int, nodes []Observed) []Check {
	checks := make([]Check, 0, len(s.Values))
	for _, value := range s.Values {
		check := Check{Value: value, InForce: metav1.ConditionUnknown}
		if r, ok := readers[value.Name]; ok {
			check.compare(wanted, readings(nodes, r.reading), r.holds(s), r.show)
		}
		checks = append(checks, check)
	}
	return checks
}

// reader is how one value is read from a running node, and when the reading is as chosen.
type reader struct {
	reading func(Observed) *int64
	holds   func(Settings) func(int64) bool // nil: nothing was chosen
	show    func(int64) string
}

var readers = map[string]reader{
	CPULimit: {
		reading: func(o Observed) *int64 { return o.CPULimit },
		holds:   func(s Settings) func(int64) bool { return exactly(milli(s.CPULimit)) },
		show:    func(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() },
	},
	MemoryLimit: {
		reading: func(o Observed) *int64 { return o.MemoryLimit },
		holds:   func(s Settings) func(int64) bool { return exactly(bytes(s.MemoryLimit)) },
		show:    plain,
	},
	Schedulers: {
		reading: schedulersOf,
		holds:   func(s Settings) func(int64) bool { return exactly(wide(s.Schedulers)) },
		show:    plain,
	},
	MemoryAlarm: {
		reading: func(o Observed) *int64 { return o.MemoryHighWatermark },
		holds:   func(s Settings) func(int64) bool { return near(s.MemoryHighWatermark) },
		show:    plain,
	},
	DiskAlarm: {
		reading: func(o Observed) *int64 { return o.DiskFreeLimit },
		holds:   func(s Settings) func(int64) bool { return near(s.DiskFreeLimit) },
		show:    plain,
	},
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

func schedulersOf(o Observed) *int64 { return wide(o.SchedulersOnline) }

func wide[T int | int32](n *T) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

func milli(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	n := q.MilliValue()
	return &n
}

func bytes(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	n := q.Value()
	return &n
}

func readings(nodes []Observed, figure func(Observed) *int64) []int64 {
	var out []int64
	for _, node := range nodes {
		if n := figure(node); n != nil {
			out = append(out, *n)
		}
	}
	return out
}

func exactly(want *int64) func(int64) bool {
	if want == nil {
		return nil
	}
	return func(got int64) bool { return got == *want }
}

func near(want *int64) func(int64) bool {
	if want == nil {
		return nil
	}
	return func(got int64) bool { return max(got-*want, *want-got) <= *want/memoryTolerance }
}

func (c *Check) compare(wanted int, got []int64, holds func(int64) bool, show func(int64) string) {
	c.Observed = distinct(got, show)
	if holds == nil {
		return
	}
	c.Verifiable = true
	switch {
	case slices.ContainsFunc(got, func(n int64) bool { return !holds(n) }):
		c.InForce = metav1.ConditionFalse
	case len(got) >= wanted && wanted > 0:
		c.InForce = metav1.ConditionTrue
	}
}

func distinct(numbers []int64, show func(int64) string) string {
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	words := make([]string, len(sorted))
	for i, n := range sorted {
		words[i] = show(n)
	}
	return strings.Join(words, ", ")
}

// Describe is the fault in words, as "schedulers is 36, wanted 4".
func (c Check) Describe() string {
	return fmt.Sprintf("%s is %s, wanted %s", c.Name, c.Observed, c.Text)
}
