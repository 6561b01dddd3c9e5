package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
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
