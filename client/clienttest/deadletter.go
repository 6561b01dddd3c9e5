package clienttest

import (
	"maps"
	"time"
)

// Why a message is dead-lettered.
const (
	reasonRejected      = "rejected"
	reasonExpired       = "expired"
	reasonMaxLength     = "maxlen"
	reasonDeliveryLimit = "delivery_limit"
)

// deadLetter publishes the message to the dead letter exchange, or drops it without one.
func (q *queue) deadLetter(it item, reason string) {
	b := q.vhost.broker
	if !q.settings.hasDeadExchange {
		b.counters.Dropped++
		return
	}
	x := q.vhost.exchanges[q.settings.deadExchange]
	if x == nil {
		b.counters.Dropped++
		return
	}
	b.counters.DeadLettered++
	m := q.dead(it, reason)
	redelivered := b.line.keepsRedelivered && (reason == reasonRejected || it.redelivered)
	for _, target := range x.route(m, nil) {
		if !cycles(m.deaths, target.name) {
			target.enqueue(m, redelivered)
		}
	}
}

// dead is the message with the headers that tell of its deaths, the last first.
func (q *queue) dead(it item, reason string) *message {
	properties, _ := decodeProperties(it.msg.props)
	headers := maps.Clone(properties.Headers)
	if headers == nil {
		headers = Table{}
	}
	death := Table{
		"count": int64(1), "reason": reason, "queue": q.name, "time": time.Now(),
		"exchange": it.msg.exchange, "routing-keys": []any{it.msg.key},
	}
	if properties.Expiration != "" {
		death["original-expiration"] = properties.Expiration
		properties.Expiration = ""
	}
	earlier := it.msg.deaths
	if q.vhost.broker.line.believesDeaths {
		earlier, _ = headers["x-death"].([]any)
	}
	deaths := []any{death}
	for _, each := range earlier {
		t, ok := each.(Table)
		if ok && t["queue"] == q.name && t["reason"] == reason {
			n, _ := asInt(t["count"])
			again := maps.Clone(t)
			again["count"] = n + 1
			deaths[0] = again
			continue
		}
		deaths = append(deaths, each)
	}
	headers["x-death"] = deaths
	set := func(prefix string) {
		headers[prefix+"-reason"], headers[prefix+"-queue"], headers[prefix+"-exchange"] = reason, q.name, it.msg.exchange
	}
	if len(earlier) == 0 {
		set("x-first-death")
	}
	if q.vhost.broker.line.lastDeath {
		set("x-last-death")
	}
	properties.Headers = headers
	m := &message{exchange: q.settings.deadExchange, key: it.msg.key, body: it.msg.body, persistent: it.msg.persistent, ttl: -1, deaths: deaths}
	if q.settings.hasDeadKey {
		m.key = q.settings.deadKey
	}
	var err error
	if m.props, err = properties.encode(); err != nil {
		panic(err) // all values came from a table
	}
	return m
}

// cycles tells that the message was in the queue before and came around without being rejected: RabbitMQ drops such.
func cycles(deaths []any, queue string) bool {
	for _, each := range deaths {
		death, _ := each.(Table)
		if death["reason"] == reasonRejected {
			return false
		}
		if death["queue"] == queue {
			return true
		}
	}
	return false
}
