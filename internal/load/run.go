package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
)

// Plan is one run of a scenario.
type Plan struct {
	Scenario bench.Scenario
	// Endpoint has the user and the vhost that the run may use.
	Endpoint Endpoint
	// Prefix of the connections' names, and of the queues' unless Queues is set.
	Prefix string
	// Queues, when set, begins the queues' names.
	Queues string
	// Mark is in each message; others' messages do not have it.
	Mark   uint32
	Number int
	// Sources are sampled every Interval, beside the load. Default 2s.
	Sources  []Source
	Interval time.Duration
	// Worker is the number, from 0, of this process among Workers that share the load: each has every Workers-th publisher,
	// consumer and connection of a storm, and the same part of the rate. Default one.
	Worker, Workers int
	// Meet returns when all workers are at the step, so that they start, fill and end together. Needed for several.
	Meet func(ctx context.Context, step Step) error
	// Keep leaves the queues to whoever removes the vhost.
	Keep bool
	// Idle is how long nothing may come at the end until it is over, and until what is missing counts as lost. Default 5s and 15s.
	Idle time.Duration
	// Progress is told of each second. It must not block.
	Progress func(Progress)

	starve func() // before each send, for tests
}

// Step at which workers meet.
type Step string

// The steps, in order. StepFilled is for scenarios with a backlog.
const (
	StepReady  Step = "Ready"  // all is connected
	StepFilled Step = "Filled" // the backlog is in the queues
	StepWarm   Step = "Warm"   // the warm-up is over
	StepSent   Step = "Sent"   // publishers have ended
	StepEnded  Step = "Ended"  // consumers have ended
	// StepCounted: each worker knows what is left in the queues, which one of them deletes then.
	StepCounted Step = "Counted"
)

// Progress of a run.
type Progress struct {
	Phase  bench.PhaseName
	Second bench.Second
	// Waiting messages: sent and not consumed.
	Waiting int64
	// Silent is why a source of samples said nothing in this second; "" when all did.
	Silent string
}

// Source gives the figures of one node, or of several.
type Source interface {
	// Sample reads them now. What cannot be read is left out; an error is for when nothing can.
	Sample(ctx context.Context) ([]bench.Sample, error)
}

// errAlarm: the broker is short of memory or disk. The load ends at once.
var errAlarm = errors.New("the broker raised an alarm")

const (
	// flushLimit bounds the wait for what is under way at the end; flushIdle is how long nothing may come meanwhile.
	flushLimit = 60 * time.Second
	// askEvery is how often the broker is asked whether a backlog that several workers drain is gone.
	askEvery  = 500 * time.Millisecond
	flushIdle = 5 * time.Second
	// stopLimit is how long publishers have to end a write that the broker does not read.
	stopLimit = 5 * time.Second
)

// run is a run while it goes on.
type run struct {
	Plan
	*fleet
	admin  *link
	storm  *storm
	result bench.Run

	phaseMu sync.Mutex
	phase   bench.PhaseName
	began   int64

	outer     context.Context         // ends all
	work      context.CancelCauseFunc // ends the load
	publishes sync.WaitGroup
	handles   sync.WaitGroup
	stopWork  context.CancelFunc // ends the consumers
	rate      atomic.Uint64      // of the schedule, in messages per second, as bits of a float64; 0 without one
	from      atomic.Int64       // when the schedule began, in ns
	drained   int64              // when the backlog was gone, in ns; 0 not yet
	asked     int64              // when the broker was last asked for the depth, in ns
	filled    int64              // messages of the backlog

	selfBefore, selfAfter selfReading
	throttled             [2]float64
	peakHeap              float64
	unacked               int64
	silence               atomic.Pointer[string] // why a source said nothing, since the last second
	samplesMu             sync.Mutex             // of result.Broker, while sources are read
}

