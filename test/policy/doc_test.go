// Package policy_test proves what QueuePolicies promise with nothing faked: Warren's own program against a real API server
// and clusters of RabbitMQ of both lines, under load that has an account of every message.
//
//	go test -tags broker ./test/policy                  few queues, minutes
//	go test -tags broker ./test/policy -long -v         300 queues in waves
package policy_test
