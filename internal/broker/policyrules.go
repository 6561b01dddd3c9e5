package broker

import (
	"fmt"
	"strings"
)

// checkRules checks what the broker asks of keys together. Every key of definition is known and right by itself.
func checkRules(definition map[string]any) []string {
	var faults []string
	for _, rule := range []func(map[string]any) string{mirrorRule, delayedRetryRule, shardingRule, federationRule} {
		if fault := rule(definition); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

func mirrorRule(definition map[string]any) string {
	mode, mirrored := definition["ha-mode"]
	params, given := definition["ha-params"]
	if !mirrored {
		for _, key := range sortedKeys(definition) {
			if strings.HasPrefix(key, "ha-") {
				return fmt.Sprintf("%q needs \"ha-mode\"", key)
			}
		}
		return ""
	}
	switch mode {
	case "all":
		if given {
			return `"ha-params" must not be set when "ha-mode" is "all"`
		}
	case "exactly":
		if n, ok := params.(int64); !ok || n < 1 {
			return fmt.Sprintf(`"ha-params" must be a whole number of 1 or more when "ha-mode" is "exactly", not %s`, describe(params))
		}
	case "nodes":
		return nodeListFault(params)
	}
	return ""
}

func nodeListFault(params any) string {
	nodes, ok := params.([]any)
	if !ok || len(nodes) == 0 {
		return fmt.Sprintf(`"ha-params" must be a list of node names when "ha-mode" is "nodes", not %s`, describe(params))
	}
	for _, node := range nodes {
		if _, ok := node.(string); !ok {
			return fmt.Sprintf(`"ha-params" must list node names as strings, not %s`, describe(node))
		}
	}
	return ""
}

func delayedRetryRule(definition map[string]any) string {
	kind, typed := definition["delayed-retry-type"]
	least, hasLeast := definition["delayed-retry-min"].(int64)
	most, hasMost := definition["delayed-retry-max"].(int64)
	switch {
	case typed && kind != "disabled" && !hasLeast:
		return fmt.Sprintf(`"delayed-retry-min" is required when "delayed-retry-type" is %q`, kind)
	case hasLeast && hasMost && most < least:
		return fmt.Sprintf(`"delayed-retry-max" (%d) must not be smaller than "delayed-retry-min" (%d)`, most, least)
	}
	return ""
}

func shardingRule(definition map[string]any) string {
	_, key := definition["routing-key"]
	_, shards := definition["shards-per-node"]
	if key && !shards {
		return `"routing-key" needs "shards-per-node"`
	}
	return ""
}

func federationRule(definition map[string]any) string {
	var given []string
	for _, key := range []string{"federation-upstream", "federation-upstream-pattern", "federation-upstream-set"} {
		if _, ok := definition[key]; ok {
			given = append(given, key)
		}
	}
	if len(given) > 1 {
		return fmt.Sprintf("%s exclude each other", strings.Join(given, " and "))
	}
	return ""
}
