package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/observe"
	"github.com/warren-mq/warren/internal/policy"
	"github.com/warren-mq/warren/internal/policy/rollout"
	"github.com/warren-mq/warren/internal/status"
)

// decisionAge is how old what a write is decided on may be.
const decisionAge = 5 * time.Second

// visit is the pass over one cluster.
type visit struct {
	r      *QueuePolicyReconciler
	object *v1alpha1.QueuePolicy
	target policy.Target
	api    observe.Broker
	want   policy.Rendered
	seen   *policy.Vhost
	mine   policy.Claim
	rivals []policy.Claim
	owned  v1alpha1.OwnedPolicy
	out    *status.PolicyOn
}

// visit does the pass over one cluster. What goes wrong there is said there: the others go on.
func (r *QueuePolicyReconciler) visit(ctx context.Context, p *v1alpha1.QueuePolicy, target policy.Target) status.PolicyOn {
	out := status.PolicyOn{Cluster: target.Key, Owned: policy.Owned(p, target.Key), Rollout: policy.RolloutOf(p, target.Key)}
	if target.Reason != "" {
		out.Unasked = &status.Problem{Reason: target.Reason, Message: target.Message}
		return out
	}
	err := r.attempt(ctx, p, target, &out, false)
	if broker.KindOf(err) == broker.Unauthorized && target.Secret != "" {
		err = r.attempt(ctx, p, target, &out, true) // the Secret may have changed since it was read
	}
	if err != nil {
		out.Unasked = problemOf(err, p)
	}
	return out
}

func (r *QueuePolicyReconciler) attempt(ctx context.Context, p *v1alpha1.QueuePolicy, target policy.Target, out *status.PolicyOn, fresh bool) error {
	api, err := r.Reader.Open(ctx, p.Namespace, target, fresh)
	if err != nil {
		return err
	}
	v := visit{r: r, object: p, target: target, api: api, out: out}
	return v.pass(ctx)
}

// pass looks at the broker, decides, and carries the decision out if the status already records that the policy is
// ours: a crash after the record repeats the write, a crash before it has written nothing.
func (v *visit) pass(ctx context.Context) error {
	if err := v.render(ctx); err != nil || v.out.Refused != nil {
		return err
	}
	defer v.turn()()
	if err := v.observe(ctx); err != nil {
		return err
	}
	if !v.stands() {
		return nil
	}
	if err := v.overlaps(ctx); err != nil {
		return err
	}
	decision, before, err := v.decide(ctx)
	switch {
	case err != nil:
		return err
	case v.out.Refused != nil || v.out.Overlap != nil && v.out.Overlap.First:
		return nil
	case v.recordFirst():
		return nil
	}
	v.out.Rollout = decision.State
	v.out.LookAgain = decision.LookAgain
	v.out.Why, v.out.WhyReason = decision.Message, decision.Reason
	v.out.Actions = append(before, decision.Actions...)
	if v.object.Spec.Paused {
		v.out.Actions = nil
	}
	if done, err := v.carryOut(ctx); !done || err != nil {
		return err
	}
	v.finish(decision, len(v.out.Actions) > 0)
	return nil
}

// render says what is wanted of this broker.
func (v *visit) render(ctx context.Context) error {
	capabilities, err := v.api.Capabilities(ctx)
	if err != nil {
		return err
	}
	if v.want, err = policy.Render(v.object, capabilities); err != nil {
		v.out.Refused = problemOf(err, v.object)
		return nil
	}
	v.out.Warnings = slices.Clone(v.want.Warnings)
	if v.target.Secret != "" && v.api.Plain() {
		v.out.Warnings = append(v.out.Warnings, "managementUri of the connection Secret is http: the password goes over the network in the clear")
	}
	return nil
}

// observe reads everything that the pass decides on.
func (v *visit) observe(ctx context.Context) (err error) {
	if err := v.look(ctx); err != nil {
		return err
	}
	v.out.ReadAt = v.seen.ReadAt
	v.mine = policy.ClaimOf(v.object, v.api.UID)
	v.rivals, err = v.r.Reader.Rivals(ctx, v.object, v.target, v.api.UID)
	return err
}