// Do makes one run. The result has what was measured even when there is an error; its queues are deleted in any case.
// Bench's Finish judges it.
func (p Plan) Do(ctx context.Context) (bench.Run, error) {
	part, left, err := p.DoPart(ctx)
	for _, l := range part.Ledgers {
		var remaining *int64
		if n, asked := left[l.Queue]; asked {
			remaining = &n
		}
		account, complete := l.Account(remaining)
		part.Run.Queues = append(part.Run.Queues, account)
		if !complete {
			part.Run.Events = append(part.Run.Events, bench.Event{Kind: bench.EventStopped, Message: "the run was longer than its account can count"})
		}
	}
	return part.Run, err
}

// DoPart makes this worker's part of a run, for bench's MergeParts. left is how many messages are in each queue at the end,
// by the broker's count; queues of which it says nothing are not in it.
func (p Plan) DoPart(ctx context.Context) (part bench.Part, left map[string]int64, err error) {
	p.Workers = max(p.Workers, 1)
	if p.Meet == nil {
		p.Meet = func(context.Context, Step) error { return nil }
	}
	r := p.newRun()
	r.outer = ctx
	ctx, r.work = context.WithCancelCause(ctx)
	defer r.work(nil)
	if r.admin, err = p.Endpoint.dial(ctx, 0, p.Prefix+" topology", publisherBuffer); err != nil {
		return bench.Part{Run: r.result}, nil, err
	}
	defer func() { err = errors.Join(err, r.tidy()) }()
	if err := r.declare(); err != nil {
		return bench.Part{Run: r.result}, nil, err
	}
	err = r.connectAll(ctx)
	if err == nil {
		err = r.Meet(ctx, StepReady)
	}
	if err != nil {
		r.fleet.close(closeLimit)
		return bench.Part{Run: r.result}, nil, err
	}
	r.begin()
	sampling, stopSampling := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { r.sample(sampling) })
	beside.Go(func() { r.tickAll(sampling) })
	err = r.load(ctx)
	stopSampling()
	beside.Wait()
	left = r.finish(err)
	if err == nil {
		err = r.Meet(r.outer, StepCounted)
	}
	return bench.Part{Run: r.result, Ledgers: r.book.ledgers()}, left, err
}

// begin is the zero of the run's clock.
func (r *run) begin() {
	c := clock{started: time.Now()}
	r.shared.clock, r.events.clock = c, c
	r.result.Started = c.started.UTC()
	r.fleet.watchAll()
}

func (p Plan) newRun() *run {
	s := &p.Scenario
	span := newSpan()
	r := &run{Plan: p, result: bench.Run{Number: p.Number}}
	var queues []string
	for i := range s.Queues.Count {
		queues = append(queues, fmt.Sprintf("%s-%d", cmp.Or(p.Queues, p.Prefix), i))
	}
	r.fleet = &fleet{
		shared: &shared{
			span: span, run: p.Mark, rec: newRecorders(s, span), drain: s.Backlog != nil,
			book: newBook(queues, p.Mark, s.Publishers.ConfirmWindow > 0), mostDisk: int64(s.Caps.Disk),
		},
		scenario: s, endpoint: p.Endpoint, queues: queues, name: p.Prefix, events: &events{},
		connect: bench.NewHistogram(), lost: make(chan error, 1), worker: p.Worker, workers: p.Workers,
	}
	if s.Storm != nil {
		r.storm = &storm{
			shared: r.shared, endpoint: p.Endpoint, name: p.Prefix, connect: bench.NewHistogram(), worker: p.Worker, workers: p.Workers,
		}
	}
	return r
}

// declare makes the queues.
func (r *run) declare() error {
	ch, err := r.admin.Channel()
	if err != nil {
		return err
	}
	kind := map[bench.QueueType]string{bench.QuorumQueue: "quorum", bench.StreamQueue: "stream"}[r.scenario.Queues.Type]
	for _, name := range r.queues {
		arguments := amqp.Table{"x-queue-type": "classic"}
		if kind != "" {
			arguments["x-queue-type"] = kind
		}
		for key, value := range r.scenario.Queues.Arguments {
			arguments[key] = wireValue(value)
		}
		if _, err := ch.QueueDeclare(name, true, false, false, false, arguments); err != nil {
			return fmt.Errorf("queue %q: %w", name, err)
		}
	}
	return ch.Close()
}

