// Package broker_test is the contract between Warren and RabbitMQ: one suite of assertions, run against the fake of
// package brokertest and, with the build tag "broker", against real brokers of both version lines.
//
//	go test ./test/broker                 the fakes
//	go test -tags broker ./test/broker    real brokers too; it fails where one cannot be had (real_test.go)
package broker_test
