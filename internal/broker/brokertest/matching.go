package brokertest

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/warren-mq/warren/internal/broker"
)

// applyPolicies decides again which policies are in force on the queues of a vhost.
func (s *Server) applyPolicies(name string) {
	v := s.vhosts[name]
	policies, operator := byName(v.policies), byName(v.operator)
	for _, q := range v.queues {
		s.apply(v, q, policies, operator)
	}
}

func (s *Server) applyTo(v *vhost, q *queue) { s.apply(v, q, byName(v.policies), byName(v.operator)) }

func (s *Server) apply(v *vhost, q *queue, policies, operator []broker.Policy) {
	before := q.effective
	q.policy = s.inForce(policies, q)
	q.operator = s.inForce(operator, q)
	q.effective = merged(q.policy, q.operator)
	s.mirror(q)
	switch {
	case before == nil: // a new queue
		s.take(v, q)
	case !broker.EqualDefinitions(before, q.effective):
		s.settle(v, q)
	}
}

// byName are policies in the order of their names. Definitions are shared: nobody changes one in place.
func byName(policies map[string]broker.Policy) []broker.Policy {
	return slices.SortedFunc(maps.Values(policies), func(a, b broker.Policy) int { return strings.Compare(a.Name, b.Name) })
}

// inForce is the policy with the highest priority of those that match the queue, its type, and have no key that the
// type does not support.
func (s *Server) inForce(policies []broker.Policy, q *queue) *broker.Policy {
	var best *broker.Policy
	for i := range policies {
		policy := &policies[i]
		if best != nil && policy.Priority <= best.Priority || !appliesTo(policy.ApplyTo, q.kind) || !matches(policy.Pattern, q.name) {
			continue
		}
		if supported, _ := s.caps.SupportsDefinition(q.kind, policy.Definition); supported {
			best = policy
		}
	}
	return best
}

func appliesTo(a broker.ApplyTo, kind broker.QueueType) bool {
	switch a {
	case broker.ApplyToAll, broker.ApplyToQueues:
		return true
	case broker.ApplyToClassicQueues:
		return kind == broker.Classic
	case broker.ApplyToQuorumQueues:
		return kind == broker.Quorum
	case broker.ApplyToStreams:
		return kind == broker.Stream
	}
	return false
}

// merged is the effective definition.
func merged(policy, operator *broker.Policy) map[string]any {
	definition := func(p *broker.Policy) map[string]any {
		if p == nil {
			return nil
		}
		return p.Definition
	}
	return broker.MergeOperator(definition(policy), definition(operator))
}

// mirror places the mirrors of a classic queue by its ha-* keys. Mirrors that may stay do.
func (s *Server) mirror(q *queue) {
	mode := q.effective["ha-mode"]
	q.mirrored = s.mirrors && q.kind == broker.Classic && mode != nil
	var wanted []string
	if q.mirrored {
		wanted = s.wantedMirrors(q, mode)
	}
	var synced []string
	for _, node := range wanted {
		known := slices.Contains(q.mirrors, node)
		if known && slices.Contains(q.synced, node) || !known && s.synchronised {
			synced = append(synced, node)
		}
	}
	q.mirrors, q.synced = wanted, synced
}

func (s *Server) wantedMirrors(q *queue, mode any) []string {
	candidates := slices.DeleteFunc(s.runningNodes(), func(node string) bool { return node == q.node })
	switch mode {
	case "exactly":
		count, _ := q.effective["ha-params"].(int64)
		kept := slices.DeleteFunc(slices.Clone(candidates), func(node string) bool { return !slices.Contains(q.mirrors, node) })
		rest := slices.DeleteFunc(candidates, func(node string) bool { return slices.Contains(kept, node) })
		ordered := append(kept, rest...)
		return ordered[:max(0, min(int(count)-1, len(ordered)))]
	case "nodes":
		list, _ := q.effective["ha-params"].([]any)
		return slices.DeleteFunc(candidates, func(node string) bool { return !slices.Contains(list, any(node)) })
	}
	return candidates
}

// patterns are compiled once: a test with thousands of queues asks for them again and again.
var patterns sync.Map

// matches works on bytes as the broker does: every byte of pattern and name becomes one character.
func matches(pattern, name string) bool {
	if parts := aheadOfAll.FindStringSubmatch(pattern); parts != nil {
		return !matches(`\A(?:`+parts[1]+`\z)`, name) && matches(parts[2], name)
	}
	compiled, ok := patterns.Load(pattern)
	if !ok {
		expression, err := regexp.Compile(bytewise(pattern))
		if err != nil {
			expression = nil
		}
		compiled, _ = patterns.LoadOrStore(pattern, expression)
	}
	expression, _ := compiled.(*regexp.Regexp)
	return expression != nil && expression.MatchString(bytewise(name))
}

// aheadOfAll is the one kind of look-ahead that Go's engine can be brought to do: at the first byte, for a whole name.
var aheadOfAll = regexp.MustCompile(`(?s)^\\A\(\?!(\\Q.*?)\\z\)\(\?s:\.\*\?\)\(\?:(.*)\)$`)

// bytewise reads a string as Latin-1.
func bytewise(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// patternFault is the broker's complaint about a pattern, or "". What only PCRE knows passes.
func (s *Server) patternFault(pattern string) string {
	_, err := regexp.Compile(bytewise(pattern))
	if err == nil || onlyPCRE(pattern) {
		return ""
	}
	fault := "missing closing parenthesis"
	if s.mirrors {
		fault = "missing )"
	}
	return `pattern should be regular expression but is invalid: {"` + fault + `",` + itoa(len(pattern)) + `}`
}

func onlyPCRE(pattern string) bool {
	for _, mark := range []string{"(?=", "(?!", "(?<=", "(?<!", "(?>", `\1`, "++", "*+"} {
		if strings.Contains(pattern, mark) {
			return true
		}
	}
	return false
}