// wireValue turns a number of JSON into one of AMQP.
func wireValue(value any) any {
	if f, ok := value.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	if n, ok := value.(int); ok {
		return int64(n)
	}
	return value
}

// load goes through the phases.
func (r *run) load(ctx context.Context) error {
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stopWork = stop
	defer stop()
	publishing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failed := make(chan error, len(r.publishers)+1)
	watching := make(chan struct{})
	defer close(watching)
	go func() { // a lost connection ends the load
		select {
		case err := <-r.lost:
			r.work(err)
		case err := <-failed:
			r.work(err)
		case <-watching:
		}
	}()
	for _, c := range r.consumers {
		r.handles.Go(func() { c.work(consuming) })
	}
	for _, b := range r.borrowed {
		r.handles.Go(func() {
			if err := b.run(consuming); err != nil {
				r.lose(fmt.Errorf("the client library: %w", err))
			}
		})
	}
	err := r.phases(publishing, failed)
	r.endPublishers(err, cancel)
	if err == nil || errors.Is(err, errCapped) {
		r.settleSends()
	}
	if err == nil {
		err = r.Meet(r.outer, StepSent)
	}
	if err == nil || errors.Is(err, errCapped) {
		if flushed := r.flush(r.outer); flushed != nil && err == nil {
			err = flushed
		}
	}
	stop()
	r.handles.Wait()
	r.endConsumers()
	if err == nil {
		err = r.Meet(r.outer, StepEnded)
	}
	return err
}

// phases runs all that is before the flush.
func (r *run) phases(ctx context.Context, failed chan<- error) error {
	s := r.scenario
	if s.Backlog != nil {
		return r.backlog(ctx, failed)
	}
	if len(r.consumers) > 0 {
		if err := r.consume(ctx); err != nil {
			return err
		}
	}
	r.enter(bench.PhaseWarmUp)
	r.startPublishers(ctx, failed, s.Load.Rate, s.Load.Mode == bench.OpenLoop)
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	if err := r.Meet(ctx, StepWarm); err != nil {
		return err
	}
	at := r.openSpan()
	defer r.closeSpan()
	var blown sync.WaitGroup
	if s.Storm != nil {
		blown.Go(func() { r.storm.blow(ctx, *s.Storm) })
		defer blown.Wait()
	}
	return r.steady(ctx, at+int64(s.Duration), func() bool { return false })
}

// backlog fills the queues and lets consumers drain them.
func (r *run) backlog(ctx context.Context, failed chan<- error) error {
	s := r.scenario
	r.enter(bench.PhaseFill)
	r.fill(ctx, failed)
	if err := cause(ctx); err != nil {
		return err
	}
	if err := r.Meet(ctx, StepFilled); err != nil {
		return err
	}
	r.filled = r.share(s.Backlog.Messages)
	at := r.openSpan()
	defer r.closeSpan()
	if err := r.consume(ctx); err != nil {
		return err
	}
	if s.Backlog.FreshRate > 0 {
		r.startPublishers(ctx, failed, s.Backlog.FreshRate, true)
	}
	return r.steady(ctx, at+int64(s.Duration), func() bool {
		if r.drained == 0 && r.empty() {
			r.drained = r.clock.now()
		}
		return r.drained != 0
	})
}

// empty tells whether the backlog is gone. Of several workers each takes what falls to it, so the broker is asked, at times.
func (r *run) empty() bool {
	if r.Workers == 1 {
		return r.old.Load() >= r.filled
	}
	now := r.clock.now()
	if now-r.asked < int64(askEvery) {
		return false
	}
	r.asked = now
	depth := int64(0)
	left, err := r.left()
	for _, n := range left {
		depth += n
	}
	return err == nil && float64(depth) <= r.scenario.Backlog.FreshRate*askEvery.Seconds()
}

