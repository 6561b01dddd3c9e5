package ring_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warren-mq/warren/client/internal/ring"
)

func TestEntriesLeaveInOrderOnceAllBeforeThemAreDone(t *testing.T) {
	r := ring.New[string](3)
	a, _ := r.Push("a")
	b, _ := r.Push("b")
	c, _ := r.Push("c")
	if _, ok := r.Push("d"); ok {
		t.Error("a full ring took one more")
	}
	r.Done(c)
	r.Done(b)
	if v, ok := r.Pop(); ok {
		t.Errorf("%q left before the first was done", v)
	}
	r.Done(a)
	var left []string
	for v, ok := r.Pop(); ok; v, ok = r.Pop() {
		left = append(left, v)
	}
	if !slices.Equal(left, []string{"a", "b", "c"}) {
		t.Errorf("left: %v", left)
	}
	if r.Len() != 0 {
		t.Errorf("%d are left over", r.Len())
	}
}

func TestAnEntryIsDoneOnce(t *testing.T) {
	r := ring.New[int](8)
	n, _ := r.Push(1)
	if !r.Done(n) || r.Done(n) {
		t.Error("want true, then false")
	}
	r.Pop()
	if r.Done(n) || r.Done(n+1) {
		t.Error("an entry that is not there was marked")
	}
}

// A ring is held against what it is to be: a list.
func TestRingIsAListThatIsCommittedFromTheFront(t *testing.T) {
	type entry struct {
		number uint64
		value  int
		done   bool
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		r := ring.New[int](limit)
		var model []entry
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				number, ok := r.Push(next)
				if ok != (len(model) < limit) {
					t.Fatalf("pushed: %v with %d of %d", ok, len(model), limit)
				}
				if ok {
					model = append(model, entry{number: number, value: next})
				}
				next++
			},
			"done": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip() // this action, not the test: there is nothing to be done with
				}
				e := &model[rapid.IntRange(0, len(model)-1).Draw(t, "which")]
				if got := r.Done(e.number); got == e.done {
					t.Fatalf("marked: %v, was done before: %v", got, e.done)
				}
				e.done = true
			},
			"pop": func(t *rapid.T) {
				v, ok := r.Pop()
				want := len(model) > 0 && model[0].done
				if ok != want {
					t.Fatalf("popped: %v, want %v", ok, want)
				}
				if ok {
					if v != model[0].value {
						t.Fatalf("popped %d, want %d", v, model[0].value)
					}
					model = model[1:]
				}
			},
			"": func(t *rapid.T) {
				if r.Len() != len(model) {
					t.Fatalf("length %d, want %d", r.Len(), len(model))
				}
				v, number, ok := r.First()
				if ok != (len(model) > 0) || ok && (v != model[0].value || number != model[0].number) {
					t.Fatalf("first %d as %d (%v)", v, number, ok)
				}
			},
		})
	})
}
