//go:build broker

package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

const (
	classic = "classic"
	quorum  = "quorum"
)

// admin does by the bare protocol and the management API what a scenario needs beside the library.
type admin struct{ b *brokers.Broker }

// with a channel of a connection of its own. It waits for a broker that is just coming back.
func (a admin) with(t *testing.T, do func(*amqp.Channel) error) error {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var conn *amqp.Connection
		if conn, err = amqp.DialConfig(a.b.AMQP+"/", amqp.Config{Properties: amqp.Table{"connection_name": "admin"}}); err != nil {
			continue
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return do(ch)
	}
	return err
}

// declare a durable queue.
func (a admin) declare(t *testing.T, name, kind string, arguments amqp.Table) {
	t.Helper()
	all := amqp.Table{"x-queue-type": kind}
	for k, v := range arguments {
		all[k] = v
	}
	err := a.with(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, all)
		return err
	})
	if err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
}

func (a admin) remove(t *testing.T, name string) {
	t.Helper()
	err := a.with(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
	if err != nil {
		t.Errorf("delete %s: %v", name, err)
	}
}

// ready is the number of messages in a queue that no consumer holds.
func (a admin) ready(t *testing.T, name string) int {
	t.Helper()
	n := -1
	err := a.with(t, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	if err != nil {
		t.Errorf("look at %s: %v", name, err)
	}
	return n
}

// drained waits until no message of a queue is left for consumers to get.
func (a admin) drained(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	left := -1
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if left = a.ready(t, name); left == 0 {
			return
		}
	}
	t.Errorf("%d messages are left in %s after %s", left, name, limit)
}

// call the management API.
func (a admin) call(method, path string, into any) error {
	request, err := http.NewRequest(method, a.b.Management+path, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(a.b.Username, a.b.Password)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %s", method, path, response.Status, content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// cut ends the connections whose name begins so, again and again with a second between, and says how many they were. The
// management API would do, but hears of connections only after seconds.
func (a admin) cut(t *testing.T, name string, times int) int {
	t.Helper()
	out := a.ctl(t, "eval", fmt.Sprintf(`
		Mine = fun(P) ->
			try
				[{client_properties, Properties}] = rabbit_networking:connection_info(P, [client_properties]),
				{_, _, Name} = lists:keyfind(<<"connection_name">>, 1, Properties),
				lists:prefix(%q, binary_to_list(Name))
			catch _:_ -> false end
		end,
		Cut = fun(Pause) ->
			timer:sleep(Pause),
			length([rabbit_networking:close_connection(P, "cut by a test") || P <- rabbit_networking:connections(), Mine(P)])
		end,
		lists:sum([Cut(1000 * min(N, 1)) || N <- lists:seq(0, %d)]).`, name, times-1))
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatalf("eval: %q", out)
	}
	return n
}

// stored has the broker write down which queues it has, which it does half a second late. A quorum queue that is younger comes
// back empty when its only node dies ("configured member ... was not found on this node. Starting member as a new one"),
// whatever was confirmed; a classic queue of 3.10 may be gone.
func (a admin) stored(t *testing.T) {
	t.Helper()
	if out := strings.TrimSpace(a.ctl(t, "eval", "catch mnesia:sync_log(), lists:usort([dets:sync(T) || T <- dets:all()]).")); out != "[ok]" && out != "[]" {
		t.Errorf("the broker's tables are not written: %s", out)
	}
}

// ctl runs rabbitmqctl beside the broker.
func (a admin) ctl(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := a.b.Run(append([]string{"rabbitmqctl", "-q"}, arguments...)...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
