package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// world is a broker in time, as far as a rollout sees it: policies are stored at once and shown as in force at once, the
// queue's process obeys them later, and mirrors take their time to synchronise.
type world struct {
	t      *testing.T
	caps   broker.Capabilities
	nodes  []string
	now    time.Time
	begun  time.Time
	chance *rand.Rand // nil: everything takes one second

	policies map[string]broker.Policy
	queues   map[string]*process
	alarms   []string
	deaf     bool // nobody knows of alarms
	earlier  []string

	object *v1alpha1.QueuePolicy
	state  *v1alpha1.RolloutStatus
	last   Decision

	foreign map[string]broker.Policy
	most    int // queues that may synchronise
	allowed []map[string]any
	writes  int
	faults  []string
	log     strings.Builder
	said    string
	fired   map[string]bool
	// twice: decisions are asked for twice and must agree.
	twice bool
	// watchInput: what Next is given must stay as it is.
	watchInput bool
	matchers   map[string]policy.Matcher
	names      []string // of the queues, nil after a change
	// crash tells at each boundary whether the process dies there.
	crash func() bool
}

// process is a queue and what it obeys.
type process struct {
	kind            broker.QueueType
	messages        int64
	inForce         string
	effective       map[string]any
	obeyed, taken   map[string]any // taken is what it says that it obeys, some seconds late
	obeysAt         time.Time      // zero: it does
	mirrors, inSync int
	syncedAt        time.Time
	members, online int
	joinedAt        time.Time // of the last member
	exclusive       bool
	silent          bool // the broker does not say what is in force
	dropped         bool
}

func newWorld(t *testing.T, version string, object *v1alpha1.QueuePolicy) *world {
	t.Helper()
	parsed, err := broker.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	caps, err := broker.CapabilitiesOf(parsed)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)
	w := &world{
		t: t, caps: caps, nodes: []string{"a", "b", "c"}, now: begun, begun: begun, object: object,
		policies: map[string]broker.Policy{}, queues: map[string]*process{}, foreign: map[string]broker.Policy{}, fired: map[string]bool{},
		crash: func() bool { return false }, most: 1 << 30, matchers: map[string]policy.Matcher{},
	}
	return w
}

func (w *world) add(kind broker.QueueType, messages int64, names ...string) {
	for _, name := range names {
		q := &process{kind: kind, messages: messages, members: 3, online: 3}
		w.queues[name], w.names = q, nil
		w.show(name, q)
		q.obeyed, q.taken = q.effective, q.effective
		q.mirrors = w.mirrorsOf(q.effective)
		q.inSync = q.mirrors
	}
}

func (w *world) mirrorsOf(definition map[string]any) int {
	if definition["ha-mode"] != "exactly" {
		return 0
	}
	count, _ := definition["ha-params"].(int64)
	return min(int(count), len(w.nodes)) - 1
}

// foreignPolicy is somebody else's, and must be there unchanged at the end.
func (w *world) foreignPolicy(p broker.Policy) {
	p.VHost = "/"
	w.foreign[p.Name] = p
	w.store(p)
}

func (w *world) store(p broker.Policy) {
	p.Definition = broker.NormalizeDefinition(p.Definition)
	w.policies[p.Name] = p
	w.apply()
}

func (w *world) remove(name string) {
	delete(w.policies, name)
	w.apply()
}

// apply shows on every queue what is stored, and lets its process obey a while later.
func (w *world) apply() {
	for _, name := range w.sorted() {
		w.show(name, w.queues[name])
	}
	w.check()
}

func (w *world) sorted() []string {
	if len(w.names) != len(w.queues) {
		w.names = slices.Sorted(maps.Keys(w.queues))
	}
	return w.names
}

func (w *world) show(name string, q *process) {
	var best *broker.Policy
	for _, key := range slices.Sorted(maps.Keys(w.policies)) {
		p := w.policies[key]
		matcher, ok := w.matchers[p.Pattern]
		if !ok {
			matcher = policy.NewMatcher(p.Pattern)
			w.matchers[p.Pattern] = matcher
		}
		matches, known := matcher.Match(name)
		if known && matches && policy.AppliesTo(p, broker.Queue{Type: q.kind}, w.caps) {
			if best != nil && best.Priority == p.Priority && !w.fired["somebody edits its names"] {
				w.fault("%q: policies %q and %q have the same priority", name, best.Name, p.Name)
			}
			if best == nil || p.Priority > best.Priority {
				best = &p
			}
		}
	}
	was, wasName := q.effective, q.inForce
	q.inForce, q.effective = "", map[string]any{}
	if best != nil {
		q.inForce, q.effective = best.Name, best.Definition
	}
	const exchange = "dead-letter-exchange"
	if assured(q.effective) && !assured(was) && was[exchange] != q.effective[exchange] {
		w.fault("queue %q got at-least-once with its exchange in one change", name)
	}
	if wasName != q.inForce || !broker.EqualDefinitions(was, q.effective) {
		q.obeysAt = w.now.Add(w.later(20000) * time.Millisecond)
		if len(w.allowed) > 0 && w.phase() == v1alpha1.RolloutCleanup && was != nil && !broker.EqualDefinitions(q.effective, w.wanted().Definition) {
			w.fault("queue %q went back to %v of %q", name, q.effective, q.inForce)
		}
		if len(w.allowed) > 0 && !slices.ContainsFunc(w.allowed, func(d map[string]any) bool { return broker.EqualDefinitions(d, q.effective) }) {
			w.fault("queue %q has neither the old nor the new definition but %v of %q", name, q.effective, q.inForce)
		}
	}
}

