package management

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

func TestSilence(t *testing.T) {
	var s silence
	now := time.Unix(0, 0)
	late := &broker.Error{Kind: broker.Unavailable, Op: "one", Reason: "no answer in time", Err: context.DeadlineExceeded}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	asked := func(want bool) {
		t.Helper()
		err := s.before("another", now)
		if (err == nil) != want {
			t.Fatalf("at %s: %v, want it sent: %t", now, err, want)
		}
		if err != nil && (broker.KindOf(err) != broker.Unavailable || err.Error() != "another: no answer in time" || !errors.Is(err, context.DeadlineExceeded)) {
			t.Fatalf("the error is %v", err)
		}
	}
	asked(true)
	asked(true) // while all is well, many at once
	s.after(t.Context(), late, now)
	s.after(t.Context(), late, now) // the other one, already under way, does not make the pause longer
	asked(false)
	now = now.Add(firstPause)
	asked(true) // one asks again
	asked(false)
	s.after(canceled, late, now)
	asked(true) // it was given up, so another one asks
	s.after(t.Context(), late, now)
	now = now.Add(firstPause)
	asked(false) // longer each time
	now = now.Add(firstPause)
	asked(true)
	s.after(t.Context(), nil, now)
	asked(true)
	asked(true)
	for range 10 {
		s.after(t.Context(), late, now)
		now = now.Add(mostPause)
		asked(true) // and never longer than that
	}
	s.after(t.Context(), &broker.Error{Kind: broker.Unavailable, Err: errors.New("connection refused")}, now)
	asked(true) // what fails at once holds nobody
}
