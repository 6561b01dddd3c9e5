package clienttest

import (
	"fmt"
	"strings"
)

// line is what differs between the lines of RabbitMQ. All of it was seen on real brokers, and the contract test holds it.
type line struct {
	getCountsZero    bool // the first basic.get-ok of a quorum queue has x-delivery-count 0, not no header
	counterHeader    bool // x-acquired-count
	nackCounts       bool // toward the delivery limit
	tailWithoutLimit bool // a quorum queue without a delivery limit puts what is requeued at its tail
	deliveryLimit    int  // default of quorum queues, -1 none
	negativeLimit    bool // a negative delivery limit is allowed
	believesDeaths   bool // x-death that a client publishes is counted on
	lastDeath        bool // x-last-death-* headers
	keepsRedelivered bool // a dead-lettered message that was delivered stays redelivered; the real line is not steady in it for classic queues
	timeoutCancels   bool // the consumer timeout cancels consumers of quorum queues, and does not close channels
	badExchangeType  func(kind string) *amqpError
}

var lines = map[string]line{
	"3.10": {
		getCountsZero: true, believesDeaths: true, nackCounts: true, tailWithoutLimit: true, deliveryLimit: -1,
		badExchangeType: func(kind string) *amqpError {
			return hard(codeCommandInvalid, "unknown exchange type '%s'", kind)
		},
	},
	"4.3": {
		counterHeader: true, deliveryLimit: 20, negativeLimit: true, lastDeath: true, keepsRedelivered: true, timeoutCancels: true,
		badExchangeType: func(kind string) *amqpError {
			return soft(codePreconditionFailed, "unknown exchange type '%s'", kind)
		},
	},
}

func lineOf(version string) (line, error) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) >= 2 {
		if l, ok := lines[parts[0]+"."+parts[1]]; ok {
			return l, nil
		}
	}
	return line{}, fmt.Errorf("clienttest: version %q: the lines 3.10 and 4.3 are known", version)
}
