package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/brokers"
)

// Ways from the client to the broker.
const (
	direct = ""
	slow   = "slow" // through the proxy
	null   = "null" // to the broker that only answers
)

// trial is one variant under one set of circumstances, which is run once in every round.
type trial struct {
	key   string
	parts string // that need it
	kind  string // type of the queue
	fill  int    // messages of the backlog
	way   string
	job   job
}

// group is trials that are run in turn, round by round: A B C A B C A B C.
type group struct {
	title   string
	trials  []trial
	figures func(*results) []figure
}

// results of a group: per trial what each round measured. A trial that failed has no rounds, and an error.
type results struct {
	rounds map[string][]outcome
	errs   map[string]error
	loads  map[string][]float64
}

// runner runs groups against one broker.
type runner struct {
	cfg   config
	rig   *rig
	proxy *proxy
	null  *nullBroker
	idle  *rig // the null broker's
}

func newRunner(cfg config, r *rig) (*runner, error) {
	run := &runner{cfg: cfg, rig: r}
	to, err := r.address()
	if err != nil {
		return nil, err
	}
	if run.proxy, err = startProxy(to, cfg.network); err != nil {
		return nil, err
	}
	if run.null, err = startNullBroker(); err != nil {
		return nil, errors.Join(err, run.proxy.Close())
	}
	run.idle = &rig{version: "null", broker: &brokers.Broker{AMQP: run.null.uri}}
	if err := run.idle.connect(); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return run, nil
}

func (run *runner) Close() error {
	return errors.Join(run.proxy.Close(), run.idle.Close(), run.null.Close())
}

// group runs all trials of a group that one of the parts needs.
func (run *runner) group(g group) *results {
	got := &results{rounds: map[string][]outcome{}, errs: map[string]error{}, loads: map[string][]float64{}}
	for round := range run.cfg.runs {
		for _, t := range g.trials {
			if !run.cfg.wants(t.parts) || got.errs[t.key] != nil {
				continue
			}
			load := loadNow()
			o, err := run.trial(t, round == run.cfg.runs-1)
			if err != nil {
				got.errs[t.key] = err
				delete(got.rounds, t.key) // some runs of three are no result
				progress.Say("%s, %s: %v", g.title, t.key, err)
				continue
			}
			got.rounds[t.key] = append(got.rounds[t.key], o)
			got.loads[t.key] = append(got.loads[t.key], load)
			progress.Say("%s, run %d of %d, %-18s %9.0f messages/s, %5.1f µs of CPU each", g.title, round+1, run.cfg.runs, t.key,
				o.rate(), o.perMessage(o.CPU*1e6))
		}
	}
	return got
}

// trial prepares the queue, has a child do the job, and sees that it was done.
func (run *runner) trial(t trial, last bool) (o outcome, err error) {
	j := t.job
	j.Queue = "bench." + t.kind + "." + t.key
	j.Count = t.fill
	if run.cfg.profiles != "" {
		j.ProfileInto = fmt.Sprintf("%s/%s-%s-%s", run.cfg.profiles, run.rig.version, fmt.Sprint(t.kind, t.way, t.job.Size), t.key)
	}
	rig, by := run.rig, ""
	switch t.way {
	case null:
		rig = run.idle
	case slow:
		by = run.proxy.address()
	}
	if j.URI, err = rig.uri(by); err != nil {
		return o, err
	}
	if t.way == null && t.fill == 0 {
		j.Unroutable = true
		return runJob(j)
	}
	if err := rig.queue(j.Queue, t.kind); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, rig.drop(j.Queue)) }()
	if t.fill > 0 {
		if err := rig.fill(j.Queue, t.fill, j.Size); err != nil {
			return o, err
		}
	}
	if o, err = runJob(j); err != nil {
		return o, err
	}
	return o, seen(rig, t, j.Queue, o, last && t.way != null)
}

// seen has the broker say that what the child counted was done.
func seen(rig *rig, t trial, queue string, o outcome, thorough bool) error {
	switch {
	case publishers[t.job.Variant] != nil:
		// More than were counted: what was sent to warm up.
		n, err := rig.ready(queue)
		if err == nil && n < o.Sent {
			err = fmt.Errorf("%d messages were confirmed, %d are in the queue", o.Sent, n)
		}
		return err
	case t.job.Variant == contended:
		return nil
	}
	if err := rig.empty(queue); err != nil || !thorough {
		return err
	}
	return rig.agreed(queue)
}

// loadNow is the load average of the last minute; 0 where there is none.
func loadNow() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// warmUpMessages go through queues of each type before anything is measured: a broker that has just started compiles, grows
// its heaps and makes its files.
const warmUpMessages = 20000

func (run *runner) warmUp() error {
	for _, kind := range run.cfg.types {
		for range 2 {
			size := run.cfg.sizes[0]
			if _, err := run.trial(trial{key: "warm-up", kind: kind, fill: warmUpMessages, job: job{
				Variant: rawMany, Size: size, Prefetch: run.cfg.prefetch(), Batch: run.cfg.batch,
			}}, false); err != nil {
				return err
			}
		}
	}
	return nil
}
