package rollout

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// until plays until the condition holds.
func (w *world) playUntil(what string, when func() bool) {
	w.t.Helper()
	for range 200 {
		if when() {
			return
		}
		w.step()
		w.sleep(max(time.Second, w.last.LookAgain))
	}
	w.t.Fatalf("%s never came:\n%s", what, w.log.String())
}

// holds passes for some minutes without a write.
func (w *world) holds(reason string) {
	w.t.Helper()
	before := w.writes
	for range 20 {
		w.step()
		w.sleep(15 * time.Second)
	}
	if w.writes != before {
		w.t.Errorf("%d writes while %s:\n%s", w.writes-before, reason, w.log.String())
	}
	if w.last.Reason != reason {
		w.t.Errorf("the reason is %q, %s; want %s", w.last.Reason, w.last.Message, reason)
	}
}

func TestAPatternThatOnlyTheBrokerKnowsIsNotStaged(t *testing.T) {
	object := mirrored(staged(10, 10))()
	object.Spec.Pattern = `^orders(?=\.)`
	w := newWorld(t, "3.10.8", object)
	w.add(broker.Classic, 0, "orders.1", "payments")
	w.holds(v1alpha1.ReasonCannotStage)
	if !strings.Contains(w.last.Message, "remove spec.rollout") || !strings.Contains(w.last.Message, `"orders.1", "payments"`) {
		t.Errorf("no way out in %q", w.last.Message)
	}
	object.Spec.Rollout = nil
	w.step()
	if w.writes != 1 || w.policies["orders"].Name == "" {
		t.Errorf("without spec.rollout it does not go at once:\n%s", w.log.String())
	}
}

func TestQueuesThatStayOutAreNamed(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.foreignPolicy(broker.Policy{Name: "high", Pattern: `^orders\.0[1-4]`, ApplyTo: "queues", Priority: 7, Definition: map[string]any{"expires": int64(86400000)}})
	w.add(broker.Classic, 0, numbered("orders.", 12)...)
	w.playUntil("the first batch", func() bool { return w.at(v1alpha1.RolloutBatches, 1) })
	want := `a policy of the same or higher priority keeps the rollout from 4 queues: "orders.01", "orders.02", "orders.03" and 1 more`
	if got := w.last.Warning(); got != want {
		t.Errorf("the warning is %q", got)
	}
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone })
	if got := w.last.Warning(); got != "" {
		t.Errorf("a warning stays: %q", got)
	}
}

func TestNextChangesNothingThatItIsGiven(t *testing.T) {
	for _, s := range stories {
		w := s.world(t)
		w.watchInput = true
		s.play(w)
	}
}

func TestNoQueueNoBatch(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone })
	if w.writes != 1 || w.state.Batches != 0 {
		t.Errorf("%d writes, %d batches:\n%s", w.writes, w.state.Batches, w.log.String())
	}
}

func TestWhatIsInForceAlreadyNeedsNoBatch(t *testing.T) {
	for name, edit := range map[string]func(*broker.Policy){
		"equal":            func(*broker.Policy) {},
		"another pattern":  func(p *broker.Policy) { p.Pattern = "^(orders|bills)" },
		"another priority": func(p *broker.Policy) { p.Priority = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
			p := w.wanted()
			edit(&p)
			w.store(p)
			w.add(broker.Classic, 0, numbered("orders.", 30)...)
			w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone })
			if w.writes > 1 || w.state.Batches != 0 {
				t.Errorf("%d writes, %d batches:\n%s", w.writes, w.state.Batches, w.log.String())
			}
		})
	}
}

func TestRaisingOrLoweringALimitNeedsNoFirstStep(t *testing.T) {
	w := newWorld(t, "4.3.6", limited(nil)())
	w.store(w.wanted())
	w.add(broker.Classic, 10, numbered("orders.", 3)...)
	length := int64(50)
	w.object.Spec.Limits.MaxLength = &length
	w.step()
	if w.state != nil || w.writes != 1 {
		t.Errorf("%d writes, state %s:\n%s", w.writes, step(w.state), w.log.String())
	}
}

