package broker

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// valueCheck says what is wrong with a normalised value of a policy key, or "".
type valueCheck func(value any, c Capabilities) string

func anything(any, Capabilities) string { return "" }

func text(value any, _ Capabilities) string {
	if _, ok := value.(string); !ok {
		return fmt.Sprintf("must be a string, not %s", describe(value))
	}
	return ""
}

func oneOf(values ...string) valueCheck {
	return func(value any, _ Capabilities) string {
		if s, ok := value.(string); !ok || !slices.Contains(values, s) {
			return fmt.Sprintf("must be one of %s, not %s", strings.Join(values, ", "), describe(value))
		}
		return ""
	}
}

func atLeast(least int64) valueCheck {
	return func(value any, _ Capabilities) string {
		if n, ok := value.(int64); !ok || n < least {
			return fmt.Sprintf("must be a whole number of %d or more, not %s", least, describe(value))
		}
		return ""
	}
}

func between(least, most int64) valueCheck {
	return func(value any, _ Capabilities) string {
		if n, ok := value.(int64); !ok || n < least || n > most {
			return fmt.Sprintf("must be a whole number from %d to %d, not %s", least, most, describe(value))
		}
		return ""
	}
}

// deliveryLimit: a negative limit means "no limit" since 4.0 and is refused before.
func deliveryLimit(value any, c Capabilities) string {
	if c.UnlimitedDelivery {
		return atLeast(math.MinInt64)(value, c)
	}
	return atLeast(0)(value, c)
}

func masterLocator(value any, c Capabilities) string {
	if c.MirroredQueues {
		return oneOf("client-local", "min-masters", "random")(value, c)
	}
	return oneOf("client-local", "balanced", "random", "least-leaders", "min-masters")(value, c)
}

// numberAtLeastZero takes fractions too, since the sharding plugin does.
func numberAtLeastZero(value any, _ Capabilities) string {
	switch n := value.(type) {
	case int64:
		if n >= 0 {
			return ""
		}
	case float64:
		if n >= 0 {
			return ""
		}
	}
	return fmt.Sprintf("must be a number of 0 or more, not %s", describe(value))
}

var age = regexp.MustCompile(`^0*[1-9][0-9]*[YMDhms]$`)

func maxAge(value any, _ Capabilities) string {
	if s, ok := value.(string); !ok || !age.MatchString(s) {
		return fmt.Sprintf("must be a number above 0 with a unit of Y, M, D, h, m or s, as \"7D\", not %s", describe(value))
	}
	return ""
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
