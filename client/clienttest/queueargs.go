package clienttest

import (
	"fmt"
	"slices"
)

// queueSettings are what the arguments of a queue say. Numbers are -1 without a limit.
type queueSettings struct {
	maxLength, maxBytes int
	rejectPublish       bool
	ttl                 int64 // milliseconds
	deadExchange        string
	hasDeadExchange     bool
	deadKey             string
	hasDeadKey          bool
	deliveryLimit       int
	singleActive        bool
}

// argument is one that the fake knows: how it is checked and where it goes. Without a set it has no effect here.
type argument struct {
	name  string
	kind  argumentKind
	types string // "quorum" or "classic" for those of one type only
	set   func(*queueSettings, any)
}

type argumentKind int

const (
	isText argumentKind = iota
	isSize
	isInteger
	isBool
)

func sizeOf(v any) int { n, _ := asInt(v); return int(n) }

var knownArguments = []argument{
	{name: "x-queue-type"},
	{name: "x-max-length", kind: isSize, set: func(s *queueSettings, v any) { s.maxLength = sizeOf(v) }},
	{name: "x-max-length-bytes", kind: isSize, set: func(s *queueSettings, v any) { s.maxBytes = sizeOf(v) }},
	{name: "x-overflow", set: func(s *queueSettings, v any) { s.rejectPublish = v == "reject-publish" }},
	{name: "x-message-ttl", kind: isSize, set: func(s *queueSettings, v any) { s.ttl = int64(sizeOf(v)) }},
	{name: "x-dead-letter-exchange", set: func(s *queueSettings, v any) { s.deadExchange, s.hasDeadExchange = v.(string), true }},
	{name: "x-dead-letter-routing-key", set: func(s *queueSettings, v any) { s.deadKey, s.hasDeadKey = v.(string), true }},
	{name: "x-delivery-limit", kind: isInteger, types: "quorum", set: func(s *queueSettings, v any) { s.deliveryLimit = sizeOf(v) }},
	{name: "x-single-active-consumer", kind: isBool, set: func(s *queueSettings, v any) { s.singleActive, _ = v.(bool) }},
	{name: "x-queue-leader-locator"},
	{name: "x-quorum-initial-group-size", kind: isSize, types: "quorum"},
	{name: "x-queue-mode", types: "classic"},
	{name: "x-queue-version", kind: isSize, types: "classic"},
}

// missingArguments have effects that the fake cannot play.
var missingArguments = []string{"x-expires", "x-max-priority", "x-consumer-timeout", "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"}

// queueType is "classic" or "quorum".
func queueType(args Table) string {
	if s, ok := args["x-queue-type"].(string); ok {
		return s
	}
	return "classic"
}

func (v *vhost) readArguments(name string, args Table) (queueSettings, *amqpError) {
	s := queueSettings{maxLength: -1, maxBytes: -1, ttl: -1, deliveryLimit: -1}
	kind := queueType(args)
	if kind == "quorum" {
		s.deliveryLimit = v.broker.line.deliveryLimit
	}
	invalid := func(argument, why string) *amqpError {
		return soft(codePreconditionFailed, "invalid arg '%s' for queue '%s' in vhost '%s'%s", argument, name, v.name, why)
	}
	switch kind {
	case "classic", "quorum":
	case "stream":
		return s, notImplemented("clienttest has no queues of type stream")
	default:
		return s, invalid("x-queue-type", fmt.Sprintf(": \"unsupported queue type '%s'\"", kind))
	}
	for _, known := range knownArguments {
		if value, given := args[known.name]; given {
			if why := v.broker.wrongArgument(known, kind, value); why != "" {
				return s, invalid(known.name, why)
			}
			if known.set != nil {
				known.set(&s, value)
			}
		}
	}
	if kind == "quorum" && args["x-max-priority"] != nil {
		return s, invalid("x-max-priority", " of queue type rabbit_quorum_queue")
	}
	for _, missing := range missingArguments {
		if _, given := args[missing]; given {
			return s, notImplemented("clienttest does not do %s", missing)
		}
	}
	if s.hasDeadKey && !s.hasDeadExchange {
		return s, invalid("x-dead-letter-routing-key", ": routing_key_but_no_dlx_defined")
	}
	return s, nil
}

// wrongArgument is why a value does not do, as RabbitMQ puts it, "" when it does.
func (b *Broker) wrongArgument(known argument, kind string, value any) string {
	if known.types != "" && known.types != kind {
		return fmt.Sprintf(" of queue type rabbit_%s_queue", kind)
	}
	if why := b.wrongValue(known, value); why != "" {
		return ": " + why
	}
	return ""
}

func (b *Broker) wrongValue(known argument, value any) string {
	n, isInt := asInt(value)
	switch known.kind {
	case isText:
		if _, ok := value.(string); !ok {
			return fmt.Sprintf("%q", "expected string, got "+wireType(value))
		}
		if known.name == "x-overflow" && !slices.Contains([]string{"drop-head", "reject-publish"}, value.(string)) {
			return "invalid_overflow"
		}
	case isBool:
		if _, ok := value.(bool); !ok {
			return fmt.Sprintf("%q", "expected boolean, got "+wireType(value))
		}
	default:
		if !isInt {
			return fmt.Sprintf("%q", "expected integer, got "+wireType(value))
		}
		if n < 0 && (known.kind == isSize || !b.line.negativeLimit) {
			return fmt.Sprintf("{value_negative,%d}", n)
		}
	}
	return ""
}

// wireType is how RabbitMQ calls the type of a value in its errors.
func wireType(v any) string {
	switch v.(type) {
	case string:
		return "longstr"
	case bool:
		return "bool"
	case int8:
		return "byte"
	case int16:
		return "short"
	case int32:
		return "signedint"
	case int64, int:
		return "long"
	}
	return "other"
}

// equivalent is the error of a declaration that differs from the queue that exists.
func (q *queue) equivalent(durable, autoDelete, exclusive bool, args Table) *amqpError {
	differs := func(name, received, current string) *amqpError {
		return soft(codePreconditionFailed, "inequivalent arg '%s' for queue '%s' in vhost '%s': received %s but current is %s",
			name, q.name, q.vhost.name, received, current)
	}
	quoted := func(v bool) string { return fmt.Sprintf("'%t'", v) }
	switch {
	case exclusive != (q.owner != nil):
		return q.locked()
	case durable != q.durable:
		return differs("durable", quoted(durable), quoted(q.durable))
	case autoDelete != q.autoDelete:
		return differs("auto_delete", quoted(autoDelete), quoted(q.autoDelete))
	}
	describe := func(v any, there bool) string {
		if !there {
			return "none"
		}
		return fmt.Sprintf("the value '%v' of type '%s'", v, wireType(v))
	}
	for _, known := range knownArguments {
		got, given := args[known.name]
		has, had := q.args[known.name]
		if known.name == "x-queue-type" && queueType(args) == queueType(q.args) || known.types == "classic" {
			continue
		}
		if given != had || given && !equalValues(got, has) {
			// RabbitMQ says "the value" once, on the side of what it got.
			return differs(known.name, describe(got, given), describe(has, had))
		}
	}
	return nil
}
