package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var oddNames = []string{
	"orders", "orders\n", "orders.eu|x", `a\E`, `\E`, `\E\E`, `a\\E`, `a\`, `\Q`, `\Qa\E`, `E`, `\\E`, `\E|\Q`, `\E)\z`, "ünï→", `"quoted" 'too'`,
	"^(?:", "(", "[", "$", "tab\t", "\v", strings.Repeat(`\E`, 127) + "x",
}

func TestExactPatternsNameTheirQueuesAndNoOther(t *testing.T) {
	for _, pattern := range ExactPatterns(oddNames) {
		if len(pattern) > MaxPattern {
			t.Errorf("a pattern of %d bytes", len(pattern))
		}
	}
	if n := len(ExactPatterns(oddNames)); n < 2 {
		t.Fatalf("%d patterns: a name of 255 bytes that must be escaped throughout does not fit beside the others", n)
	}
	for i, name := range oddNames {
		one := ExactPatterns([]string{name})
		if len(one) != 1 || len(one[0]) > MaxPattern {
			t.Fatalf("%q: patterns %q", name, one)
		}
		expression := regexp.MustCompile(one[0])
		for j, other := range oddNames {
			if got := expression.MatchString(other); got != (i == j) {
				t.Errorf("the pattern for %q matches %q: %v", name, other, got)
			}
			if got, known := NewMatcher(one[0]).Match(other); !known || got != (i == j) {
				t.Errorf("the matcher of the pattern for %q on %q: %v, %v", name, other, got, known)
			}
		}
	}
}

func FuzzExactPatterns(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name, "b", name+"x")
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var names []string
		for _, name := range []string{a, b, c} {
			if Nameable(name) && len(name) <= 255 {
				names = append(names, name)
			}
		}
		var back []string
		for _, pattern := range ExactPatterns(names) {
			read, ok := ExactNames(pattern)
			if !ok || len(pattern) > MaxPattern {
				t.Fatalf("pattern %q of %q is read as %q, %v", pattern, names, read, ok)
			}
			back = append(back, read...)
			expression := regexp.MustCompile(pattern)
			for _, name := range append(names, a+"\n", b+"c", `\E`) {
				if expression.MatchString(name) != slices.Contains(read, name) {
					t.Fatalf("pattern %q and name %q", pattern, name)
				}
			}
		}
		if !slices.Equal(back, names) {
			t.Fatalf("%q came back as %q", names, back)
		}
	})
}

func TestOtherPatternsAreNotExact(t *testing.T) {
	for _, pattern := range []string{
		"", "^orders", `^(?:orders)\z`, `^(?:\Qorders\E)$`, `^(?:\Qorders\E|x)\z`, `^(?:\Qa\Eb)\z`, `^(?:\Q\E)\z`, `^(?:)\z`, `^(?:\Qa\E|)\z`, `^(?:\Qa)\z`,
	} {
		if names, ok := ExactNames(pattern); ok {
			t.Errorf("%q is read as %q", pattern, names)
		}
	}
}

func TestSparing(t *testing.T) {
	for _, c := range []struct{ pattern, spared string }{
		{`^(runtime\.|worker\.).*`, "runtime.dead-letters"}, {`dead`, "dead"}, {``, `a\E|b`}, {`(?i)^ORDERS`, "orders"}, {`^(?:\Qa\E|\Qb\E)\z`, "b"},
	} {
		sparing := Sparing(c.pattern, c.spared)
		if pattern, name, ok := Spared(sparing); !ok || pattern != c.pattern || name != c.spared {
			t.Errorf("%q: read back %q, %q, %v", sparing, pattern, name, ok)
		}
		inner, outer := NewMatcher(c.pattern), NewMatcher(sparing)
		if matches, known := outer.Match(c.spared); matches || !known {
			t.Errorf("%q matches %q: %v, known %v", sparing, c.spared, matches, known)
		}
		for _, name := range []string{"runtime.a", "worker.", "dead", "x.dead.y", "orders", "ORDERS.1", "a", "b", "runtime.dead-letters.2", c.spared + "x", "x" + c.spared} {
			want, wantKnown := inner.Match(name)
			if got, known := outer.Match(name); name != c.spared && (got != want || known != wantKnown) {
				t.Errorf("%q matches %q: %v, %v; without sparing %v, %v", sparing, name, got, known, want, wantKnown)
			}
		}
	}
	for _, foreign := range []string{"", `^orders`, `\A(?!\Qa\E)(?s:.*?)(?:b)`, `\A(?!a\z)(?s:.*?)(?:b)`} {
		if _, _, ok := Spared(foreign); ok {
			t.Errorf("%q is not one of ours", foreign)
		}
	}
}

func TestThePatternLeavesItsOwnDeadLetterQueueOut(t *testing.T) {
	render := func(edits ...func(*v1alpha1.QueuePolicy)) (Rendered, error) {
		return Render(queuePolicy(v1alpha1.ReplicationNone, edits...), vhostOf(t, "4.3.6").Capabilities)
	}
	inner := deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "orders.dead"})
	got, err := render(inner, hardLimits(v1alpha1.HardLimits{MaxLength: ptr(int64(5))}))
	if err != nil {
		t.Fatal(err)
	}
	if want := Sparing(`^orders\.`, "orders.dead"); got.Policy.Pattern != want || got.Operator.Pattern != want {
		t.Errorf("patterns %q and %q, want %q", got.Policy.Pattern, got.Operator.Pattern, want)
	}
	if _, err := render(inner, pattern("^orders|"+strings.Repeat("x", MaxPattern-20))); err == nil || !strings.Contains(err.Error(), "no room left") {
		t.Errorf("a pattern without room: %v", err)
	}
	outer, err := render(deadLetter(v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead"}))
	if err != nil || outer.Policy.Pattern != `^orders\.` {
		t.Errorf("pattern %q, %v", outer.Policy.Pattern, err)
	}
}
