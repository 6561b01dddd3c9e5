package bench

import (
	"fmt"
	"slices"
)

// The thresholds of the verdicts.
const (
	pacingLimit       = 0.01  // of sends that the generator itself may delay
	generatorCPULimit = 0.85  // of its CPU that the generator may use
	networkLimit      = 0.85  // of a link's speed
	brokerCPULimit    = 0.85  // of a node's CPU; below it, CPU is not what lacks
	throttledLimit    = 0.05  // of the time that a node may be throttled
	cpuPressureLimit  = 0.50  // of the time in which some thread of a node waits for a core
	schedulingLimit   = 0.010 // seconds that one in a hundred wake-ups of the generator may wait for a core
	diskBusyLimit     = 0.80  // of the time with a request in flight
	diskPressureLimit = 0.30  // of the time in which some process waits for the disk
	diskAwaitLimit    = 0.010 // seconds that a write may take
	raftCommitLimit   = 0.020 // seconds that a quorum queue may take to commit
	flowLimit         = 0.20  // of the samples in which the broker slows somebody down
	writeWaitLimit    = 0.30  // of the time that publishers may wait for the socket
	windowFullLimit   = 0.50  // of the window that is in use, at the ends of seconds: one of 1 is full or empty then
	windowWaitLimit   = 0.50  // of the time that publishers wait for a confirm
	handlerLimit      = 0.80  // of the time that consumers are in their handler
	prefetchFullLimit = 0.90  // of the prefetch that is in use
	rateReachedLimit  = 0.99  // of the rate that was asked for
)

// judgement is one rule: what it takes, and what would refute it.
type judgement struct {
	bottleneck Bottleneck
	// holds gives the rows that make the rule true; none when it is not.
	holds func(*signals) []Evidence
	// summary and counter may speak of the scenario.
	summary, counter func(*signals) string
}

// judgements in order of precedence. The generator comes first, since all other figures pass through it; then what stops
// the broker altogether; then what a machine can run out of, in the order in which one lack hides behind another: a full
// link keeps CPU low, and a full CPU makes disks look slow and windows small. Then what is one Erlang process or a setting:
// those verdicts say that a resource is left, so they come after all resources. Last the rate that was asked for.
var judgements = []judgement{
	{
		GeneratorBound, (*signals).generator,
		say("The generator is the limit: the figures say nothing of the broker."),
		say("Give the generator twice the CPU, or two workers. If the figures stay, the generator was not the limit."),
	},
	{
		AlarmBound, (*signals).alarm,
		say("The broker stopped publishers because it is short of memory or disk."),
		say("Raise the memory watermark or free disk, or let consumers keep up. If publishers are still blocked, it is something else."),
	},
	{
		NetworkBound, (*signals).network,
		say("The network link of a node is full."),
		say("Send bodies of half the size. If messages per second do not rise, it was not the network."),
	},
	{
		BrokerCPUBound, (*signals).brokerCPU,
		func(g *signals) string {
			if len(g.cpuFull()) == 0 && len(g.cpuLeft()) > 0 {
				return "The broker's processes wait for CPU that its limit would allow: there are too few schedulers, or neighbours have the cores."
			}
			return "A node of the broker has no CPU left."
		},
		say("Give the nodes one CPU more, as many schedulers as CPUs, and cores that nobody else uses. If the rate stays, it was not the CPU."),
	},
	{
		DiskBound, (*signals).disk,
		say("The broker waits for the disk."),
		say("Run it with transient messages on classic queues, or on a volume in memory. If the rate stays, it was not the disk; with several nodes compare the network between them."),
	},
	{
		QueueProcessBound, (*signals).queueProcess,
		say("Queues take no more, though CPU is left: one queue is one Erlang process, on one core."),
		func(g *signals) string {
			return fmt.Sprintf("Run it with %d queues instead of %d. If the rate does not rise to nearly twice, it was not the queues.", 2*g.s.Queues.Count, g.s.Queues.Count)
		},
	},
	{
		ConfirmWindowBound, (*signals).confirmWindow,
		say("Publishers wait for confirms with a full window while the broker has room: the window, or the round trip, is the limit."),
		func(g *signals) string {
			return fmt.Sprintf("Run it with a window of %d instead of %d. If the rate stays and only latency rises, the broker was the limit.", 4*g.s.Publishers.ConfirmWindow, g.s.Publishers.ConfirmWindow)
		},
	},
	{
		ConsumerBound, (*signals).consumer,
		say("Messages wait and consumers are busy, or do not read: the consumers are the limit."),
		func(g *signals) string {
			return fmt.Sprintf("Run it with %d consumers instead of %d. If the rate stays, they were not the limit.", 2*g.s.Consumers.Count, g.s.Consumers.Count)
		},
	},
	{
		PrefetchBound, (*signals).prefetch,
		say("Messages wait while consumers hold all that prefetch allows and are idle: the round trip of acknowledgements is the limit."),
		func(g *signals) string {
			return fmt.Sprintf("Run it with a prefetch of %d instead of %d. If the rate stays, it was not the prefetch.", 4*g.s.Consumers.Prefetch, g.s.Consumers.Prefetch)
		},
	},
	{
		RateBound, (*signals).rate,
		say("Nothing is at its limit: the broker took the rate that the scenario asks for."),
		func(g *signals) string {
			return fmt.Sprintf("Run it at %s messages/s. If the rate is not reached, something else is near its limit already.", formatNumber(2*g.s.Load.Rate))
		},
	},
}

