//go:build broker

package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// poisonous is a class of queues with its own way into its own dead-letter queue.
type poisonous struct {
	name, kind string
	mode       v1alpha1.ReplicationMode
	edit       func(*v1alpha1.QueuePolicySpec)
	// again: the consumer gives a bad message back, until the broker has had enough.
	again  bool
	reason string
}

const mostWaiting = 50 // messages in a queue

func poisons() []poisonous {
	return []poisonous{
		{"rejected", "classic", v1alpha1.ReplicationNone, func(*v1alpha1.QueuePolicySpec) {}, false, "rejected"},
		{"returned", "quorum", v1alpha1.ReplicationQuorum, func(spec *v1alpha1.QueuePolicySpec) {
			spec.Limits.DeliveryLimit = ptr(int64(3))
		}, true, "delivery_limit"},
		{"confirmed", "quorum", v1alpha1.ReplicationQuorum, func(spec *v1alpha1.QueuePolicySpec) {
			spec.DeadLetter.Strategy = v1alpha1.AtLeastOnce
		}, false, "rejected"},
	}
}

// isPoison: every tenth message is bad.
func isPoison(name string) bool { return strings.HasSuffix(name, "7") }

// C13: bad messages of three classes come to the dead-letter queue of their class, each once and all of them, under load and
// while queues are full.
func proveDeadLetters(t *testing.T, c *cluster, version string) {
	queues, messages := 3, size(400, 4000)
	s := newScene(t, c, "dead-letters-"+strings.ReplaceAll(version, ".", "-"))
	all := poisons()
	var names []string
	for _, class := range all {
		for i := range queues {
			declare(t, c.amqp(i, s.vhost), class.kind, fmt.Sprintf("%s.%d", class.name, i))
		}
		s.policy(class.name, `^`+class.name+`\.`, class.mode, func(spec *v1alpha1.QueuePolicySpec) {
			spec.Limits = &v1alpha1.QueueLimits{MaxLength: ptr(int64(mostWaiting)), Overflow: v1alpha1.RejectPublish}
			spec.DeadLetter = &v1alpha1.DeadLetterSpec{
				Exchange: "dlx." + class.name, Queue: "dead." + class.name,
				Limits: &v1alpha1.DeadLetterLimits{MaxLength: ptr(int64(100_000))},
			}
			class.edit(spec)
		})
		names = append(names, class.name)
	}
	s.warren()
	s.ready(4*time.Minute, queues, names...)

	ledgers := map[string]*ledger{}
	consuming, end := context.WithCancel(t.Context())
	var publishers, consumers sync.WaitGroup
	for _, class := range all {
		l := newLedger()
		ledgers[class.name] = l
		for i := range queues {
			queue := fmt.Sprintf("%s.%d", class.name, i)
			address := func(attempt int) string { return c.amqp(i+attempt, s.vhost) }
			p := publisher{ledger: l, address: address, queues: []string{queue}, window: 200, body: body(messageBytes), most: messages}
			publishers.Go(func() { p.run(t.Context()) })
			reader := consumer{address: address, queues: []string{queue}, prefetch: 20, handle: class.handle(l)}
			consumers.Go(func() { reader.run(consuming) })
		}
	}
	publishers.Wait()
	dead := class3{t, s, ledgers}
	dead.await(all)
	end()
	consumers.Wait()
	for _, class := range all {
		dead.account(version, class)
	}
}

// handle good messages at some speed, and bad ones as the class does.
func (p poisonous) handle(l *ledger) func(string, amqp.Delivery) error {
	return func(_ string, d amqp.Delivery) error {
		if isPoison(d.MessageId) {
			return d.Reject(p.again)
		}
		time.Sleep(time.Millisecond)
		if err := d.Ack(false); err != nil {
			return err
		}
		l.take(d.MessageId)
		return nil
	}
}

// class3 is the account of the classes.
type class3 struct {
	t       *testing.T
	scene   *scene
	ledgers map[string]*ledger
}

// good and bad messages that were confirmed.
func split(l *ledger) (good, bad map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	good, bad = map[string]bool{}, map[string]bool{}
	for name := range l.confirmed {
		if isPoison(name) {
			bad[name] = true
		} else {
			good[name] = true
		}
	}
	return good, bad
}

// await until as many messages as should are in the dead-letter queues, and the others are consumed.
func (c class3) await(all []poisonous) {
	c.t.Helper()
	eventually(c.t, 4*time.Minute, func() error {
		for _, class := range all {
			_, bad := split(c.ledgers[class.name])
			left := slices.DeleteFunc(c.ledgers[class.name].left(), isPoison)
			connection, err := amqp.Dial(c.scene.cluster.amqp(0, c.scene.vhost))
			if err != nil {
				return err
			}
			dead, waiting := 0, 0
			channel, err := connection.Channel()
			if err == nil {
				q, inspected := channel.QueueDeclarePassive("dead."+class.name, true, false, false, false, nil)
				dead, err = q.Messages, inspected
			}
			_ = connection.Close()
			if err != nil {
				return err
			}
			if waiting += len(left); waiting > 0 || dead < len(bad) {
				return fmt.Errorf("%s: %d messages are not consumed, %d of %d are in the dead-letter queue", class.name, waiting, dead, len(bad))
			}
		}
		return nil
	})
}

func (c class3) account(version string, class poisonous) {
	c.t.Helper()
	l := c.ledgers[class.name]
	good, bad := split(l)
	times, wrong := map[string]int{}, 0
	letters, err := drain(c.scene.cluster.amqp(0, c.scene.vhost), "dead."+class.name)
	must(c.t, err)
	for _, d := range letters {
		times[d.MessageId]++
		queue, _, _ := strings.Cut(d.MessageId, "#")
		if d.Headers["x-first-death-queue"] != queue || d.Headers["x-first-death-reason"] != class.reason || !isPoison(d.MessageId) || !strings.HasPrefix(queue, class.name+".") {
			wrong++
			c.t.Errorf("in dead.%s: %s with headers %v", class.name, d.MessageId, d.Headers)
		}
	}
	lost, twice, unhandled := 0, 0, 0
	for name := range bad {
		if times[name] == 0 {
			lost++
		}
		if times[name] > 1 {
			twice++
		}
	}
	for name := range good {
		if l.taken[name] != 1 {
			unhandled++
		}
	}
	note := fmt.Sprintf("%d good and %d bad messages confirmed, %d refused by full queues; %d bad ones twice", len(good), len(bad), l.refused, twice)
	name := fmt.Sprintf("dead letters on %s, %s (%s): ", version, class.name, class.kind)
	found.add(c.t, name+"lost", float64(lost), "messages", "0", lost == 0 && len(bad) > 0, note)
	found.add(c.t, name+"in the wrong place", float64(wrong), "messages", "0", wrong == 0, note)
	found.add(c.t, name+"good ones not consumed just once", float64(unhandled), "messages", "0", unhandled == 0, note)
	if l.refused == 0 {
		c.t.Errorf("%s: no limit was ever reached, so nothing was proved of it", class.name)
	}
}