// look reads what the pass needs of the vhost. What nothing has to be written for costs two bulk reads that all policies of
// the vhost share; before a write everything is read that the decision depends on, and lately.
func (v *visit) look(ctx context.Context) error {
	owned := policy.Owned(v.object, v.target.Key)
	parts := observe.Parts{Operators: v.want.Operator != nil || owned != nil && owned.Operator}
	parts.Topology = v.object.Spec.DeadLetter != nil
	notOlderThan, lately := v.r.notOlderThan(v.object, v.api.UID), v.r.Now().Add(-min(decisionAge, v.r.PollInterval))
	if owned == nil && notOlderThan.Before(lately) {
		notOlderThan = lately // whether it is there already decides whether it is written
	}
	vhost := v.object.Spec.VHost
	var err error
	if v.seen, err = v.api.Vhost(ctx, vhost, parts, notOlderThan); err != nil {
		return err
	}
	if v.want.In(v.seen) && (v.out.Rollout == nil || policy.RolloutOver(v.out.Rollout)) {
		return nil
	}
	parts.Needs = policy.NeedsOf(v.want)
	parts.Topology = parts.Topology || v.object.Spec.DeadLetter != nil
	parts.Counts = parts.Counts || rollout.NeedsCounts(v.object, v.out.Rollout)
	parts.Bytes = parts.Bytes || rollout.NeedsTaken(v.want, v.out.Rollout)
	if written := v.r.memory.vhostWritten(v.api.UID, vhost); v.staging() && notOlderThan.Before(written) {
		notOlderThan = written
	}
	if notOlderThan.Before(lately) {
		notOlderThan = lately
	}
	v.seen, err = v.api.Vhost(ctx, vhost, parts, notOlderThan)
	return err
}

// staging: a rollout is on its way. Those of one vhost take turns, and see what the others wrote: together they bring no more
// queues to synchronise at once than each may.
func (v *visit) staging() bool { return v.out.Rollout != nil && !policy.RolloutOver(v.out.Rollout) }

// turn waits until this pass may look at the vhost, and answers what ends its turn.
func (v *visit) turn() (end func()) {
	if v.moved() {
		v.out.Rollout = nil // it was about the other broker
	}
	if !v.staging() {
		return func() {}
	}
	return v.r.memory.turn(v.api.UID, v.object.Spec.VHost)
}

// moved: what is recorded is of another broker, that the same Secret or name stood for before.
func (v *visit) moved() bool { return v.out.Owned != nil && v.out.Owned.ClusterUID != v.api.UID }

// stands judges whether this object may write at all.
func (v *visit) stands() bool {
	name := v.object.BrokerPolicyName()
	v.out.Standing = policy.Judge(v.mine, v.rivals)
	owned := policy.Owned(v.object, v.target.Key)
	if v.out.Standing.Owner && !v.mine.Owns && len(v.want.Policy.Definition) > 0 {
		if s := policy.Foreign("policy", v.rivals, &v.want.Policy, policy.Find(v.seen.Policies, name), v.object.Spec.Adopt); s != nil {
			v.out.Standing = *s
		}
	}
	if v.out.Standing.Owner && (!v.mine.Owns || owned == nil || !owned.Operator) {
		if s := policy.Foreign("operator policy", v.rivals, v.want.Operator, policy.Find(v.seen.OperatorPolicies, name), v.object.Spec.Adopt); s != nil {
			v.out.Standing = *s
		}
	}
	if v.out.Standing.Owner {
		v.owned = v.recordable(owned)
		return true
	}
	if !v.mine.Owns || v.out.Standing.Reason == v1alpha1.ReasonOtherQueuePolicy {
		v.out.Owned, v.out.Rollout = nil, nil
	}
	return false
}

// recordable is the record that the next write needs.
func (v *visit) recordable(owned *v1alpha1.OwnedPolicy) v1alpha1.OwnedPolicy {
	name := v.object.BrokerPolicyName()
	mineToo := v.mine.Owns && owned != nil && owned.Operator && policy.Find(v.seen.OperatorPolicies, name) != nil
	return v1alpha1.OwnedPolicy{
		ClusterUID: v.api.UID, VHost: v.object.Spec.VHost, Name: name, Operator: v.want.Operator != nil || mineToo,
	}
}

// recordFirst records what is not recorded yet; the write comes in the next pass.
func (v *visit) recordFirst() bool {
	recorded := v.out.Owned
	if v.moved() && v.target.Secret != "" {
		v.r.tellLeftBehind(v.object, v.target.Secret, *recorded)
	}
	v.out.Owned = &v.owned
	if v.mine.Owns && recorded != nil && (recorded.Operator || !v.owned.Operator) {
		return false
	}
	v.out.Why, v.out.LookAgain = "about to be written: ownership is recorded first", cacheDelay
	return true
}

