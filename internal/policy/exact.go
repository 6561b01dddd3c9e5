package policy

import (
	"strings"
	"unicode/utf8"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// MaxPattern is how many bytes a policy's pattern may have: more are refused since RabbitMQ 4.3.
const MaxPattern = 1024

// An exact pattern ends in \z: $ also matches before a final newline, and so another name.
const (
	exactHead  = `^(?:`
	exactTail  = `)\z`
	exactBreak = `\E\\E\Q` // `\E` inside a name
)

// Nameable tells whether a pattern can name this queue: what is no UTF-8 does not survive the way to the broker in JSON.
func Nameable(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsRune(name, utf8.RuneError)
}

// ExactPatterns are patterns that match these names byte for byte and no other, each at most MaxPattern long.
func ExactPatterns(names []string) []string {
	var out []string
	var body strings.Builder
	flush := func() {
		if body.Len() > 0 {
			out = append(out, exactHead+body.String()+exactTail)
			body.Reset()
		}
	}
	for _, name := range names {
		quoted := quote(name)
		if body.Len() > 0 && len(exactHead)+body.Len()+len("|")+len(quoted)+len(exactTail) > MaxPattern {
			flush()
		}
		if body.Len() > 0 {
			body.WriteString("|")
		}
		body.WriteString(quoted)
	}
	flush()
	return out
}

// ExactNames reads back the names of a pattern that ExactPatterns made; ok is false for every other pattern.
func ExactNames(pattern string) (names []string, ok bool) {
	body, isExact := strings.CutPrefix(pattern, exactHead)
	if isExact {
		body, isExact = strings.CutSuffix(body, exactTail)
	}
	for isExact {
		var name string
		if name, body, isExact = exactName(body); !isExact {
			break
		}
		names = append(names, name)
		if body == "" {
			return names, true
		}
		body, isExact = strings.CutPrefix(body, "|")
	}
	return nil, false
}

// exactName reads one quoted name from the front of body.
func exactName(body string) (name, rest string, ok bool) {
	rest, ok = strings.CutPrefix(body, `\Q`)
	for ok {
		var literal string
		if literal, rest, ok = strings.Cut(rest, `\E`); !ok {
			break
		}
		name += literal
		var more bool
		if rest, more = strings.CutPrefix(rest, exactBreak[len(`\E`):]); !more {
			return name, rest, name != ""
		}
		name += `\E`
	}
	return "", "", false
}

func quote(name string) string { return `\Q` + strings.ReplaceAll(name, `\E`, exactBreak) + `\E` }

// A sparing pattern looks ahead for the one name that it leaves out, from the first byte on.
const (
	sparingHead = `\A(?!`
	sparingBody = `\z)(?s:.*?)(?:`
	sparingTail = `)`
)

// Sparing is a pattern that matches what pattern does, but not the queue called name.
func Sparing(pattern, name string) string {
	return sparingHead + quote(name) + sparingBody + pattern + sparingTail
}

// Spared reads back what Sparing was given; ok is false for every other pattern.
func Spared(sparing string) (pattern, name string, ok bool) {
	rest, ok := strings.CutPrefix(sparing, sparingHead)
	if ok {
		name, rest, ok = exactName(rest)
	}
	if ok {
		rest, ok = strings.CutPrefix(rest, sparingBody)
	}
	if ok {
		pattern, ok = strings.CutSuffix(rest, sparingTail)
	}
	return pattern, name, ok
}

// patternOf is the pattern that the broker gets: where it surely matches the dead-letter queue of the same QueuePolicy, that
// is left out, since limits and dead-lettering would hit dead messages too.
func patternOf(p *v1alpha1.QueuePolicy) string {
	dead := p.Spec.DeadLetter
	if dead == nil || dead.Queue == "" {
		return p.Spec.Pattern
	}
	if matches, known := NewMatcher(p.Spec.Pattern).Match(dead.Queue); !matches || !known {
		return p.Spec.Pattern
	}
	return Sparing(p.Spec.Pattern, dead.Queue)
}
