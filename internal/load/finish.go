package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
)

const (
	// closeLimit is how long the broker has to end a connection in order; stormLimit is for those of a storm together.
	closeLimit = 5 * time.Second
	stormLimit = 30 * time.Second
)

// tickAll closes a second of the account each second, until the context ends.
func (r *run) tickAll(ctx context.Context) {
	var cpu, blocked float64
	var intended int64
	cpu = cpuSeconds()
	for at := 0; ; at++ {
		next := r.clock.started.Add(time.Duration(at+1) * time.Second)
		ended := !pause(ctx, time.Until(next))
		s := r.rec.tick()
		s.AtSeconds = at
		now := cpuSeconds()
		s.CPUSeconds, cpu = now-cpu, now
		s.Unconfirmed, s.Unacknowledged = r.unconfirmedNow(), r.unacknowledged(s)
		due := r.intended()
		s.Intended, intended = due-intended, due
		total := r.blockedSeconds()
		s.BlockedSeconds, blocked = total-blocked, total
		s.Opened, s.Closed, s.Failed = r.opened.Swap(0), r.closed.Swap(0), r.refused.Swap(0)
		r.phaseMu.Lock()
		r.result.Seconds = append(r.result.Seconds, s)
		phase := r.phase
		r.phaseMu.Unlock()
		r.peakHeap = max(r.peakHeap, float64(readSelf().heap))
		if r.Progress != nil && !ended {
			p := Progress{Phase: phase, Second: s, Waiting: r.shared.sent.Load() - r.taken.Load()}
			if complaint := r.silence.Swap(nil); complaint != nil {
				p.Silent = *complaint
			}
			r.Progress(p)
		}
		if ended {
			return
		}
	}
}

// unacknowledged follows what was consumed and acknowledged.
func (r *run) unacknowledged(s bench.Second) int64 {
	if r.scenario.Consumers.AckEvery == 0 && r.scenario.Consumers.Batch == nil {
		return 0
	}
	r.unacked += s.Consumed - s.Acknowledged
	return max(0, r.unacked)
}

// unconfirmedNow and blockedSeconds may be asked while connections are still being opened.
func (r *run) unconfirmedNow() int64 {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	return r.unconfirmed()
}

// blockedSeconds is summed over publishers.
func (r *run) blockedSeconds() float64 {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	now, total := r.clock.now(), 0.0
	for _, l := range r.links {
		total += since(l.blocked(now)) * float64(l.publishers)
	}
	return total
}

// sample reads the sources until the context ends, each on its own: a management API that takes long is no reason to know
// nothing of CPU and disk.
func (r *run) sample(ctx context.Context) {
	var all sync.WaitGroup
	for _, source := range r.Sources {
		all.Go(func() { r.sampleOne(ctx, source) })
	}
	all.Wait()
	slices.SortStableFunc(r.result.Broker, func(a, b bench.Sample) int { return cmp.Compare(a.AtSeconds, b.AtSeconds) })
}

func (r *run) sampleOne(ctx context.Context, source Source) {
	interval := r.Interval
	if interval <= 0 {
		interval = 2 * time.Second
	}
	for {
		at := r.clock.now()
		samples, err := source.Sample(ctx)
		if err != nil && ctx.Err() == nil {
			r.silence.Store(new(err.Error()))
		}
		between := since((at + r.clock.now()) / 2)
		for _, s := range samples {
			s.AtSeconds = between
			r.samplesMu.Lock()
			r.result.Broker = append(r.result.Broker, s)
			r.samplesMu.Unlock()
			r.heed(s)
		}
		// The next one at the next multiple of the interval: one that took long is not made up for.
		next := time.Duration(r.clock.now()).Truncate(interval) + interval
		if !pause(ctx, next-time.Duration(r.clock.now())) {
			return
		}
	}
}

// heed ends the load when the broker raises an alarm.
func (r *run) heed(s bench.Sample) {
	for what, alarm := range map[string]*float64{"memory": s.MemoryAlarm, "disk": s.DiskAlarm} {
		if alarm != nil && *alarm > 0 {
			err := fmt.Errorf("%w: %s, on node %q", errAlarm, what, s.Node)
			r.events.add(bench.EventStopped, err.Error())
			r.work(err)
		}
	}
}

// finish fills the result when all workers have ended, and tells how many messages are left in the queues.
func (r *run) finish(failed error) map[string]int64 {
	r.phaseMu.Lock()
	r.leaveLocked(r.clock.now())
	r.phaseMu.Unlock()
	if failed != nil && !errors.Is(failed, errAlarm) && !errors.Is(failed, errCapped) {
		r.events.add(bench.EventStopped, failed.Error())
	}
	left, untold := r.leftAtLast()
	if untold != nil {
		r.events.add(bench.EventStopped, "the broker did not say how many messages are left, so nobody knows whether some were lost: "+untold.Error())
	}
	r.fleet.close(closeLimit)
	if r.storm != nil {
		r.storm.calm(stormLimit)
		r.result.Storm, r.connect = &r.storm.figures, r.storm.connect
	}
	r.result.Latency = r.rec.histograms()
	r.result.Latency.SchedulingDelay = schedulingDelay(r.selfBefore, r.selfAfter)
	r.result.Latency.Connect = r.connect
	r.result.Generator = r.figures()
	r.result.Drain = r.drainFigures()
	r.result.Events = r.events.all()
	return left
}

