package clienttest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

const (
	kindDirect  = "direct"
	kindFanout  = "fanout"
	kindTopic   = "topic"
	kindHeaders = "headers"
)

// A binding leads to a queue or to another exchange.
type binding struct {
	key      string
	words    []string // of the key, for topics
	args     Table
	queue    *queue
	exchange *exchange
}

func (b *binding) same(o *binding) bool {
	return b.key == o.key && b.queue == o.queue && b.exchange == o.exchange && reflect.DeepEqual(b.args, o.args)
}

type exchange struct {
	vhost      *vhost
	name, kind string
	durable    bool
	autoDelete bool
	internal   bool
	alternate  string
	args       Table
	bindings   []*binding
	byKey      map[string][]*binding
	wasBound   bool
}

func newExchange(v *vhost, name, kind string) *exchange {
	return &exchange{vhost: v, name: name, kind: kind, durable: true, byKey: map[string][]*binding{}}
}

func (x *exchange) bind(b *binding) {
	if slices.ContainsFunc(x.bindings, b.same) {
		return
	}
	b.words = words(b.key)
	x.bindings = append(x.bindings, b)
	x.byKey[b.key] = append(x.byKey[b.key], b)
	x.wasBound = true
}

// unbind removes the bindings that match, and the exchange when it is of the kind that goes with its last binding.
func (x *exchange) unbind(match func(*binding) bool) {
	before := len(x.bindings)
	x.bindings = slices.DeleteFunc(x.bindings, match)
	if len(x.bindings) == before {
		return
	}
	clear(x.byKey)
	for _, b := range x.bindings {
		x.byKey[b.key] = append(x.byKey[b.key], b)
	}
	if len(x.bindings) == 0 && x.autoDelete && x.wasBound {
		x.vhost.deleteExchange(x)
	}
}

// route appends the queues that get the message, each once.
func (x *exchange) route(m *message, into []*queue) []*queue {
	if x.name == "" {
		if q := x.vhost.queues[m.key]; q != nil && !slices.Contains(into, q) {
			into = append(into, q)
		}
		return into
	}
	return x.routeVia(m, into, nil)
}

func (x *exchange) routeVia(m *message, into []*queue, seen []*exchange) []*queue {
	if slices.Contains(seen, x) {
		return into
	}
	seen = append(seen, x)
	before := len(into)
	matched := false
	for _, b := range x.matching(m) {
		matched = true
		switch {
		case b.exchange != nil:
			into = b.exchange.routeVia(m, into, seen)
		case !slices.Contains(into, b.queue):
			into = append(into, b.queue)
		}
	}
	if len(into) == before && !matched && x.alternate != "" {
		if other := x.vhost.exchanges[x.alternate]; other != nil {
			return other.routeVia(m, into, seen)
		}
	}
	return into
}

func (x *exchange) matching(m *message) []*binding {
	switch x.kind {
	case kindDirect:
		return x.byKey[m.key]
	case kindFanout:
		return x.bindings
	}
	var match func(*binding) bool
	if x.kind == kindTopic {
		key := words(m.key)
		match = func(b *binding) bool { return topicMatches(b.words, key) }
	} else {
		properties, _ := decodeProperties(m.props)
		match = func(b *binding) bool { return headersMatch(b.args, properties.Headers) }
	}
	var matching []*binding
	for _, b := range x.bindings {
		if match(b) {
			matching = append(matching, b)
		}
	}
	return matching
}

// words of an empty key are none, not an empty one.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicMatches: * is one word, # any number of them.
func topicMatches(pattern, words []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "#" {
			for skip := 0; skip <= len(words); skip++ {
				if topicMatches(pattern[1:], words[skip:]) {
					return true
				}
			}
			return false
		}
		if len(words) == 0 || pattern[0] != "*" && pattern[0] != words[0] {
			return false
		}
		pattern, words = pattern[1:], words[1:]
	}
	return len(words) == 0
}

// headersMatch: arguments that begin with x- do not take part, except in the modes that say so.
func headersMatch(args, headers Table) bool {
	mode, _ := args["x-match"].(string)
	anyOf := strings.HasPrefix(mode, "any")
	for name, want := range args {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !strings.HasSuffix(mode, "-with-x") {
			continue
		}
		got, there := headers[name]
		matches := there && (want == nil || equalValues(want, got))
		if matches == anyOf {
			return anyOf
		}
	}
	return !anyOf
}

// equalValues compares whole numbers by value and not by width.
func equalValues(a, b any) bool {
	x, aIsInt := asInt(a)
	y, bIsInt := asInt(b)
	if aIsInt && bIsInt {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}

// vhost holds what has a name.
type vhost struct {
	broker    *Broker
	name      string
	exchanges map[string]*exchange
	queues    map[string]*queue
}

func newVHost(b *Broker, name string) *vhost {
	v := &vhost{broker: b, name: name, exchanges: map[string]*exchange{}, queues: map[string]*queue{}}
	for name, kind := range map[string]string{
		"": kindDirect, "amq.direct": kindDirect, "amq.fanout": kindFanout, "amq.topic": kindTopic,
		"amq.headers": kindHeaders, "amq.match": kindHeaders,
	} {
		v.exchanges[name] = newExchange(v, name, kind)
	}
	return v
}

func (v *vhost) exchange(name string) (*exchange, *amqpError) {
	if x := v.exchanges[name]; x != nil {
		return x, nil
	}
	return nil, soft(codeNotFound, "no exchange '%s' in vhost '%s'", name, v.name)
}

// queueFor checks that the connection may use the queue; nil stands for the broker itself.
func (v *vhost) queueFor(name string, c *conn) (*queue, *amqpError) {
	q := v.queues[name]
	if q == nil {
		return nil, soft(codeNotFound, "no queue '%s' in vhost '%s'", name, v.name)
	}
	if q.owner != nil && c != nil && q.owner != c {
		return nil, q.locked()
	}
	return q, nil
}

func (v *vhost) deleteExchange(x *exchange) {
	delete(v.exchanges, x.name)
	for _, other := range slices.Collect(maps.Values(v.exchanges)) {
		other.unbind(func(b *binding) bool { return b.exchange == x })
	}
}

// deleteQueue tells the consumers, and forgets the messages and the bindings.
func (v *vhost) deleteQueue(q *queue) {
	delete(v.queues, q.name)
	q.deleted = true
	q.stopTimer()
	q.cancelConsumers()
	for _, x := range slices.Collect(maps.Values(v.exchanges)) {
		x.unbind(func(b *binding) bool { return b.queue == q })
	}
}
