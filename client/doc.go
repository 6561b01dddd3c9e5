// Package warren is for applications that use RabbitMQ clusters run by Warren: one for each class of work, told by the
// environment. It is a module of its own and knows nothing of Kubernetes.
//
// So far it answers where the clusters of a class are. Publishers, consumers and the move of queues between clusters are
// to come.
package warren