// endConsumers cancels the consumers and lets the broker settle their last acks: a quorum queue may ignore acks that come
// right before the end of a channel.
func (r *run) endConsumers() {
	r.fleet.mu.Lock()
	r.fleet.closing = true
	r.fleet.mu.Unlock()
	limited := time.AfterFunc(closeLimit, func() {
		for _, c := range r.consumers {
			if c.wire != nil { // else it is the client library's
				_ = c.wire.Conn.Close()
			}
		}
	})
	defer limited.Stop()
	for i, ch := range r.channels {
		r.consumers[i].ackRest()
		if ch.Cancel(fmt.Sprintf("consumer-%d", i), false) == nil {
			_ = ch.Qos(r.scenario.Consumers.Prefetch, 0, false)
		}
		_ = ch.Close()
	}
}

// left is how many messages wait in each queue, bench.NotTold where the broker was asked and did not answer. The broker does not
// say it of streams, in which messages stay after they were consumed.
func (r *run) left() (left map[string]int64, err error) {
	left = map[string]int64{}
	if r.scenario.Queues.Type == bench.StreamQueue {
		return left, nil
	}
	for _, name := range r.queues {
		left[name] = bench.NotTold
	}
	ch, err := r.admin.Channel()
	if err != nil {
		return left, err
	}
	for _, name := range r.queues {
		n, err := settled(ch, name)
		if err != nil {
			return left, err
		}
		left[name] = int64(n)
	}
	return left, ch.Close()
}

// lossIdle is how long the figures must stand still before messages count as lost.
const lossIdle = 15 * time.Second

// leftAtLast is left when the broker has taken back what consumers held: a queue with much to do answers before it does that. It
// takes its time only where messages are missing.
func (r *run) leftAtLast() (map[string]int64, error) {
	left, err := r.left()
	began, moved := time.Now(), time.Now()
	for err == nil && r.unsure(left) && time.Since(moved) < cmp.Or(r.Idle, lossIdle) && time.Since(began) < flushLimit {
		pause(context.Background(), 100*time.Millisecond)
		var again map[string]int64
		if again, err = r.left(); !maps.Equal(left, again) {
			moved = time.Now()
		}
		left = again
	}
	return left, err
}

// unsure tells whether consumers may have held more than what is left says. Of several workers none knows what the others
// consumed: there all that is left counts as a sign that the consumers were not done.
func (r *run) unsure(left map[string]int64) bool {
	if r.Workers == 1 {
		return r.missing(left)
	}
	return r.scenario.Consumers.Count > 0 && slices.ContainsFunc(slices.Collect(maps.Values(left)), func(n int64) bool { return n > 0 })
}

// missing tells whether messages are neither consumed nor left, in queues of which the broker says what is left.
func (r *run) missing(left map[string]int64) bool {
	for _, l := range r.book.ledgers() {
		n, told := left[l.Queue]
		if account, _ := l.Account(&n); told && account.Lost > 0 {
			return true
		}
	}
	return false
}

// settled asks for the length of a queue until two answers agree: what a closed channel gives back takes a moment.
func settled(ch *amqp.Channel, name string) (int, error) {
	before := -1
	for range 20 {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil || q.Messages == before {
			return before, err
		}
		before = q.Messages
		time.Sleep(20 * time.Millisecond)
	}
	return before, nil
}

// tidy deletes the queues and ends the last connection. What it cannot delete is an error.
func (r *run) tidy() error {
	defer r.admin.end(closeLimit)
	if r.Keep {
		return nil
	}
	var failures []error
	for _, name := range r.queues {
		ch, err := r.admin.Channel()
		if err != nil {
			return fmt.Errorf("%w: queues are left behind: %w", ErrCleanupFailed, err)
		}
		if _, err := ch.QueueDelete(name, false, false, false); err != nil {
			failures = append(failures, fmt.Errorf("%w: queue %q is left behind: %w", ErrCleanupFailed, name, err))
		}
		_ = ch.Close()
	}
	return errors.Join(failures...)
}

// figures of the generator in the span.
func (r *run) figures() bench.GeneratorFigures {
	g := bench.GeneratorFigures{Workers: 1}
	g.IntendedSends, g.LateSends = r.rec.sends()
	if r.paced() && r.span.to.Load() < math.MaxInt64 {
		// Sends that were never made because the broker did not take them were intended too.
		rate := math.Float64frombits(r.rate.Load())
		g.IntendedSends = max(g.IntendedSends, int64(since(r.span.to.Load()-max(r.span.from.Load(), r.from.Load()))*rate))
	}
	before, after := r.selfBefore, r.selfAfter
	seconds := after.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return g
	}
	cores, limit := (after.cpuSeconds-before.cpuSeconds)/seconds, cpuLimit()
	ratio := cores / limit
	g.CPUCores, g.CPULimitCores, g.BusiestRatio = &cores, &limit, &ratio
	if throttled := r.throttled[1] - r.throttled[0]; throttled >= 0 {
		g.ThrottledSeconds = &throttled
	}
	paused, gc := after.gcPaused-before.gcPaused, after.gcCPU-before.gcCPU
	g.GCPauseSeconds, g.GCCPUSeconds = &paused, &gc
	memory := max(r.peakHeap, float64(after.heap))
	g.MemoryBytes = &memory
	return g
}

func (r *run) drainFigures() *bench.DrainFigures {
	if r.scenario.Backlog == nil || len(r.consumers) == 0 || r.span.from.Load() > r.clock.now() {
		return nil
	}
	began, ended := r.span.from.Load(), r.span.to.Load()
	d := &bench.DrainFigures{Messages: r.filled, Left: max(0, r.filled-r.old.Load())}
	if r.drained > 0 {
		// Of several workers each has its share, whichever of the messages it took.
		seconds := since(r.drained - began)
		d.EmptySeconds, ended, d.Left = &seconds, r.drained, 0
	}
	if seconds := since(ended - began); seconds > 0 {
		d.PerSecond = float64(d.Messages-d.Left) / seconds
	}
	return d
}
