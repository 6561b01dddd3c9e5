package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	warren "github.com/warren-mq/warren/client"
)

// outcome is what the library said of a message.
type outcome uint8

const (
	pending   outcome = iota // accepted, nothing said yet
	confirmed                // must be consumed
	nacked
	returned
	refused
	notSent // must not be consumed
	unknown // may be consumed
	failed  // any other error
	outcomes
)

var outcomeNames = [outcomes]string{"pending", "confirmed", "nacked", "returned", "refused", "not sent", "unknown", "failed"}

func classify(err error) outcome {
	for _, c := range []struct {
		err error
		is  outcome
	}{
		{warren.ErrNacked, nacked}, {warren.ErrReturned, returned}, {warren.ErrRefused, refused},
		{warren.ErrUnknown, unknown}, {warren.ErrNotSent, notSent},
	} {
		if errors.Is(err, c.err) {
			return c.is
		}
	}
	if err == nil {
		return confirmed
	}
	return failed
}

// ledger knows of every message of a scenario what the library said and what consumers saw.
type ledger struct {
	across bool // order is kept over clusters, not only within each

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of missing to or from 0
	tracks  []*track
	missing int // confirmed and not consumed
	open    int // pending
	faults  []string
	faulty  int
	dupes   int // deliveries beyond the first
	again   int // deliveries that the broker marked as redelivered
	late    []late
	failed  []string
	from    map[string]int // deliveries by cluster
}

// track is all of one publishing goroutine, whose messages go to one queue.
type track struct {
	label string
	told  []time.Time // when it was said
	said  []outcome
	seen  []uint16
	top   map[string]int
}

// late is a message that came first after a later one of its publisher.
type late struct{ publisher, seq, after int }

func newLedger() *ledger { return &ledger{changed: make(chan struct{}), from: map[string]int{}} }

// publisher opens a track, which the label describes in messages.
func (l *ledger) publisher(label string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracks = append(l.tracks, &track{label: label, top: map[string]int{}})
	return len(l.tracks) - 1
}

// accept a message: its number is the next of its publisher.
func (l *ledger) accept(publisher int) (seq int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tracks[publisher]
	t.said, t.seen, t.told = append(t.said, pending), append(t.seen, 0), append(t.told, time.Time{})
	l.open++
	return len(t.said) - 1
}

// settle notes what the library said.
func (l *ledger) settle(publisher, seq int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, is := l.tracks[publisher], classify(err)
	if t.said[seq] != pending {
		l.fault("message %d/%d has a second outcome: %v", publisher, seq, err)
		return
	}
	t.said[seq], t.told[seq] = is, time.Now()
	l.open--
	switch {
	case is == confirmed && t.seen[seq] == 0:
		l.missing++ // and open one less: as many are on their way
	case is == notSent && t.seen[seq] > 0:
		l.fault("message %d/%d was consumed and is said not to have been sent: %v", publisher, seq, err)
	case is == failed && len(l.failed) < 5:
		l.failed = append(l.failed, err.Error())
	}
	l.signal()
}

// sight is one delivery.
type sight struct {
	body        []byte
	redelivered bool
	cluster     string
	ordered     bool // the consumer handles one batch at a time, so that first sights are in order
}

