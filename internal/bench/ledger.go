package bench

import (
	"fmt"
	"maps"
	"slices"
)

// Receipt is what a received message was.
type Receipt int

// What a received message can be.
const (
	// Fresh came for the first time.
	Fresh Receipt = iota
	// OutOfOrder came for the first time, after a later one of the same publisher had come to the same consumer.
	OutOfOrder
	// Again came before, and the broker says that it sends it again.
	Again
	// Duplicate came before, and the broker does not say so.
	Duplicate
	// Stray was not sent by this run.
	Stray
)

// Ledger is the account of the messages of one queue. Each publisher numbers its messages to the queue from 0, without a
// gap, and says what it sent and what was confirmed; each consumer says what it received. Publishers and consumers of one
// queue may be in several workers: each has a ledger, Merge makes one of them. It costs one bit for each message that is
// underway or missing. It is not safe for concurrent use.
type Ledger struct {
	// Queue by name. Run is the number that each message of the run carries.
	Queue string `json:"queue"`
	Run   uint64 `json:"run"`
	// Confirms says that publishers wait for confirms: only confirmed messages can be lost.
	Confirms bool `json:"confirms"`

	Streams map[uint32]*Stream `json:"streams,omitempty"` // by publisher

	Consumed    int64 `json:"consumed"`
	Duplicated  int64 `json:"duplicated"`
	Redelivered int64 `json:"redelivered"`
	Reordered   int64 `json:"reordered"`
	Foreign     int64 `json:"foreign"`
}

// Stream is the messages of one publisher in one queue.
type Stream struct {
	Published uint64 `json:"published"` // the numbers 0 to Published-1 were sent
	Confirmed SeqSet `json:"confirmed"`
	Seen      SeqSet `json:"seen"`
	// SeenLate are those of Seen that the broker marked as redelivered when they first came: another worker may have had
	// them before.
	SeenLate SeqSet `json:"seenLate"`

	// newest number by consumer; order holds within one consumer only.
	newest map[uint32]uint64
}

// NewLedger is empty.
func NewLedger(queue string, run uint64, confirms bool) *Ledger {
	return &Ledger{Queue: queue, Run: run, Confirms: confirms, Streams: map[uint32]*Stream{}}
}

func (l *Ledger) stream(publisher uint32) *Stream {
	s := l.Streams[publisher]
	if s == nil {
		if l.Streams == nil {
			l.Streams = map[uint32]*Stream{}
		}
		s = &Stream{newest: map[uint32]uint64{}}
		l.Streams[publisher] = s
	}
	return s
}

// Sent says that the publisher sends the number: before the write, since the message may arrive before the write returns.
func (l *Ledger) Sent(publisher uint32, number uint64) {
	s := l.stream(publisher)
	s.Published = max(s.Published, number+1)
}

// Acked says that the broker confirmed the number. What was nacked, returned or never answered is not said.
func (l *Ledger) Acked(publisher uint32, number uint64) { l.stream(publisher).Confirmed.Add(number) }

// Received says that the consumer got a message with these numbers, and whether the broker marked it as redelivered. For a
// message whose body is not one of the generator's any run number but Run will do.
func (l *Ledger) Received(consumer uint32, run uint64, publisher uint32, number uint64, redelivered bool) Receipt {
	if run != l.Run {
		l.Foreign++
		return Stray
	}
	l.Consumed++
	s := l.stream(publisher)
	if !s.Seen.Add(number) {
		if redelivered {
			l.Redelivered++
			return Again
		}
		l.Duplicated++
		return Duplicate
	}
	if redelivered {
		s.SeenLate.Add(number)
		return Fresh
	}
	if s.newest == nil {
		s.newest = map[uint32]uint64{}
	}
	newest, any := s.newest[consumer]
	if any && number < newest {
		l.Reordered++
		return OutOfOrder
	}
	s.newest[consumer] = number
	return Fresh
}

// Merge adds the account of another worker for the same queue and run; the other ledger stays as it is. Messages that both
// received count as redelivered where the broker marked one of them, and as duplicated elsewhere.
func (l *Ledger) Merge(other *Ledger) error {
	if l.Queue != other.Queue || l.Run != other.Run || l.Confirms != other.Confirms {
		return fmt.Errorf("the accounts of %q (run %d) and %q (run %d) are not of the same queue and run", l.Queue, l.Run, other.Queue, other.Run)
	}
	l.Consumed += other.Consumed
	l.Duplicated += other.Duplicated
	l.Redelivered += other.Redelivered
	l.Reordered += other.Reordered
	l.Foreign += other.Foreign
	for publisher, theirs := range other.Streams {
		ours := l.stream(publisher)
		both, marked := ours.Seen.common(&theirs.Seen, &ours.SeenLate, &theirs.SeenLate)
		l.Redelivered += marked
		l.Duplicated += both - marked
		ours.Published = max(ours.Published, theirs.Published)
		ours.Confirmed.merge(&theirs.Confirmed)
		ours.Seen.merge(&theirs.Seen)
		ours.SeenLate.merge(&theirs.SeenLate)
	}
	return nil
}

// NotTold is how many messages are in a queue of which the broker was asked and did not say it.
const NotTold int64 = -1

// Account closes the ledger of all workers. Left is how many messages the broker says are in the queue, nil when it was
// not asked: then what was not consumed is lost. With NotTold nobody knows whether it is, and none counts as lost. Messages with numbers that nobody sent count as foreign. Complete is false
// when the run was longer than the ledger can count.
func (l *Ledger) Account(left *int64) (account QueueAccount, complete bool) {
	account = QueueAccount{
		Queue: l.Queue, Left: left, Consumed: l.Consumed, Duplicated: l.Duplicated, Redelivered: l.Redelivered,
		Reordered: l.Reordered, Foreign: l.Foreign,
	}
	complete = true
	for _, publisher := range slices.Sorted(maps.Keys(l.Streams)) {
		s := l.Streams[publisher]
		complete = complete && !s.Seen.Overflow() && !s.Confirmed.Overflow()
		account.Published += int64(s.Published)
		account.Confirmed += s.Confirmed.Count()
		sent := s.Seen.Below(s.Published)
		account.Foreign += s.Seen.Count() - sent
		if l.Confirms {
			arrived, _ := s.Confirmed.common(&s.Seen)
			account.Lost += s.Confirmed.Count() - arrived
		} else {
			account.Lost += int64(s.Published) - sent
		}
	}
	switch {
	case left == nil:
	case *left == NotTold:
		account.Left, account.Lost = nil, 0
	default:
		account.Lost = max(account.Lost-*left, 0)
	}
	return account, complete
}
