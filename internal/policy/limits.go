package policy

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// The values of overflow.
const (
	dropHead         = "drop-head"
	rejectPublish    = "reject-publish"
	rejectPublishDLX = "reject-publish-dlx"
)

var overflowModes = map[v1alpha1.OverflowMode]string{
	v1alpha1.DropHead: dropHead, v1alpha1.RejectPublish: rejectPublish, v1alpha1.RejectPublishDeadLetter: rejectPublishDLX,
}

// limitKeys gives the keys of spec.limits.
func limitKeys(spec *v1alpha1.QueuePolicySpec, c broker.Capabilities) ([]setting, error) {
	limits := spec.Limits
	if limits == nil {
		return nil, nil
	}
	if limits.DeliveryLimit != nil && *limits.DeliveryLimit < 0 && !c.UnlimitedDelivery {
		return nil, unsupported("limits.deliveryLimit -1, no limit, exists since RabbitMQ 4.0; leave it out: RabbitMQ %s has none by default", c.Version)
	}
	if limits.ConsumerTimeout != nil && !c.KnowsPolicyKey("consumer-timeout") {
		return nil, unsupported("limits.consumerTimeout exists in policies since RabbitMQ 3.12; leave it out: RabbitMQ %s has one for all queues in its configuration", c.Version)
	}
	var keys keyList
	keys.whole("max-length", limits.MaxLength, "limits.maxLength")
	keys.bytes("max-length-bytes", limits.MaxLengthBytes, "limits.maxLengthBytes")
	keys.time("message-ttl", limits.MessageTTL, 0, "limits.messageTTL")
	keys.time("expires", limits.Expires, 1, "limits.expires")
	keys.time("consumer-timeout", limits.ConsumerTimeout, 1, "limits.consumerTimeout")
	keys.whole("delivery-limit", limits.DeliveryLimit, "limits.deliveryLimit")
	if limits.Overflow != "" {
		keys.add("overflow", overflowModes[limits.Overflow], "limits.overflow")
	}
	if limits.Overflow == v1alpha1.RejectPublishDeadLetter && (spec.Replication.Mode == v1alpha1.ReplicationQuorum || spec.ApplyTo == v1alpha1.TargetQuorumQueues) {
		return nil, invalid("limits.overflow RejectPublishDeadLetter is for classic queues; quorum queues would drop their oldest messages instead: use RejectPublish")
	}
	return keys.settings, keys.err
}

// hardKeys are the keys of the operator policy.
func hardKeys(hard *v1alpha1.HardLimits) (map[string]any, error) {
	out := map[string]any{}
	if hard == nil {
		return out, nil
	}
	var keys keyList
	keys.whole("max-length", hard.MaxLength, "hardLimits.maxLength")
	keys.bytes("max-length-bytes", hard.MaxLengthBytes, "hardLimits.maxLengthBytes")
	keys.time("message-ttl", hard.MessageTTL, 0, "hardLimits.messageTTL")
	keys.time("expires", hard.Expires, 1, "hardLimits.expires")
	keys.whole("delivery-limit", hard.DeliveryLimit, "hardLimits.deliveryLimit")
	for _, s := range keys.settings {
		out[s.key] = s.value
	}
	if keys.err == nil && len(out) == 0 {
		return nil, invalid("hardLimits says nothing: set a limit or leave it out")
	}
	return out, keys.err
}

