//go:build broker

package client_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/warren-mq/warren/test/brokers"
)

var (
	long     = flag.Bool("long", false, "every fault often, on classic and quorum queues, with a table of figures")
	messages = flag.Int("messages", 0, "how many messages all scenarios publish together at least (with -long 1,200,000)")
	rounds   = flag.Int("rounds", 1, "how often each fault comes")
	report   = flag.String("report", "", "file for the figures, as JSON")
)

const (
	oldVersion = "3.10.8"
	newVersion = "4.3.6"
)

var versions = []string{oldVersion, newVersion}

func TestMain(m *testing.M) {
	flag.Parse()
	if *messages == 0 {
		*messages = 60_000
		if *long {
			*messages = 1_200_000
		}
	}
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		if !*long && flag.Lookup("test.run").Value.String() == "" {
			_, _ = cluster() // it is needed late, and takes a while
		}
	}()
	code := m.Run()
	<-ready
	for _, problem := range after() {
		fmt.Println(problem)
		code = 1
	}
	os.Exit(code)
}

// after ends the brokers, and tells what all scenarios together left.
func after() (problems []error) {
	startedMu.Lock()
	defer startedMu.Unlock()
	for _, b := range started {
		log, err := os.ReadFile(filepath.Join(b.Dir, "log"))
		if err != nil || isUnknownTag(string(log)) {
			problems = append(problems, fmt.Errorf("%s was sent delivery tags that it does not know, as its log says, or has none: %v", b.Name, err))
		}
		if err := b.Stop(); err != nil {
			problems = append(problems, fmt.Errorf("a broker is not stopped: %w", err))
		}
	}
	if err := figures.write(*report); err != nil {
		problems = append(problems, err)
	}
	if err := goleak.Find(); err != nil {
		problems = append(problems, err)
	}
	return problems
}

var (
	startedMu sync.Mutex
	started   = map[string]*brokers.Broker{}
)

// startBroker returns the suite's broker of that name, started if it is not there.
func startBroker(version, name string, arguments ...string) (*brokers.Broker, error) {
	startedMu.Lock()
	b := started[name]
	startedMu.Unlock()
	if b != nil {
		return b, nil
	}
	arguments = append([]string{"--plugins", "rabbitmq_management"}, arguments...)
	b, err := brokers.Start(version, fmt.Sprintf("fl-%s-%d", name, os.Getpid()), arguments...)
	startedMu.Lock()
	defer startedMu.Unlock()
	started[name] = b
	return b, err
}

// broker is the one of a version that all scenarios share.
func broker(t *testing.T, version string) *brokers.Broker {
	t.Helper()
	b, err := startBroker(version, strings.ReplaceAll(version, ".", "-"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onBoth runs a scenario on both brokers at the same time, with every kind of queue in the long form, else with the kind
// that is given for each version.
func onBoth(t *testing.T, kinds [2]string, scenario func(t *testing.T, b *brokers.Broker, kind string)) {
	t.Helper()
	noLeaks(t)
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := broker(t, version)
			all := kinds[i : i+1]
			if *long {
				all = []string{classic, quorum}
			}
			for round := range *rounds {
				for _, kind := range all {
					t.Run(fmt.Sprintf("%s-%d", kind, round+1), func(t *testing.T) { scenario(t, b, kind) })
				}
			}
		})
	}
}

// stageCount is about how many stages with much traffic a round of the long form has; each publishes its part of all messages.
const stageCount = 44

func share() int { return max(*messages/stageCount / *rounds, 300) }

// closed is a context for what must not wait.
func closed() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