// later is up to so many milliseconds.
func (w *world) later(most int) time.Duration {
	if w.chance == nil {
		return 1000
	}
	return time.Duration(w.chance.IntN(most) + 1)
}

// pass time by, in steps.
func (w *world) sleep(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(500 * time.Millisecond)
		for _, name := range w.sorted() {
			w.tick(name, w.queues[name])
		}
		w.check()
	}
}

func (w *world) tick(name string, q *process) {
	if !q.obeysAt.IsZero() && !w.now.Before(q.obeysAt) {
		q.obeysAt = time.Time{}
		w.obey(name, q)
	}
	if w.now.Truncate(5*time.Second).Equal(w.now) || q.taken == nil {
		q.taken = q.obeyed
	}
	if q.online < q.members && !w.now.Before(q.joinedAt) {
		q.online = q.members
	}
	if q.inSync < q.mirrors && !w.now.Before(q.syncedAt) {
		q.inSync = q.mirrors
	}
}

// obey is what a queue's process does with a changed definition: limits come before what happens at them.
func (w *world) obey(name string, q *process) {
	limit, limited := q.effective["max-length"].(int64)
	if q.kind == broker.Classic && limited && q.messages > limit && !refusesAtLimit(q.obeyed) {
		q.dropped = true
		w.fault("queue %q dropped %d messages", name, q.messages-limit)
		q.messages = limit
	}
	q.obeyed = q.effective
	if q.kind != broker.Classic {
		return
	}
	wanted := w.mirrorsOf(q.effective)
	if wanted > q.mirrors {
		q.syncedAt = w.now.Add(w.later(8000) * time.Millisecond)
	}
	q.mirrors, q.inSync = wanted, min(q.inSync, wanted)
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, w.clock()+" "+fmt.Sprintf(format, args...))
}

// check holds what must be true at every moment.
func (w *world) check() {
	syncing := 0
	for _, q := range w.queues {
		if q.online < q.members || q.inSync < max(q.mirrors, w.mirrorsOf(q.effective)) {
			syncing++
		}
	}
	if syncing > w.most {
		w.fault("%d queues synchronise", syncing)
	}
	for name, p := range w.foreign {
		if have, ok := w.policies[name]; !ok || !policy.Same(p, &have) {
			w.fault("the foreign policy %q was touched", name)
		}
	}
}

func (w *world) clock() string {
	d := w.now.Sub(w.begun).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func (w *world) vhost() *policy.Vhost {
	v := &policy.Vhost{
		Name: "/", Capabilities: w.caps, RunningNodes: len(w.nodes), Nodes: w.nodes, Alarms: w.alarms, AlarmsKnown: !w.deaf, Counted: true, ReadAt: w.now,
	}
	for _, name := range slices.Sorted(maps.Keys(w.policies)) {
		v.Policies = append(v.Policies, w.policies[name])
	}
	for _, name := range w.sorted() {
		q := w.queues[name]
		inForce, messages := q.inForce, q.messages
		out := broker.Queue{VHost: "/", Name: name, Type: q.kind, Policy: &inForce, EffectiveDefinition: q.effective, Taken: q.taken, Messages: &messages, Exclusive: q.exclusive, Node: "a"}
		if q.silent {
			out.Policy, out.EffectiveDefinition, out.Taken = nil, nil, nil
		}
		switch q.kind {
		case broker.Classic:
			out.Mirrors, out.SynchronisedMirrors = []string{"b", "c"}[:q.mirrors], []string{"b", "c"}[:q.inSync]
		default:
			out.Members, out.Online = w.nodes[:q.members], w.nodes[:q.online]
		}
		v.Queues = append(v.Queues, out)
	}
	return v
}

// step is one pass of the operator. It ends early when it crashes.
func (w *world) step() (crashed bool) {
	rendered, err := policy.Render(w.object, w.caps)
	if err != nil {
		w.t.Fatal(err)
	}
	in := Input{Object: w.object, Rendered: rendered, Vhost: w.vhost(), State: w.state.DeepCopy(), Earlier: slices.Clone(w.earlier), Now: w.now}
	in.Settled = w.last.Written
	if !NeedsTaken(rendered, w.state) {
		for i := range in.Vhost.Queues {
			in.Vhost.Queues[i].Taken = nil
		}
	}
	given, _ := json.Marshal([]any{in.State, in.Earlier, in.Object})
	d := Next(in)
	if after, _ := json.Marshal([]any{in.State, in.Earlier, in.Object}); w.watchInput && string(after) != string(given) {
		w.t.Fatalf("Next changed what it was given:\n%s\n%s", given, after)
	}
	if again := Next(in); w.twice && describe(again) != describe(d) {
		w.t.Fatalf("two decisions on the same facts:\n%s\n%s", describe(d), describe(again))
	}
	if len(d.Actions) > 0 && step(d.State) != step(w.state) {
		w.t.Fatalf("%s: a pass that writes also goes on to another step: %s, then %s", w.clock(), step(w.state), step(d.State))
	}
	w.tell(d)
	for _, action := range d.Actions {
		if w.crash() {
			return true
		}
		w.carryOut(action)
	}
	if w.crash() {
		return true
	}
	w.state = d.State.DeepCopy()
	w.last = d
	return w.crash()
}

// step is what a recorded state decides by.
func step(s *v1alpha1.RolloutStatus) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s %d", s.ID, s.Phase, s.Batch)
}

