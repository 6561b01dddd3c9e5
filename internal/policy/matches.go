package policy

import "github.com/warren-mq/warren/internal/broker"

// Matches says which queues of a listing a pattern matches, by their place in it.
type Matches struct {
	matched, unknown bits // unknown is nil when all is known
}

// MatchAll evaluates a pattern for all queues.
func MatchAll(pattern string, queues []broker.Queue) *Matches {
	m := &Matches{matched: make(bits, (len(queues)+63)/64)}
	matcher := NewMatcher(pattern)
	for i := range queues {
		matches, known := matcher.Match(queues[i].Name)
		switch {
		case !known:
			if m.unknown == nil {
				m.unknown = make(bits, len(m.matched))
			}
			m.unknown.set(i)
		case matches:
			m.matched.set(i)
		}
	}
	return m
}

// At answers whether the pattern matches the queue at place i, and whether that is known.
func (m *Matches) At(i int) (matches, known bool) {
	if m.unknown != nil && m.unknown.has(i) {
		return false, false
	}
	return m.matched.has(i), true
}

// both calls f with the places that m and other both surely match, in their order, until f answers false.
func (m *Matches) both(other *Matches, f func(i int) bool) {
	for word := range m.matched {
		common := m.matched[word] & other.matched[word]
		for bit := 0; common != 0; bit++ {
			if common&1 != 0 && !f(64*word+bit) {
				return
			}
			common >>= 1
		}
	}
}

type bits []uint64

func (b bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// matches of a pattern on the queues, from what is shared if there is such.
func (v *Vhost) matches(pattern string) *Matches {
	if v.Match != nil {
		return v.Match(pattern)
	}
	return MatchAll(pattern, v.Queues)
}
