package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// valueKind is the shape that the broker's policy validator asks of a key's value.
type valueKind int

const (
	text valueKind = iota
	nonNegative
	positive
	integer
	oneOf
	anything
)

// policyKey is what the broker knows of one policy key: in which versions it exists, which values it takes
// and which queue types take no part in a policy that has it.
type policyKey struct {
	since, until Version // until is exclusive; zero means no bound
	kind         valueKind
	values       []string
	unsupported  func(Version) []QueueType
}

func never(types ...QueueType) func(Version) []QueueType {
	return func(Version) []QueueType { return types }
}

var (
	v312 = Version{3, 12, 0}
	v313 = Version{3, 13, 0}
	v40  = Version{4, 0, 0}
	v43  = Version{4, 3, 0}
	v431 = Version{4, 3, 1}

	onlyClassic = never(Quorum, Stream)
	onlyQuorum  = never(Classic, Stream)
	onlyStream  = never(Classic, Quorum)
	noStream    = never(Stream)
)

// policyKeys follows the validator and the per-type capabilities of RabbitMQ 3.10 to 4.3.
var policyKeys = map[string]policyKey{
	"alternate-exchange":       {kind: text},
	"dead-letter-exchange":     {kind: text, unsupported: noStream},
	"dead-letter-routing-key":  {kind: text, unsupported: noStream},
	"dead-letter-strategy":     {kind: oneOf, values: []string{"at-most-once", "at-least-once"}, unsupported: onlyQuorum},
	"message-ttl":              {kind: nonNegative, unsupported: noStream},
	"expires":                  {kind: positive, unsupported: noStream},
	"max-length":               {kind: nonNegative, unsupported: noStream},
	"max-length-bytes":         {kind: nonNegative},
	"max-in-memory-length":     {kind: nonNegative, unsupported: inMemoryUnsupported},
	"max-in-memory-bytes":      {kind: nonNegative, unsupported: inMemoryUnsupported},
	"queue-mode":               {kind: oneOf, values: []string{"default", "lazy"}, unsupported: onlyClassic},
	"queue-version":            {kind: integer},
	"overflow":                 {kind: oneOf, values: []string{"drop-head", "reject-publish", "reject-publish-dlx"}, unsupported: noStream},
	"delivery-limit":           {kind: integer, unsupported: onlyQuorum},
	"max-age":                  {kind: text, unsupported: onlyStream},
	"initial-cluster-size":     {kind: positive, unsupported: onlyStream},
	"queue-leader-locator":     {kind: oneOf, values: []string{"client-local", "balanced", "random", "least-leaders"}, unsupported: leaderLocatorUnsupported},
	"queue-master-locator":     {until: v43, kind: oneOf, values: []string{"client-local", "min-masters", "random"}, unsupported: onlyClassic},
	"consumer-timeout":         {since: v312, kind: positive, unsupported: noStream},
	"target-group-size":        {since: v313, kind: positive, unsupported: onlyQuorum},
	"stream-filter-size-bytes": {since: v313, kind: positive},

	"stream-max-segment-size-bytes": {kind: positive, unsupported: onlyStream},
	"consumer-disconnected-timeout": {since: v43, kind: positive},
	"delayed-retry-type":            {since: v431, kind: text},
	"delayed-retry-min":             {since: v431, kind: nonNegative},
	"delayed-retry-max":             {since: v431, kind: nonNegative},

	"ha-mode":                {until: v40, kind: oneOf, values: []string{"all", "exactly", "nodes"}, unsupported: onlyClassic},
	"ha-params":              {until: v40, kind: anything, unsupported: onlyClassic},
	"ha-sync-mode":           {until: v40, kind: oneOf, values: []string{"manual", "automatic"}, unsupported: onlyClassic},
	"ha-sync-batch-size":     {until: v40, kind: positive, unsupported: onlyClassic},
	"ha-promote-on-shutdown": {until: v40, kind: oneOf, values: []string{"always", "when-synced"}, unsupported: onlyClassic},
	"ha-promote-on-failure":  {until: v40, kind: oneOf, values: []string{"always", "when-synced"}, unsupported: onlyClassic},

	// Keys of plugins: the broker decides, since only it knows which plugins are on.
	"federation-upstream":         {kind: text, unsupported: noStream},
	"federation-upstream-set":     {kind: text, unsupported: noStream},
	"federation-upstream-pattern": {kind: text, unsupported: noStream},
	"shards-per-node":             {kind: nonNegative},
	"routing-key":                 {kind: text},
}