func say(text string) func(*signals) string { return func(*signals) string { return text } }

// Judge names the bottleneck of a finished run: the first rule that holds, with its rows, the rules that hold too, and the
// series that were missing. When none holds the bottleneck is Unknown. It does not ask whether the run is valid.
func Judge(s Scenario, r Run) Verdict {
	g := newSignals(&s, &r)
	v := Verdict{Bottleneck: UnknownBound}
	for i := range judgements {
		rule := &judgements[i]
		evidence := rule.holds(g)
		switch {
		case len(evidence) == 0:
		case v.Bottleneck == UnknownBound:
			v.Bottleneck, v.Evidence = rule.bottleneck, evidence
			v.Summary, v.CounterExperiment = rule.summary(g), rule.counter(g)
		default:
			v.Others = append(v.Others, rule.bottleneck)
		}
	}
	v.Missing = g.missing
	if v.Bottleneck == UnknownBound {
		v.Summary = "No rule has the evidence it wants."
		if len(v.Missing) > 0 {
			v.Summary += " What is missing may be why."
		}
	}
	return v
}

// row makes a row of evidence if the value is known and on the side of the threshold that the comparison says; a value that
// is not known is noted as missing.
func (g *signals) row(series string, value *float64, comparison string, threshold float64, unit, meaning string) []Evidence {
	if value == nil {
		if !slices.Contains(g.missing, series) {
			g.missing = append(g.missing, series)
		}
		return nil
	}
	var holds bool
	switch comparison {
	case ">=":
		holds = *value >= threshold
	case ">":
		holds = *value > threshold
	case "<":
		holds = *value < threshold
	}
	if !holds {
		return nil
	}
	return []Evidence{{series, *value, comparison, threshold, unit, meaning}}
}

// all are the rows together if each is there.
func all(rows ...[]Evidence) []Evidence {
	var together []Evidence
	for _, row := range rows {
		if len(row) == 0 {
			return nil
		}
		together = append(together, row...)
	}
	return together
}

// some are the rows that are there.
func some(rows ...[]Evidence) []Evidence { return slices.Concat(rows...) }

