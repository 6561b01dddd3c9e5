package brokertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// words are the tags of a list with commas between them, as requests have it.
func words(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (s *Server) userReply(name string) map[string]any {
	return map[string]any{"name": name, "tags": list(s.users[name]), "limits": map[string]any{}}
}

func (s *Server) listUsers(exchange) (reply, *refusal) {
	replies := make([]map[string]any, 0, len(s.users))
	for _, name := range slices.Sorted(maps.Keys(s.users)) {
		replies = append(replies, s.userReply(name))
	}
	return reply{http.StatusOK, replies}, nil
}

func (s *Server) getUser(r exchange) (reply, *refusal) {
	if _, found := s.users[r.names[0]]; !found {
		return reply{}, notFound
	}
	return reply{http.StatusOK, s.userReply(r.names[0])}, nil
}

func (s *Server) putUser(r exchange) (reply, *refusal) {
	var body struct{ Tags *string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Tags == nil {
		return reply{}, badRequest("key_missing")
	}
	status := http.StatusNoContent
	if _, found := s.users[r.names[0]]; !found {
		status = http.StatusCreated
	}
	s.users[r.names[0]] = words(*body.Tags)
	return reply{status: status}, nil
}

func (s *Server) deleteUser(r exchange) (reply, *refusal) {
	if _, found := s.users[r.names[0]]; !found {
		return reply{}, notFound
	}
	delete(s.users, r.names[0])
	return reply{status: http.StatusNoContent}, nil
}