func inMemoryUnsupported(v Version) []QueueType {
	if v.atLeast(3, 12, 0) {
		return []QueueType{Classic, Stream}
	}
	return []QueueType{Stream}
}

func leaderLocatorUnsupported(v Version) []QueueType {
	if v.atLeast(4, 0, 0) {
		return nil
	}
	return []QueueType{Classic}
}

func (k policyKey) existsIn(v Version) bool {
	from := k.since == Version{} || v.atLeast(k.since.Major, k.since.Minor, k.since.Patch)
	gone := k.until != Version{} && v.atLeast(k.until.Major, k.until.Minor, k.until.Patch)
	return from && !gone
}

// ValidateDefinition checks a policy definition against the keys and value types that this version accepts,
// before the broker is asked. It returns one sentence per fault, in the order of the keys; none means that
// the broker is expected to accept it. Values are as decoded from JSON (numbers float64 or integer).
func (c Capabilities) ValidateDefinition(definition map[string]any) []string {
	if len(definition) == 0 {
		return []string{"the definition is empty: a policy needs at least one key"}
	}
	var faults []string
	for _, key := range sortedKeys(definition) {
		known, ok := policyKeys[key]
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%q is not a policy key of any supported RabbitMQ%s", key, suggestion(key)))
		case !known.existsIn(c.Version):
			faults = append(faults, fmt.Sprintf("%q is not a policy key of RabbitMQ %s%s", key, c.Version, known.lifetime()))
		default:
			if fault := known.check(definition[key], c); fault != "" {
				faults = append(faults, fmt.Sprintf("%q %s", key, fault))
			}
		}
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

func (k policyKey) lifetime() string {
	switch {
	case k.until != Version{}:
		return fmt.Sprintf(" (removed in %s)", k.until.Line())
	case k.since != Version{}:
		return fmt.Sprintf(" (added in %s)", k.since)
	}
	return ""
}

func (k policyKey) check(value any, c Capabilities) string {
	switch k.kind {
	case text:
		if s, ok := value.(string); !ok || s == "" {
			return fmt.Sprintf("must be a non-empty string, not %s", describe(value))
		}
	case oneOf:
		if s, ok := value.(string); !ok || !slices.Contains(k.values, s) {
			return fmt.Sprintf("must be one of %s, not %s", strings.Join(k.values, ", "), describe(value))
		}
	case nonNegative:
		return checkInteger(value, 0, "a whole number of 0 or more")
	case positive:
		return checkInteger(value, 1, "a whole number of 1 or more")
	case integer:
		if c.UnlimitedDelivery {
			return checkInteger(value, math.MinInt64, "a whole number")
		}
		return checkInteger(value, 0, "a whole number of 0 or more")
	case anything:
	}
	return ""
}

func checkInteger(value any, least int64, wanted string) string {
	n, ok := wholeNumber(value)
	if !ok || n < least {
		return fmt.Sprintf("must be %s, not %s", wanted, describe(value))
	}
	return ""
}

func wholeNumber(value any) (int64, bool) {
	switch n := value.(type) {
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case int64:
		return n, true
	case int:
		return int64(n), true
	}
	return 0, false
}

func describe(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return fmt.Sprint(v)
	}
}

// suggestion names the known key that differs least from a misspelt one, when it is close enough to be meant.
func suggestion(misspelt string) string {
	best, distance := "", 3
	for _, key := range sortedKeys(policyKeys) {
		if d := editDistance(misspelt, key); d < distance {
			best, distance = key, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
