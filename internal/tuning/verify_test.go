package tuning

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func ptr[T any](v T) *T { return &v }

// asChosen is a node that reports what Decide chose for the default spec.
func asChosen(name string) Observed {
	s := Decide(spec())
	return Observed{
		Node: name, CPULimit: ptr(int64(2000)), MemoryLimit: ptr(4 * gi),
		Schedulers: ptr(2), SchedulersOnline: ptr(2),
		MemoryHighWatermark: s.MemoryHighWatermark, DiskFreeLimit: s.DiskFreeLimit,
	}
}

func with(o Observed, edit func(*Observed)) Observed {
	edit(&o)
	return o
}

func check(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check of %s", name)
	}
	return checks[i]
}

func TestAValueIsInForceWhenEveryNodeReportsIt(t *testing.T) {
	silent := with(asChosen("c"), func(o *Observed) { o.SchedulersOnline = nil })
	other := with(asChosen("c"), func(o *Observed) { o.SchedulersOnline = ptr(36) })
	for _, c := range []struct {
		name     string
		nodes    []Observed
		observed string
		want     metav1.ConditionStatus
	}{
		{"A1: all nodes", []Observed{asChosen("a"), asChosen("b"), asChosen("c")}, "2", metav1.ConditionTrue},
		{"A1: one is silent", []Observed{asChosen("a"), asChosen("b"), silent}, "2", metav1.ConditionUnknown},
		{"A1: one is missing", []Observed{asChosen("a"), asChosen("b")}, "2", metav1.ConditionUnknown},
		{"A1: one differs", []Observed{asChosen("a"), asChosen("b"), other}, "2, 36", metav1.ConditionFalse},
		{"A1: one differs, others are missing", []Observed{other}, "36", metav1.ConditionFalse},
		{"A1: none answers", nil, "", metav1.ConditionUnknown},
		{"A1: none can say", []Observed{{Node: "a"}, {Node: "b"}, {Node: "c"}}, "", metav1.ConditionUnknown},
		{"A1: more nodes than wanted", []Observed{asChosen("a"), asChosen("b"), asChosen("c"), asChosen("d")}, "2", metav1.ConditionTrue},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(t, Verify(Decide(spec()), 3, c.nodes), Schedulers)
			if got.InForce != c.want || got.Observed != c.observed || !got.Verifiable {
				t.Errorf("%s, observed %q, verifiable %v; want %s, %q, true", got.InForce, got.Observed, got.Verifiable, c.want, c.observed)
			}
		})
	}
}

// A3: the broker rounds, so a hundredth of difference is none.
func TestMemoryAndDiskMayDifferByAHundredth(t *testing.T) {
	s := Decide(spec())
	alarm, free := *s.MemoryHighWatermark, *s.DiskFreeLimit
	for _, c := range []struct {
		name   string
		factor float64
		want   metav1.ConditionStatus
	}{
		{"A3: equal", 1, metav1.ConditionTrue},
		{"A3: 0.9 % more", 1.009, metav1.ConditionTrue},
		{"A3: 0.9 % less", 0.991, metav1.ConditionTrue},
		{"A3: 1.1 % more", 1.011, metav1.ConditionFalse},
		{"A3: 1.1 % less", 0.989, metav1.ConditionFalse},
		{"A3: of the host", 16, metav1.ConditionFalse},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := with(asChosen("a"), func(o *Observed) {
				o.MemoryHighWatermark = ptr(int64(float64(alarm) * c.factor))
				o.DiskFreeLimit = ptr(int64(float64(free) * c.factor))
			})
			checks := Verify(s, 1, []Observed{node})
			for _, name := range []string{MemoryAlarm, DiskAlarm} {
				if got := check(t, checks, name); got.InForce != c.want {
					t.Errorf("%s is %s (%s), want %s", name, got.InForce, got.Observed, c.want)
				}
			}
		})
	}
}

// Limits have no tolerance: Kubernetes does not round.
func TestLimitsMustBeExact(t *testing.T) {
	node := with(asChosen("a"), func(o *Observed) { o.CPULimit, o.MemoryLimit = ptr(int64(2001)), ptr(4*gi+1) })
	checks := Verify(Decide(spec()), 1, []Observed{node})
	for _, name := range []string{CPULimit, MemoryLimit} {
		if got := check(t, checks, name); got.InForce != metav1.ConditionFalse {
			t.Errorf("%s is %s", name, got.InForce)
		}
	}
	if got := check(t, checks, CPULimit).Describe(); got != "cpuLimit is 2001m, wanted 2" {
		t.Errorf("described as %q", got)
	}
}

// What nobody chose cannot be in force, whatever nodes report; what no node can report stays Unknown.
func TestUnverifiableValuesStayUnknown(t *testing.T) {
	checks := Verify(Decide(spec(unlimited(v1alpha1.UnlimitedCPU, v1alpha1.UnlimitedMemory))), 1, []Observed{asChosen("a")})
	for _, name := range []string{CPULimit, MemoryLimit, Schedulers, MemoryAlarm, BindType} {
		if got := check(t, checks, name); got.InForce != metav1.ConditionUnknown || got.Verifiable {
			t.Errorf("%s is %s, verifiable %v", name, got.InForce, got.Verifiable)
		}
	}
	checks = Verify(Decide(spec()), 1, []Observed{asChosen("a")})
	if got := check(t, checks, MemoryHeadroom); got.InForce != metav1.ConditionUnknown || got.Verifiable {
		t.Errorf("headroom is %s, verifiable %v", got.InForce, got.Verifiable)
	}
}

func TestVerifyChecksEveryValueAndClaimsNothingOfNoNodes(t *testing.T) {
	s := Decide(spec())
	checks := Verify(s, 0, nil)
	if len(checks) != len(s.Values) {
		t.Errorf("%d checks of %d values", len(checks), len(s.Values))
	}
	for _, c := range checks {
		if c.InForce != metav1.ConditionUnknown {
			t.Errorf("%s is %s on no node", c.Name, c.InForce)
		}
	}
}
