package warren

import (
	"fmt"
	"time"
)

// copied is a message that is published again before the one that it was in is settled.
type copied struct {
	unit   *unit
	m      Message
	dead   bool
	reason error // that it is dead
}

// conclude gives each AMQP message its fate: dead letters are published, and those to be tried again are held for a while.
func (l *load) conclude(out []outcome) {
	in := l.e.in
	var letters, repeats []copied
	var hold time.Duration
	var all []outcome
	for i := range l.units {
		u := l.units[i]
		all = all[:0]
		for _, d := range u.inner {
			o := d.outcome()
			if d.handed {
				o, out = out[0], out[1:]
			}
			all = append(all, o)
		}
		hold = max(hold, l.judge(u, all, &letters, &repeats))
	}
	if l.e.lost() {
		return // all of it is delivered again
	}
	hold = max(hold, l.publish(letters, in.bury))
	if hold > 0 {
		l.e.pause(hold)
	}
	if len(repeats) > 0 && !l.e.lost() {
		l.e.pause(l.publish(repeats, in.publishAll))
	}
}

// judge decides on one AMQP message, and returns how long it is to be held.
func (l *load) judge(u *unit, all []outcome, letters, repeats *[]copied) time.Duration {
	c := l.e.in.c
	first := all[0].verdict
	alike := !u.split
	for _, o := range all {
		alike = alike && o.verdict == first
	}
	if alike {
		switch {
		case first == acked:
			u.fate = fateAck
			return 0
		case first == givenBack:
			u.fate = fateReturn
			return 0
		case first == retried:
			u.fate = fateRetry
			return c.cfg.delay(u.attempts)
		case c.cfg.byReject:
			u.fate = fateReject
			for _, o := range all {
				c.deadLettered(o.reason)
			}
			return 0
		}
	}
	var hold time.Duration
	now := time.Now()
	for k, o := range all {
		d := u.inner[k]
		switch {
		case o.verdict == deadLettered && !c.cfg.byReject:
			*letters = append(*letters, copied{u, deadLetter(u.original(k), d.Attempts, c.queue, l.e.in.graveyard, o.reason, now), true, o.reason})
		case o.verdict == deadLettered:
			// Only a whole AMQP message can be rejected: it comes again by itself and then is.
			*repeats = append(*repeats, copied{unit: u, m: c.repeat(u.original(k), c.cfg.maxAttempts)})
		case o.verdict == retried:
			hold = max(hold, c.cfg.delay(d.Attempts))
			*repeats = append(*repeats, copied{unit: u, m: c.repeat(u.original(k), d.Attempts+1)})
		case o.verdict == givenBack:
			*repeats = append(*repeats, copied{unit: u, m: c.repeat(u.original(k), d.Attempts)})
		}
	}
	u.fate = fateAck
	return hold
}

// repeat is a message of a pack that is to be delivered again without the others.
func (c *Consumer) repeat(original Message, attempts int) Message {
	m := again(&original, c.queue)
	m.Headers[headerAttempts] = int64(attempts)
	return m
}

// publish copies; where one fails the message is tried again as a whole. It returns how long that is to be held.
func (l *load) publish(copies []copied, all func([]Message) []error) (hold time.Duration) {
	if len(copies) == 0 {
		return 0
	}
	c := l.e.in.c
	messages := make([]Message, len(copies))
	for i := range copies {
		messages[i] = copies[i].m
	}
	for i, err := range all(messages) {
		to := copies[i]
		switch {
		case err != nil:
			to.unit.fate = fateRetry
			if to.unit.attempts >= c.cfg.maxAttempts {
				// It is not handled any more. To count on would only bring it to the queue's delivery-limit, where it is lost.
				to.unit.fate = fateReturn
			}
			hold = max(hold, c.cfg.delay(to.unit.attempts))
			c.failed(l.e.in, fmt.Errorf("message %q was not published to %q: %w", to.m.ID, to.m.Queue, err))
		case to.dead:
			c.deadLettered(to.reason)
		}
	}
	return hold
}
