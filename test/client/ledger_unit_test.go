package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	warren "github.com/warren-mq/warren/client"
)

// What the ledger would not notice, no scenario would.
func TestLedger(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		do   func(l *ledger, p int)
		lost string // of complete
		bad  string // of faults
	}{
		"all well": {func(l *ledger, p int) {
			for range 3 {
				seq := l.accept(p)
				l.settle(p, seq, nil)
				l.see(sight{body: encode(p, seq, 20), ordered: true})
			}
		}, "", ""},
		"consumed before the confirm": {func(l *ledger, p int) {
			l.see(sight{body: encode(p, l.accept(p), 20), ordered: true})
			l.settle(p, 0, nil)
		}, "", ""},
		"confirmed and lost": {func(l *ledger, p int) { l.settle(p, l.accept(p), nil) }, "1 confirmed messages were not consumed", ""},
		"no outcome":         {func(l *ledger, p int) { l.see(sight{body: encode(p, l.accept(p), 20)}) }, "1 have no outcome", ""},
		"refused":            {func(l *ledger, p int) { l.settle(p, l.accept(p), fmt.Errorf("%w: full", warren.ErrNacked)) }, "", ""},
		"unknown and there": {func(l *ledger, p int) {
			l.settle(p, l.accept(p), warren.ErrUnknown)
			l.see(sight{body: encode(p, 0, 20)})
		}, "", ""},
		"not sent and there": {func(l *ledger, p int) {
			l.settle(p, l.accept(p), warren.ErrNotSent)
			l.see(sight{body: encode(p, 0, 20)})
		}, "", "said not to have been sent"},
		"there and then not sent": {func(l *ledger, p int) {
			l.see(sight{body: encode(p, l.accept(p), 20)})
			l.settle(p, 0, warren.ErrNotSent)
		}, "", "said not to have been sent"},
		"two outcomes": {func(l *ledger, p int) {
			l.settle(p, l.accept(p), warren.ErrUnknown)
			l.settle(p, 0, nil)
		}, "", "second outcome"},
		"overtaken": {func(l *ledger, p int) {
			for seq := range 3 {
				l.accept(p)
				l.settle(p, seq, nil)
			}
			for _, seq := range []int{0, 2, 1} {
				l.see(sight{body: encode(p, seq, 20), ordered: true})
			}
		}, "", "came first after 2"},
		"overtaken after it was given up": {func(l *ledger, p int) {
			l.settle(p, l.accept(p), warren.ErrUnknown)
			l.settle(p, l.accept(p), nil)
			for _, seq := range []int{1, 0} {
				l.see(sight{body: encode(p, seq, 20), ordered: true})
			}
		}, "", ""},
		"overtaken, redelivered": {func(l *ledger, p int) {
			for seq := range 3 {
				l.accept(p)
				l.settle(p, seq, nil)
			}
			for _, seq := range []int{0, 2, 1, 2} {
				l.see(sight{body: encode(p, seq, 20), ordered: true, redelivered: seq == 1})
			}
		}, "", ""},
		"changed on its way": {func(l *ledger, p int) {
			body := encode(p, l.accept(p), 40)
			body[30]++
			l.settle(p, 0, warren.ErrUnknown)
			l.see(sight{body: body})
		}, "", "the body has changed"},
		"of nobody": {func(l *ledger, p int) { l.see(sight{body: encode(p, 7, 20)}) }, "", "nobody published"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			c.do(l, l.publisher("one"))
			if err := l.complete(over); (c.lost == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.lost) {
				t.Errorf("complete: %v, want %q", err, c.lost)
			}
			if got := strings.Join(l.sums().faults, "\n"); (c.bad == "") != (got == "") || !strings.Contains(got, c.bad) {
				t.Errorf("faults: %q, want %q", got, c.bad)
			}
		})
	}
}