func (g *signals) generator() []Evidence {
	var late []Evidence
	if g.s.paced() {
		late = g.row("generator.pacingError", g.pacingError, ">", pacingLimit, "ratio", "sends that the generator itself delayed")
	}
	return some(
		late,
		g.row("generator.cpu", g.generatorCPU, ">", generatorCPULimit, "ratio", "CPU of the busiest worker"),
		g.row("generator.schedulingDelay", g.schedulingDelay, ">", schedulingLimit, "s", "P99 of what its goroutines waited for a core"),
	)
}

func (g *signals) alarm() []Evidence {
	return some(
		g.row("memoryAlarm", g.memoryAlarm, ">=", 1, "", "the memory alarm was on"),
		g.row("diskAlarm", g.diskAlarm, ">=", 1, "", "the disk alarm was on"),
		g.row("client.blocked", g.blocked, ">", 0, "ratio", "time that publishers were blocked by the broker"),
	)
}

func (g *signals) network() []Evidence {
	return g.row("network", g.networkUse, ">=", networkLimit, "ratio", "of the link's speed, the fuller direction")
}

func (g *signals) brokerCPU() []Evidence {
	return some(g.cpuFull(), g.cpuAwaited())
}

// cpuFull holds when a node has used what it may use.
func (g *signals) cpuFull() []Evidence {
	return some(
		g.row("cpu", g.cpuUse, ">=", brokerCPULimit, "ratio", "of the node's CPU, the busiest node"),
		g.row("cpuThrottled", g.throttled, ">=", throttledLimit, "ratio", "time that the node was throttled"),
	)
}

// cpuAwaited holds when a node waits for CPU. If some is left by its own count, it has fewer schedulers than CPUs, or
// neighbours have the cores.
func (g *signals) cpuAwaited() []Evidence {
	rows := some(
		g.row("cpuPressure", g.cpuPressure, ">=", cpuPressureLimit, "ratio", "time that threads of the node waited for a core"),
		g.row("runQueue", g.runQueuePerCore, ">", 1, "per scheduler", "Erlang processes that wait for a scheduler"),
	)
	if len(rows) > 0 && len(g.cpuFull()) == 0 {
		rows = some(rows, g.cpuLeft())
	}
	return rows
}

// cpuLeft holds when CPU is known to be left.
func (g *signals) cpuLeft() []Evidence {
	return g.row("cpu", g.cpuUse, "<", brokerCPULimit, "ratio", "CPU is left")
}

// cpuNotFull is cpuLeft, or nothing and true when nobody says.
func (g *signals) cpuNotFull() (rows []Evidence, ok bool) {
	rows = g.cpuLeft()
	return rows, len(rows) > 0 || g.cpuUse == nil
}

func (g *signals) disk() []Evidence {
	rows := some(
		g.row("diskBusy", g.diskBusy, ">=", diskBusyLimit, "ratio", "time with a request in flight"),
		g.row("ioPressure", g.ioPressure, ">=", diskPressureLimit, "ratio", "time that processes waited for the disk"),
	)
	await := g.row("diskWriteAwait", g.diskAwait, ">=", diskAwaitLimit, "s", "what one write takes")
	if g.s.Queues.Type == QuorumQueue {
		raft := g.row("raftCommitLatency", g.raftCommit, ">=", raftCommitLimit, "s", "what a quorum queue takes to commit")
		// Commits are slow through the network too: they are of the disk only when its writes are slow as well.
		rows = some(rows, all(raft, await))
	} else {
		rows = some(rows, await)
	}
	free, ok := g.cpuNotFull()
	if len(rows) == 0 || !ok {
		return nil
	}
	return some(rows, free)
}

func (g *signals) queueProcess() []Evidence {
	rows := g.undelivered()
	if !g.draining { // else publishers rest or trickle, and what the broker tells of flow is of the fill before
		rows = some(
			g.row("flow", g.flow, ">=", flowLimit, "ratio", "samples in which the broker held connections, channels or queues back"),
			g.row("client.writeWait", g.writeWait, ">=", writeWaitLimit, "ratio", "time that publishers waited for the socket"),
			rows,
		)
	}
	// Without knowing the CPU this would be a guess: a full CPU holds publishers back in the same way.
	if len(rows) == 0 {
		return nil
	}
	return all(rows, g.cpuLeft())
}

