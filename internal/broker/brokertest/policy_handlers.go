package brokertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
)

// kindOf tells policies and operator policies of one vhost apart by the path.
func (v *vhost) kindOf(r exchange) map[string]broker.Policy {
	if strings.HasPrefix(r.URL.Path, "/api/operator-policies") {
		return v.operator
	}
	return v.policies
}

func policyReply(p broker.Policy) map[string]any {
	return map[string]any{
		"vhost": p.VHost, "name": p.Name, "pattern": p.Pattern, "apply-to": p.ApplyTo,
		"priority": p.Priority, "definition": p.Definition,
	}
}

func (s *Server) listPolicies(r exchange) (reply, *refusal) {
	var vhosts []string
	if len(r.names) == 1 {
		if _, refused := s.vhostOf(r.names[0]); refused != nil {
			return reply{}, refused
		}
		vhosts = r.names
	} else {
		for name := range s.vhosts {
			vhosts = append(vhosts, name)
		}
		slices.Sort(vhosts)
	}
	replies := []map[string]any{}
	for _, name := range vhosts {
		for _, policy := range sortedPolicies(s.vhosts[name].kindOf(r)) {
			replies = append(replies, policyReply(policy))
		}
	}
	return reply{http.StatusOK, replies}, nil
}

func (s *Server) getPolicy(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	policy, ok := v.kindOf(r)[r.names[1]]
	if !ok {
		return reply{}, notFound
	}
	return reply{http.StatusOK, policyReply(policy)}, nil
}

func (s *Server) deletePolicy(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused != nil {
		return reply{}, refused
	}
	policies := v.kindOf(r)
	if _, ok := policies[r.names[1]]; !ok {
		return reply{}, notFound
	}
	delete(policies, r.names[1])
	s.applyPolicies(r.names[0])
	return reply{status: http.StatusNoContent}, nil
}

func (s *Server) putPolicy(r exchange) (reply, *refusal) {
	v, refused := s.vhostOf(r.names[0])
	if refused == notFound {
		return reply{}, vhostNotFound
	}
	if refused != nil {
		return reply{}, refused
	}
	policy, refused := s.readPolicy(r)
	if refused != nil {
		return reply{}, refused
	}
	policies := v.kindOf(r)
	_, existed := policies[policy.Name]
	policies[policy.Name] = policy
	s.applyPolicies(policy.VHost)
	if existed {
		return reply{status: http.StatusNoContent}, nil
	}
	return reply{status: http.StatusCreated}, nil
}

// readPolicy checks the body of a PUT in the broker's order.
func (s *Server) readPolicy(r exchange) (broker.Policy, *refusal) {
	body, refused := readObject(r)
	if refused != nil {
		return broker.Policy{}, refused
	}
	for _, key := range []string{"pattern", "definition"} {
		if _, ok := body[key]; !ok {
			return broker.Policy{}, badRequest(fmt.Sprintf("[{key_missing,%s}]", key))
		}
	}
	definition, isObject := body["definition"].(map[string]any)
	if !isObject {
		return broker.Policy{}, crashed // it does on both versions
	}
	policy := broker.Policy{VHost: r.names[0], Name: r.names[1], ApplyTo: broker.ApplyToAll, Definition: definition}
	if fault := s.readPolicyFields(body, &policy); fault != "" {
		return broker.Policy{}, s.invalid(fault)
	}
	if age, given := definition["max-age"]; given {
		if _, isText := age.(string); !isText {
			return broker.Policy{}, crashed
		}
	}
	if fault := s.definitionFault(definition, strings.HasPrefix(r.URL.Path, "/api/operator-policies")); fault != "" {
		return broker.Policy{}, s.invalid(fault)
	}
	return policy, nil
}

// readPolicyFields reads priority, pattern and apply-to; it gives the broker's complaint or "".
func (s *Server) readPolicyFields(body map[string]any, policy *broker.Policy) string {
	if priority, given := body["priority"]; given {
		number, ok := priority.(int64)
		if !ok {
			return "priority should be a number, actually was " + erlang(priority)
		}
		policy.Priority = int(number)
	}
	pattern, ok := body["pattern"].(string)
	if !ok {
		return "pattern should be a binary but was " + erlang(body["pattern"])
	}
	policy.Pattern = pattern
	if fault := s.patternFault(pattern); fault != "" {
		return fault
	}
	if given, ok := body["apply-to"]; ok {
		name, _ := given.(string)
		policy.ApplyTo = broker.ApplyTo(name)
		if !s.caps.CanApplyTo(policy.ApplyTo) {
			return s.applyToFault(name)
		}
	}
	return ""
}

func (s *Server) applyToFault(name string) string {
	if s.mirrors {
		return fmt.Sprintf("apply-to '%s' unrecognised; should be 'queues', 'exchanges' or 'all'", name)
	}
	return fmt.Sprintf("apply-to '%s' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'", name)
}

// definitionFault judges by Warren's own table of keys, which test/broker holds against real brokers, and says it in
// the broker's way.
func (s *Server) definitionFault(definition map[string]any, operator bool) string {
	if len(definition) == 0 {
		return "no policy provided"
	}
	validate, knows := s.caps.ValidateDefinition, s.caps.KnowsPolicyKey
	if operator {
		validate, knows = s.caps.ValidateOperatorDefinition, s.caps.KnowsOperatorKey
	}
	faults := validate(definition)
	if len(faults) == 0 {
		return ""
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		if !knows(key) {
			unknown = append(unknown, fmt.Sprintf("{<<%q>>,%s}", key, erlang(definition[key])))
		}
	}
	if len(unknown) > 0 {
		return fmt.Sprintf("[%s] are not recognised policy settings", strings.Join(unknown, ","))
	}
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		if strings.Contains(faults[0], fmt.Sprintf("%q", key)) {
			return fmt.Sprintf("%s is not a valid %s", erlang(definition[key]), strings.ReplaceAll(key, "-", " "))
		}
	}
	return faults[0]
}

// readObject reads a body that must be one JSON object; an empty one counts as {}.
func readObject(r exchange) (map[string]any, *refusal) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badRequest("not_json")
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	body, err := broker.DecodeDefinition(text)
	if err != nil {
		return nil, badRequest("not_json")
	}
	return body, nil
}

// erlang writes a value as Erlang's ~p does.
func erlang(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("<<%q>>", v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = erlang(v[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, fmt.Sprintf("<<%q>> => %s", key, erlang(v[key])))
		}
		return "#{" + strings.Join(parts, ",") + "}"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "undefined"
	}
	return string(text)
}
