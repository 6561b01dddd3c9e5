package management

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

const (
	firstPause = 2 * time.Second
	mostPause  = 30 * time.Second
)

// silence remembers that a broker let a call run into its time limit. For a while, longer each time, further calls
// get the same answer at once, and then one of them at a time asks again: a thousand policies of one dead cluster would
// otherwise each hold a worker for the whole limit, and those of the living ones would wait for them.
type silence struct {
	mu     sync.Mutex
	last   *broker.Error // nil: the broker answers
	until  time.Time
	pause  time.Duration
	asking bool
}

// before is the error that a call gets without being sent, or nil if it may be.
func (s *silence) before(op string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last == nil:
		return nil
	case s.asking || now.Before(s.until):
		return &broker.Error{Kind: s.last.Kind, Op: op, Reason: s.last.Reason, Err: s.last.Err, TooSlow: s.last.TooSlow}
	}
	s.asking = true
	return nil
}

// after learns how a call that was sent ended. One that the caller gave up says nothing about the broker.
func (s *silence) after(caller context.Context, err error, now time.Time) {
	s.undecided()
	s.mu.Lock()
	defer s.mu.Unlock()
	var failure *broker.Error
	switch {
	case err != nil && caller.Err() != nil:
	case !timedOut(err) || !errors.As(err, &failure):
		s.last, s.pause = nil, 0
	case s.last == nil || !now.Before(s.until): // and not one that was under way when the silence began
		s.pause = min(max(firstPause, 2*s.pause), mostPause)
		s.last, s.until = failure, now.Add(s.pause)
	}
}

// undecided ends a call that says nothing about the broker, so that another one may ask.
func (s *silence) undecided() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
}

// timedOut tells whether a failure took the caller's time: what is refused at once needs no protection.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
