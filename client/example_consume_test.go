package warren_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warren-mq/warren/client"
)

var errNoPicture = errors.New("no picture")

// resize stands for the work of an application.
func resize(_ context.Context, d *warren.Delivery) error {
	if string(d.Body) == "notes.txt" {
		return errNoPicture
	}
	return nil
}

// fill publishes messages with these bodies.
func fill(ctx context.Context, router *warren.Router, queue string, bodies ...string) {
	publisher, err := router.Publisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var messages []warren.Message
	for _, body := range bodies {
		messages = append(messages, warren.Message{Queue: queue, Body: []byte(body)})
	}
	if err := publisher.PublishBatch(ctx, messages); err != nil {
		log.Fatal(err)
	}
}

// A handler gets batches. What it says nothing about is acknowledged; one bad message does not hold the others back.
func ExampleRouter_Consume() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fill(ctx, router, "worker.resize", "cat.png", "notes.txt", "owl.png")

	handle := func(ctx context.Context, batch *warren.Batch) error {
		for _, m := range batch.Messages() {
			if err := resize(ctx, m); err != nil {
				m.DeadLetter(err) // or m.Retry(err)
				continue
			}
			fmt.Printf("resized %s\n", m.Body)
		}
		cancel() // only here: one batch is enough for an example
		return nil
	}
	err := router.Consume(ctx, "worker.resize", handle,
		warren.BatchSize(3), warren.BatchWait(time.Second), warren.Workers(2))
	ready, unacked := broker.Depth("worker.resize")
	fmt.Println("ended:", err, "left in the queue:", ready+unacked)
	// Output:
	// resized cat.png
	// resized owl.png
	// ended: <nil> left in the queue: 0
}

// Retry has a message delivered again, DeadLetter puts it aside with the reason in its headers.
func ExampleDelivery_Retry() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fill(ctx, router, "worker.resize", "cat.png")

	handle := func(_ context.Context, batch *warren.Batch) error {
		for _, m := range batch.Messages() {
			fmt.Println("delivered before:", m.Attempts, "times")
			m.Retry(errors.New("the disk is full"))
			if m.Attempts == 2 {
				cancel() // MaxAttempts makes this the last
			}
		}
		return nil
	}
	err := router.Consume(ctx, "worker.resize", handle,
		warren.BatchSize(1), warren.Workers(1), warren.MaxAttempts(3), warren.RetryDelay(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	dead, _ := broker.Queue("worker.resize.dead-letters")
	for _, m := range dead.Ready {
		fmt.Printf("%s: %s\n", m.Body, m.Properties.Headers[warren.HeaderDeathReason])
	}
	// Output:
	// delivered before: 0 times
	// delivered before: 1 times
	// delivered before: 2 times
	// cat.png: delivered too often: 3 times; the last: the disk is full
}

// DeadLetter puts a message into the queue for dead letters, with the reason in its headers.
func ExampleDelivery_DeadLetter() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fill(ctx, router, "worker.resize", "notes.txt")

	handle := func(ctx context.Context, batch *warren.Batch) error {
		for _, m := range batch.Messages() {
			if err := resize(ctx, m); errors.Is(err, errNoPicture) {
				m.DeadLetter(err)
			}
		}
		cancel()
		return nil
	}
	if err := router.Consume(ctx, "worker.resize", handle, warren.DeadLetterTo("worker.trash")); err != nil {
		log.Fatal(err)
	}
	dead, _ := broker.Queue("worker.trash")
	for _, m := range dead.Ready {
		h := m.Properties.Headers
		fmt.Printf("%s from %s: %s\n", m.Body, h[warren.HeaderDeathQueue], h[warren.HeaderDeathReason])
	}
	// Output: notes.txt from worker.resize: no picture
}

// TargetLatency runs fewer batches at once when what is behind them is slow. Observe says what that is.
func ExampleTargetLatency() {
	broker, router := start("worker.resize")
	defer stop(broker, router)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fill(ctx, router, "worker.resize", "cat.png")

	handle := func(_ context.Context, batch *warren.Batch) error {
		began := time.Now()
		// … writes to a database …
		batch.Observe(time.Since(began))
		cancel()
		return nil
	}
	consumer, err := router.NewConsumer("worker.resize", handle, warren.Workers(10), warren.TargetLatency(200*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	if err := consumer.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("batches at once, to begin with:", consumer.Stats().Limit)
	// Output: batches at once, to begin with: 5
}

// A program that ends well: on SIGTERM nothing more is taken, what is being handled is finished and acknowledged, and the rest
// goes back to the queue.
func ExampleConsumer_Run() {
	broker, router := start("worker.resize")
	defer broker.Close()
	fill(context.Background(), router, "worker.resize", "cat.png")

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	handle := func(ctx context.Context, batch *warren.Batch) error {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // as Kubernetes does
		<-time.After(10 * time.Millisecond)
		fmt.Println("handled, though the signal came; its context:", ctx.Err())
		return nil
	}
	consumer, err := router.NewConsumer("worker.resize", handle, warren.DrainTimeout(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("consumer:", consumer.Run(ctx))

	// ctx has ended; what is left to do has a time of its own, shorter than the grace period of the pod.
	closing, cancelClosing := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelClosing()
	fmt.Println("router:", router.Close(closing))
	// Output:
	// handled, though the signal came; its context: <nil>
	// consumer: <nil>
	// router: <nil>
}
