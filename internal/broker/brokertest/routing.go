package brokertest

import (
	"net/http"
	"net/url"
	"strings"
)

// exchange is one request with its path taken apart.
type exchange struct {
	*http.Request
	// names are the decoded segments behind the word that names the resource.
	names []string
}

// reply is a success: status 200 with a body, or 201/204 without.
type reply struct {
	status int
	body   any
}

type handler func(exchange) (reply, *refusal)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.log.add(Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host})
	if s.faults.strike(w, r) {
		return
	}
	if r.URL.Path == "/metrics" {
		s.serveMetrics(w, r)
		return
	}
	s.mu.Lock()
	answer, refused := s.answer(r)
	s.mu.Unlock()
	switch {
	case refused != nil:
		refused.write(w)
	case answer.body == nil:
		w.WriteHeader(answer.status)
	default:
		writeJSON(w, answer.status, answer.body)
	}
}

func (s *Server) answer(r *http.Request) (reply, *refusal) {
	words, ok := segments(r.URL.EscapedPath(), s.faults.decodes())
	if !ok || len(words) == 0 || words[0] != "api" {
		return reply{}, &refusal{status: http.StatusBadRequest} // the handler of static files
	}
	if refused := s.authorize(r); refused != nil {
		return reply{}, refused
	}
	if len(words) == 1 {
		return reply{}, notFound
	}
	if r.Method == http.MethodPost {
		return s.answerPost(exchange{Request: r, names: words[2:]}, words[1])
	}
	if n := words[2:]; r.Method == http.MethodDelete && words[1] == "queues" && len(n) == 5 && n[0] == "quorum" && n[3] == "replicas" && n[4] == "delete" {
		return s.deleteReplica(exchange{Request: r, names: n})
	}
	handle := s.route(words[1], len(words)-2, r.Method)
	if handle == nil {
		return reply{}, notFound
	}
	return handle(exchange{Request: r, names: words[2:]})
}

// answerPost is for what is done to an object rather than stored.
func (s *Server) answerPost(r exchange, word string) (reply, *refusal) {
	n := r.names
	switch {
	case word == "bindings" && len(n) == 5 && n[1] == "e":
		return s.postBinding(r)
	case word == "exchanges" && len(n) == 3 && n[2] == "publish":
		return s.postMessage(r)
	case word == "queues" && len(n) == 3 && n[2] == "get":
		return s.postGet(r)
	case word == "queues" && len(n) == 5 && n[0] == "quorum" && n[3] == "replicas" && n[4] == "add":
		return s.postReplica(r)
	}
	return reply{}, notAllowed
}

// segments takes a path apart as the broker's web server does: split, decode each, then resolve dots.
func segments(path string, decodedBefore bool) ([]string, bool) {
	if decodedBefore {
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return nil, false
		}
		path = decoded
	}
	var words []string
	for _, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		word, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		switch {
		case word == ".":
		case word == "..":
			if len(words) > 0 {
				words = words[:len(words)-1]
			}
		default:
			words = append(words, word)
		}
	}
	return words, true
}

func (s *Server) authorize(r *http.Request) *refusal {
	username, password, given := r.BasicAuth()
	switch {
	case !given:
		return &refusal{status: http.StatusUnauthorized}
	case s.faults.refusesAll(), s.username != "" && (username != s.username || password != s.password):
		reason := "Not_Authorized"
		if s.mirrors {
			reason = "Login failed"
		}
		return &refusal{http.StatusUnauthorized, "not_authorized", reason}
	}
	return nil
}

// vhostOf finds the vhost that a request is about. Before 4.x a user without permission gets 401, then 404.
func (s *Server) vhostOf(name string) (*vhost, *refusal) {
	v := s.vhosts[name]
	switch {
	case v == nil:
		return nil, notFound
	case s.forbidden[name] && s.mirrors:
		return nil, &refusal{http.StatusUnauthorized, "not_authorised", "User not authorised to access virtual host"}
	case s.forbidden[name]:
		return nil, &refusal{http.StatusNotFound, "not_found", "Not Found"}
	}
	return v, nil
}

// route finds the handler for a resource with that many names behind it; nil is an unknown path.
func (s *Server) route(word string, names int, method string) handler {
	only := func(h handler) handler {
		if method != http.MethodGet {
			return func(exchange) (reply, *refusal) { return reply{}, notAllowed }
		}
		return h
	}
	byMethod := func(get, put, remove handler) handler {
		h := map[string]handler{http.MethodGet: get, http.MethodPut: put, http.MethodDelete: remove}[method]
		if h == nil {
			return only(nil)
		}
		return h
	}
	// A list, and what one of it answers that has so many names; fewer names are of the list.
	found, known := map[string]struct {
		list, get, put, remove handler
		names                  int
	}{
		"overview":          {list: s.getOverview},
		"nodes":             {list: s.getNodes},
		"whoami":            {list: s.getWhoAmI},
		"vhosts":            {s.listVHosts, s.getVHost, s.putVHost, s.deleteVHost, 1},
		"global-parameters": {s.listParameters, s.getParameter, s.putParameter, s.deleteParameter, 1},
		"users":             {s.listUsers, s.getUser, s.putUser, s.deleteUser, 1},
		"policies":          {s.listPolicies, s.getPolicy, s.putPolicy, s.deletePolicy, 2},
		"operator-policies": {s.listPolicies, s.getPolicy, s.putPolicy, s.deletePolicy, 2},
		"queues":            {s.listQueues, s.getQueue, s.putQueue, s.deleteQueue, 2},
		"exchanges":         {s.listExchanges, s.getExchange, s.putExchange, s.deleteExchange, 2},
		"bindings":          {list: s.listBindings, names: 2},
	}[word]
	switch {
	case !known:
		return nil
	case names < max(found.names, 1):
		return only(found.list)
	case names == found.names:
		return byMethod(found.get, found.put, found.remove)
	}
	return nil
}
