// Package broker holds what Warren knows of RabbitMQ in domain words: queues, policies, nodes, versions
// and what each version can do, the kinds of errors, and the small roles through which other packages
// reach a broker. It is a leaf: it imports nothing of Warren and speaks no protocol.
package broker
