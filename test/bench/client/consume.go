package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client"
)

// Variants of consumers. All have the same work to do for each message, and end when the queue is empty.
const (
	rawGet    = "raw-get"   // amqp091-go, basic.get, work, ack, and again
	rawOne    = "raw-one"   // amqp091-go, prefetch 1, each message acknowledged before the next comes
	rawEach   = "raw-each"  // amqp091-go, each message acknowledged, with a prefetch
	rawMany   = "raw-many"  // amqp091-go, one multiple ack per batch, with a prefetch
	batches   = "batches"   // Router.Consume
	contended = "contended" // Router.Consume, before something that does not bear many at once
)

var consumers = map[string]func(job) (outcome, error){
	rawGet:    func(j job) (outcome, error) { return consumeRaw(j, getAll) },
	rawOne:    func(j job) (outcome, error) { j.Prefetch = 1; return consumeRaw(j, ackEach) },
	rawEach:   func(j job) (outcome, error) { return consumeRaw(j, ackEach) },
	rawMany:   func(j job) (outcome, error) { return consumeRaw(j, ackMany) },
	batches:   consumeBatches,
	contended: consumeContended,
}

// work is what is done for a message: little, so that what is measured is how messages come and go.
func work(body []byte) uint32 { return crc32.ChecksumIEEE(body) }

// worked keeps the compiler from leaving the work out.
var worked atomic.Uint32

var errLost = errors.New("the channel was lost")

// drain has a queue consumed until the broker says that it is empty: once as a rule, but quorum queues may lose what was
// acknowledged right before its channel was closed, and such messages come again. It is only a look at the queue while no
// channel has it open that shows this: what is delivered and not acknowledged is not counted before.
func drain(j job, consume func(n int) error) (outcome, error) {
	o := outcome{Messages: j.Count}
	conn, err := amqp.Dial(j.URI)
	if err != nil {
		return o, err
	}
	defer conn.Close()
	look, err := conn.Channel()
	if err != nil {
		return o, err
	}
	m, err := startMeter()
	if err != nil {
		return o, err
	}
	for left := j.Count; left > 0; {
		if err := consume(left); err != nil {
			return o, err
		}
		o.Sent += left
		if left, err = ready(look, j.Queue); err != nil || left > 0 {
			continue
		}
		if err := m.stop(&o); err != nil {
			return o, err
		}
		time.Sleep(comeBack)
		if left, err = ready(look, j.Queue); err != nil {
			return o, err
		}
	}
	return o, err
}

// comeBack is how long messages that were not acknowledged may take to be seen in the queue again.
const comeBack = 50 * time.Millisecond

func ready(ch *amqp.Channel, queue string) (int, error) {
	got, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return got.Messages, err
}

func consumeRaw(j job, how func(*amqp.Channel, job) error) (outcome, error) {
	conn, err := amqp.Dial(j.URI)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Close()
	return drain(j, func(n int) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Qos(j.Prefetch, 0, false); err != nil {
			return err
		}
		todo := j
		todo.Count = n
		if err := how(ch, todo); err != nil {
			return err
		}
		// The broker answers in order: its answer says that it has read the last ack.
		if err := ch.Qos(j.Prefetch, 0, false); err != nil {
			return err
		}
		return ch.Close()
	})
}

func ackEach(ch *amqp.Channel, j job) error {
	deliveries, err := ch.Consume(j.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for range j.Count {
		d, ok := <-deliveries
		if !ok {
			return errLost
		}
		worked.Add(work(d.Body))
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// ackMany is a loop as it is written by hand: it gathers a batch, works, and acknowledges all of it with one frame.
func ackMany(ch *amqp.Channel, j job) error {
	deliveries, err := ch.Consume(j.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	batch := make([]amqp.Delivery, 0, j.Batch)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for done := 0; done < j.Count; {
		if batch, err = gather(deliveries, batch[:0], min(j.Batch, j.Count-done), timer); err != nil {
			return err
		}
		for _, d := range batch {
			worked.Add(work(d.Body))
		}
		if err := batch[len(batch)-1].Ack(true); err != nil {
			return err
		}
		done += len(batch)
	}
	return nil
}

// gather waits for a message, and then a while for as many as are wanted.
func gather(from <-chan amqp.Delivery, batch []amqp.Delivery, want int, timer *time.Timer) ([]amqp.Delivery, error) {
	timer.Reset(time.Hour)
	for len(batch) < want {
		select {
		case d, ok := <-from:
			if !ok {
				return nil, errLost
			}
			if len(batch) == 0 {
				timer.Reset(batchWait)
			}
			batch = append(batch, d)
		case <-timer.C:
			if len(batch) > 0 {
				return batch, nil
			}
		}
	}
	return batch, nil
}

func getAll(ch *amqp.Channel, j job) error {
	for done := 0; done < j.Count; {
		d, ok, err := ch.Get(j.Queue, false)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		worked.Add(work(d.Body))
		if err := d.Ack(false); err != nil {
			return err
		}
		done++
	}
	return nil
}

// batchWait is how long a batch may wait to become full: the default of BatchWait.
const batchWait = 50 * time.Millisecond

func consumeBatches(j job) (outcome, error) {
	router, err := newRouter(j.URI, warren.Hooks{})
	if err != nil {
		return outcome{}, err
	}
	bound, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	defer router.Close(bound)
	return drain(j, func(n int) error {
		ctx, stop := context.WithCancel(bound)
		defer stop()
		var done atomic.Int64
		err := router.Consume(ctx, j.Queue, func(_ context.Context, b *warren.Batch) error {
			var sum uint32
			for _, d := range b.Messages() {
				sum += work(d.Body)
			}
			worked.Add(sum)
			if done.Add(int64(b.Len())) >= int64(n) {
				stop() // Consume returns when what was handled is acknowledged and the channel closed
			}
			return nil
		}, warren.BatchSize(j.Batch), warren.Workers(j.Workers), warren.Prefetch(j.Prefetch))
		if got := done.Load(); err == nil && got < int64(n) {
			err = fmt.Errorf("%d of %d messages were handled", got, n)
		}
		return err
	})
}
