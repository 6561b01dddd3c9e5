package warren_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/client"
	"github.com/warren-mq/warren/client/clienttest"
)

// start begins an in-memory RabbitMQ with these queues, and a router that finds it. In a program it is warren.FromEnv(), with
// RMQ_WORKER_HOSTS, RMQ_USERNAME and RMQ_PASSWORD (or files with them) in the environment.
func start(queues ...string) (*clienttest.Broker, *warren.Router) {
	return startWith(nil, queues...)
}

func startWith(opts []warren.RouterOption, queues ...string) (*clienttest.Broker, *warren.Router) {
	broker, err := clienttest.New(clienttest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, queue := range queues {
		if err := broker.DeclareQueue(queue, nil); err != nil {
			log.Fatal(err)
		}
	}
	environ := []string{"RMQ_WORKER_HOSTS=" + broker.Addr(), "RMQ_USERNAME=guest", "RMQ_PASSWORD=guest"}
	router, err := warren.FromEnv(append([]warren.RouterOption{warren.Environ(environ)}, opts...)...)
	if err != nil {
		log.Fatal(err)
	}
	return broker, router
}

// stop ends both.
func stop(broker *clienttest.Broker, router *warren.Router) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := router.Close(ctx); err != nil {
		log.Fatal(err)
	}
	broker.Close()
}

// Publish returns when the broker has confirmed the message, and says what happened if it has not.
func ExamplePublisher_Publish() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = publisher.Publish(ctx, warren.Message{Queue: "worker.resize", Body: []byte("cat.png")})
	fmt.Println("to a queue:", err)

	err = publisher.Publish(ctx, warren.Message{Queue: "worker.resise", Body: []byte("cat.png")})
	switch {
	case errors.Is(err, warren.ErrReturned), errors.Is(err, warren.ErrRefused):
		fmt.Println("to a queue that is not there: no use in trying again")
	case errors.Is(err, warren.ErrNacked):
		fmt.Println("the queue is full: try again later")
	case errors.Is(err, warren.ErrUnknown):
		fmt.Println("may have arrived: publish it again with the same ID")
	}
	// Output:
	// to a queue: <nil>
	// to a queue that is not there: no use in trying again
}

// PublishBatch sends many messages and waits once. A BatchError has the outcome of each.
func ExamplePublisher_PublishBatch() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	messages := []warren.Message{
		{Queue: "worker.resize", Body: []byte("cat.png")},
		{Queue: "worker.missing", Body: []byte("dog.png")},
		{Queue: "worker.resize", Body: []byte("owl.png")},
	}
	err = publisher.PublishBatch(ctx, messages)
	var failed *warren.BatchError
	if errors.As(err, &failed) {
		for i, err := range failed.Errors {
			fmt.Printf("%s: confirmed %t\n", messages[i].Body, err == nil)
		}
	}
	// Output:
	// cat.png: confirmed true
	// dog.png: confirmed false
	// owl.png: confirmed true
}

// PublishAsync does not wait for confirms. With AutoBatch messages that come while others are unconfirmed go together.
func ExamplePublisher_PublishAsync() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx, warren.AutoBatch(), warren.BatchMaxDelay(5*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	var confirmations []*warren.Confirmation
	for i := range 1000 {
		c, err := publisher.PublishAsync(ctx, warren.Message{Queue: "worker.resize", Body: fmt.Append(nil, i)})
		if err != nil {
			log.Fatal(err) // it was not accepted
		}
		confirmations = append(confirmations, c)
	}
	// Flush waits for all that was accepted before; Wait on one Confirmation for that one.
	if err := publisher.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	confirmed := 0
	for _, c := range confirmations {
		if c.Err() == nil {
			confirmed++
		}
	}
	ready, _ := broker.Depth("worker.resize")
	fmt.Println(confirmed, "confirmed,", ready, "in the queue")
	// Output: 1000 confirmed, 1000 in the queue
}

// Pack puts what AutoBatch gathers for a queue into few AMQP messages. Consumers of this library unpack them.
func ExamplePack() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx, warren.AutoBatch(), warren.Pack("worker.resize"), warren.BatchMaxDelay(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	broker.HoldConfirms() // so that, here, the second to the last message surely wait for one another
	for i := range 500 {
		if _, err := publisher.PublishAsync(ctx, warren.Message{Queue: "worker.resize", Body: fmt.Append(nil, i)}); err != nil {
			log.Fatal(err)
		}
	}
	broker.ReleaseConfirms()
	if err := publisher.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	ready, _ := broker.Depth("worker.resize")
	fmt.Println("500 messages, fewer than 10 in the queue:", ready < 10)
	// Output: 500 messages, fewer than 10 in the queue: true
}

// FailWhenFull lets a program shed load when the broker does not keep up, instead of waiting.
func ExampleFailWhenFull() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx, warren.BufferBytes(64<<10), warren.FailWhenFull())
	if err != nil {
		log.Fatal(err)
	}
	broker.HoldConfirms() // a broker that is slow
	accepted := 0
	for {
		_, err := publisher.PublishAsync(ctx, warren.Message{Queue: "worker.resize", Body: make([]byte, 10<<10)})
		if errors.Is(err, warren.ErrBufferFull) {
			break
		}
		accepted++
	}
	broker.ReleaseConfirms()
	fmt.Println("accepted", accepted, "messages of 10 KiB")
	// Output: accepted 6 messages of 10 KiB
}

// Hooks tell what the library does. Packages warrenprom and warrenotel have them ready for Prometheus and OpenTelemetry.
func ExampleWithHooks() {
	var connected, confirmed atomic.Int64
	broker, router := startWith([]warren.RouterOption{warren.WithHooks(warren.Hooks{
		Connected: func(e warren.ConnectionEvent) { connected.Add(1) },
		Published: func(e warren.PublishEvent) {
			if e.Err == nil {
				confirmed.Add(int64(e.Messages))
			}
		},
		// Once for each message: the way to measure it, to trace it, or to add a header.
		StartPublish: func(ctx context.Context, m *warren.Message) (context.Context, func(error)) {
			return ctx, func(err error) { fmt.Println(m.Queue, "confirmed:", err == nil) }
		},
	})}, "worker.resize")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	publisher, err := router.Publisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := publisher.Publish(ctx, warren.Message{Queue: "worker.resize"}); err != nil {
		log.Fatal(err)
	}
	stop(broker, router)
	fmt.Println(connected.Load(), "connection,", confirmed.Load(), "message")
	// Output:
	// worker.resize confirmed: true
	// 1 connection, 1 message
}

// Route says where a queue is served at the moment.
func ExampleRouter_Route() {
	router, err := warren.FromEnv(warren.Environ([]string{
		"RMQ_WORKER_HOSTS=worker.messaging.svc", "RMQ_RUNTIME_HOSTS=runtime.messaging.svc",
		"RMQ_USERNAME=app", "RMQ_PASSWORD=secret",
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer router.Close(context.Background()) // connects to nothing yet
	info, err := router.Route("worker.resize")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Class, info.Publish)
	_, err = router.Route("payments.book")
	fmt.Println(errors.Is(err, warren.ErrNoRoute))
	// Output:
	// worker worker [worker.messaging.svc:5672]
	// true
}