// overlaps looks for other policies of the same priority on the same queues.
func (v *visit) overlaps(ctx context.Context) error {
	if len(v.want.Policy.Definition) == 0 {
		return nil
	}
	neighbours, err := v.r.Reader.Neighbours(ctx, v.object, v.target)
	if err != nil {
		return err
	}
	var contenders []policy.Contender
	for _, other := range neighbours {
		if other.Spec.Priority == v.object.Spec.Priority {
			contenders = append(contenders, policy.ContenderOf(other, v.api.UID))
		}
	}
	applied := v.mine.Owns && policy.Same(v.want.Policy, policy.Find(v.seen.Policies, v.want.Policy.Name))
	v.out.Overlap = policy.OverlapOf(v.mine, v.want.Policy, applied, v.seen, contenders)
	return nil
}

// decide what to write; before are the objects that the policy points at. What is dangerous refuses it, unless the broker has
// it already or it is being taken back.
func (v *visit) decide(ctx context.Context) (decision rollout.Decision, before []policy.Action, err error) {
	earlier, err := v.earlier(ctx)
	if err != nil {
		return decision, nil, err
	}
	settled := status.IsTrue(v.object.Status.Conditions, v1alpha1.ConditionInSync, v.object.Generation)
	decision = rollout.Next(rollout.Input{
		Object: v.object, Rendered: v.want, Vhost: v.seen, State: v.out.Rollout,
		Settled: v.mine.Owns && settled, OwnsOperator: v.owned.Operator, Earlier: earlier, Now: v.r.Now(),
	})
	if warning := decision.Warning(); warning != "" {
		v.out.Warnings = append(v.out.Warnings, warning)
	}
	has := v.want.In(v.seen)
	dangers := policy.DangersOf(v.object, v.want, *v.seen)
	v.out.Warnings = append(v.out.Warnings, dangers.Warnings...)
	refusals := dangers.Refusals
	if v.seen.Exchanges != nil {
		dead := policy.PlanDeadLetters(v.object, v.want, *v.seen)
		v.out.Warnings = append(v.out.Warnings, dead.Warnings...)
		refusals = append(dead.Refusals, refusals...)
		before = dead.Actions
		if has {
			for _, r := range dead.Refusals {
				v.out.Warnings = append(v.out.Warnings, r.Message)
			}
		}
	}
	if len(refusals) > 0 && !has && !policy.GoesBack(v.object, decision.State) {
		v.out.Refused = &status.Problem{Reason: refusals[0].Reason, Message: refusals[0].Message}
	}
	return decision, before, nil
}

// earlier are the QueuePolicies of lower waves on this cluster that are not done.
func (v *visit) earlier(ctx context.Context) ([]string, error) {
	if v.object.Spec.Rollout == nil || v.object.Spec.Rollout.Wave == 0 {
		return nil, nil
	}
	others, err := v.r.Reader.PoliciesAt(ctx, v.target)
	if err != nil {
		return nil, err
	}
	return policy.EarlierWaves(v.object, others, v.target, v.api.UID), nil
}

// finish says what is true after all was carried out.
func (v *visit) finish(decision rollout.Decision, wrote bool) {
	v.out.Wrote = wrote
	staged := v.object.Spec.Rollout != nil || decision.State != nil && !policy.RolloutOver(decision.State)
	v.out.Done = decision.Written || wrote && !staged && decision.Reason == ""
	if v.out.Done && !wrote {
		effect := policy.EffectIn(v.object, v.want, v.seen)
		v.out.Effect = &effect
	}
	if wrote && v.out.LookAgain == 0 {
		v.out.LookAgain = settleInterval
	}
}

// settleInterval is how soon is looked at what a write did.
const settleInterval = time.Second

// carryOut does what was decided, in its order. What the broker refuses ends it.
func (v *visit) carryOut(ctx context.Context) (done bool, err error) {
	for i, action := range v.out.Actions {
		err := v.r.act(ctx, v.api, v.object, action)
		v.r.wrote(v.object, v.api.UID)
		if broker.IsInvalid(err) {
			v.out.Refused = problemOf(err, v.object)
			return false, nil
		}
		if err != nil {
			if i > 0 {
				v.out.Why = fmt.Sprintf("%d of %d writes were carried out", i, len(v.out.Actions))
			}
			return false, err
		}
	}
	return true, nil
}
