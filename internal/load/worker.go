package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// Worker is one of several processes that make a benchmark together. The first of them makes the tenant and removes it,
// and looks at the broker; all share the load.
type Worker struct {
	// Number from 0, of Of.
	Number, Of int
	// TenantID and Password are the same for all.
	TenantID, Password string
	// API, Policies, Owner and Sources are as those of a Benchmark, and only the first worker needs them.
	API      API
	Policies broker.PolicyStore
	Owner    string
	Sources  func(vhost string) []Source
	Interval time.Duration
	// Endpoint for AMQP; user and vhost are the tenant's.
	Endpoint  Endpoint
	Scenarios []bench.Scenario
	// Meet returns when all workers are at the place. Of places that come in an order that is the same for all, one that is
	// further on counts too: it belongs to a worker whose run broke off.
	Meet func(ctx context.Context, at Place) error
	// HandBack keeps this worker's part of a run. left is as of DoPart.
	HandBack func(ctx context.Context, scenario int, part bench.Part, left map[string]int64) error
	// OnProgress is told of each second. It must not block.
	OnProgress func(s bench.Scenario, run int, p Progress)
}

// Place at which workers meet: a step of a run of a scenario.
type Place struct {
	Scenario, Run int
	Step          Step
}

// Order of places: the later, the higher.
func (p Place) Order() int {
	const mostRuns, mostSteps = 1000, 10
	return (p.Scenario*mostRuns+p.Run)*mostSteps + stepOrder[p.Step]
}

// Steps before the first run and after the last one.
const (
	StepTenant Step = "Tenant" // vhost and user are there
	StepDone   Step = "Done"   // nobody needs them any more
)

var stepOrder = map[Step]int{StepTenant: 0, StepReady: 1, StepFilled: 2, StepWarm: 3, StepSent: 4, StepEnded: 5, StepCounted: 6, StepDone: 7}

// Do makes this worker's part of all runs. A run that breaks off is handed back too, and the next one begins; an alarm ends
// all. ErrCleanupFailed says that the tenant could not be removed.
func (w Worker) Do(ctx context.Context) (err error) {
	name := namePrefix + w.TenantID
	if w.Number == 0 {
		most := 0
		for _, s := range w.Scenarios {
			most = max(most, s.Connections())
		}
		t, err := NewTenant(ctx, w.API, TenantOptions{ID: w.TenantID, Password: w.Password, Owner: w.Owner, Connections: most + 16*w.Of})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.drop(ctx, t)) }()
	}
	if err := w.Meet(ctx, Place{Step: StepTenant}); err != nil {
		return err
	}
	w.Endpoint = w.Endpoint.as(name, w.Password, name)
	mark := (&Tenant{ID: w.TenantID}).Mark()
	for i, s := range w.Scenarios {
		if err := w.prepare(ctx, name, s); err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		for number := 1; number <= s.Runs; number++ {
			if (i > 0 || number > 1) && !pause(ctx, s.CoolDown.Std()) {
				return cause(ctx)
			}
			mark++
			if err := w.run(ctx, i, number, mark); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	return w.Meet(ctx, Place{Scenario: len(w.Scenarios), Step: StepDone})
}

func (w Worker) run(ctx context.Context, scenario, number int, mark uint32) error {
	s := w.Scenarios[scenario]
	// Queues of its own for each run: another worker may declare those of the next one while these are being deleted.
	suffix := fmt.Sprintf("-%d-%d", scenario, number)
	plan := Plan{
		Scenario: s, Endpoint: w.Endpoint, Prefix: w.Endpoint.VHost + suffix, Queues: queueNames(s, suffix), Mark: mark,
		Number: number, Interval: w.Interval, Worker: w.Number, Workers: w.Of, Keep: w.Number > 0,
		Meet: func(ctx context.Context, step Step) error { return w.Meet(ctx, Place{scenario, number, step}) },
	}
	if w.Number == 0 && w.Sources != nil {
		plan.Sources = w.Sources(w.Endpoint.VHost)
	}
	if w.OnProgress != nil {
		plan.Progress = func(p Progress) { w.OnProgress(s, number, p) }
	}
	part, left, err := plan.DoPart(ctx)
	if len(part.Run.Phases) > 0 {
		if lost := w.HandBack(context.WithoutCancel(ctx), scenario, part, left); lost != nil {
			return errors.Join(err, lost)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && len(part.Run.Phases) == 0, errors.Is(err, errAlarm):
		return err
	}
	return nil // any other error spoils this run alone, and is among its events
}

// prepare makes what the scenario needs besides queues.
func (w Worker) prepare(ctx context.Context, vhost string, s bench.Scenario) error {
	if w.Number > 0 {
		return nil
	}
	return policiesFor(ctx, w.Policies, vhost, vhost, s)
}

// dropTimeout bounds the removal of the tenant: whoever started the worker sweeps after it.
const dropTimeout = 45 * time.Second

func (w Worker) drop(ctx context.Context, t *Tenant) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return t.Drop(ctx)
}
