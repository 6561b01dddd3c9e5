//go:build broker

package load_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

func signalled() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// startChild starts a benchmark as a process of its own and waits until it measures.
func startChild(t *testing.T, at *brokers.Broker) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childVariable+"="+string(text))
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "steady" {
			go func() {
				for lines.Scan() {
				}
			}()
			return command
		}
	}
	t.Fatal("the benchmark did not come to its measured part")
	return nil
}

// Case H1: what a benchmark made is gone after each ending, and nothing else is.
func TestNothingIsLeftBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		client := apiOf(t, at)
		alike := "warren-bench-" + strings.Repeat("0123456789abcdef", 2) // a name that looks alike, without the tag
		for _, name := range []string{"warren-bench-report", alike} {
			if err := client.PutVHost(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.DeleteVHost(context.WithoutCancel(t.Context()), name) })
			if err := client.PermitAll(t.Context(), at.Username, name); err != nil {
				t.Fatal(err)
			}
			if err := client.PutQueue(t.Context(), broker.Queue{VHost: name, Name: "bench-report", Durable: true}); err != nil {
				t.Fatal(err)
			}
		}
		before := census(t, client)

		interrupted := startChild(t, at)
		if census(t, client) == before {
			t.Error("the benchmark made nothing")
		}
		if err := interrupted.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := interrupted.Wait(); err != nil {
			t.Errorf("the interrupted benchmark: %v", err)
		}
		if after := census(t, client); after != before {
			t.Errorf("after SIGTERM there is\n%s\nwant\n%s", after, before)
		}

		killed := startChild(t, at)
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = killed.Wait()
		sweepAll(t, client)
		if after := census(t, client); after != before {
			t.Errorf("after a sweep there is\n%s\nwant\n%s", after, before)
		}
	})
}

// sweepAll sees that a run that was killed counts as alive until its time has passed, and removes it then.
func sweepAll(t *testing.T, client api) {
	t.Helper()
	found, err := load.Leftovers(t.Context(), client, time.Now(), load.Abandoned)
	if err != nil || len(found) != 1 || !found[0].Alive {
		t.Fatalf("right after the kill: %+v, %v", found, err)
	}
	if removed, err := load.Sweep(t.Context(), client, found); err != nil || len(removed) != 0 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		found, err = load.Leftovers(t.Context(), client, time.Now().Add(load.Abandoned), load.Abandoned)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(l load.Leftover) bool { return l.Alive }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %+v", found)
		}
		time.Sleep(200 * time.Millisecond) // its connections take a moment to be gone from the broker's list
	}
	if removed, err := load.Sweep(t.Context(), client, found); err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v", removed, err)
	}
}

// A cleanup that fails is an error that says so.
func TestAFailedCleanupIsSaid(t *testing.T) {
	at := realBroker(t, versions[1])
	b, err := benchmark(at, quick("Cleanup", func(s *bench.Scenario) { s.Duration = bench.Duration(time.Second) }))
	if err != nil {
		t.Fatal(err)
	}
	client := apiOf(t, at)
	b.API = stubborn{client}
	_, err = b.Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "CleanupFailed") || !strings.Contains(err.Error(), "warren bench sweep") {
		t.Errorf("got %v", err)
	}
	found, err := load.Leftovers(t.Context(), client, time.Now().Add(time.Hour), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := load.Sweep(t.Context(), client, found); err != nil {
		t.Fatal(err)
	}
}

// stubborn does not delete vhosts.
type stubborn struct{ api }

func (stubborn) DeleteVHost(context.Context, string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: "delete", Reason: "no"}
}
