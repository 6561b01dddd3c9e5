package broker

import "fmt"

// operatorKey says in which versions a policy key may stand in an operator policy.
type operatorKey struct {
	since, until Version // until is exclusive; zero means no bound
	// backported holds the first patch of older lines that have it.
	backported []Version
}

// operatorKeys follow the validators of RabbitMQ 3.10 to 4.3. test/broker compares every row with real brokers.
var operatorKeys = map[string]operatorKey{
	"expires":              {},
	"message-ttl":          {},
	"max-length":           {},
	"max-length-bytes":     {},
	"max-in-memory-length": {},
	"max-in-memory-bytes":  {},
	"delivery-limit":       {},
	"ha-mode":              {since: Version{3, 11, 10}, until: v40},
	"ha-params":            {since: Version{3, 11, 10}, until: v40},
	"ha-sync-mode":         {since: Version{3, 11, 10}, until: v40},
	"queue-version":        {since: v3127, backported: []Version{{3, 11, 24}}},
	"overflow":             {since: v3127},
	"target-group-size":    {since: v313},
	"queue-master-locator": {since: v40, until: v43},
	"delayed-retry-type":   {since: v431},
	"delayed-retry-min":    {since: v431},
	"delayed-retry-max":    {since: v431},
}

func (k operatorKey) existsIn(v Version) bool {
	if k.until != (Version{}) && v.reaches(k.until) {
		return false
	}
	for _, b := range k.backported {
		if v.Line() == b.Line() && v.reaches(b) {
			return true
		}
	}
	return k.since == Version{} || v.reaches(k.since)
}

// KnowsPolicyKey tells whether key may stand in a policy of this version.
func (c Capabilities) KnowsPolicyKey(key string) bool {
	known, ok := policyKeys[key]
	return ok && known.existsIn(c.Version)
}

// KnowsOperatorKey tells whether key may stand in an operator policy of this version.
func (c Capabilities) KnowsOperatorKey(key string) bool {
	known, ok := operatorKeys[key]
	return ok && known.existsIn(c.Version)
}

// ValidateOperatorDefinition checks the definition of an operator policy as ValidateDefinition does that of a policy.
func (c Capabilities) ValidateOperatorDefinition(definition map[string]any) []string {
	var faults []string
	for _, key := range sortedKeys(definition) {
		if _, known := policyKeys[key]; known && c.KnowsPolicyKey(key) && !c.KnowsOperatorKey(key) {
			faults = append(faults, fmt.Sprintf("%q may not stand in an operator policy of RabbitMQ %s", key, c.Version))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return c.ValidateDefinition(definition)
}
