// Package ring commits in order what ends in any order: entries get their place when they begin, are marked when they have
// ended, and leave from the front. It is pure, bounded and not safe for use by several goroutines.
package ring

// Ring is a queue of entries that leave in the order they came, each once it is done. Make one with New.
type Ring[T any] struct {
	slots []slot[T] // a power of two long
	limit int
	head  uint64 // number of the first entry
	next  uint64 // number that the next entry gets
}

type slot[T any] struct {
	value T
	done  bool
}

// New makes a ring for limit entries at most.
func New[T any](limit int) *Ring[T] {
	return &Ring[T]{slots: make([]slot[T], 1), limit: max(limit, 1)}
}

// Push adds an entry at the end and returns its number. It is false when the ring is full.
func (r *Ring[T]) Push(v T) (number uint64, ok bool) {
	if r.Len() >= r.limit {
		return 0, false
	}
	if r.Len() == len(r.slots) {
		r.grow()
	}
	number = r.next
	*r.at(number) = slot[T]{value: v}
	r.next++
	return number, true
}

// Done marks an entry. It is false when there is no such entry, or it was marked before.
func (r *Ring[T]) Done(number uint64) bool {
	if number < r.head || number >= r.next || r.at(number).done {
		return false
	}
	r.at(number).done = true
	return true
}

// Pop takes the first entry off, if it is done.
func (r *Ring[T]) Pop() (v T, ok bool) {
	if r.Len() == 0 || !r.at(r.head).done {
		return v, false
	}
	v = r.at(r.head).value
	*r.at(r.head) = slot[T]{} // what left must not be kept in memory
	r.head++
	return v, true
}

// First is the entry that has to be done before any other leaves.
func (r *Ring[T]) First() (v T, number uint64, ok bool) {
	if r.Len() == 0 {
		return v, 0, false
	}
	return r.at(r.head).value, r.head, true
}

// Len is the number of entries, done or not.
func (r *Ring[T]) Len() int { return int(r.next - r.head) } //nolint:gosec // at most limit

func (r *Ring[T]) at(number uint64) *slot[T] { return &r.slots[number&uint64(len(r.slots)-1)] }

func (r *Ring[T]) grow() {
	old := *r
	r.slots = make([]slot[T], 2*len(old.slots))
	for n := r.head; n < r.next; n++ {
		*r.at(n) = *old.at(n)
	}
}
