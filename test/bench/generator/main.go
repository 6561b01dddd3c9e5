// Command generator measures the load generator itself: how many messages one core sends and receives, against a null broker
// (clienttest in a process of its own) and a real one, with a loop of plain amqp091-go beside it, and how exact its pacing is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/bench/figures"
	"github.com/warren-mq/warren/test/brokers"
)

// nullVariable makes this program the null broker.
const nullVariable = "WARREN_NULL_BROKER"

func main() {
	if os.Getenv(nullVariable) != "" {
		null()
		return
	}
	out := flag.String("out", "out/bench/bench-generator.json", "file for the figures")
	runs := flag.Int("runs", 3, "runs of each case")
	seconds := flag.Int("seconds", 3, "measured seconds of each run")
	version := flag.String("version", "4.3.6", "RabbitMQ for the real broker; empty for none")
	limit := flag.Duration("limit", 10*time.Minute, "end after this time, without figures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("it took longer than %s: this machine is too busy to measure anything", *limit))
	defer cancel()
	if err := measure(ctx, *out, *runs, *seconds, *version); err != nil {
		fmt.Fprintln(os.Stderr, "bench-generator:", err)
		os.Exit(1)
	}
}

// null is an in-memory broker until its input ends.
func null() {
	b, err := clienttest.New(clienttest.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(b.URL())
	var end [1]byte
	_, _ = os.Stdin.Read(end[:])
	b.Close()
}

// startNull starts the null broker and tells its URL.
func startNull() (url string, stop func(), err error) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), nullVariable+"=1")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = in.Close(); _ = command.Wait() }
	if _, err := fmt.Fscanln(said, &url); err != nil {
		stop()
		return "", nil, fmt.Errorf("the null broker said nothing: %w", err)
	}
	return url, stop, nil
}

// scenario of a case.
func scenario(name string, seconds int, change func(*bench.Scenario)) bench.Scenario {
	s := bench.Defaults()
	s.Name = name
	s.WarmUp, s.Duration, s.Runs = bench.Duration(time.Second), bench.Duration(time.Duration(seconds)*time.Second), 1
	s.Publishers.Count, s.Consumers.Count, s.Queues.Count = 2, 2, 2
	change(&s)
	return s
}

// short bounds what nobody consumes.
func short(s *bench.Scenario) {
	s.Consumers.Count = 0
	s.Caps.Disk = 1 << 50
	s.Queues.Arguments = map[string]any{"x-max-length": 1000}
}

func unconfirmed(s *bench.Scenario) { short(s); s.Publishers.ConfirmWindow = 0 }
func confirmed(s *bench.Scenario)   { short(s) }
func both(s *bench.Scenario)        { s.Consumers.AckEvery = 50 }
func paced(s *bench.Scenario)       { s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 5000} }

// runOnce is one run on a broker.
func runOnce(ctx context.Context, url string, s bench.Scenario) (bench.Run, error) {
	endpoint, err := load.ParseEndpoint(url)
	if err != nil {
		return bench.Run{}, err
	}
	plan := load.Plan{Scenario: s, Endpoint: endpoint, Prefix: fmt.Sprintf("generator-%d", os.Getpid()), Mark: uint32(os.Getpid()), Number: 1, Idle: time.Second}
	run, err := plan.Do(ctx)
	if ctx.Err() != nil {
		return run, context.Cause(ctx)
	}
	if err != nil {
		return run, err
	}
	bench.Finish(&run, s)
	g := run.Generator
	if g.CPUCores == nil || *g.CPUCores <= 0 || s.Load.Mode == bench.OpenLoop && g.IntendedSends == 0 {
		return run, fmt.Errorf("scenario %s was too short for its figures", s.Name)
	}
	return run, nil
}

// again runs built-in scenarios, as users do, some times on a real broker: how much the figures differ from run to run.
func again(ctx context.Context, name, url string, runs, seconds int) (rows []figures.Row, err error) {
	for _, scenario := range []string{"SmallConfirmed", "SteadyRate"} {
		s, err := bench.Builtin(scenario)
		if err != nil {
			return nil, err
		}
		s.WarmUp, s.Duration, s.Runs = bench.Duration(2*time.Second), bench.Duration(time.Duration(3*seconds)*time.Second), 1
		var rate, p99 figures.Series
		for range runs {
			run, err := runOnce(ctx, url, s)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", scenario, name, err)
			}
			rate = append(rate, run.Figures.Throughput)
			if q := run.Figures.Latency; q != nil && q.P99Seconds != nil {
				p99 = append(p99, 1000**q.P99Seconds)
			}
		}
		rows = append(rows, rowOf(rate, scenario+", run by run, "+name, "messages/s", figures.NoGoal, true),
			rowOf(p99, scenario+" P99, run by run, "+name, "ms", figures.NoGoal, true))
	}
	return rows, nil
}