// retryKeys give the keys of spec.delayedRetry.
func retryKeys(spec *v1alpha1.QueuePolicySpec, c broker.Capabilities) ([]setting, error) {
	retry := spec.DelayedRetry
	switch {
	case retry == nil:
		return nil, nil
	case !c.KnowsPolicyKey("delayed-retry-min"):
		return nil, unsupported("delayedRetry exists since RabbitMQ 4.3.1, not in %s; leave it out, or dead-letter to a queue with a message TTL that leads back", c.Version)
	case notAbout(spec, v1alpha1.TargetQuorumQueues):
		return nil, invalid("delayedRetry is for quorum queues and would have no effect here: use replication mode Quorum or leave it out")
	}
	kind, known := map[v1alpha1.DelayedRetryType]string{
		"": "all", v1alpha1.RetryAll: "all", v1alpha1.RetryFailed: "failed", v1alpha1.RetryReturned: "returned",
	}[retry.Type]
	if !known {
		return nil, invalid("delayedRetry.type %q is none of All, Failed, Returned", retry.Type)
	}
	var keys keyList
	keys.add("delayed-retry-type", kind, "delayedRetry.type")
	keys.time("delayed-retry-min", &retry.Min, 1, "delayedRetry.min")
	keys.time("delayed-retry-max", retry.Max, 1, "delayedRetry.max")
	return keys.settings, keys.err
}

// versionKeys give the key of spec.queueVersion.
func versionKeys(spec *v1alpha1.QueuePolicySpec, c broker.Capabilities) ([]setting, error) {
	version := spec.QueueVersion
	switch {
	case version == nil:
		return nil, nil
	case *version == 1 && !c.MirroredQueues:
		return nil, unsupported("queueVersion 1 was removed in RabbitMQ 4.0; leave it out: RabbitMQ %s stores all classic queues in version 2", c.Version)
	case notAbout(spec, v1alpha1.TargetClassicQueues):
		return nil, invalid("queueVersion is for classic queues and would have no effect here: leave it out")
	}
	return []setting{{"queue-version", int64(*version), "queueVersion"}}, nil
}

// notAbout tells whether the spec is about other queues than those of this type.
func notAbout(spec *v1alpha1.QueuePolicySpec, only v1alpha1.PolicyTarget) bool {
	switch spec.ApplyTo {
	case "", v1alpha1.TargetQueues, v1alpha1.TargetAll, only:
	default:
		return true
	}
	return contradicts(spec.Replication.Mode, only)
}

// overflowFor tells whether there is a hard length limit and nothing yet says what happens at it.
func overflowFor(p *v1alpha1.QueuePolicy, hard map[string]any) bool {
	return p.Spec.ApplyTo != v1alpha1.TargetStreams && limitsLength(hard)
}

// completeOverflow adds what the broker would not do by itself: publishers are refused at a limit of spec.limits or
// spec.hardLimits, where the broker would drop the oldest messages, and at-least-once dead-lettering needs that too.
// A limit in the raw definition means what it says.
func completeOverflow(p *v1alpha1.QueuePolicy, definition, hard map[string]any) error {
	overflow, given := definition["overflow"]
	if definition["dead-letter-strategy"] == "at-least-once" && given && overflow != rejectPublish {
		return invalid("dead-lettering at least once works only with overflow reject-publish; with %v RabbitMQ would silently fall back to at most once", overflow)
	}
	if given || p.Spec.ApplyTo == v1alpha1.TargetStreams || p.Spec.ApplyTo == v1alpha1.TargetExchanges {
		return nil
	}
	typed := p.Spec.Limits != nil && (p.Spec.Limits.MaxLength != nil || p.Spec.Limits.MaxLengthBytes != nil)
	if typed || limitsLength(hard) || definition["dead-letter-strategy"] == "at-least-once" {
		definition["overflow"] = rejectPublish
	}
	return nil
}

// lengthKeys limit how long a queue may be.
var lengthKeys = []string{"max-length", "max-length-bytes"}

func limitsLength(definition map[string]any) bool {
	for _, key := range lengthKeys {
		if _, limited := definition[key]; limited {
			return true
		}
	}
	return false
}

// keyList collects keys; err is the first fault.
type keyList struct {
	settings []setting
	err      error
}

func (l *keyList) add(key string, value any, field string) {
	l.settings = append(l.settings, setting{key, value, field})
}

