// Package link keeps one connection to a RabbitMQ cluster open: it dials with jitter and a limit for the whole process,
// changes hosts, gathers writes, sees when the broker blocks, and ends within a bound. Recovery is not the AMQP library's:
// every channel that it hands out is used until it is lost and then replaced, and carries a number of its own (its epoch).
package link
