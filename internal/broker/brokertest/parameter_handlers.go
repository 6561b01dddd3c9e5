package brokertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

func (s *Server) parameterReply(name string) map[string]any {
	return map[string]any{"name": name, "value": s.parameters[name]}
}

func (s *Server) listParameters(exchange) (reply, *refusal) {
	replies := make([]map[string]any, 0, len(s.parameters))
	for _, name := range slices.Sorted(maps.Keys(s.parameters)) {
		replies = append(replies, s.parameterReply(name))
	}
	return reply{http.StatusOK, replies}, nil
}

func (s *Server) getParameter(r exchange) (reply, *refusal) {
	if _, found := s.parameters[r.names[0]]; !found {
		return reply{}, notFound
	}
	return reply{http.StatusOK, s.parameterReply(r.names[0])}, nil
}

func (s *Server) putParameter(r exchange) (reply, *refusal) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return reply{}, badRequest("not_json")
	}
	value, given := body["value"]
	if !given {
		return reply{}, badRequest("key_missing")
	}
	status := http.StatusNoContent
	if _, found := s.parameters[r.names[0]]; !found {
		status = http.StatusCreated
	}
	s.parameters[r.names[0]] = value
	return reply{status: status}, nil
}

func (s *Server) deleteParameter(r exchange) (reply, *refusal) {
	if _, found := s.parameters[r.names[0]]; !found {
		return reply{}, notFound
	}
	delete(s.parameters, r.names[0])
	return reply{status: http.StatusNoContent}, nil
}
