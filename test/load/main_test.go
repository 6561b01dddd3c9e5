//go:build broker

package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/broker/management"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

var versions = []string{"3.10.8", "4.3.6"}

var (
	startedMu sync.Mutex
	started   = map[string]*brokers.Broker{}
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		child(text)
		return
	}
	code := m.Run()
	for _, b := range started {
		if err := b.Stop(); err != nil {
			fmt.Println("a broker is not stopped:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// realBroker is the one of a version that all tests share.
func realBroker(t *testing.T, version string) *brokers.Broker {
	t.Helper()
	startedMu.Lock()
	b := started[version]
	startedMu.Unlock()
	if b != nil {
		return b
	}
	name := fmt.Sprintf("lg-%s-%d", strings.ReplaceAll(version, ".", "-"), os.Getpid())
	b, err := brokers.Start(version, name, "--plugins", "rabbitmq_management,rabbitmq_prometheus")
	startedMu.Lock()
	started[version] = b
	startedMu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onBoth runs a test on both brokers, at the same time but in the long form, which is as much as a machine bears.
func onBoth(t *testing.T, test func(t *testing.T, at *brokers.Broker)) {
	t.Helper()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			if !*long {
				t.Parallel()
			}
			test(t, realBroker(t, version))
		})
	}
}

type api interface {
	broker.Client
	load.API
}

func connect(at *brokers.Broker) (api, broker.Connector, error) {
	connector := management.NewConnector(management.Options{})
	client, err := connector.Connect(broker.Target{Key: "load", URL: at.Management, Username: at.Username, Password: at.Password})
	if err != nil {
		return nil, nil, err
	}
	return client.(api), connector, nil
}

func apiOf(t *testing.T, at *brokers.Broker) api {
	t.Helper()
	client, _, err := connect(at)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// benchmark of scenarios, with all sources.
func benchmark(at *brokers.Broker, scenarios ...bench.Scenario) (load.Benchmark, error) {
	client, connector, err := connect(at)
	if err != nil {
		return load.Benchmark{}, err
	}
	endpoint, err := load.ParseEndpoint(at.AMQP)
	if err != nil {
		return load.Benchmark{}, err
	}
	return load.Benchmark{
		API: client, Policies: client, Owner: at.Username, Endpoint: endpoint, Scenarios: scenarios, Interval: time.Second,
		Sources: func(vhost string) []load.Source {
			sources := []load.Source{
				load.Management{API: client, VHost: vhost},
				load.Prometheus{Scraper: connector.(broker.Scraper), URLs: []string{at.Prometheus}, VHost: vhost},
			}
			if at.PID == 0 { // it is elsewhere
				return sources
			}
			sources = append(sources, load.Kernel{{Node: at.Name + "@localhost", PID: at.PID}})
			if disk, ok := load.DiskOf(at.Name+"@localhost", at.PID); ok {
				sources = append(sources, disk)
			}
			return sources
		},
	}, nil
}

// ownBroker is one of a test's own, with arguments of hack/local's "broker start".
func ownBroker(t *testing.T, version, name string, arguments ...string) *brokers.Broker {
	t.Helper()
	name = fmt.Sprintf("lg-%s-%d", name, os.Getpid())
	b, err := brokers.Start(version, name, append([]string{"--plugins", "rabbitmq_management,rabbitmq_prometheus"}, arguments...)...)
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// quick is a scenario of few seconds.
func quick(name string, change func(*bench.Scenario)) bench.Scenario {
	s := bench.Defaults()
	s.Name = name
	s.Publishers.Count, s.Consumers.Count, s.Queues.Count = 2, 2, 2
	s.Load = bench.Load{Mode: bench.OpenLoop, Rate: 500}
	s.WarmUp, s.Duration, s.CoolDown, s.Runs = bench.Duration(500*time.Millisecond), bench.Duration(2*time.Second), 0, 1
	if change != nil {
		change(&s)
	}
	return s
}

// census is what a broker has of vhosts, users, and objects in the vhosts that are not a benchmark's.
func census(t *testing.T, client api) string {
	t.Helper()
	vhosts, err := client.DescribedVHosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	users, err := client.Users(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, u := range users {
		lines = append(lines, "user "+u.Name)
	}
	for _, v := range vhosts {
		lines = append(lines, "vhost "+v.Name)
		queues, err := client.Queues(t.Context(), v.Name, broker.WithoutCounts)
		if err != nil {
			continue // of another user's vhost
		}
		for _, q := range queues {
			lines = append(lines, "queue "+v.Name+" "+q.Name)
		}
		policies, err := client.Policies(t.Context(), v.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range policies {
			lines = append(lines, "policy "+v.Name+" "+p.Name)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// childVariable has the broker, as JSON, of a benchmark that this program shall run as a child.
const childVariable = "WARREN_LOAD_TEST_CHILD"

// child runs a long benchmark until it is told to end, as the command does.
func child(text string) {
	var at brokers.Broker
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	ctx, stop := signalled()
	defer stop()
	b, err := benchmark(&at, quick("Child", func(s *bench.Scenario) { s.Duration = bench.Duration(time.Minute) }))
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	b.OnProgress = func(_ bench.Scenario, _ int, p load.Progress) {
		if p.Phase == bench.PhaseSteady {
			fmt.Println("steady")
		}
	}
	_, err = b.Do(ctx)
	fmt.Println("ended:", err)
	if err != nil && context.Cause(ctx) == nil {
		os.Exit(3)
	}
}
