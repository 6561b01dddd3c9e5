package clienttest_test

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
)

// A publisher must know what became of each message, also when the broker refuses one.
func Example() {
	broker, err := clienttest.New(clienttest.Options{}) // in a test: clienttest.Start(t)
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	if err := broker.DeclareQueue("orders", clienttest.Table{"x-queue-type": "quorum"}); err != nil {
		panic(err)
	}

	conn, err := amqp.Dial(broker.URL())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		panic(err)
	}
	if err := ch.Confirm(false); err != nil {
		panic(err)
	}

	broker.NackNext(1)
	for _, body := range []string{"refused", "taken"} {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", "orders", false, false, amqp.Publishing{Body: []byte(body)})
		if err != nil {
			panic(err)
		}
		fmt.Println(body, confirm.Wait())
	}
	queue, _ := broker.Queue("orders")
	fmt.Printf("%d in the queue: %s\n", len(queue.Ready), queue.Ready[0].Body)
	// Output:
	// refused false
	// taken true
	// 1 in the queue: taken
}
