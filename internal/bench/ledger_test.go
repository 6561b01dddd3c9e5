package bench

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is the ledger as one would write it with memory for each message.
type naive struct {
	sent, confirmed map[[2]uint64]bool
	seen            map[[2]uint64]int
	newest          map[[2]uint64]uint64
	account         QueueAccount
}

func (m *naive) received(consumer uint64, number [2]uint64, redelivered bool) {
	m.account.Consumed++
	m.seen[number]++
	switch {
	case m.seen[number] > 1 && redelivered:
		m.account.Redelivered++
	case m.seen[number] > 1:
		m.account.Duplicated++
	case redelivered:
	default:
		key := [2]uint64{consumer, number[0]}
		if newest, any := m.newest[key]; any && number[1] < newest {
			m.account.Reordered++
		} else {
			m.newest[key] = number[1]
		}
	}
}

func (m *naive) close(confirms bool, left *int64) QueueAccount {
	a := m.account
	a.Queue, a.Left = "q", left
	a.Published, a.Confirmed = int64(len(m.sent)), int64(len(m.confirmed))
	for number := range m.sent {
		if m.seen[number] == 0 && (m.confirmed[number] || !confirms) {
			a.Lost++
		}
	}
	for number := range m.seen {
		if !m.sent[number] {
			a.Foreign++
		}
	}
	if left != nil {
		a.Lost = max(a.Lost-*left, 0)
	}
	return a
}

func TestLedgerCountsAsTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		confirms := rapid.Bool().Draw(t, "confirms")
		ledger := NewLedger("q", 7, confirms)
		model := &naive{sent: map[[2]uint64]bool{}, confirmed: map[[2]uint64]bool{}, seen: map[[2]uint64]int{}, newest: map[[2]uint64]uint64{}}
		next := map[uint64]uint64{}
		// Jumps cross pages, so that some are full and some are not.
		burst := rapid.SampledFrom([]uint64{1, 3, 63, 4096, 5000})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := rapid.Uint64Range(0, 2).Draw(t, "publisher")
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0, 1: // send some, confirm most
				for range burst.Draw(t, "burst") {
					n := [2]uint64{p, next[p]}
					next[p]++
					ledger.Sent(uint32(p), n[1])
					model.sent[n] = true
					if confirms && n[1]%7 != 3 {
						ledger.Acked(uint32(p), n[1])
						model.confirmed[n] = true
					}
				}
			case 2, 3: // receive a range, which may be beyond what was sent, and may have come before
				from := rapid.Uint64Range(0, next[p]+2).Draw(t, "from")
				consumer := rapid.Uint64Range(0, 1).Draw(t, "consumer")
				again := rapid.Bool().Draw(t, "redelivered")
				for n := from; n < from+burst.Draw(t, "many"); n++ {
					ledger.Received(uint32(consumer), 7, uint32(p), n, again)
					model.received(consumer, [2]uint64{p, n}, again)
				}
			case 4:
				if got := ledger.Received(0, 8, uint32(p), 0, false); got != Stray {
					t.Fatalf("another run's message is %v", got)
				}
				model.account.Foreign++
			}
		}
		var left *int64
		if rapid.Bool().Draw(t, "asked") {
			n := rapid.Int64Range(0, 10000).Draw(t, "left")
			left = &n
		}
		got, complete := ledger.Account(left)
		if want := model.close(confirms, left); got != want || !complete {
			t.Fatalf("got  %+v (complete %v)\nwant %+v", got, complete, want)
		}
	})
}