// Unknown is not clear, in force, or synchronised.
func TestWhatTheBrokerDoesNotSayStops(t *testing.T) {
	inBatch := func(t *testing.T) *world {
		w := newWorld(t, "3.10.8", mirrored(staged(5, 5))())
		w.add(broker.Classic, 0, numbered("orders.", 12)...)
		w.playUntil("the first batch", func() bool { return w.at(v1alpha1.RolloutBatches, 1) && w.state.WellSince != nil })
		return w
	}
	t.Run("a queue of the batch", func(t *testing.T) {
		w := inBatch(t)
		w.queues["orders.02"].silent = true
		w.holds(v1alpha1.ReasonUnknown)
	})
	t.Run("alarms", func(t *testing.T) {
		w := inBatch(t)
		w.deaf = true
		w.holds(v1alpha1.ReasonAlarmActive)
	})
	t.Run("a limit waits for a queue that says nothing", func(t *testing.T) {
		w := newWorld(t, "4.3.6", limited(nil)())
		w.add(broker.Classic, 500, numbered("orders.", 3)...)
		w.playUntil("overflow", func() bool { return w.writes == 1 })
		w.queues["orders.03"].silent = true
		w.holds(v1alpha1.ReasonOverflowFirst)
		w.queues["orders.03"].silent = false
		w.playUntil("the limit", func() bool { return w.writes == 2 && w.last.Written })
		w.every("orders", limit, "limits")
		if len(w.faults) > 0 {
			t.Error(w.faults)
		}
	})
	t.Run("other queues of the vhost count too", func(t *testing.T) {
		w := newWorld(t, "3.10.8", mirrored(staged(5, 3))())
		w.add(broker.Classic, 0, numbered("orders.", 12)...)
		w.add(broker.Quorum, 0, "bills.1", "bills.2", "bills.3")
		for _, name := range []string{"bills.1", "bills.2"} {
			w.queues[name].online = 2
			w.queues[name].joinedAt = w.now.Add(time.Hour)
		}
		w.playUntil("a batch", func() bool { return w.writes > 0 })
		if names, _ := policy.ExactNames(w.policies[w.temporaries()[0]].Pattern); len(names) != 1 {
			t.Errorf("the batch has %q, want one queue", names)
		}
		w.queues["bills.3"].online = 2
		w.queues["bills.3"].joinedAt = w.now.Add(time.Hour)
		w.playUntil("the second batch", func() bool { return w.at(v1alpha1.RolloutBatches, 2) })
		w.holds(v1alpha1.ReasonSynchronising)
	})
}

// Two rollouts in one vhost share the limit: what the broker has just been told counts, although no queue shows it yet.
func TestQueuesThatAnotherRolloutIsAboutToMirrorCount(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(5, 5))())
	w.add(broker.Classic, 0, numbered("orders.", 12)...)
	w.add(broker.Classic, 0, numbered("bills.", 4)...)
	names := numbered("bills.", 4)
	other := broker.Policy{VHost: "/", Name: "bills~0123456789ab-1", Pattern: policy.ExactPatterns(names)[0], ApplyTo: "queues", Priority: 1, Definition: haTwo}
	w.playUntil("the first batch is about to be written", func() bool { return w.at(v1alpha1.RolloutBatches, 1) })
	w.policies[other.Name] = other // no queue shows it yet
	w.step()
	for _, name := range w.temporaries() {
		if written, _ := policy.ExactNames(w.policies[name].Pattern); len(written) != 1 {
			t.Errorf("the batch has %q beside four queues that another one has", written)
		}
	}
	if w.writes != 1 {
		t.Errorf("%d writes", w.writes)
	}
}

// The status may be lost, with the object or with the cluster that held it: what Warren wrote proves itself.
func TestALostStatusFindsItsTemporaryPolicies(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.foreignPolicy(broker.Policy{Name: "orders~0123456789ab-1", Pattern: `^(?:\Qunrelated\E)\z`, ApplyTo: "queues", Definition: haThree})
	w.add(broker.Classic, 0, numbered("orders.", 25)...)
	w.playUntil("the second batch", func() bool { return w.at(v1alpha1.RolloutBatches, 2) && w.state.WellSince != nil })
	w.state = nil
	w.object.Spec.Replication.Mode = v1alpha1.HAThree
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone })
	w.every("orders", haThree, "orders")
	if left := w.temporaries(); len(left) > 0 || len(w.faults) > 0 {
		t.Errorf("left: %v, faults: %v\n%s", left, w.faults, w.log.String())
	}
}

