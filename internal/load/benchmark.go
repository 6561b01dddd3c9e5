package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// Benchmark is several scenarios, one after the other, on one cluster.
type Benchmark struct {
	// API of the cluster, as an administrator. With it the benchmark has a vhost and a user of its own.
	API      API
	Policies broker.PolicyStore
	// Owner is the user that API asks as.
	Owner string
	// Alone has it end at once when another benchmark began in the same moment: none may have seen the other before.
	Alone bool
	// Endpoint for AMQP. User and vhost are used without API only; VHost is then somebody's.
	Endpoint Endpoint
	// Sources for the vhost of the benchmark, and how often they are read.
	Sources  func(vhost string) []Source
	Interval time.Duration
	// Scenarios in order, with their caps.
	Scenarios []bench.Scenario
	// Fingerprint but for QueueType.
	Fingerprint bench.Fingerprint
	// OnProgress is told of each second, OnRun of each run that has ended. They must not block.
	OnProgress func(s bench.Scenario, run int, p Progress)
	OnRun      func(s bench.Scenario, r bench.Run)
}

// Do makes all runs of all scenarios. It returns the results that there are, also with an error. Nothing of it stays on the
// broker; if something does, the error is ErrCleanupFailed.
func (b Benchmark) Do(ctx context.Context) (results []bench.Result, err error) {
	place, err := b.place(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.drop(context.WithoutCancel(ctx))) }()
	if b.Alone && b.API != nil {
		vhosts, err := b.API.DescribedVHosts(ctx)
		if err != nil {
			return nil, err
		}
		if livingTenant(vhosts, place.endpoint.VHost, time.Now()) != "" {
			return nil, errNotAlone
		}
	}
	for _, s := range b.Scenarios {
		result, err := b.scenario(ctx, place, s)
		if len(result.Runs) > 0 {
			results = append(results, result)
		}
		if err != nil {
			return results, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	return results, nil
}

var errNotAlone = errors.New("another benchmark began on this cluster in the same moment: run one after the other")

// place is where a benchmark works: in a vhost of its own, or under unguessable names in somebody's.
type place struct {
	endpoint Endpoint
	prefix   string
	mark     uint32
	drop     func(context.Context) error
	guest    bool // in somebody's vhost
}

func (b Benchmark) place(ctx context.Context) (place, error) {
	if b.API == nil {
		t := Tenant{ID: randomHex()}
		nothing := func(context.Context) error { return nil } // each run deletes its queues
		return place{endpoint: b.Endpoint, prefix: namePrefix + t.ID, mark: t.Mark(), drop: nothing, guest: true}, nil
	}
	most := 0
	for _, s := range b.Scenarios {
		most = max(most, s.Connections())
	}
	t, err := NewTenant(ctx, b.API, TenantOptions{Owner: b.Owner, Connections: most + 16})
	if err != nil {
		return place{}, err
	}
	drop := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		return t.Drop(ctx)
	}
	return place{endpoint: b.Endpoint.as(t.Name, t.Password, t.Name), prefix: t.Name, mark: t.Mark(), drop: drop}, nil
}

// expires is how long a queue in somebody's vhost lives that nobody consumes: the run was killed then.
const expires = time.Hour

func (b Benchmark) scenario(ctx context.Context, at place, s bench.Scenario) (bench.Result, error) {
	result := bench.Result{SchemaVersion: bench.SchemaVersion, Scenario: s, Fingerprint: b.Fingerprint, Started: time.Now().UTC()}
	result.Fingerprint.QueueType = s.Queues.Type
	if err := b.prepare(ctx, at, &s); err != nil {
		return result, err
	}
	for number := 1; number <= s.Runs; number++ {
		if number > 1 && !pause(ctx, s.CoolDown.Std()) {
			return result, cause(ctx)
		}
		plan := Plan{
			Scenario: s, Endpoint: at.endpoint, Prefix: at.prefix, Queues: queueNames(s, ""), Mark: at.mark + uint32(number), Number: number, Interval: b.Interval,
		}
		if b.Sources != nil {
			plan.Sources = b.Sources(at.endpoint.VHost)
		}
		if b.OnProgress != nil {
			plan.Progress = func(p Progress) { b.OnProgress(s, number, p) }
		}
		run, err := plan.Do(ctx)
		if len(run.Phases) > 0 {
			bench.Finish(&run, s)
			result.Runs = append(result.Runs, run)
			if b.OnRun != nil {
				b.OnRun(s, run)
			}
		}
		switch {
		case ctx.Err() != nil, err != nil && len(run.Phases) == 0, at.guest && errors.Is(err, ErrCleanupFailed):
			result.Summary = bench.Summarize(result.Runs)
			return result, cmp.Or(err, context.Cause(ctx))
		case errors.Is(err, errAlarm):
			number = s.Runs // the next run would meet the same
		}
		// Any other error spoils this run alone, and is among its events.
	}
	result.Summary = bench.Summarize(result.Runs)
	return result, nil
}

// prepare makes what the scenario needs besides queues.
func (b Benchmark) prepare(ctx context.Context, at place, s *bench.Scenario) error {
	if at.guest {
		if s.Queues.Type == bench.StreamQueue || s.Queues.Type == bench.MirroredQueue {
			return fmt.Errorf("%s queues need a vhost of the benchmark's own: give the management API", s.Queues.Type)
		}
		if s.Queues.Like != nil {
			return errors.New("queues.like needs a vhost of the benchmark's own: give the management API")
		}
		arguments := map[string]any{"x-expires": expires.Milliseconds()}
		for key, value := range s.Queues.Arguments {
			arguments[key] = value
		}
		s.Queues.Arguments = arguments
		return nil
	}
	return policiesFor(ctx, b.Policies, at.endpoint.VHost, at.prefix, *s)
}
