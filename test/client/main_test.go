//go:build broker

package client_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/warren-mq/warren/test/brokers"
)

var (
	long     = flag.Bool("long", false, "every fault often, on classic and quorum queues, with a table of figures")
	messages = flag.Int("messages", 0, "how many messages all scenarios publish together at least (with -long 1,200,000)")
	rounds   = flag.Int("rounds", 0, "how often each fault comes (with -long 2)")
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
	if *rounds == 0 {
		*rounds = 1
		if *long {
			*rounds = 2
		}
	}
	code := m.Run()
	for _, b := range started {
		if err := b.Stop(); err != nil {
			fmt.Println("a broker is not stopped:", err)
			code = 1
		}
	}
	if err := figures.write(*report); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

var (
	startedMu sync.Mutex
	started   = map[string]*brokers.Broker{}
)

// startBroker returns the suite's broker of that name, started if it is not there.
func startBroker(t *testing.T, version, name string, arguments ...string) *brokers.Broker {
	t.Helper()
	startedMu.Lock()
	b := started[name]
	startedMu.Unlock()
	if b != nil {
		return b
	}
	arguments = append([]string{"--plugins", "rabbitmq_management"}, arguments...)
	b, err := brokers.Start(version, fmt.Sprintf("fl-%s-%d", name, os.Getpid()), arguments...)
	startedMu.Lock()
	started[name] = b
	startedMu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// broker is the one of a version that all scenarios share.
func broker(t *testing.T, version string) *brokers.Broker {
	t.Helper()
	return startBroker(t, version, strings.ReplaceAll(version, ".", "-"))
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

// stageCount is about how many stages the long form has; each publishes its part of all messages.
const stageCount = 80

func share() int { return max(*messages/stageCount, 300) }

// closed is a context for what must not wait.
func closed() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