// Two workers that share a queue find together what one would have found, whatever each saw of it.
func TestLedgersMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := NewLedger("q", 7, true)
		workers := []*Ledger{NewLedger("q", 7, true), NewLedger("q", 7, true)}
		sent := rapid.Uint64Range(1, 9000).Draw(t, "sent")
		for n := range sent {
			one.Sent(1, n)
			workers[0].Sent(1, n)
			if n%5 != 1 {
				one.Acked(1, n)
				workers[0].Acked(1, n)
			}
		}
		lose := rapid.Uint64Range(2, 50).Draw(t, "lose")
		split := rapid.Uint64Range(1, 40).Draw(t, "split")
		for n := range sent {
			if n%lose == 0 {
				continue
			}
			w := n / split % 2
			one.Received(uint32(w), 7, 1, n, false)
			workers[w].Received(uint32(w), 7, 1, n, false)
		}
		again := rapid.SliceOfN(rapid.Uint64Range(0, sent-1), 0, 20).Draw(t, "again")
		again = slices.DeleteFunc(again, func(n uint64) bool { return n%lose == 0 })
		slices.Sort(again)
		again = slices.Compact(again)
		for _, n := range again {
			other := 1 - n/split%2
			marked := n%2 == 0
			one.Received(uint32(other), 7, 1, n, marked)
			workers[other].Received(uint32(other), 7, 1, n, marked)
		}

		// Through the file, as parts of workers come.
		for i, w := range workers {
			text, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			workers[i] = &Ledger{}
			if err := json.Unmarshal(text, workers[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := workers[1].Merge(workers[0]); err != nil {
			t.Fatal(err)
		}
		got, _ := workers[1].Account(nil)
		want, _ := one.Account(nil)
		// What came late to another worker may look out of order there, and cannot where it is a duplicate.
		got.Reordered, want.Reordered = 0, 0
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestLedgersOfOtherRunsDoNotMerge(t *testing.T) {
	a := NewLedger("q", 1, true)
	for _, b := range []*Ledger{NewLedger("q", 2, true), NewLedger("p", 1, true), NewLedger("q", 1, false)} {
		if a.Merge(b) == nil {
			t.Errorf("%+v merged", b)
		}
	}
}

func TestSeqSetSharesFullPages(t *testing.T) {
	var s SeqSet
	for n := range uint64(3 * pageBits) {
		if !s.Add(n) {
			t.Fatal(n)
		}
	}
	for key, p := range s.pages {
		if p != fullPage {
			t.Errorf("page %d has memory of its own", key)
		}
	}
	if s.Add(5) || fullPage.count != pageBits {
		t.Error("a full page changed")
	}
	if s.Below(pageBits+70) != pageBits+70 || s.Below(1<<40) != 3*pageBits {
		t.Error(s.Below(pageBits+70), s.Below(1<<40))
	}
}

func FuzzSeqSet(f *testing.F) {
	var s SeqSet
	s.Add(3)
	s.Add(1 << 60)
	text, _ := json.Marshal(&s)
	f.Add(text)
	f.Add([]byte(`{"pages":"AAAA"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s SeqSet
		if json.Unmarshal(text, &s) != nil {
			return
		}
		s.Add(17)
		if !s.Has(17) {
			t.Error("lost what was added")
		}
	})
}

func BenchmarkLedgerReceived(b *testing.B) {
	l := NewLedger("q", 1, true)
	n := uint64(0)
	for b.Loop() {
		l.Received(0, 1, uint32(n%8), n/8, false)
		n++
	}
}

// What the broker did not say is unknown: neither in the queue nor lost.
func TestWhatIsLeftMayBeUnknown(t *testing.T) {
	untold, two := NotTold, int64(2)
	for _, test := range []struct {
		left       *int64
		lost, want int64 // want is what the account says is left, -1 for nothing
	}{{nil, 3, -1}, {&untold, 0, -1}, {&two, 1, 2}} {
		l := NewLedger("q", 7, true)
		for n := range uint64(3) {
			l.Sent(1, n)
			l.Acked(1, n)
		}
		account, _ := l.Account(test.left)
		if account.Lost != test.lost || (account.Left == nil) != (test.want < 0) || account.Left != nil && *account.Left != test.want {
			t.Errorf("%+v", account)
		}
	}
}