// fill publishes the backlog and waits for its confirms.
func (r *run) fill(ctx context.Context, failed chan<- error) {
	var all sync.WaitGroup
	n, total := int64(r.scenario.Publishers.Count), r.scenario.Backlog.Messages
	for _, p := range r.publishers {
		share := total / n
		if int64(p.id) < total%n {
			share++
		}
		all.Go(func() {
			if err := p.publish(ctx, nil, 0, 0, share); err != nil {
				r.failure(ctx, err, failed)
			}
		})
	}
	all.Wait()
	for r.unconfirmed() > 0 && pause(ctx, 5*time.Millisecond) {
	}
}

// startPublishers sets all publishers going, on a schedule or as fast as they can.
func (r *run) startPublishers(ctx context.Context, failed chan<- error, rate float64, paced bool) {
	most := r.scenario.Caps.Rate
	if paced && most > 0 {
		rate = min(rate, most)
	}
	if !paced {
		rate = most
	}
	start := r.clock.now()
	if paced {
		r.from.Store(start)
		mine := rate * float64(len(r.publishers)) / float64(max(1, r.scenario.Publishers.Count))
		r.rate.Store(math.Float64bits(mine))
	}
	least := leastSleep(len(r.publishers))
	for _, p := range r.publishers {
		var schedule *bench.Schedule
		if paced || most > 0 {
			made := bench.NewSchedule(rate, r.scenario.Publishers.Count, p.id)
			schedule = &made
		}
		p.starve = r.starve
		r.publishes.Go(func() {
			if err := p.publish(ctx, schedule, start, least, -1); err != nil {
				r.failure(ctx, err, failed)
			}
		})
	}
}

// failure of a publisher ends the load, unless it has ended already.
func (r *run) failure(ctx context.Context, err error, failed chan<- error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errCapped) {
		r.events.add(bench.EventCapped, err.Error())
	}
	failed <- err
}

// cause of the end of a context, nil while it has not ended.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// warmUp waits until the rate is steady, for the time that the scenario says and up to three times that. It ends with a
// second.
func (r *run) warmUp(ctx context.Context) error {
	began := r.clock.now()
	first := int(began/int64(time.Second)) + 1 // the first whole second of the phase
	if !pause(ctx, r.scenario.WarmUp.Std()) {
		return cause(ctx)
	}
	for {
		// The second is closed right after its end.
		if next := (r.clock.now()/int64(time.Second) + 1) * int64(time.Second); !r.await(ctx, next) {
			return cause(ctx)
		}
		var rates []float64
		r.phaseMu.Lock()
		for _, s := range r.result.Seconds[min(first, len(r.result.Seconds)):] {
			rates = append(rates, s.Rate())
		}
		r.phaseMu.Unlock()
		if done, _ := bench.WarmUpDone(rates, r.scenario.WarmUp); done || time.Duration(r.clock.now()-began) > 3*r.scenario.WarmUp.Std() {
			return nil
		}
	}
}

// await is false when the context ends before the clock shows at.
func (r *run) await(ctx context.Context, at int64) bool {
	return pause(ctx, time.Duration(at-r.clock.now())) || ctx.Err() == nil
}

// steady waits for the end of the measured part.
func (r *run) steady(ctx context.Context, end int64, over func() bool) error {
	for {
		left := time.Duration(end - r.clock.now())
		if left <= 0 || over() {
			return nil
		}
		if !pause(ctx, min(left, 10*time.Millisecond)) {
			return cause(ctx)
		}
	}
}

// enter begins a phase and ends the one before.
func (r *run) enter(name bench.PhaseName) {
	r.phaseMu.Lock()
	defer r.phaseMu.Unlock()
	now := r.clock.now()
	r.leaveLocked(now)
	r.phase, r.began = name, now
}

func (r *run) leaveLocked(now int64) {
	if r.phase != "" {
		r.result.Phases = append(r.result.Phases, bench.Phase{Name: r.phase, StartSeconds: since(r.began), EndSeconds: since(now)})
	}
	r.phase = ""
}