func measure(ctx context.Context, out string, runs, seconds int, version string) error {
	url, stop, err := startNull()
	if err != nil {
		return err
	}
	defer stop()
	targets := []struct{ name, url string }{{"null broker", url}}
	if version != "" {
		real, err := brokers.Start(version, fmt.Sprintf("lg-generator-%d", os.Getpid()))
		defer func() { _ = real.Stop() }()
		if err != nil {
			return err
		}
		targets = append(targets, struct{ name, url string }{"RabbitMQ " + version, real.AMQP})
	}
	var rows []figures.Row
	for _, at := range targets {
		measured, err := target(ctx, at.name, at.url, runs, seconds)
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
		if at.url == url { // nothing that users have
			continue
		}
		if measured, err = again(ctx, at.name, at.url, runs, seconds); err != nil {
			return err
		}
		rows = append(rows, measured...)
	}
	return figures.Write(os.Stdout, out, rows)
}

// target measures all cases on one broker.
func target(ctx context.Context, name, url string, runs, seconds int) ([]figures.Row, error) {
	plain, rows := figures.Series{}, []figures.Row{}
	for range runs {
		perCore, err := amqpLoop(ctx, url, time.Duration(seconds)*time.Second)
		if err != nil {
			return nil, err
		}
		plain = append(plain, perCore)
	}
	rows = append(rows, rowOf(plain, "amqp091-go publishes per CPU second, "+name, "messages", "for comparison", true))
	for _, c := range []struct {
		name    string
		change  func(*bench.Scenario)
		atLeast int // times amqp091-go, the goal; 0 none
	}{{"publishes", unconfirmed, 3}, {"confirmed publishes", confirmed, 2}, {"messages sent and received", both, 0}} {
		var perCore, rate figures.Series
		for range runs {
			run, err := runOnce(ctx, url, scenario("Generator", seconds, c.change))
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", c.name, name, err)
			}
			n := run.Figures.PublishedPerSecond
			rate = append(rate, n)
			perCore = append(perCore, n / *run.Generator.CPUCores)
		}
		goal, holds := figures.NoGoal, true
		if c.atLeast > 0 {
			goal = fmt.Sprintf("≥ %d × amqp091-go", c.atLeast)
			holds = perCore.Median() >= float64(c.atLeast)*plain.Median()
		}
		rows = append(rows, rowOf(perCore, c.name+" per CPU second, "+name, "messages", goal, holds),
			rowOf(rate, c.name+" per second, "+name, "messages/s", figures.NoGoal, true))
	}
	var late, p99 figures.Series
	for range runs {
		run, err := runOnce(ctx, url, scenario("Paced", seconds, paced))
		if err != nil {
			return nil, err
		}
		late = append(late, 100*float64(run.Generator.LateSends)/float64(run.Generator.IntendedSends))
		if q := run.Figures.Pacing; q != nil && q.P99Seconds != nil {
			p99 = append(p99, 1000**q.P99Seconds)
		}
	}
	return append(rows,
		rowOf(late, "late sends at 5,000/s, "+name, "%", "≤ 1 %", late.Median() <= 1),
		rowOf(p99, "pacing error P99 at 5,000/s, "+name, "ms", figures.NoGoal, true)), nil
}

// amqpLoop publishes with two connections of plain amqp091-go, without confirms, and tells the messages per CPU second.
func amqpLoop(ctx context.Context, url string, length time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	type part struct {
		sent int
		err  error
	}
	parts := make(chan part, 2)
	before := cpu()
	for i := range 2 {
		go func() {
			sent, err := publishPlain(ctx, url, fmt.Sprintf("generator-plain-%d-%d", os.Getpid(), i))
			parts <- part{sent, err}
		}()
	}
	sent := 0
	var failed error
	for range 2 {
		p := <-parts
		sent += p.sent
		failed = errors.Join(failed, p.err)
	}
	return float64(sent) / (cpu() - before), failed
}

func publishPlain(ctx context.Context, url, queue string) (sent int, err error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int64(1000)}); err != nil {
		return 0, err
	}
	defer func() { _, _ = ch.QueueDelete(queue, false, false, false) }()
	body := make([]byte, 256)
	for ctx.Err() == nil {
		if err := ch.PublishWithContext(context.WithoutCancel(ctx), "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

func cpu() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// rowOf makes a row of one figure over runs.
func rowOf(s figures.Series, name, unit, goal string, holds bool) figures.Row {
	return figures.Row{
		Name: name, Value: s.Median(), Unit: unit, Goal: goal, Holds: holds, Spread: s.Spread(),
		Note: fmt.Sprintf("%d runs, 256 B persistent, load average %s", len(s), figures.LoadAverage()),
	}
}
