// Package brokertest is an in-memory RabbitMQ management API for unit and API-server tests: a real HTTP server that
// answers as RabbitMQ 3.10.8 or 4.3.6 does, so that the real client of package management is what runs in tests.
// test/broker runs one suite against it and against real brokers of both versions; what the suite does not compare
// is not promised.
//
// Known differences from a real broker: statistics are never late; patterns that only PCRE can compile (look-around,
// back references) are stored but match no queue; of equal priorities the first name wins, where the broker has no
// rule; there is no AMQP, so message counts are what a test sets.
package brokertest
