// Package client_test proves on real brokers that the client library loses no message that it confirmed, invents no refusal,
// keeps the order that it promises and leaves nothing behind, whatever is broken under it.
//
//	go test ./test/client                                    its own book-keeping
//	go test -tags broker ./test/client                       every fault once on both brokers
//	go test -race -tags broker ./test/client -long           more than a million messages (make faults-client)
//
// The brokers are its own, made by hack/local: it kills and stops them.
package client_test
