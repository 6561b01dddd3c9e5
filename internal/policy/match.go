package policy

import (
	"regexp"
	"strings"
)

// Matcher answers whether a queue name matches a pattern as the broker would: PCRE on bytes, not anchored.
type Matcher struct {
	expression *regexp.Regexp // nil: only the broker can tell
	dollar     bool           // has $
	group      bool           // has (?, which may switch folding or lines on
	classes    bool           // has classes that the broker extends to Latin-1
	exact      map[string]bool
	spared     string // the one name that does not match; "" for none
}

// NewMatcher prepares a pattern. The broker alone is the judge of patterns; where Go's engine would not surely give
// the same answer, the matcher says so instead of guessing.
func NewMatcher(pattern string) Matcher {
	if names, exact := ExactNames(pattern); exact {
		m := Matcher{exact: make(map[string]bool, len(names))}
		for _, name := range names {
			m.exact[name] = true
		}
		return m
	}
	if inner, name, sparing := Spared(pattern); sparing {
		m := NewMatcher(inner)
		m.spared = name
		return m
	}
	if unportable.MatchString(pattern) {
		return Matcher{}
	}
	// One rune for each byte makes Go's "." one byte long, as it is for the broker.
	expression, err := regexp.Compile(latin1(pattern))
	if err != nil {
		return Matcher{}
	}
	return Matcher{
		expression: expression,
		dollar:     strings.Contains(pattern, "$"),
		group:      strings.Contains(pattern, "(?"),
		classes:    latinClasses.MatchString(pattern),
	}
}

// Match answers whether name matches, and whether the answer is known.
func (m Matcher) Match(name string) (matched, known bool) {
	switch {
	case m.spared != "" && name == m.spared:
		return false, true
	case m.exact != nil:
		return m.exact[name], true
	case m.expression == nil:
		return false, false
	}
	switch {
	case m.dollar && strings.HasSuffix(name, "\n"): // PCRE's $ also matches before a final newline
		return false, false
	case strings.Contains(name, "\v"): // \s differs
		return false, false
	case m.group && strings.Contains(name, "\n"): // where (?m) ends a line differs
		return false, false
	case (m.group || m.classes) && !ascii(name): // case folding and classes differ beyond ASCII
		return false, false
	}
	return m.expression.MatchString(latin1(name)), true
}

var (
	latinClasses = regexp.MustCompile(`\\[wWbBsS]|\[:`)
	// unportable finds what both engines accept but read differently, or differently in different versions of the
	// broker's: some escapes, octal numbers and back references, verbs, and counts as {,3} and { 1 }.
	unportable = regexp.MustCompile(`\\[pPCzv0-9]|\\x\{|\(\*|\{[0-9]*[ \t]|\{,|,[ \t]`)
)

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func latin1(s string) string {
	if ascii(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