// C11: later waves go by this: Done counts for the spec that is done, not for one that came since.
func TestDoneIsOfOneSpec(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.object.Generation = 1
	w.add(broker.Classic, 0, numbered("orders.", 3)...)
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone && w.last.Written })
	is := func(what string, phase v1alpha1.RolloutPhase, generation int64) {
		t.Helper()
		if w.phase() != phase || w.state.ObservedGeneration != generation {
			t.Errorf("%s: %s of generation %d, want %s of %d", what, w.phase(), w.state.ObservedGeneration, phase, generation)
		}
	}
	is("at the end", v1alpha1.RolloutDone, 1)
	w.object.Generation, w.object.Spec.Rollout.BatchSize = 2, 5
	w.step()
	is("an edit that changes nothing in the broker", v1alpha1.RolloutDone, 2)
	w.object.Generation, w.object.Spec.Paused = 3, true
	w.step()
	is("paused, and the broker has all", v1alpha1.RolloutDone, 3)
	w.object.Generation, w.object.Spec.Replication.Mode = 4, v1alpha1.HAThree
	w.step()
	is("edited while it is paused", v1alpha1.RolloutDone, 3)
	w.object.Generation, w.object.Spec.Replication.Mode, w.object.Spec.Paused = 5, v1alpha1.HATwo, false
	w.remove("orders")
	w.step()
	is("a drift that the edited spec meets", v1alpha1.RolloutDone, 3)
	w.playUntil("it is restored", func() bool { return w.last.Written && len(w.last.Actions) == 0 })
	is("restored", v1alpha1.RolloutDone, 5)
	w.object.Generation, w.object.Spec.Rollout.RollBack = 6, true
	w.step()
	is("rolled back", v1alpha1.RolloutRollingBack, 6)
}

func TestADoneRolloutRestoresWhatSomebodyChanged(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.add(broker.Classic, 0, numbered("orders.", 3)...)
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone && w.last.Written })
	w.step()
	w.remove("orders")
	w.step()
	if w.policies["orders"].Name == "" || !w.last.Actions[0].Drift || w.phase() != v1alpha1.RolloutDone {
		t.Errorf("not restored at once as drift:\n%s", w.log.String())
	}
}

// A drift that took limits away is no licence to drop messages.
func TestADriftOfLimitsIsRestoredOverflowFirst(t *testing.T) {
	for name, rollout := range map[string]*v1alpha1.RolloutSpec{"at once": nil, "staged": staged(10, 10)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "4.3.6", limited(rollout)())
			w.add(broker.Classic, 50, numbered("orders.", 3)...)
			w.playUntil("the end", func() bool { return w.last.Written && len(w.last.Actions) == 0 })
			w.remove("limits")
			w.sleep(10 * time.Second)
			for _, q := range w.queues {
				q.messages = 5000
			}
			w.last.Written = true
			w.step()
			w.playUntil("the end", func() bool { return w.last.Written && len(w.last.Actions) == 0 })
			w.sleep(10 * time.Second)
			w.every("orders", limit, "limits")
			if len(w.faults) > 0 {
				t.Errorf("%v\n%s", w.faults, w.log.String())
			}
		})
	}
}

func TestRollBackWithoutARecordIsRefused(t *testing.T) {
	w := newWorld(t, "3.10.8", mirrored(staged(10, 10))())
	w.object.Spec.Rollout.RollBack = true
	w.add(broker.Classic, 0, "orders.1")
	w.holds(v1alpha1.ReasonRollingBack)
	w.object.Spec.Rollout.RollBack = false
	w.playUntil("the end", func() bool { return w.phase() == v1alpha1.RolloutDone })
}

func TestHardLimitsFollowTheirOverflow(t *testing.T) {
	length := int64(100)
	w := newWorld(t, "3.10.8", queuePolicy("hard", "^orders", nil))
	w.object.Spec.HardLimits = &v1alpha1.HardLimits{MaxLength: &length}
	w.add(broker.Classic, 50, "orders.1")
	rendered, err := policy.Render(w.object, w.caps)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Object: w.object, Rendered: rendered, Vhost: w.vhost(), Now: w.now}
	d := Next(in)
	if d.State == nil || d.State.Phase != v1alpha1.RolloutOverflow {
		t.Fatalf("not overflow first: %s", describe(d))
	}
	in.State = d.State
	d = Next(in)
	if len(d.Actions) != 1 || d.Actions[0].Verb != policy.PutPolicy || !refusesAtLimit(d.Actions[0].Policy.Definition) {
		t.Fatalf("the first write is not the overflow: %s", describe(d))
	}
	w.carryOut(d.Actions[0])
	w.sleep(5 * time.Second)
	for range 3 {
		in.Vhost, in.Now = w.vhost(), w.now
		if d = Next(in); len(d.Actions) > 0 {
			break
		}
		in.State = d.State
		w.sleep(6 * time.Second)
	}
	if len(d.Actions) != 1 || d.Actions[0].Verb != policy.PutOperatorPolicy || in.State.Phase != v1alpha1.RolloutFinal {
		t.Errorf("the limit does not follow: %s", describe(d))
	}
	in.Vhost.OperatorPolicies = []broker.Policy{*rendered.Operator}
	if d = Next(in); len(d.Actions) != 0 || d.State != nil || !d.Written {
		t.Errorf("not done: %s", describe(d))
	}
	w.object.Spec.HardLimits = nil
	w.object.Spec.QueueVersion = new(int32)
	*w.object.Spec.QueueVersion = 2
	if in.Rendered, err = policy.Render(w.object, w.caps); err != nil {
		t.Fatal(err)
	}
	in.State = nil
	for _, owns := range []bool{false, true} {
		in.OwnsOperator = owns
		d = Next(in)
		removed := false
		for _, action := range d.Actions {
			removed = removed || action.Verb == policy.DeleteOperatorPolicy
		}
		if removed != owns {
			t.Errorf("an operator policy that is ours (%v) is removed: %v", owns, removed)
		}
	}
}

