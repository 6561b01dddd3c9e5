package bench

// signals are what the rules look at: one number each for the phase Steady, nil when nobody said it.
type signals struct {
	s       *Scenario
	missing []string
	// draining: publishers rest or trickle.
	draining bool

	pacingError, generatorCPU, schedulingDelay      *float64
	memoryAlarm, diskAlarm, blocked                 *float64
	networkUse                                      *float64
	cpuUse, throttled, cpuPressure, runQueuePerCore *float64
	diskBusy, ioPressure, diskAwait                 *float64
	raftCommit                                      *float64
	flow, writeWait                                 *float64
	windowUse, windowWait                           *float64
	ready, growth                                   *float64
	handler, prefetchUse, pending                   *float64
	rateReached                                     *float64
}

func newSignals(s *Scenario, r *Run) *signals {
	g := &signals{s: s, draining: s.Backlog != nil}
	g.pacingError, g.generatorCPU = r.Figures.PacingErrorRatio, r.Generator.BusiestRatio
	g.schedulingDelay = r.Figures.SchedulingDelay.orEmpty().P99Seconds
	steady := r.phaseWindow(PhaseSteady)
	g.client(r.wholeSeconds(steady))
	g.node(r, steady)
	g.machine(r, steady)
	return g
}

// client has what the generator saw. Shares of time are of all publishers or all consumers together.
func (g *signals) client(in []Second) {
	n := float64(len(in))
	if n == 0 {
		return
	}
	var sum Second
	for _, s := range in {
		sum.Intended += s.Intended
		sum.Published += s.Published
		sum.Consumed += s.Consumed
		sum.Unconfirmed += s.Unconfirmed
		sum.Unacknowledged += s.Unacknowledged
		sum.WindowWaitSeconds += s.WindowWaitSeconds
		sum.WriteWaitSeconds += s.WriteWaitSeconds
		sum.BlockedSeconds += s.BlockedSeconds
		sum.HandleSeconds += s.HandleSeconds
	}
	if p := float64(g.s.Publishers.Count); p > 0 {
		g.blocked, g.writeWait = new(sum.BlockedSeconds/n/p), new(sum.WriteWaitSeconds/n/p)
		g.windowWait = new(sum.WindowWaitSeconds / n / p)
		if w := float64(g.s.Publishers.ConfirmWindow); w > 0 {
			g.windowUse = new(float64(sum.Unconfirmed) / n / p / w)
		}
	}
	if c := float64(g.s.Consumers.Count); c > 0 {
		g.handler = new(sum.HandleSeconds / n / c)
		if p := float64(g.s.Consumers.Prefetch); p > 0 {
			g.prefetchUse = new(float64(sum.Unacknowledged) / n / c / p)
		}
		if sum.Consumed > 0 {
			g.growth = new(float64(sum.Published-sum.Consumed) / float64(sum.Consumed))
		}
	}
	if sum.Intended > 0 {
		g.rateReached = new(float64(sum.Published) / float64(sum.Intended))
	}
}

// node has what the broker said of itself.
func (g *signals) node(r *Run, w window) {
	g.memoryAlarm = r.highest(w, func(s *Sample) *float64 { return s.MemoryAlarm })
	g.diskAlarm = r.highest(w, func(s *Sample) *float64 { return s.DiskAlarm })
	queues := r.medians(w, func(s *Sample) *float64 { return s.RunQueue })
	g.runQueuePerCore = maxOf(ratios(queues, r.medians(w, func(s *Sample) *float64 { return s.Schedulers })))
	g.raftCommit = maxOf(r.medians(w, func(s *Sample) *float64 { return s.RaftCommitLatencySeconds }))
	g.pending = maxOf(r.medians(w, func(s *Sample) *float64 { return s.ConnectionPendingPackets }))
	var ready []float64
	for _, p := range r.sumOverTime(w, func(s *Sample) *float64 { return s.MessagesReady }) {
		ready = append(ready, p.value)
	}
	if len(ready) > 0 {
		g.ready = new(medianOf(ready))
	}
	g.flow = flowShare(r, w)
	// The broker's count is the better one: it has what is in sockets too.
	var unacked []float64
	for _, p := range r.sumOverTime(w, func(s *Sample) *float64 { return s.MessagesUnacked }) {
		unacked = append(unacked, p.value)
	}
	if most := float64(g.s.Consumers.Count * g.s.Consumers.Prefetch); most > 0 && len(unacked) > 0 {
		g.prefetchUse = new(medianOf(unacked) / most)
	}
}

// flowShare is in how many of the samples that tell somebody was in flow.
func flowShare(r *Run, w window) *float64 {
	var told, held int
	for i := range r.Broker {
		s := &r.Broker[i]
		if !w.holds(s.AtSeconds) {
			continue
		}
		any, known := 0.0, false
		for _, v := range []*float64{s.ConnectionsInFlow, s.ChannelsInFlow, s.QueuesInFlow} {
			if v != nil {
				known, any = true, any+*v
			}
		}
		if known {
			told++
		}
		if any > 0 {
			held++
		}
	}
	if told == 0 {
		return nil
	}
	return new(float64(held) / float64(told))
}

// machine has what the nodes' control groups and kernels said.
func (g *signals) machine(r *Run, w window) {
	limits := r.medians(w, func(s *Sample) *float64 { return s.CPULimitCores })
	g.cpuUse = maxOf(ratios(r.rates(w, func(s *Sample) *float64 { return s.CPUSecondsTotal }), limits))
	// Throttling is counted for each core.
	g.throttled = maxOf(ratios(r.rates(w, func(s *Sample) *float64 { return s.CPUThrottledSecondsTotal }), limits))
	g.cpuPressure = maxOf(r.rates(w, func(s *Sample) *float64 { return s.CPUPressureSecondsTotal }))
	g.diskBusy = maxOf(r.rates(w, func(s *Sample) *float64 { return s.DiskBusySecondsTotal }))
	g.ioPressure = maxOf(r.rates(w, func(s *Sample) *float64 { return s.IOPressureSecondsTotal }))
	g.diskAwait = maxOf(ratios(
		r.rates(w, func(s *Sample) *float64 { return s.DiskWriteSecondsTotal }),
		r.rates(w, func(s *Sample) *float64 { return s.DeviceWritesTotal }),
	))
	speed := r.medians(w, func(s *Sample) *float64 { return s.NetworkLimitBytesPerSecond })
	received := orElse(r.rates(w, func(s *Sample) *float64 { return s.NetworkReceiveBytesTotal }),
		r.rates(w, func(s *Sample) *float64 { return s.BrokerReceiveBytesTotal }))
	sent := orElse(r.rates(w, func(s *Sample) *float64 { return s.NetworkTransmitBytesTotal }),
		r.rates(w, func(s *Sample) *float64 { return s.BrokerTransmitBytesTotal }))
	g.networkUse = maxOf(ratios(received, speed))
	if out := maxOf(ratios(sent, speed)); g.networkUse == nil || out != nil && *out > *g.networkUse {
		g.networkUse = out
	}
}

// orElse is, for each node, what the kernel says, or else what the broker counts.
func orElse(kernel, broker map[string]float64) map[string]float64 {
	for node, v := range broker {
		if _, known := kernel[node]; !known {
			kernel[node] = v
		}
	}
	return kernel
}