// openSpan begins the measured part, at the begin of a second if there was one a moment ago.
func (r *run) openSpan() int64 {
	r.enter(bench.PhaseSteady)
	r.selfBefore, r.throttled[0] = readSelf(), ownThrottling()
	at := r.clock.now()
	// Not with a backlog: its last messages were sent in that moment, and would count as fresh ones.
	if second := at / int64(time.Second) * int64(time.Second); at-second < int64(50*time.Millisecond) && r.scenario.Backlog == nil {
		at = second
	}
	r.span.from.Store(at)
	r.phaseMu.Lock()
	r.began = at
	if n := len(r.result.Phases); n > 0 {
		r.result.Phases[n-1].EndSeconds = since(at)
	}
	r.phaseMu.Unlock()
	return at
}

func (r *run) closeSpan() {
	r.span.to.Store(r.clock.now())
	r.selfAfter, r.throttled[1] = readSelf(), ownThrottling()
	r.enter(bench.PhaseFlush)
}

// endPublishers ends the publishers. Those with a schedule make the sends of the span that are still due, unless the load
// ends for a reason; a write that the broker does not read is cut.
func (r *run) endPublishers(reason error, cancel context.CancelCauseFunc) {
	if reason != nil || !r.paced() {
		cancel(nil)
	}
	late := time.AfterFunc(stopLimit, func() { cancel(nil) })
	defer late.Stop()
	ended := make(chan struct{})
	var watched sync.WaitGroup
	watched.Go(func() { r.whileItMoves(ended, stopLimit, r.cutPublishers) })
	r.publishes.Wait()
	close(ended)
	watched.Wait()
	cancel(nil)
}

// whileItMoves waits until ended is closed, and gives up when nothing has been written or consumed for so long, or after
// flushLimit. The broker may have to work off much that is in the buffers of sockets.
func (r *run) whileItMoves(ended <-chan struct{}, idle time.Duration, giveUp func()) {
	seen, began, moved := int64(-1), time.Now(), time.Now()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ended:
			return
		case <-again.C:
		}
		now := r.taken.Load() - r.unconfirmed()
		for _, p := range r.publishers {
			now += p.wire.sent.Load() + p.wire.received.Load()
		}
		if now != seen {
			seen, moved = now, time.Now()
		}
		if time.Since(moved) > idle || time.Since(began) > flushLimit {
			giveUp()
			return
		}
	}
}

func (r *run) cutPublishers() {
	r.events.add(bench.EventStopped, "the broker did not read what publishers wrote; their connections were cut")
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	r.fleet.closing = true
	for _, p := range r.publishers {
		_ = p.wire.Conn.Close()
	}
}

// settleSends waits until the broker has taken what was sent without confirms: it answers a method after all that came before
// it on the channel.
func (r *run) settleSends() {
	if len(r.publishers) == 0 || r.publishers[0].confirms {
		return
	}
	ended := make(chan struct{})
	var watched, all sync.WaitGroup
	watched.Go(func() { r.whileItMoves(ended, flushLimit, r.cutPublishers) }) // nothing may be seen to move
	for _, p := range r.publishers {
		all.Go(func() { _ = p.amqp.Qos(1, 0, false) })
	}
	all.Wait()
	close(ended)
	watched.Wait()
}

func (r *run) paced() bool { return r.rate.Load() > 0 }

// intended is how many sends the schedule has had so far; 0 without one.
func (r *run) intended() int64 {
	until := min(r.clock.now(), r.span.to.Load()) - r.from.Load()
	return max(0, int64(since(until)*math.Float64frombits(r.rate.Load())))
}

// flush waits until what was sent is confirmed and consumed, or nothing moves any more.
func (r *run) flush(ctx context.Context) error {
	began, moved, seen := time.Now(), time.Now(), int64(-1)
	for {
		sent, taken, open := r.shared.sent.Load(), r.taken.Load(), r.unconfirmed()
		// Several workers take one another's messages: then only silence tells.
		done := open == 0 && (len(r.consumers) == 0 || r.Workers == 1 && taken >= sent)
		if done {
			return nil
		}
		if state := taken - open; state != seen {
			seen, moved = state, time.Now()
		}
		if time.Since(moved) > cmp.Or(r.Idle, flushIdle) || time.Since(began) > flushLimit {
			return nil // the account says what is missing
		}
		if !pause(ctx, 5*time.Millisecond) {
			return cause(ctx)
		}
	}
}
