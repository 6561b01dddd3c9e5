//go:build broker

package load_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/test/brokers"
)

// wantDanger waits until the broker's statistics show what must be seen, or no longer do: after a storm 3.10 goes on telling of
// connections that are gone, for the two minutes until it cleans up.
func wantDanger(t *testing.T, client api, want string, production bool, scenarios ...bench.Scenario) {
	t.Helper()
	deadline := time.Now().Add(150 * time.Second)
	for {
		dangers, err := load.Dangers(t.Context(), client, scenarios)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dangers {
			if want != "" && strings.Contains(d.Reason, want) && d.Production == production {
				return
			}
		}
		if want == "" && len(dangers) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want %q", dangers, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func TestWhatMustNotBePutUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, at *brokers.Broker) {
		client := apiOf(t, at)
		wantDanger(t, client, "", false)
		wantDanger(t, client, "lower caps.disk", false, quick("Huge", func(s *bench.Scenario) { s.Caps.Disk = 1 << 60 }))

		other, err := load.NewTenant(t.Context(), client, load.TenantOptions{Owner: at.Username})
		if err != nil {
			t.Fatal(err)
		}
		wantDanger(t, client, "another benchmark is at work", true) // which has no connection yet
		if err := other.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantDanger(t, client, "no caps.disk", true, quick("Endless", func(s *bench.Scenario) { s.Caps.Disk = 0 }))
		wantDanger(t, client, "", false)

		conn, err := amqp.Dial(at.AMQP)
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare("orders", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, amqp.Publishing{Body: []byte("one")}); err != nil {
			t.Fatal(err)
		}
		wantDanger(t, client, "connections are open, of user "+at.Username, true)
		_ = conn.Close()
		wantDanger(t, client, "1 messages wait in queues", true)
		if err := client.DeleteQueue(t.Context(), "/", "orders"); err != nil {
			t.Fatal(err)
		}
		wantDanger(t, client, "", false)
	})
}

// Case G2: what the broker does not say is not taken for zero.
func TestWithoutStatisticsNothingIsTakenForZero(t *testing.T) {
	at := realBroker(t, versions[1])
	client := apiOf(t, at)
	if err := client.PutQueue(t.Context(), broker.Queue{VHost: "/", Name: "kept", Durable: true}); err != nil {
		t.Fatal(err)
	}
	statistics := func(on bool) {
		t.Helper()
		const set = "application:set_env(rabbitmq_management_agent, disable_metrics_collector, %v)."
		if _, err := at.Run("rabbitmqctl", "eval", fmt.Sprintf(set, !on)); err != nil {
			t.Fatal(err)
		}
	}
	statistics(false)
	wantDanger(t, client, "statistics are off", true)
	statistics(true)
	if err := client.DeleteQueue(t.Context(), "/", "kept"); err != nil {
		t.Fatal(err)
	}
	wantDanger(t, client, "", false)
}

// An alarm before a run refuses it, whoever answers for it; an alarm in a run ends it and makes it invalid.
func TestAlarms(t *testing.T) {
	at := realBroker(t, versions[1])
	client := apiOf(t, at)
	before := census(t, client)
	watermark := func(value string) {
		if _, err := at.Run("rabbitmqctl", "set_vm_memory_high_watermark", value); err != nil {
			t.Error(err)
		}
	}
	b, err := benchmark(at, quick("Alarm", func(s *bench.Scenario) { s.Duration = bench.Duration(time.Minute) }))
	if err != nil {
		t.Fatal(err)
	}
	raised := false
	done := make(chan struct{})
	b.OnProgress = func(_ bench.Scenario, _ int, p load.Progress) {
		if p.Phase == bench.PhaseSteady && !raised {
			raised = true
			go func() { watermark("0.000001"); close(done) }()
		}
	}
	began := time.Now()
	results, err := b.Do(t.Context())
	<-done
	wantDanger(t, client, "has a memory alarm", false)
	watermark("0.6")
	if err != nil || len(results) != 1 || results[0].Runs[0].Validity.Valid {
		t.Errorf("got %v, %d results", err, len(results))
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the run went on for %s", took)
	}
	if after := census(t, client); after != before {
		t.Errorf("there is\n%s\nwant\n%s", after, before)
	}
	wantDanger(t, client, "", false)
}
