// Package load puts load on a RabbitMQ cluster and measures what comes of it: the generator, the samplers beside it, and
// what keeps both from doing harm. What the figures mean is decided in package bench.
//
// Connections, channels and topology are amqp091-go's. Publishes, deliveries, acks and confirms go past it (wire.go): they
// are written and read without allocation and without a hop between goroutines, so that the broker is measured and not the
// client. Every clock reading is monotonic and of this process, which publishes and consumes both.
package load
