//go:build broker

package client_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/test/brokers"
)

// times is how often a fault comes within one scenario.
func times(short, often int) int {
	if *long {
		return often
	}
	return short
}

// Connections of publishers and consumers that are cut again and again lose nothing.
func TestConnectionsAreCut(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.run(func() {
			s.events.await(t, "connected publish", connections, patience)
			if cut := s.admin().cut(t, s.name, times(3, 10)); cut < times(3, 10) {
				t.Errorf("only %d connections were cut", cut)
			}
		})
	})
}

// A broker that dies and comes back on its data loses nothing that was confirmed.
func TestBrokerIsKilled(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.run(func() {
			s.subscribed()
			s.admin().stored(t)
			for range times(1, 2) {
				connected := s.events.get("connected publish")
				s.events.await(t, "connected publish", max(connected, connections), patience)
				began := time.Now()
				if err := b.Kill(); err != nil {
					t.Fatal(err)
				}
				t.Logf("killed between %s and %s", began.Format("15:04:05.000"), time.Now().Format("15:04:05.000"))
				s.events.await(t, "dial failed", 1, patience)
				if err := b.Restart(); err != nil {
					t.Fatal(err)
				}
				s.events.await(t, "connected publish", connected+1, patience)
			}
		})
	})
}

// A broker that is silent for less than the heartbeat allows keeps its connections; one that is silent for longer is given
// up, and nothing is lost either way.
func TestBrokerIsSilent(t *testing.T) {
	onBoth(t, [2]string{quorum, classic}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.run(func() {
			s.events.await(t, "connected publish", connections, patience)
			for range times(1, 3) {
				// A machine that has much else to do may take long to wake the broker up: that silence is not the one that is meant.
				for range 5 {
					before := s.events.disconnects()
					took := silent(t, b, time.Second)
					lost := s.events.disconnects() - before
					if lost != 0 && took < 2*heartbeat {
						t.Errorf("%d connections were given up over %s of silence", lost, took)
					}
					if took < 2*heartbeat {
						break
					}
				}
				lost := s.events.get("disconnected publish")
				s.events.await(t, "connected publish", lost+connections, patience) // those that a slow machine cost are back
				if err := b.Pause(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { // also after a failure: others use the broker
					if err := b.Resume(); err != nil {
						t.Error(err)
					}
				})
				s.events.await(t, "disconnected publish", lost+connections, patience)
				connected := s.events.get("connected publish")
				if err := b.Resume(); err != nil {
					t.Fatal(err)
				}
				s.events.await(t, "connected publish", connected+1, patience)
			}
		})
	})
}

// silent stops the broker for a while, and says for how long at most.
func silent(t *testing.T, b *brokers.Broker, d time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d) // the silence itself
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// While a memory alarm is in force publishers wait, however long it lasts, and consumers go on.
func TestMemoryAlarm(t *testing.T) {
	onBoth(t, [2]string{classic, quorum}, func(t *testing.T, b *brokers.Broker, kind string) {
		s := newStage(t, b, kind, settings{})
		s.run(func() {
			s.events.await(t, "connected publish", connections, patience)
			for range times(1, 3) {
				blocked, unblocked := s.events.get("blocked publish"), s.events.get("unblocked publish")
				s.admin().ctl(t, "set_vm_memory_high_watermark", "0.00001")
				s.events.await(t, "blocked publish", blocked+connections, patience)
				for _, queue := range []string{s.first, s.second} {
					s.admin().drained(t, queue, patience)
				}
				s.admin().ctl(t, "set_vm_memory_high_watermark", "absolute", "1GiB")
				s.events.await(t, "unblocked publish", unblocked+connections, patience)
			}
			if lost := s.events.disconnects(); lost != 0 {
				t.Errorf("%d connections were lost over the alarm", lost)
			}
		})
	})
}
