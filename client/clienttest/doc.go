// Package clienttest is an in-memory RabbitMQ for tests. It listens on loopback and speaks AMQP 0-9-1, so that any client
// can be tested against it without a change, and it can be told to fail in the ways that real brokers do:
//
//	b := clienttest.Start(t)
//	conn, err := amqp.Dial(b.URL())
//	...
//	b.HoldConfirms()
//	b.DropAfter(3)
//	b.WaitFor(t, "three publishes", func() bool { return b.Counters().Published == 3 })
//
// It is held to the same contract test as RabbitMQ 3.10 and 4.3. What it does not do it refuses with 540 NOT_IMPLEMENTED:
// streams, transactions, priorities, x-expires, prefetch for a whole channel, and the immediate flag.
package clienttest
