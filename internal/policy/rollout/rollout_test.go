package rollout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/golden"
	"github.com/warren-mq/warren/internal/policy"
)

// story is a rollout from its beginning to its end.
type story struct {
	name, version string
	object        func() *v1alpha1.QueuePolicy
	// before makes the broker as it is at first.
	before func(*world)
	// events happen before a pass, when their time has come.
	events func(*world)
	// rests tells whether the end is reached; nil is Done.
	rests func(*world) bool
	// end holds what must be true then.
	end func(*world)
	// definitions that a queue may have at any time, beside none.
	definitions []map[string]any
	// writes is the most that may be needed without a crash.
	writes int
}

func staged(batch, most int32) *v1alpha1.RolloutSpec {
	return &v1alpha1.RolloutSpec{BatchSize: batch, MaxUnsynchronised: &most, Soak: &metav1.Duration{Duration: 10 * time.Second}}
}

var (
	haTwo   = map[string]any{"ha-mode": "exactly", "ha-params": int64(2), "ha-sync-mode": "automatic"}
	haThree = map[string]any{"ha-mode": "exactly", "ha-params": int64(3), "ha-sync-mode": "automatic"}
	refuse  = map[string]any{"overflow": "reject-publish"}
	limit   = map[string]any{"overflow": "reject-publish", "max-length": int64(100)}
	none    = map[string]any{}
	// at-least-once, and what comes before it.
	exchangeOnly = map[string]any{
		"overflow": "reject-publish", "dead-letter-exchange": "dlx", "dead-letter-routing-key": "dead", "queue-leader-locator": "balanced", "target-group-size": int64(3),
	}
	atLeastOnce = map[string]any{
		"overflow": "reject-publish", "dead-letter-exchange": "dlx", "dead-letter-routing-key": "dead", "queue-leader-locator": "balanced", "target-group-size": int64(3),
		"dead-letter-strategy": "at-least-once", "max-length": int64(100),
	}
)

func mirrored(rollout *v1alpha1.RolloutSpec) func() *v1alpha1.QueuePolicy {
	return func() *v1alpha1.QueuePolicy {
		p := queuePolicy("orders", "^orders", rollout.DeepCopy())
		p.Spec.Replication.Mode = v1alpha1.HATwo
		return p
	}
}

func limited(rollout *v1alpha1.RolloutSpec) func() *v1alpha1.QueuePolicy {
	return func() *v1alpha1.QueuePolicy {
		p := queuePolicy("limits", "^orders", rollout.DeepCopy())
		length := int64(100)
		p.Spec.Limits = &v1alpha1.QueueLimits{MaxLength: &length}
		return p
	}
}

// letters is at-least-once, on quorum queues.
func letters(rollout *v1alpha1.RolloutSpec) func() *v1alpha1.QueuePolicy {
	return func() *v1alpha1.QueuePolicy {
		p := limited(rollout)()
		p.Name, p.Spec.Replication.Mode = "letters", v1alpha1.ReplicationQuorum
		p.Spec.DeadLetter = &v1alpha1.DeadLetterSpec{Exchange: "dlx", Queue: "dead", Strategy: v1alpha1.AtLeastOnce}
		return p
	}
}

func orders(kind broker.QueueType, n int, messages int64) func(*world) {
	return func(w *world) { w.add(kind, messages, numbered("orders.", n)...) }
}

func rolledBack(w *world) bool { return w.phase() == v1alpha1.RolloutRolledBack }

func (w *world) every(pattern string, definition map[string]any, inForce string) {
	for name, q := range w.queues {
		if strings.HasPrefix(name, pattern) && (!broker.EqualDefinitions(q.effective, definition) || inForce != "" && q.inForce != inForce) {
			w.fault("at the end queue %q has %v of %q", name, q.effective, q.inForce)
		}
	}
}

