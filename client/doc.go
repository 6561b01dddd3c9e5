// Package warren is for applications that use RabbitMQ clusters run by Warren: one for each class of work, told by the
// environment. It publishes with confirms and in batches, consumes in batches, and follows queues that move from one cluster to
// another. It is a module of its own and knows nothing of Kubernetes.
//
// FromEnv makes a Router, which makes a Publisher and runs consumers. The page docs/client.md of the repository says what is
// guaranteed, and lists all outcomes, verdicts and options with their defaults. Package clienttest has an in-memory RabbitMQ
// for tests; warrenprom and warrenotel have metrics and traces.
package warren
