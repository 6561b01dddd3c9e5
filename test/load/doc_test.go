// Package load_test runs benchmarks against real RabbitMQ 3.10 and 4.3: that they measure all kinds of queues, leave nothing
// behind however they end, and refuse what must not be put under load. Its tests have the build tag broker.
package load_test
