//go:build broker

package client_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	warren "github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/test/brokers"
)

// flip is a move of a stage's queues from the old broker to the new one, by a routes file.
type flip struct {
	s        *stage
	path     string
	from, to *brokers.Broker
	revision int
}

// newFlip makes a stage whose queues are on both brokers and whose routes say that they have not begun to move.
func newFlip(t *testing.T, kind string) *flip {
	t.Helper()
	f := &flip{path: filepath.Join(t.TempDir(), "routes.json"), from: broker(t, oldVersion), to: broker(t, newVersion)}
	f.write(t, "Before")
	f.s = newStage(t, f.from, kind, settings{environ: []string{
		"RMQ_ROUTES_FILE=" + f.path,
		"RMQ_OLD_RABBIT_USERNAME=" + f.from.Username, "RMQ_OLD_RABBIT_PASSWORD=" + f.from.Password,
		"RMQ_WORKER_USERNAME=" + f.to.Username, "RMQ_WORKER_PASSWORD=" + f.to.Password,
	}})
	for _, queue := range []string{f.s.first, f.s.second} {
		admin{f.to}.declare(t, queue, kind, nil)
	}
	return f
}

// write the routes file, whole or not at all.
func (f *flip) write(t *testing.T, phase string) {
	t.Helper()
	f.revision++
	content, err := json.Marshal(map[string]any{
		"version": 1, "revision": fmt.Sprint(f.revision),
		"clusters": map[string]any{
			"old-rabbit": map[string]any{"hosts": []string{hosts(f.from)}},
			"worker":     map[string]any{"hosts": []string{hosts(f.to)}},
		},
		"classes": map[string]any{"worker": map[string]any{"cluster": "worker", "old": "old-rabbit", "phase": phase}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		t.Fatal(err)
	}
}

// phase writes the next step and waits until both routers follow it.
func (f *flip) phase(t *testing.T, phase string) {
	t.Helper()
	f.write(t, phase)
	f.s.events.await(t, "route "+fmt.Sprint(f.revision), 2, patience)
	for _, r := range []*warren.Router{f.s.publishing, f.s.consuming} {
		if info, err := r.Route(f.s.first); err != nil || info.Phase != phase {
			t.Fatalf("the route is %+v, %v; want %s", info, err, phase)
		}
	}
}

// quiet waits until no publisher has anything on the way to the old broker: no message was confirmed for a while.
func (f *flip) quiet(t *testing.T) {
	t.Helper()
	for before := -1; before != f.s.events.get("confirmed"); {
		before = f.s.events.get("confirmed")
		time.Sleep(200 * time.Millisecond) // there is no event for what does not come
	}
}

// end judges what is special about a move, after the stage was judged.
func (f *flip) end(t *testing.T) {
	t.Helper()
	for _, queue := range []string{f.s.first, f.s.second} {
		if left := (admin{f.to}).ready(t, queue); left != 0 {
			t.Errorf("%d messages are in %s on the new broker after all was handled", left, queue)
		}
		admin{f.to}.remove(t, queue)
		admin{f.to}.remove(t, queue+deadLetters)
	}
	f.s.events.mu.Lock()
	longest := f.s.events.longest
	f.s.events.mu.Unlock()
	figures.add(figure{
		Name: f.s.title + ": longest wait for an outcome", Value: longest.Seconds(), Unit: "s", Goal: "reported", Holds: true,
		Note: "from when a message was given to the publisher",
	})
	t.Logf("longest wait for an outcome: %s", longest)
}

// A queue moves from the old broker to the new one while everybody publishes and consumes. Publishers hold until the old
// queue is empty, so that the order of each is kept over the move.
func TestMoveKeepsAllAndTheOrder(t *testing.T) {
	noLeaks(t)
	for i, kind := range kindsOnce(classic) {
		t.Run(fmt.Sprintf("%s-%d", kind, i), func(t *testing.T) {
			f := newFlip(t, kind)
			f.s.ledger.across = true
			old := 0
			f.s.run(func() {
				f.s.confirmsGoOn(200)
				f.phase(t, "Watching")
				f.s.confirmsGoOn(200)
				f.phase(t, "Held")
				f.quiet(t)
				for _, queue := range []string{f.s.first, f.s.second} {
					admin{f.from}.drained(t, queue, patience)
				}
				f.quietConsumers(t)
				old = f.s.ledger.delivered("old-rabbit")
				f.phase(t, "Flipped")
				f.s.confirmsGoOn(200)
				f.phase(t, "Settled")
				f.s.confirmsGoOn(200)
			})
			if n := f.s.ledger.delivered("old-rabbit"); n != old || old == 0 {
				t.Errorf("%d messages came from the old broker before publishers flipped, %d after", old, n-old)
			}
			f.end(t)
		})
	}
}

// quietConsumers waits until what is confirmed by now was also handled, whatever is published meanwhile.
func (f *flip) quietConsumers(t *testing.T) {
	t.Helper()
	left := f.s.ledger.unhandled()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = f.s.ledger.without(left); len(left) == 0 {
			return
		}
	}
	t.Errorf("%d messages that were confirmed are not handled", len(left))
}

// The old broker dies in the midst of a move, at once after publishers were told to hold and again after they have gone on
// to the new one, and comes back with what it had. Nothing is lost; each broker's messages keep their order.
func TestOldBrokerDiesInTheMidstOfAMove(t *testing.T) {
	noLeaks(t)
	for i, kind := range kindsOnce(classic) {
		t.Run(fmt.Sprintf("%s-%d", kind, i), func(t *testing.T) {
			f := newFlip(t, kind)
			f.s.run(func() {
				f.s.confirmsGoOn(200)
				f.phase(t, "Watching")
				f.s.confirmsGoOn(200)
				f.s.subscribed()
				f.s.admin().stored(t)
				f.phase(t, "Held")
				if err := f.from.Kill(); err != nil {
					t.Fatal(err)
				}
				f.phase(t, "Flipped")
				// What was unconfirmed on the old broker is taken along: the new one confirms though the old one is down.
				f.s.confirmsGoOn(200)
				if err := f.from.Restart(); err != nil {
					t.Fatal(err)
				}
				admin{f.from}.drained(t, f.s.first, patience)
				admin{f.from}.drained(t, f.s.second, patience)
				f.quietConsumers(t)
				f.phase(t, "Settled")
				f.s.confirmsGoOn(200)
			})
			f.end(t)
		})
	}
}

// kindsOnce is every kind of queue in the long form, as often as there are rounds, else one.
func kindsOnce(short string) (out []string) {
	if !*long {
		return []string{short}
	}
	for range *rounds {
		out = append(out, classic, quorum)
	}
	return out
}