// undelivered holds when messages wait though consumers could take more: neither prefetch nor handler nor socket is full.
func (g *signals) undelivered() []Evidence {
	if g.s.Consumers.Count == 0 || g.s.Consumers.Prefetch == 0 || g.pending == nil || *g.pending > 0 {
		return nil
	}
	return all(
		g.waiting(),
		g.row("prefetchUse", g.prefetchUse, "<", prefetchFullLimit, "ratio", "prefetch is left"),
		g.row("client.handler", g.handler, "<", handlerLimit, "ratio", "consumers have time"),
	)
}

func (g *signals) confirmWindow() []Evidence {
	if g.s.Publishers.Count == 0 || g.s.Publishers.ConfirmWindow == 0 || g.draining {
		return nil
	}
	rows := all(
		g.row("client.windowUse", g.windowUse, ">=", windowFullLimit, "ratio", "of the window that waits for confirms"),
		g.row("client.windowWait", g.windowWait, ">=", windowWaitLimit, "ratio", "time that publishers waited for a confirm"),
	)
	if g.s.Consumers.Count > 0 && len(rows) > 0 {
		// Where messages pile up, publishers are not what limits the rate.
		rows = all(rows, g.row("client.backlogGrowth", g.growth, "<", growingRatio, "ratio", "sent more than consumed: nothing piles up"))
	}
	free, ok := g.cpuNotFull()
	if len(rows) == 0 || !ok {
		return nil
	}
	return some(rows, free)
}

// waiting holds when there was always a message that consumers could have had.
func (g *signals) waiting() []Evidence {
	if g.s.Consumers.Count == 0 {
		return nil
	}
	if g.ready != nil {
		return g.row("messagesReady", g.ready, ">=", float64(g.s.Consumers.Count), "messages", "always wait in the queues")
	}
	return g.row("client.backlogGrowth", g.growth, ">=", growingRatio, "ratio", "sent more than consumed: messages pile up")
}

func (g *signals) consumer() []Evidence {
	waiting := g.waiting()
	if len(waiting) == 0 {
		return nil
	}
	busy := g.row("client.handler", g.handler, ">=", handlerLimit, "ratio", "time that consumers were in their handler")
	pending := g.row("connectionPendingPackets", g.pending, ">", 0, "packets", "the broker waits for consumers to read")
	if len(busy) == 0 && len(pending) == 0 {
		return nil
	}
	return some(waiting, busy, pending)
}

func (g *signals) prefetch() []Evidence {
	if g.s.Consumers.Prefetch == 0 || g.s.Consumers.AckEvery == 0 {
		return nil
	}
	waiting := g.waiting()
	if len(waiting) == 0 {
		return nil
	}
	rows := all(
		waiting,
		g.row("prefetchUse", g.prefetchUse, ">=", prefetchFullLimit, "ratio", "of the prefetch that is not acknowledged"),
		g.row("client.handler", g.handler, "<", handlerLimit, "ratio", "consumers have time"),
	)
	free, ok := g.cpuNotFull()
	if len(rows) == 0 || !ok {
		return nil
	}
	return some(rows, free)
}

func (g *signals) rate() []Evidence {
	if g.s.Load.Mode != OpenLoop {
		return nil
	}
	rows := g.row("client.rate", g.rateReached, ">=", rateReachedLimit, "ratio", "of the intended messages that were sent")
	if g.s.Consumers.Count > 0 {
		rows = all(rows, g.row("client.backlogGrowth", g.growth, "<", growingRatio, "ratio", "sent more than consumed: nothing piles up"))
	}
	return rows
}