var stories = []story{
	{
		name: "ha-two", version: "3.10.8", object: mirrored(staged(10, 5)), before: orders(broker.Classic, 25, 1000), writes: 11,
		definitions: []map[string]any{none, haTwo},
		end:         func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "limits-overflow-first", version: "4.3.6", object: limited(staged(4, 4)), writes: 12,
		before:      orders(broker.Classic, 9, 5000),
		definitions: []map[string]any{none, refuse, limit},
		end:         func(w *world) { w.every("orders", limit, "limits") },
	},
	{
		name: "limits-at-once", version: "3.10.8", object: limited(nil), writes: 2,
		before:      orders(broker.Classic, 9, 5000),
		definitions: []map[string]any{none, refuse, limit},
		rests:       func(w *world) bool { return w.state == nil && w.last.Written },
		end:         func(w *world) { w.every("orders", limit, "limits") },
	},
	{
		name: "at-least-once-follows-its-exchange", version: "4.3.6", object: letters(staged(4, 4)), writes: 12,
		before:      orders(broker.Quorum, 9, 50),
		definitions: []map[string]any{none, exchangeOnly, atLeastOnce},
		end:         func(w *world) { w.every("orders", atLeastOnce, "letters") },
	},
	{
		name: "at-least-once-at-once", version: "4.3.6", object: letters(nil), writes: 2,
		before:      orders(broker.Quorum, 9, 50),
		definitions: []map[string]any{none, exchangeOnly, atLeastOnce},
		rests:       func(w *world) bool { return w.state == nil && w.last.Written },
		end:         func(w *world) { w.every("orders", atLeastOnce, "letters") },
	},
	{
		name: "edit-in-the-middle", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 24,
		definitions: []map[string]any{none, haTwo, haThree},
		events: func(w *world) {
			w.once("edit: HAThree", w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil, func() { w.object.Spec.Replication.Mode = v1alpha1.HAThree })
		},
		end: func(w *world) { w.every("orders", haThree, "orders") },
	},
	{
		name: "edit-and-back", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 24,
		definitions: []map[string]any{none, haTwo, haThree},
		events: func(w *world) {
			w.once("edit: HAThree", w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil, func() { w.object.Spec.Replication.Mode = v1alpha1.HAThree })
			w.once("edit: HATwo again", w.fired["edit: HAThree"] && w.state.ID == ID(w.wanted()) && w.at(v1alpha1.RolloutBatches, 1) && w.state.WellSince != nil,
				func() { w.object.Spec.Replication.Mode = v1alpha1.HATwo })
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "alarm-in-the-middle", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 7,
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("memory alarm", w.at(v1alpha1.RolloutBatches, 2), func() { w.alarms = []string{"memory alarm on rabbit@b"} })
			w.once("ten minutes later", len(w.alarms) > 0, func() { w.fired["until"] = true; w.until("ten minutes later", 10*time.Minute) })
			w.once("the alarm is over", w.fired["ten minutes later"] && len(w.alarms) > 0 && w.now.Sub(w.begun) > 10*time.Minute, func() {
				if n := len(w.temporaries()); n > 2 {
					w.fault("%d temporary policies were written in an alarm", n)
				}
				w.alarms = nil
			})
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "queues-come-and-go", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 13,
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("queues come and go", w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil, func() {
				w.add(broker.Classic, 0, numbered("orders.0a", 12)...)
				delete(w.queues, "orders.01")
				delete(w.queues, "orders.24")
				w.names = nil
			})
			w.once("more come during the last batch", w.state != nil && w.at(v1alpha1.RolloutBatches, 4) && w.state.WellSince != nil, func() { w.add(broker.Classic, 0, numbered("orders.z", 3)...) })
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "paused", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 7,
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("paused", w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil, func() { w.object.Spec.Paused = true; w.fired["writes"] = true; w.said = "" })
			w.once("goes on", w.object.Spec.Paused && w.last.Reason == v1alpha1.ReasonPaused, func() { w.object.Spec.Paused = false })
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "roll-back-before-the-final-policy", version: "3.10.8", object: mirrored(staged(10, 5)), writes: 14,
		before: func(w *world) {
			w.store(broker.Policy{VHost: "/", Name: "orders", Pattern: "^orders", ApplyTo: "queues", Definition: haThree})
			w.add(broker.Classic, 10, numbered("orders.", 25)...)
		},
		definitions: []map[string]any{haTwo, haThree},
		events: func(w *world) {
			w.once("rollBack: true", w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil, func() { w.object.Spec.Rollout.RollBack = true })
		},
		rests: rolledBack,
		end:   func(w *world) { w.every("orders", haThree, "orders") },
	},
	{
		name: "roll-back-after-the-final-policy", version: "3.10.8", object: mirrored(staged(10, 5)), writes: 40,
		before: func(w *world) {
			w.store(broker.Policy{VHost: "/", Name: "orders", Pattern: "^orders", ApplyTo: "queues", Definition: haThree})
			w.add(broker.Classic, 10, numbered("orders.", 25)...)
		},
		definitions: []map[string]any{haTwo, haThree},
		events: func(w *world) {
			w.once("rollBack: true", w.phase() == v1alpha1.RolloutCleanup && len(w.temporaries()) < 3, func() { w.object.Spec.Rollout.RollBack = true })
		},
		rests: rolledBack,
		end:   func(w *world) { w.every("orders", haThree, "orders") },
	},
	{
		name: "roll-back-when-done-of-a-new-policy", version: "3.10.8", object: mirrored(staged(10, 5)), writes: 40, before: orders(broker.Classic, 12, 10),
		definitions: []map[string]any{haTwo, none},
		events: func(w *world) {
			w.once("rollBack: true", w.phase() == v1alpha1.RolloutDone, func() { w.object.Spec.Rollout.RollBack = true })
		},
		rests: rolledBack,
		end: func(w *world) {
			w.every("orders", none, "")
			if _, there := w.policies["orders"]; there {
				w.fault("the policy is still there")
			}
		},
	},
	{
		name: "roll-back-and-a-new-spec", version: "3.10.8", object: mirrored(staged(10, 10)), writes: 40, before: orders(broker.Classic, 12, 10),
		definitions: []map[string]any{haTwo, haThree, none},
		events: func(w *world) {
			w.once("rollBack: true", w.at(v1alpha1.RolloutBatches, 2), func() { w.object.Spec.Rollout.RollBack = true })
			w.once("edit: HAThree", rolledBack(w), func() { w.object.Spec.Replication.Mode = v1alpha1.HAThree })
		},
		end: func(w *world) { w.every("orders", haThree, "orders") },
	},
	{
		name: "roll-back-to-limits", version: "4.3.6", writes: 30,
		object: func() *v1alpha1.QueuePolicy {
			p := queuePolicy("limits", "^orders", staged(5, 5))
			p.Spec.Definition = &runtime.RawExtension{Raw: []byte(`{"message-ttl":86400000}`)}
			return p
		},
		before: func(w *world) {
			w.store(broker.Policy{VHost: "/", Name: "limits", Pattern: "^orders", ApplyTo: "queues", Definition: limit})
			w.add(broker.Classic, 5000, numbered("orders.", 9)...)
		},
		definitions: []map[string]any{{"message-ttl": int64(86400000)}, {"message-ttl": int64(86400000), "overflow": "reject-publish"}, limit},
		events: func(w *world) {
			w.once("rollBack: true", w.phase() == v1alpha1.RolloutFinal, func() { w.object.Spec.Rollout.RollBack = true })
		},
		rests: rolledBack,
		end:   func(w *world) { w.every("orders", limit, "limits") },
	},
	{
		name: "edit-in-the-overflow-step", version: "4.3.6", object: limited(staged(4, 4)), writes: 16,
		before:      orders(broker.Classic, 9, 5000),
		definitions: []map[string]any{none, refuse, limit, {"overflow": "reject-publish", "max-length": int64(200), "message-ttl": int64(86400000)}, {"overflow": "reject-publish", "message-ttl": int64(86400000)}},
		events: func(w *world) {
			w.once("edit", w.at(v1alpha1.RolloutOverflow, 1) && len(w.temporaries()) == 1, func() {
				length := int64(200)
				w.object.Spec.Limits.MaxLength, w.object.Spec.Limits.MessageTTL = &length, &metav1.Duration{Duration: 24 * time.Hour}
			})
		},
		end: func(w *world) { w.every("orders", w.wanted().Definition, "limits") },
	},
	{
		name: "odd-names", version: "4.3.6", object: limited(staged(4, 4)), writes: 30,
		before: func(w *world) {
			w.add(broker.Quorum, 10, `orders."quoted"`, `orders.'x'`, "orders.ünï→", "orders\nline", "orders", `orders\E|x`, `orders\E\E`, `orders\`, "orders("+strings.Repeat(`\E`, 100))
		},
		definitions: []map[string]any{none, limit},
		end:         func(w *world) { w.every("orders", limit, "limits") },
	},
	{
		name: "masked-and-foreign", version: "3.10.8", object: mirrored(staged(10, 10)), writes: 6,
		before: func(w *world) {
			w.foreignPolicy(broker.Policy{Name: "high", Pattern: `^orders\.1`, ApplyTo: "queues", Priority: 7, Definition: map[string]any{"expires": int64(86400000)}})
			w.foreignPolicy(broker.Policy{Name: "orders~mine", Pattern: "^unrelated", ApplyTo: "queues", Definition: haTwo})
			w.foreignPolicy(broker.Policy{Name: "orders~0123456789ab-1", Pattern: `^(?:\Qunrelated\E)\z`, ApplyTo: "queues", Definition: haThree})
			w.foreignPolicy(broker.Policy{Name: "other", Pattern: `^orders`, ApplyTo: "queues", Priority: -3, Definition: map[string]any{"message-ttl": int64(9)}})
			w.add(broker.Classic, 10, numbered("orders.", 25)...)
			w.add(broker.Quorum, 10, "orders.quorum")
		},
		definitions: []map[string]any{{"message-ttl": int64(9)}, haTwo, {"expires": int64(86400000)}},
		end: func(w *world) {
			w.every("orders.0", haTwo, "orders")
			w.every("orders.1", map[string]any{"expires": int64(86400000)}, "high")
		},
	},
	{
		name: "drift-in-the-middle", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 14,
		definitions: []map[string]any{none, haTwo, {"max-length": int64(7777)}},
		events: func(w *world) {
			at := w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil
			w.once("somebody deletes a temporary policy", at, func() { w.remove(w.temporaries()[0]) })
			w.once("somebody edits a temporary policy", w.at(v1alpha1.RolloutBatches, 3) && w.state.WellSince != nil, func() {
				p := w.policies[w.temporaries()[0]]
				p.Definition = map[string]any{"max-length": int64(7777)}
				w.store(p)
			})
			w.once("somebody edits its names", w.fired["somebody edits a temporary policy"] && w.at(v1alpha1.RolloutBatches, 3) && w.state.WellSince != nil, func() {
				p := w.policies[w.temporaries()[0]]
				p.Pattern = "^orders"
				w.store(p)
			})
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "rollout-is-taken-out-of-the-spec", version: "3.10.8", object: mirrored(staged(10, 10)), before: orders(broker.Classic, 25, 10), writes: 9,
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("no spec.rollout", w.at(v1alpha1.RolloutBatches, 2), func() { w.object.Spec.Rollout, w.most = nil, 1000 })
		},
		rests: func(w *world) bool { return w.state == nil && w.last.Written },
		end:   func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "an-earlier-wave", version: "3.10.8", object: mirrored(staged(10, 10)), writes: 3,
		before: func(w *world) {
			w.earlier = []string{"messaging/critical", "messaging/audit"}
			w.add(broker.Classic, 10, "orders.1", "payments")
		},
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("the earlier wave is done", w.phase() == v1alpha1.RolloutWaiting, func() { w.earlier = nil })
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
	{
		name: "quorum-queues-grow", version: "4.3.6", writes: 9,
		object: func() *v1alpha1.QueuePolicy {
			p := queuePolicy("orders", "^orders", staged(4, 8))
			p.Spec.Replication.Mode = v1alpha1.ReplicationQuorum
			return p
		},
		before: func(w *world) {
			w.add(broker.Quorum, 10, numbered("orders.", 9)...)
			for _, name := range []string{"orders.01", "orders.02", "orders.08"} {
				w.queues[name].members, w.queues[name].online = 1, 1
			}
		},
		definitions: []map[string]any{none, {"queue-leader-locator": "balanced", "target-group-size": int64(3)}},
		end: func(w *world) {
			for name, q := range w.queues {
				if q.members != 3 || q.online != 3 {
					w.fault("queue %q has %d members", name, q.members)
				}
			}
		},
	},
	{
		name: "backlog-grows", version: "3.10.8", writes: 7, before: orders(broker.Classic, 25, 1000),
		object: func() *v1alpha1.QueuePolicy {
			p := mirrored(staged(10, 10))()
			p.Spec.Rollout.PauseOn = []v1alpha1.RolloutPause{v1alpha1.PauseOnBacklogGrowth}
			return p
		},
		definitions: []map[string]any{none, haTwo},
		events: func(w *world) {
			w.once("consumers stop", w.at(v1alpha1.RolloutBatches, 2), func() { w.queues["orders.01"].messages = 9000 })
			w.once("consumers are back", w.last.Reason == v1alpha1.ReasonBacklogGrows, func() { w.queues["orders.01"].messages = 500 })
		},
		end: func(w *world) { w.every("orders", haTwo, "orders") },
	},
}

func (w *world) wanted() broker.Policy {
	rendered, err := policy.Render(w.object, w.caps)
	if err != nil {
		w.t.Fatal(err)
	}
	return rendered.Policy
}

// until lets events happen for some time before the next.
func (w *world) until(_ string, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.step()
		w.sleep(30 * time.Second)
	}
}

func (s story) world(t *testing.T) *world {
	w := newWorld(t, s.version, s.object())
	s.before(w)
	w.allowed = s.definitions
	if r := w.object.Spec.Rollout; r != nil && r.MaxUnsynchronised != nil {
		w.most = int(*r.MaxUnsynchronised)
	}
	return w
}

func (s story) play(w *world) {
	rests := s.rests
	if rests == nil {
		rests = func(w *world) bool { return w.phase() == v1alpha1.RolloutDone }
	}
	w.run(s.events, func(w *world) bool {
		fired := len(w.fired)
		if s.events != nil {
			s.events(w)
		}
		return fired == len(w.fired) && rests(w)
	})
	w.sleep(10 * time.Second)
	s.end(w)
	if left := w.temporaries(); len(left) > 0 {
		w.fault("temporary policies are left: %v", left)
	}
}

func TestWholeRollouts(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t)
			w.twice = true
			s.play(w)
			for _, fault := range w.faults {
				t.Error(fault)
			}
			if w.writes > s.writes {
				t.Errorf("%d writes, at most %d were needed", w.writes, s.writes)
			}
			golden.Equal(t, filepath.Join("testdata", s.name+".log"), []byte(w.log.String()))
			before := w.writes
			w.step()
			w.step()
			if w.writes != before {
				t.Errorf("%d writes after the end", w.writes-before)
			}
		})
	}
}

// TestACrashAtEveryBoundary lets the process die once at every place of every story: before and after each write to the
// broker and before and after each status.
func TestACrashAtEveryBoundary(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			boundaries := s.boundaries(t)
			for at := range boundaries {
				w := s.world(t)
				count := 0
				w.crash = func() bool { count++; return count == at+1 }
				s.play(w)
				s.judge(t, w, fmt.Sprintf("crash at boundary %d", at), 4)
			}
			t.Logf("%d boundaries", boundaries)
		})
	}
}

func (s story) boundaries(t *testing.T) int {
	w := s.world(t)
	count := 0
	w.crash = func() bool { count++; return false }
	s.play(w)
	return count
}

func (s story) judge(t *testing.T, w *world, what string, more int) {
	t.Helper()
	if w.writes > s.writes+more {
		w.fault("%d writes, at most %d are enough", w.writes, s.writes+more)
	}
	if len(w.faults) > 0 {
		t.Fatalf("%s:\n%s\n%s", what, strings.Join(w.faults, "\n"), w.log.String())
	}
}

// TestRandomCrashesAndDelays plays every story under many seeds: the process dies again and again, queues obey and
// synchronise when they like.
func TestRandomCrashesAndDelays(t *testing.T) {
	const seeds = 25
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				w := s.world(t)
				w.chance = rand.New(rand.NewPCG(seed, 1))
				crashes := 0
				w.crash = func() bool {
					if w.chance.IntN(6) == 0 && crashes < 60 {
						crashes++
						return true
					}
					return false
				}
				s.play(w)
				s.judge(t, w, fmt.Sprintf("seed %d", seed), 3*crashes+s.writes)
			}
		})
	}
}

// TestDeletionAtEveryPass asks after every pass of every story what a deletion would remove: all that is this object's, and
// nothing else.
func TestDeletionAtEveryPass(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t)
			for passes := range 150 {
				if s.events != nil {
					s.events(w)
				}
				w.step()
				w.sleep(max(time.Second, w.last.LookAgain))
				for _, keep := range []bool{false, true} {
					if left, want := w.leftAfterDeletion(keep), w.staying(keep); !slices.Equal(left, want) {
						t.Fatalf("after %d passes a deletion (keep: %v) leaves %v, want %v\n%s", passes+1, keep, left, want, w.log.String())
					}
				}
			}
		})
	}
}

// leftAfterDeletion are the policies that a deletion leaves.
func (w *world) leftAfterDeletion(keep bool) []string {
	left := maps.Clone(w.policies)
	in := Input{Object: w.object, Vhost: w.vhost(), State: w.state, Now: w.now} // a spec that cannot be rendered can be deleted
	for _, action := range Removals(in, keep) {
		if _, there := left[action.Policy.Name]; !there || action.Verb != policy.DeletePolicy {
			w.t.Fatalf("not expected: %+v", action)
		}
		delete(left, action.Policy.Name)
	}
	return slices.Sorted(maps.Keys(left))
}

// staying are the policies that a deletion must leave.
func (w *world) staying(keep bool) []string {
	out := slices.Collect(maps.Keys(w.foreign))
	if _, there := w.policies[w.object.BrokerPolicyName()]; there && keep {
		out = append(out, w.object.BrokerPolicyName())
	}
	slices.Sort(out)
	return out
}
