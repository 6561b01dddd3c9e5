package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/hack/progress"
	"github.com/warren-mq/warren/test/brokers"
)

// variables name brokers that run already, by version, as JSON (see package brokers).
var variables = map[string]string{"4.3.6": "WARREN_BROKER_4_3", "3.10.8": "WARREN_BROKER_3_10"}

// rig is a broker with a connection that prepares queues.
type rig struct {
	version string
	broker  *brokers.Broker
	own     bool
	conn    *amqp.Connection
	ch      *amqp.Channel
}

func newRig(version, name string) (*rig, error) {
	r := &rig{version: version}
	variable := variables[version]
	var err error
	if r.broker, err = brokers.FromVariable(os.Getenv(variable)); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if r.broker == nil {
		r.own = true
		err = progress.Step("starting RabbitMQ "+version, func() (err error) {
			r.broker, err = brokers.Start(version, name)
			return err
		})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	if r.broker.AMQP == "" {
		return nil, errors.Join(fmt.Errorf("%s does not say where AMQP is: give it as JSON", variable), r.Close())
	}
	if err := r.connect(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *rig) connect() (err error) {
	if r.conn, err = amqp.Dial(r.broker.AMQP); err != nil {
		return err
	}
	r.ch, err = r.conn.Channel()
	return err
}

// Close stops the broker if it was started here.
func (r *rig) Close() error {
	if r.conn != nil {
		r.conn.Close()
	}
	if r.own && r.broker != nil {
		return r.broker.Stop()
	}
	return nil
}

// queue is made anew, empty, durable.
func (r *rig) queue(name, kind string) error {
	if err := r.drop(name); err != nil {
		return err
	}
	_, err := r.ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: kind})
	return err
}

func (r *rig) drop(name string) error {
	_, err := r.ch.QueueDelete(name, false, false, false)
	return err
}

// fillWindow is how many messages are unconfirmed while a backlog is made.
const fillWindow = 1000

// fill a queue with persistent messages and wait until they are all there.
func (r *rig) fill(queue string, n, size int) error {
	ch, err := r.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		return err
	}
	payload := bodies(bodyRandom, size, distinctBodies)
	open := make([]*amqp.DeferredConfirmation, fillWindow)
	for i := range n + fillWindow {
		at := i % fillWindow
		if open[at] != nil && !open[at].Wait() {
			return errors.New("the broker refused a message of the backlog")
		}
		open[at] = nil
		if i >= n {
			continue
		}
		open[at], err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: payload[i%len(payload)],
		})
		if err != nil {
			return err
		}
	}
	ready, err := r.ready(queue)
	if err == nil && ready != n {
		err = fmt.Errorf("%d messages are in the queue, not %d", ready, n)
	}
	return err
}

func (r *rig) ready(queue string) (int, error) { return ready(r.ch, queue) }

// empty sees that a queue without consumers has no messages. What was not acknowledged is ready again by now, since its
// channel was closed; it is asked twice in case it just comes back.
func (r *rig) empty(queue string) error {
	for range 2 {
		if n, err := r.ready(queue); err != nil || n > 0 {
			return errors.Join(err, fmt.Errorf("%d messages are left", n))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// managementPatience is how long the management API may take to show what is: it asks queues every 5 s.
const managementPatience = 20 * time.Second

// agreed waits until the management API says, too, that a queue has no messages, whether ready or unacknowledged.
func (r *rig) agreed(queue string) error {
	where := strings.TrimSuffix(r.broker.Management, "/") + "/api/queues/" + url.PathEscape("/") + "/" + url.PathEscape(queue)
	ctx, cancel := context.WithTimeout(context.Background(), managementPatience)
	defer cancel()
	for {
		left, err := r.messages(ctx, where)
		if err == nil && left == 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%d messages", left)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the management API says of %s: %w", queue, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func (r *rig) messages(ctx context.Context, where string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(r.broker.Username, r.broker.Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	var got struct {
		Messages *int `json:"messages"`
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		return 0, err
	}
	if got.Messages == nil {
		return 0, errors.New("no number of messages yet")
	}
	return *got.Messages, nil
}

// address is HOST:PORT of the broker.
func (r *rig) address() (string, error) {
	u, err := url.Parse(r.broker.AMQP)
	if err != nil {
		return "", errors.New("the broker's AMQP address is no URL") // without it, which has a password
	}
	return u.Host, nil
}

// uri leads to the broker, or to something that leads there.
func (r *rig) uri(by string) (string, error) {
	u, err := url.Parse(r.broker.AMQP)
	if err != nil {
		return "", errors.New("the broker's AMQP address is no URL")
	}
	if by != "" {
		u.Host = by
	}
	return u.String(), nil
}
