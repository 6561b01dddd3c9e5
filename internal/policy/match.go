package policy

import (
	"regexp"
	"strings"
)

// Matcher answers whether a queue name matches a pattern as the broker would: PCRE on bytes, not anchored.
type Matcher struct {
	expression *regexp.Regexp // nil: only the broker can tell
	dollar     bool
	folds      bool
}

// NewMatcher prepares a pattern. The broker alone is the judge of patterns; where Go's engine would not surely give
// the same answer, the matcher says so instead of guessing.
func NewMatcher(pattern string) Matcher {
	if usesUnportable(pattern) {
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
		folds:      strings.Contains(pattern, "(?"),
	}
}

// Match answers whether name matches, and whether the answer is known.
func (m Matcher) Match(name string) (matched, known bool) {
	if m.expression == nil {
		return false, false
	}
	switch {
	case m.dollar && strings.HasSuffix(name, "\n"): // PCRE's $ also matches before a final newline
		return false, false
	case strings.Contains(name, "\v"): // \s differs
		return false, false
	case m.folds && !ascii(name): // case folding differs beyond ASCII
		return false, false
	}
	return m.expression.MatchString(latin1(name)), true
}

// usesUnportable finds escapes that both engines accept but read differently, and verbs of PCRE's own.
func usesUnportable(pattern string) bool {
	for _, s := range []string{`\p`, `\P`, `\C`, `\z`, `\x{`, `(*`} {
		if strings.Contains(pattern, s) {
			return true
		}
	}
	return false
}

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