func (l *keyList) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *keyList) whole(key string, value *int64, field string) {
	if value != nil {
		l.add(key, *value, field)
	}
}

func (l *keyList) bytes(key string, quantity *resource.Quantity, field string) {
	if quantity == nil {
		return
	}
	value := quantity.Value()
	if value < 1 || quantity.Cmp(*resource.NewQuantity(value, resource.BinarySI)) != 0 {
		l.fail(invalid("%s must be a whole number of bytes above 0, as 10Gi, not %s", field, quantity))
		return
	}
	l.add(key, value, field)
}

// time adds a duration in the broker's milliseconds.
func (l *keyList) time(key string, duration *metav1.Duration, least int64, field string) {
	if duration == nil {
		return
	}
	value := duration.Milliseconds()
	switch {
	case duration.Duration%time.Millisecond != 0, value < least:
		l.fail(invalid("%s must be whole milliseconds, %d or more, not %s", field, least, duration.Duration))
	default:
		l.add(key, value, field)
	}
}

// BeforeLimits is the policy with what happens at its length limits but without the limits, and whether there is such a step:
// on a classic queue a limit that comes with its overflow in one write, or before it, drops everything above the limit.
func BeforeLimits(want broker.Policy) (broker.Policy, bool) {
	if _, says := want.Definition["overflow"]; !says || !limitsLength(want.Definition) || want.Definition["overflow"] == dropHead {
		return want, false
	}
	first := want
	first.Definition = broker.NormalizeDefinition(want.Definition)
	for _, key := range lengthKeys {
		delete(first.Definition, key)
	}
	return first, true
}

// specWarnings are what is accepted and still dangerous whatever the queues are.
func specWarnings(p *v1alpha1.QueuePolicy, c broker.Capabilities, definition, hard map[string]any) []string {
	var out []string
	if warning := deliveryWarning(p, c, definition, hard); warning != "" {
		out = append(out, warning)
	}
	if len(hard) > 0 && p.Spec.Replication.Mode != v1alpha1.ReplicationNone && !c.CanApplyTo(broker.ApplyToQuorumQueues) && hard["delivery-limit"] == nil {
		out = append(out, fmt.Sprintf("RabbitMQ %s cannot keep an operator policy off queues of other types: hardLimits are in force on every queue that matches the pattern", c.Version))
	}
	if _, mirrored := definition["ha-mode"]; mirrored && p.Spec.QuorumDecision == nil {
		out = append(out, "mirrored queues are gone in RabbitMQ 4.0: set quorumDecision to the day by which these become quorum queues")
	}
	if definition["consumer-timeout"] != nil && !c.ClassicConsumerTimeout && !quorumOnly(&p.Spec) {
		out = append(out, fmt.Sprintf("the consumer timeout has an effect on quorum queues only in RabbitMQ %s", c.Version))
	}
	return out
}

// deliveryWarning: a message that is returned too often is dropped where nothing takes dead ones.
func deliveryWarning(p *v1alpha1.QueuePolicy, c broker.Capabilities, definition, hard map[string]any) string {
	if _, kept := definition["dead-letter-exchange"]; kept {
		return ""
	}
	limit, limited := definition["delivery-limit"].(int64)
	if hardest, given := hard["delivery-limit"].(int64); given && (!limited || limit < 0 || hardest < limit) {
		limit, limited = hardest, true
	}
	switch {
	case limited && limit < 0:
		return ""
	case limited:
		return fmt.Sprintf("a message that is returned more than %d times is dropped: set deadLetter to keep it", limit)
	case p.Spec.Replication.Mode == v1alpha1.ReplicationQuorum && c.DefaultDeliveryLimit != nil:
		return fmt.Sprintf("RabbitMQ %s drops a message of a quorum queue that is returned more than %d times: set deadLetter to keep it, or limits.deliveryLimit",
			c.Version, *c.DefaultDeliveryLimit)
	}
	return ""
}