func TestWords(t *testing.T) {
	p := queuePolicy("orders", "^orders", &v1alpha1.RolloutSpec{Wave: 2})
	for want, state := range map[string]*v1alpha1.RolloutStatus{
		"":                               nil,
		"done":                           {Phase: v1alpha1.RolloutDone},
		"wave 2, waiting":                {Phase: v1alpha1.RolloutWaiting},
		"wave 2, batch 13/31":            {Phase: v1alpha1.RolloutBatches, Batch: 13, Batches: 31},
		"wave 2, overflow before limits": {Phase: v1alpha1.RolloutOverflow},
		"wave 2, final policy":           {Phase: v1alpha1.RolloutFinal, Batches: 31},
		"wave 2, cleaning up":            {Phase: v1alpha1.RolloutCleanup, Batches: 31},
		"rolling back, 1 batch left":     {Phase: v1alpha1.RolloutRollingBack, Batch: 1},
		"rolled back":                    {Phase: v1alpha1.RolloutRolledBack},
	} {
		if got := Words(p, state); got != want {
			t.Errorf("%+v is %q, want %q", state, got, want)
		}
	}
}

func TestIDFollowsFromThePolicyAlone(t *testing.T) {
	p := broker.Policy{VHost: "/", Name: "a", Pattern: "^a", ApplyTo: "queues", Definition: map[string]any{"max-length": 5.0}}
	same := p
	same.Definition = map[string]any{"max-length": int64(5)}
	if ID(p) != ID(same) {
		t.Error("the form of a number changes the ID")
	}
	for name, edit := range map[string]func(*broker.Policy){
		"vhost": func(p *broker.Policy) { p.VHost = "b" }, "name": func(p *broker.Policy) { p.Name = "b" }, "pattern": func(p *broker.Policy) { p.Pattern = "b" },
		"priority": func(p *broker.Policy) { p.Priority = 1 }, "apply-to": func(p *broker.Policy) { p.ApplyTo = "all" },
		"definition": func(p *broker.Policy) { p.Definition = map[string]any{"max-length": int64(6)} },
	} {
		other := p
		edit(&other)
		if ID(other) == ID(p) {
			t.Errorf("another %s has the same ID", name)
		}
	}
}

// B6: queues that were declared while nodes were missing get members, a few at a time, and only those below the target.
func TestSmallQuorumQueuesGetMembers(t *testing.T) {
	for version, waits := range map[string]bool{"3.10.8": true, "3.12.0": false, "4.3.6": true} {
		t.Run(version, func(t *testing.T) {
			object := queuePolicy("orders", "^orders", nil)
			object.Spec.Replication.Mode = v1alpha1.ReplicationQuorum
			w := newWorld(t, version, object)
			w.store(w.wanted())
			w.add(broker.Quorum, 0, numbered("orders.", 9)...)
			w.add(broker.Quorum, 0, "payments")
			for name, q := range w.queues {
				if name != "orders.09" {
					q.members, q.online = 1, 1
				}
			}
			w.queues["orders.01"].members = 2 // one is not online
			w.queues["orders.01"].joinedAt = w.now.Add(24 * time.Hour)
			grown := func() map[string]bool {
				names := map[string]bool{}
				for _, action := range w.last.Actions {
					if action.Verb != policy.GrowQueue || names[action.Queue.Name] {
						t.Errorf("not expected: %+v", action)
					}
					names[action.Queue.Name] = true
				}
				return names
			}
			w.step()
			if got := grown(); waits != (len(got) == 0) || len(got) > mostGrown || got["orders.01"] || got["orders.09"] || got["payments"] {
				t.Errorf("at once: %v", got)
			}
			object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInForce, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}}
			w.sleep(growPatience + time.Second)
			w.deaf = true
			w.step()
			if got := grown(); len(got) > 0 {
				t.Errorf("while nobody knows of alarms: %v", got)
			}
			w.deaf = false
			w.step()
			if got := grown(); (version != "3.10.8") != (len(got) > 0) {
				t.Errorf("after two minutes: %v", got)
			}
		})
	}
}
