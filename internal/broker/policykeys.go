package broker

import (
	"fmt"
	"slices"
)

// policyKey is what the broker knows of one policy key: in which versions it exists, which values it takes
// and which queue types take no part in a policy that has it.
type policyKey struct {
	since, until Version // until is exclusive; zero means no bound
	value        valueCheck
	unsupported  func(Version) []QueueType
}

func never(types ...QueueType) func(Version) []QueueType {
	return func(Version) []QueueType { return types }
}

var (
	v312  = Version{3, 12, 0}
	v3127 = Version{3, 12, 7}
	v313  = Version{3, 13, 0}
	v40   = Version{4, 0, 0}
	v43   = Version{4, 3, 0}
	v431  = Version{4, 3, 1}

	onlyClassic = never(Quorum, Stream)
	onlyQuorum  = never(Classic, Stream)
	onlyStream  = never(Classic, Quorum)
	noStream    = never(Stream)
)

// policyKeys follows the validators and the per-type capabilities of RabbitMQ 3.10 to 4.3. test/broker compares
// every row with real brokers.
var policyKeys = map[string]policyKey{
	"alternate-exchange":      {value: text},
	"dead-letter-exchange":    {value: text, unsupported: noStream},
	"dead-letter-routing-key": {value: text, unsupported: noStream},
	"dead-letter-strategy":    {value: oneOf("at-most-once", "at-least-once"), unsupported: onlyQuorum},
	"message-ttl":             {value: atLeast(0), unsupported: noStream},
	"expires":                 {value: atLeast(1), unsupported: noStream},
	"max-length":              {value: atLeast(0), unsupported: noStream},
	"max-length-bytes":        {value: atLeast(0)},
	"max-in-memory-length":    {value: atLeast(0), unsupported: inMemoryUnsupported},
	"max-in-memory-bytes":     {value: atLeast(0), unsupported: inMemoryUnsupported},
	"queue-mode":              {value: oneOf("default", "lazy"), unsupported: onlyClassic},
	"queue-version":           {value: between(1, 2)},
	"overflow":                {value: oneOf("drop-head", "reject-publish", "reject-publish-dlx"), unsupported: noStream},
	"delivery-limit":          {value: deliveryLimit, unsupported: onlyQuorum},
	"max-age":                 {value: maxAge, unsupported: onlyStream},
	"initial-cluster-size":    {value: atLeast(0), unsupported: onlyStream},
	"queue-leader-locator":    {value: oneOf("client-local", "balanced", "random", "least-leaders"), unsupported: leaderLocatorUnsupported},
	// 4.3 knows queue-master-locator but refuses it unless a deprecated feature is permitted.
	"queue-master-locator":     {until: v43, value: masterLocator, unsupported: onlyClassic},
	"consumer-timeout":         {since: v312, value: atLeast(0)},
	"target-group-size":        {since: v313, value: atLeast(1), unsupported: onlyQuorum},
	"stream-filter-size-bytes": {since: v313, value: between(16, 255)},

	"stream-max-segment-size-bytes": {value: between(0, 3_000_000_000), unsupported: onlyStream},
	"consumer-disconnected-timeout": {since: v43, value: atLeast(0)},
	"delayed-retry-type":            {since: v431, value: oneOf("all", "failed", "returned", "disabled")},
	"delayed-retry-min":             {since: v431, value: atLeast(1)},
	"delayed-retry-max":             {since: v431, value: atLeast(1)},

	"ha-mode":                {until: v40, value: oneOf("all", "exactly", "nodes"), unsupported: onlyClassic},
	"ha-params":              {until: v40, value: anything, unsupported: onlyClassic}, // by ha-mode: mirrorRule
	"ha-sync-mode":           {until: v40, value: oneOf("manual", "automatic"), unsupported: onlyClassic},
	"ha-sync-batch-size":     {until: v40, value: atLeast(1)}, // never without ha-mode
	"ha-promote-on-shutdown": {until: v40, value: oneOf("always", "when-synced"), unsupported: onlyClassic},
	"ha-promote-on-failure":  {until: v40, value: oneOf("always", "when-synced"), unsupported: onlyClassic},

	// Keys of plugins: a broker whose plugin is off refuses them, which only the broker can know.
	"federation-upstream":         {value: text},
	"federation-upstream-set":     {value: text},
	"federation-upstream-pattern": {value: text},
	"shards-per-node":             {value: numberAtLeastZero},
	"routing-key":                 {value: text},
}

func inMemoryUnsupported(v Version) []QueueType {
	if v.reaches(v3127) {
		return []QueueType{Classic, Stream}
	}
	return []QueueType{Stream}
}

func leaderLocatorUnsupported(v Version) []QueueType {
	if v.reaches(v40) {
		return nil
	}
	return []QueueType{Classic}
}

func (k policyKey) existsIn(v Version) bool {
	from := k.since == Version{} || v.reaches(k.since)
	gone := k.until != Version{} && v.reaches(k.until)
	return from && !gone
}

func (k policyKey) lifetime() string {
	switch {
	case k.until != Version{}:
		return fmt.Sprintf(" (gone since %s)", k.until.Line())
	case k.since != Version{}:
		return fmt.Sprintf(" (added in %s)", k.since)
	}
	return ""
}

// PolicyKeys lists the policy keys that this version knows, sorted. Keys of plugins are among them.
func (c Capabilities) PolicyKeys() []string {
	var keys []string
	for _, key := range sortedKeys(policyKeys) {
		if policyKeys[key].existsIn(c.Version) {
			keys = append(keys, key)
		}
	}
	return keys
}

// AllPolicyKeys lists the policy keys of every version that Warren runs, sorted.
func AllPolicyKeys() []string { return sortedKeys(policyKeys) }

// ValidateDefinition checks a policy definition against the keys and values that this version accepts, before
// the broker is asked. It returns one sentence per fault, in the order of the keys; none means that the broker is
// expected to accept it. Values may come from any decoder (NormalizeDefinition).
func (c Capabilities) ValidateDefinition(definition map[string]any) []string {
	if len(definition) == 0 {
		return []string{"the definition is empty: a policy needs at least one key"}
	}
	definition = NormalizeDefinition(definition)
	var faults []string
	for _, key := range sortedKeys(definition) {
		known, ok := policyKeys[key]
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%q is not a policy key of any supported RabbitMQ%s", key, suggestion(key, sortedKeys(policyKeys))))
		case !known.existsIn(c.Version):
			faults = append(faults, fmt.Sprintf("%q is not a policy key of RabbitMQ %s%s", key, c.Version, known.lifetime()))
		default:
			if fault := known.value(definition[key], c); fault != "" {
				faults = append(faults, fmt.Sprintf("%q %s", key, fault))
			}
		}
	}
	if len(faults) == 0 {
		// Rules between keys speak of keys that are right by themselves.
		faults = checkRules(definition)
	}
	return faults
}

// SupportsDefinition tells whether a queue of type t takes part in a policy with this definition: one key that
// its type does not support makes the broker skip the whole policy for that queue. key names the first such key.
func (c Capabilities) SupportsDefinition(t QueueType, definition map[string]any) (supported bool, key string) {
	for _, name := range sortedKeys(definition) {
		known, ok := policyKeys[name]
		if ok && known.unsupported != nil && slices.Contains(known.unsupported(c.Version), t) {
			return false, name
		}
	}
	return true, ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