func (w *world) carryOut(a policy.Action) {
	w.writes++
	if _, foreign := w.foreign[a.Policy.Name]; foreign {
		w.fault("%s of the foreign policy %q", a.Verb, a.Policy.Name)
	}
	if len(a.Policy.Pattern) > policy.MaxPattern {
		w.fault("a pattern of %d bytes", len(a.Policy.Pattern))
	}
	switch a.Verb {
	case policy.PutPolicy:
		if faults := w.caps.ValidateDefinition(a.Policy.Definition); len(faults) > 0 {
			w.fault("policy %q would be refused: %v", a.Policy.Name, faults)
		}
		w.store(a.Policy)
	case policy.DeletePolicy:
		w.remove(a.Policy.Name)
	case policy.GrowQueue:
		w.writes--
		if q := w.queues[a.Queue.Name]; q.members < len(w.nodes) && w.nodes[q.members] == a.Node {
			q.members++
			q.joinedAt = w.now.Add(w.later(20000) * time.Millisecond)
		}
	default:
		w.t.Fatalf("%s was not expected", a.Verb)
	}
}

func (w *world) tell(d Decision) {
	words := strings.TrimSpace(Words(w.object, d.State) + ": " + d.Reason + " " + d.Message)
	if words != w.said {
		fmt.Fprintf(&w.log, "%s  %s\n", w.clock(), words)
		w.said = words
	}
	w.log.WriteString(describeActions(d.Actions))
}

func describe(d Decision) string {
	state, err := json.Marshal(d.State)
	return fmt.Sprintf("%s %v %s %s\n%s", state, err, d.Reason, d.Message, describeActions(d.Actions))
}

func describeActions(actions []policy.Action) string {
	var out strings.Builder
	for _, a := range actions {
		drift := ""
		if a.Drift {
			drift = " (drift)"
		}
		if a.Verb == policy.GrowQueue {
			fmt.Fprintf(&out, "         grow %s onto %s: %s\n", a.Queue.Name, a.Node, a.Why)
			continue
		}
		if a.Verb == policy.DeletePolicy {
			fmt.Fprintf(&out, "         delete %s%s\n", a.Policy.Name, drift)
			continue
		}
		what := a.Policy.Pattern
		if names, ok := policy.ExactNames(what); ok {
			what = fmt.Sprintf("%d queues %q", len(names), names[:min(3, len(names))])
		}
		fmt.Fprintf(&out, "         put %s on %s, priority %d: %s%s\n", a.Policy.Name, what, a.Policy.Priority, policy.Describe(a.Policy.Definition), drift)
	}
	return out.String()
}

// once does something the first time that its condition holds.
func (w *world) once(name string, when bool, do func()) {
	if when && !w.fired[name] {
		w.fired[name] = true
		fmt.Fprintf(&w.log, "%s  -- %s\n", w.clock(), name)
		do()
	}
}

func (w *world) phase() v1alpha1.RolloutPhase {
	if w.state == nil {
		return ""
	}
	return w.state.Phase
}

func (w *world) at(phase v1alpha1.RolloutPhase, batch int) bool {
	return w.phase() == phase && int(w.state.Batch) == batch
}

// run passes until the rollout rests, or too many passes were made.
func (w *world) run(events func(*world), rests func(*world) bool) {
	const most = 3000
	for range most {
		if events != nil {
			events(w)
		}
		if w.step() {
			w.sleep(time.Second)
			continue
		}
		pause := w.last.LookAgain
		if pause == 0 {
			pause = 30 * time.Second
		}
		if len(w.last.Actions) == 0 && rests(w) {
			return
		}
		w.sleep(pause)
	}
	w.fault("no end after %d passes: %s", most, w.said)
}

func (w *world) temporaries() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.policies)) {
		if _, foreign := w.foreign[name]; !foreign && strings.HasPrefix(name, w.object.BrokerPolicyName()+"~") {
			out = append(out, name)
		}
	}
	return out
}

func queuePolicy(name, pattern string, rollout *v1alpha1.RolloutSpec) *v1alpha1.QueuePolicy {
	return &v1alpha1.QueuePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "messaging"},
		Spec: v1alpha1.QueuePolicySpec{
			VHost: "/", Pattern: pattern, Rollout: rollout, Replication: v1alpha1.ReplicationSpec{Mode: v1alpha1.ReplicationNone},
		},
	}
}

func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%02d", prefix, i+1))
	}
	return out
}