// see notes a delivery.
func (l *ledger) see(s sight) {
	publisher, seq, err := decode(s.body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || publisher >= len(l.tracks) || seq >= len(l.tracks[publisher].said) {
		l.fault("a message that nobody published: %d/%d %v", publisher, seq, err)
		return
	}
	t := l.tracks[publisher]
	t.seen[seq]++
	l.from[s.cluster]++
	if s.redelivered {
		l.again++
	}
	if t.seen[seq] > 1 {
		l.dupes++
		return
	}
	switch t.said[seq] {
	case confirmed:
		l.missing--
		l.signal()
	case notSent:
		l.fault("message %d/%d is said not to have been sent and was consumed", publisher, seq)
	}
	if !s.ordered || s.redelivered {
		return
	}
	if l.across {
		s.cluster = ""
	}
	// Each cluster keeps its own order.
	if seq+1 < t.top[s.cluster] {
		l.late = append(l.late, late{publisher, seq, t.top[s.cluster] - 1})
	}
	t.top[s.cluster] = max(t.top[s.cluster], seq+1)
}

// fault notes what must not be; the lock is held.
func (l *ledger) fault(format string, arguments ...any) {
	l.faulty++
	if len(l.faults) < 10 {
		l.faults = append(l.faults, fmt.Sprintf(format, arguments...))
	}
}

// backlog is how many messages may be on their way to consumers before publishers wait.
const backlog = 20_000

// delivered is how many deliveries came from a cluster.
func (l *ledger) delivered(cluster string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from[cluster]
}

// room waits until fewer messages are on their way. It is false when ctx ends first.
func (l *ledger) room(ctx context.Context) bool {
	for {
		l.mu.Lock()
		some, changed := l.missing+l.open < backlog, l.changed
		l.mu.Unlock()
		if some {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// signal wakes those who wait; the lock is held.
func (l *ledger) signal() {
	if l.missing == 0 || l.open == 0 || l.missing+l.open == backlog-1 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// complete waits until every message has its outcome and every confirmed one was consumed.
func (l *ledger) complete(ctx context.Context) error {
	for {
		l.mu.Lock()
		missing, open, changed := l.missing, l.open, l.changed
		l.mu.Unlock()
		if missing == 0 && open == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d confirmed messages were not consumed, %d have no outcome; first: %s", missing, open, l.firstMissing())
		}
	}
}

func (l *ledger) firstMissing() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for p, t := range l.tracks {
		for seq, said := range t.said {
			if (said == confirmed && t.seen[seq] == 0 || said == pending) && len(out) < 8 {
				out = append(out, fmt.Sprintf("%d/%d (%s at %s, of %d; %s)", p, seq, outcomeNames[said],
					t.told[seq].Format("15:04:05.000"), len(t.said), t.label))
			}
		}
	}
	return strings.Join(out, ", ")
}

// place of a message: its publisher and number.
type place struct{ publisher, seq int }

// unhandled are the messages that are confirmed and not consumed.
func (l *ledger) unhandled() (out []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, t := range l.tracks {
		for seq, said := range t.said {
			if said == confirmed && t.seen[seq] == 0 {
				out = append(out, place{p, seq})
			}
		}
	}
	return out
}

// without leaves out the messages that were consumed since.
func (l *ledger) without(left []place) []place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(left, func(m place) bool { return l.tracks[m.publisher].seen[m.seq] > 0 })
}

// sums of a ledger.
type sums struct {
	accepted, consumed, missing, duplicates, redelivered int
	said                                                 [outcomes]int
	refusedAndConsumed                                   int // nacked, returned or refused, and consumed all the same
	faults                                               []string
	failures                                             []string
}

func (l *ledger) sums() sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sums{missing: l.missing, duplicates: l.dupes, redelivered: l.again, faults: slices.Clone(l.faults), failures: slices.Clone(l.failed)}
	faulty := l.faulty
	for _, m := range l.late {
		// One that was given up as unknown may come from the old connection at any time, and does not go before what follows it.
		if l.tracks[m.publisher].said[m.seq] == unknown {
			continue
		}
		if faulty++; len(s.faults) < 10 {
			s.faults = append(s.faults, fmt.Sprintf("message %d/%d came first after %d, not redelivered", m.publisher, m.seq, m.after))
		}
	}
	if faulty > len(s.faults) {
		s.faults = append(s.faults, fmt.Sprintf("and %d more", faulty-len(s.faults)))
	}
	for _, t := range l.tracks {
		s.accepted += len(t.said)
		for seq, said := range t.said {
			s.said[said]++
			if t.seen[seq] > 0 {
				s.consumed++
				if said == nacked || said == returned || said == refused {
					s.refusedAndConsumed++
				}
			}
		}
	}
	return s
}

func (s sums) String() string {
	parts := []string{}
	for is, n := range s.said {
		if n > 0 && outcome(is) != confirmed {
			parts = append(parts, fmt.Sprintf(", %d %s", n, outcomeNames[is]))
		}
	}
	return fmt.Sprintf("%d messages, %d confirmed%s, %d consumed, %d duplicates", s.accepted, s.said[confirmed],
		strings.Join(parts, ""), s.consumed, s.duplicates)
}

// headSize is what a body begins with: publisher, number, and the sum of all that follows.
const headSize = 12

// encode makes a body of some size that tells whose it is and whether it came whole.
func encode(publisher, seq, size int) []byte {
	body := make([]byte, max(size, headSize))
	binary.BigEndian.PutUint32(body, uint32(publisher))
	binary.BigEndian.PutUint32(body[4:], uint32(seq))
	for i := headSize; i < len(body); i++ {
		body[i] = byte(seq + i)
	}
	binary.BigEndian.PutUint32(body[8:], crc32.ChecksumIEEE(body[headSize:]))
	return body
}

func decode(body []byte) (publisher, seq int, err error) {
	if len(body) < headSize {
		return 0, 0, fmt.Errorf("a body of %d bytes", len(body))
	}
	if crc32.ChecksumIEEE(body[headSize:]) != binary.BigEndian.Uint32(body[8:]) {
		return 0, 0, errors.New("the body has changed")
	}
	return int(binary.BigEndian.Uint32(body)), int(binary.BigEndian.Uint32(body[4:])), nil
}
